"""What `csrc/tile.c.j2` knows: tiles in any arithmetic, by which errors are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winogen.codegen.templates import Context


@dataclass(frozen=True, kw_only=True)
class TileTransform:
    """A 2D transform: the types that it reads, computes in and writes, and sizes along the axes."""

    kind: str
    in_real: str
    real: str
    out_real: str
    h_in: int
    h_out: int
    w_in: int
    w_out: int


@dataclass(frozen=True, kw_only=True)
class TileContext(Context, templates=("tile.c.j2",)):
    """What the template knows."""

    title: str
    real: str  # the type of inputs and outputs
    filter_real: str  # the type that filters are transformed in
    headers: Sequence[str]  # those of the transforms, once if both axes have the same
    h: str  # what the transforms along the height are called, and along the width
    w: str
    transforms: Sequence[TileTransform]
    # Numbers of a tile: transformed, of a filter, of an input and of an output.
    positions: int
    taps: int
    inputs: int
    outputs: int
