"""The three transforms of an algorithm, and how they and their values are called in formulas."""

from __future__ import annotations

from typing import NamedTuple


class TransformKind(NamedTuple):
    """One of the three transforms: ``target = symbol source``, as in v = B^T d."""

    name: str  # key of ``matrices``, ``programs`` and ``ops``
    symbol: str  # its matrix
    source: str  # letter of what it reads
    target: str  # letter of what it computes


KINDS = {
    kind.name: kind
    for kind in (
        TransformKind("input", "B^T", "d", "v"),
        TransformKind("filter", "G", "g", "u"),
        TransformKind("output", "A^T", "p", "y"),
    )
}
