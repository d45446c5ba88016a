"""What joins the complex products of one axis with those of another, as short programs.

A number of one pair, or four of a pair along each axis, become the factors of real products, and
the products become such numbers again: see `winogen.algebra.ring`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import Any, NamedTuple

from winogen import resources
from winogen.program.ir import Program
from winogen.program.kinds import KINDS

FILE = "pairs.json"  # in transforms/
PRODUCTS = (1, 3, 6)  # real products of real numbers, of pairs along one axis, and along both


@lru_cache(maxsize=16)
def programs(ring: tuple[str, ...], axes: int) -> dict[str, Program]:
    """Return {"input" | "filter" | "output": Program} for products of numbers of 1 or 2 axes.

    ``ring``: b and c of w^2 + b w + c, as text. Those of the catalog's rings ship.

    >>> [len(program.statements) for program in programs(("0", "1"), 2).values()]
    [8, 8, 8]
    """
    data = _shipped().get(_key(ring, axes)) or searched(ring, axes)
    return {kind: Program.from_json(program) for kind, program in data.items()}


def searched(ring: tuple[str, ...], axes: int) -> dict[str, Any]:
    """Return what `programs` does as plain data; each program is proven equal to its matrix."""
    from winogen.algebra.ring import Ring
    from winogen.program import simplify

    made = Ring(*map(Fraction, ring))
    made.verify(axes)
    matrices = made.power(axes)
    return {
        kind: simplify(getattr(matrices, kind), "instructions", of.source, of.target).to_json()
        for kind, of in KINDS.items()
    }


@cache
def _shipped() -> dict[str, Any]:
    path = resources.folder("transforms") / FILE
    shipped: dict[str, Any] = json.loads(path.read_text("utf-8"))["pairs"] if path.is_file() else {}
    return shipped


def _key(ring: tuple[str, ...], axes: int) -> str:
    return f"w^2 + {ring[0]} w + {ring[1]}, axes: {axes}"


def listing(rings: Iterable[tuple[str, ...]], mark: str) -> str:
    """Return the text of the file that ships, for these rings."""
    found = {_key(ring, axes): searched(ring, axes) for ring in rings for axes in (1, 2)}
    lines = (f"{json.dumps(key)}: {json.dumps(data)}" for key, data in found.items())
    return f'{{"generated": {json.dumps(mark)},\n"pairs": {{\n' + ",\n".join(lines) + "\n}}\n"


def filters(ring: tuple[str, ...], axes: int) -> list[list[str]]:
    """Return the matrix for filters, products x coordinates, its numbers as those of C."""
    from winogen.algebra.ring import Ring

    rows = Ring(*map(Fraction, ring)).power(axes).filter
    return [[repr(float(x)) for x in row] for row in rows]


def instructions(ring: tuple[str, ...]) -> tuple[int, ...]:
    """Return the instructions of one pair and of two, of inputs, then of outputs."""
    return tuple(
        programs(ring, axes)[kind].counts().instructions
        for kind in ("input", "output")
        for axes in (1, 2)
    )


class Cell(NamedTuple):
    """Rows along both axes that are multiplied with one another: one each, or both of a pair."""

    height: tuple[int, ...]
    width: tuple[int, ...]
    first: int  # its first product

    @property
    def axes(self) -> int:
        """Along how many axes there is a pair."""
        return len(self.height) + len(self.width) - 2


@lru_cache(maxsize=256)
def cells(height: tuple[int, int], width: tuple[int, int]) -> tuple[Cell, ...]:
    """Return the products of a tile in order, for (rows, of them real ones) along each axis.

    >>> [(cell.height, cell.width, cell.first) for cell in cells((3, 1), (2, 2))]
    [((0,), (0,), 0), ((0,), (1,), 1), ((1, 2), (0,), 2), ((1, 2), (1,), 5)]
    """
    found, first = [], 0
    for a, b in product(_products(*height), _products(*width)):
        found.append(Cell(a, b, first))
        first += PRODUCTS[found[-1].axes]
    return tuple(found)


def _products(rows: int, reals: int) -> list[tuple[int, ...]]:
    return [*((a,) for a in range(reals)), *((a, a + 1) for a in range(reals, rows, 2))]
