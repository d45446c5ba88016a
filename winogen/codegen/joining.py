"""Complex products that several axes join: a transform as it is before they become real ones."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from winogen.codegen.keeping import kept
from winogen.codegen.shipped import catalog
from winogen.codegen.transform import Transform, check_programs, transform_of
from winogen.program.ir import exact
from winogen.program.kinds import KINDS
from winogen.program.summation import PROGRAM, shorten

if TYPE_CHECKING:
    from winogen.typing import ExactPolynomial

RESIDUES = "_residues"  # ends the names of transforms that leave complex products as such


def joined(height: Transform, width: Transform) -> tuple[Transform, Transform]:
    """Return what both axes have before complex products are real ones, where they can be joined.

    Where one axis has none, or one in another ring, both transforms stay as they are.

    >>> from winogen.codegen.transforms import load
    >>> f = load(6, 3, name="f6_3_gaussian")
    >>> h, w = joined(f, f)
    >>> h.name, h.rows, h.products, joined(f, load(6, 3))[0].name
    ('f6_3_gaussian_residues', 8, 9, 'f6_3_gaussian')
    """
    pair = residues(height), residues(width)
    if pair[0] is None or pair[1] is None or pair[0].ring != pair[1].ring:
        return height, width
    return pair[0], pair[1]


@lru_cache(maxsize=256)
def residues(transform: Transform) -> Transform | None:
    """Return the same F(m, r) with complex products as such; None where it has no complex ones."""
    if not transform.moduli:
        return None
    name, data = transform.name + RESIDUES, None
    if transform.order == PROGRAM and transform.name in catalog():
        data = catalog()[transform.name].get("residues")
    else:
        made_of = transform.m, transform.r, transform.moduli, transform.order
        data = kept(["residues", *made_of], lambda: derive_residues(*made_of), _checked_residues)
    if data is None:
        return None
    shared = {"m": transform.m, "r": transform.r, "n": transform.n, "order": transform.order}
    shared |= {"points": (), "moduli": transform.moduli, "source": transform.source}
    return transform_of({**shared, **data, "name": name}, transform.header)


def _checked_residues(data: Any) -> Any:
    """Residues that were kept, their programs proven again."""
    if data is not None:
        rows = {kind: data[name] for kind, name in (("input", "BT"), ("filter", "G"),
                                                    ("output", "AT"))}  # fmt: skip
        matrices = {
            kind: tuple(tuple(map(exact, row)) for row in matrix) for kind, matrix in rows.items()
        }
        check_programs(matrices, data["programs"])
    return data


def derive_residues(
    m: int, r: int, moduli: Iterable[ExactPolynomial], order: str = PROGRAM
) -> dict[str, Any] | None:
    """Return the matrices and programs of F(m, r) by complex products, proven, as plain data.

    None where no modulus is of degree 2 without real roots.
    """
    from winogen import algebra
    from winogen.algebra.residues import is_complex, residues
    from winogen.program.pairs import instructions

    algorithm = algebra.winograd(m, r, moduli)
    if not any(map(is_complex, algorithm.moduli or ())):
        return None
    made = residues(algorithm)
    made.verify()
    programs = shorten(made.matrices, order)
    data: dict[str, Any] = {
        "ring": [str(made.ring.b), str(made.ring.c)],
        "reals": made.reals,
        "joins": instructions((str(made.ring.b), str(made.ring.c))),
    }
    for key, rows in (("AT", made.at), ("G", made.g), ("BT", made.bt)):
        data[key] = [[str(value) for value in row] for row in rows]
    data["ops"] = {kind: programs[kind].counts().to_dict() for kind in KINDS}
    data["programs"] = {kind: programs[kind].to_json() for kind in KINDS}
    return data
