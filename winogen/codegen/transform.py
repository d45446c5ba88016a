"""A 1D transform as the kernels use it: exact matrices, operation counts and C text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from winogen.program.ir import Program, exact
from winogen.program.kinds import KINDS
from winogen.program.summation import PROGRAM

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix


@dataclass(frozen=True)
class Transform:
    """F(m, r) ready for use in C: y = A^T [(G g) ⊙ (B^T d)].

    >>> from winogen.codegen.transforms import load
    >>> t = load(4, 3)
    >>> t.name, t.products, t.points[:3], t.ops["input"]["instructions"]
    ('f4_3', 6, ('0', '5/8', '-5/8'), 12)
    >>> len(t.g), len(t.g[0]), "winogen_f4_3_input" in t.header
    (6, 3, True)
    """

    name: str  # "f4_3", "f4_3_s2", "f4_3_<tag>" or, for others' points, "f4_3_<digest>"
    m: int  # outputs
    r: int  # taps
    n: int  # inputs, stride * (m - 1) + r
    products: int  # multiplications; n, or more where a modulus has degree 2 or above
    points: tuple[str, ...]  # exact, "inf" for infinity; () where moduli, parts or nothing made it
    moduli: tuple[str, ...]  # polynomials in x; () where points or nothing made it
    texts: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = field(repr=False)
    ops: dict[str, dict[str, int]] = field(
        repr=False, compare=False
    )  # as in `derive --format json`
    listings: dict[str, dict] = field(repr=False, compare=False)  # the programs as JSON, by kind
    header: str = field(repr=False)  # the C text of the whole header
    source: str = ""  # where the points or moduli come from
    order: str = PROGRAM  # in which the programs add, see `winogen.program.summation`
    stride: int = 1  # inputs from one output to the next
    # Of `joining.residues`: w^2 + b w + c of the ring in which all rows behind the first ``reals``
    # are multiplied pair by pair, and the instructions that join one axis' pairs with the other's:
    # those of one pair, those of two, for inputs and outputs.
    ring: tuple[str, ...] = ()
    reals: int = 0
    joins: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def step(self) -> int:
        """Inputs from one tile to the next."""
        return self.m * self.stride

    @cached_property
    def at(self) -> Matrix:
        """A^T, m x products, exact (Fractions, or algebraic scalars where a point is one).

        Its columns may be scaled against the rows of G; see ``winogen.program.search.scaling``.
        """
        return self._exact("at")

    @cached_property
    def g(self) -> Matrix:
        """G, products x r, exact."""
        return self._exact("g")

    @cached_property
    def bt(self) -> Matrix:
        """B^T, products x n, exact."""
        return self._exact("bt")

    @property
    def matrices(self) -> dict[str, Matrix]:
        """The matrix of every transform: {"input": B^T, "filter": G, "output": A^T}."""
        return {"input": self.bt, "filter": self.g, "output": self.at}

    @cached_property
    def programs(self) -> dict[str, Program]:
        """The programs of the C functions: {"input" | "filter" | "output": Program}."""
        return {kind: Program.from_json(data) for kind, data in self.listings.items()}

    @property
    def rows(self) -> int:
        """Numbers that an input becomes: products, or less where some are multiplied in pairs."""
        return len(dict(self.texts)["g"])

    @property
    def output_multiplies(self) -> int:
        """Multiplications of the output transform, those within multiply-adds included."""
        return self.ops["output"]["mul"]

    @cached_property
    def instructions(self) -> tuple[int, int, int]:
        """Instructions of one 1D transform once FMAs are formed: (input, filter, output)."""
        count = {kind: self.ops[kind]["instructions"] for kind in KINDS}
        return count["input"], count["filter"], count["output"]

    def __hash__(self) -> int:
        # Kernels are looked up by their transforms on every call; a text's hash is kept by Python.
        return hash(self.header)

    def _exact(self, matrix: str) -> Matrix:
        return tuple(tuple(map(exact, row)) for row in dict(self.texts)[matrix])


def transform_of(data: Mapping[str, Any], header: str) -> Transform:
    """Return a transform of its fields as JSON has them, and of the C text of its header."""
    rows = len(data["G"])
    reals = data.get("reals", rows)
    return Transform(
        name=data["name"],
        m=data["m"],
        r=data["r"],
        n=data["n"],
        products=reals + 3 * ((rows - reals) // 2),
        points=tuple(map(str, data["points"])),
        moduli=tuple(map(str, data.get("moduli") or ())),
        texts=tuple(
            (key.lower(), tuple(tuple(map(str, row)) for row in data[key]))
            for key in ("AT", "G", "BT")
        ),
        ops=data["ops"],
        listings=data["programs"],
        header=header,
        source=data["source"],
        order=data.get("order", PROGRAM),
        stride=data.get("stride", 1),
        ring=tuple(data.get("ring", ())),
        reals=reals,
        joins=tuple(data.get("joins", (0, 0, 0, 0))),
    )


def check_programs(matrices: Mapping[str, Matrix], listings: Mapping[str, Any]) -> None:
    """Raise VerificationError unless every program as JSON equals its matrix."""
    for kind, matrix in matrices.items():
        Program.from_json(listings[kind]).verify(matrix)
