"""A verified bilinear algorithm and its three programs, rendered as one self-contained C header.

The head comment carries all that a reader needs to trust the code below it: F(m, r), points,
provenance, the three matrices, operation counts, and what was proven.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from winogen.codegen.ctext import NamedConstant, commented, routine, spelling_of_c
from winogen.codegen.templates import Context
from winogen.columns import aligned
from winogen.program.analysis import naive_counts
from winogen.program.ir import Program
from winogen.program.kinds import KINDS, TransformKind
from winogen.program.summation import PROGRAM
from winogen.spelling import in_one_line

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.algebra.scalar import Scalar
    from winogen.fixed.integral import Integral

WRITE_COMMAND = "winogen transforms write"
_WIDTH = 97  # of a comment line, so that with " * " it stays within 100 columns


@dataclass(frozen=True, kw_only=True)
class FunctionContext:
    """A 1D transform as `parts/transform_function.h.j2` writes it."""

    title: str  # what it computes and costs
    real: str  # the type of its constants
    name: str
    signature: str
    constants: Sequence[NamedConstant]
    vectors: int  # of constants that a caller holds; 0: it has its own
    lanes: int  # of these vectors
    equations: Sequence[str]
    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class HeaderFunction(FunctionContext):
    """The same in a header, with the 2D transform that is made of it."""

    kind: str
    title_2d: str
    vec: str  # the type of what it computes on
    source: str  # what its input is called, and below its output
    target: str
    inputs: int
    outputs: int
    # Statements of the 2D transform: what a column and a row read, and what a row stores.
    column: Sequence[str]
    row: Sequence[str]
    stores: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class HeaderContext(Context, templates=("transform.h.j2",)):
    """What the template of a header knows."""

    command: str  # what regenerates it
    head: Sequence[str]  # its comment, in lines
    guard: str
    name: str
    m: int
    r: int
    n: int
    products: int
    transforms: Sequence[HeaderFunction]


def render_header(
    algorithm: BilinearAlgorithm,
    programs: Mapping[str, Program],
    name: str,
    *,
    source: str = "",
    textbook: BilinearAlgorithm | None = None,
    command: str = WRITE_COMMAND,
    order: str = PROGRAM,
) -> str:
    """Return the C text of the header ``<name>.h``.

    ``algorithm``: a verified BilinearAlgorithm. ``programs``: {"input", "filter", "output"} ->
    Program, each computing BT, G, AT of it. ``source``: where the points come from. ``textbook``:
    the algorithm that ``algorithm`` was rescaled from, if it was. ``command``: what regenerates the
    text, for its first line. ``order``: in which the programs add, for the head comment. The same
    arguments give the same bytes.
    Raises VerificationError when a program does not compute its matrix.
    """
    for kind, matrix in algorithm.matrices.items():
        programs[kind].verify(matrix)
    return HeaderContext(
        command=commented(command),
        head=list(map(commented, _head(algorithm, programs, source, textbook or algorithm, order))),
        guard=f"WINOGEN_{name.upper()}",
        name=name,
        m=algorithm.m,
        r=algorithm.r,
        n=algorithm.n,
        products=algorithm.products,
        transforms=[_transform(kind, name, programs[kind.name]) for kind in KINDS.values()],
    ).render()


def function(
    kind: TransformKind,
    header: str,
    program: Program,
    vec: str,
    real: str,
    inline: str,
    lanes: int = 0,
) -> FunctionContext:
    """Return a 1D transform for the template of a function, `parts/transform_function.h.j2`.

    ``header``: its algorithm's name, as "f4_3". ``vec``, ``real`` and ``inline``: what the C around
    it calls what it computes on, one number of that, and functions that are always inlined.
    ``lanes``: those of a vector where the caller has constants in vectors; 0: it has its own.
    """
    name, _, letter, target = kind
    inputs, outputs = len(program.inputs), len(program.outputs)
    text = routine(program, letter, target, spelling_of_c(vec, real))
    vectors = -(-len(text.constants) // lanes) if lanes else 0
    arguments = f"const {vec} {letter}[{inputs}], {vec} {target}[{outputs}]"
    if vectors:
        arguments += f", const {vec} k[{vectors}]"
    return FunctionContext(
        title=title(kind, program),
        real=real,
        name=f"winogen_{header}_{name}",
        signature=_signature(f"{inline} void winogen_{header}_{name}", arguments),
        constants=text.constants,
        vectors=vectors,
        lanes=lanes,
        equations=text.equations,
        lines=text.lines,
    )


def title(kind: TransformKind, program: Program) -> str:
    """Return what a 1D transform computes and costs, as the comment above it says.

    >>> from winogen.codegen.transforms import load
    >>> title(KINDS["input"], load(4, 3).programs["input"])
    'v = B^T d: 12 instructions.'
    """
    count = program.counts().instructions
    return f"{kind.target} = {kind.symbol} {kind.source}: {_plural(count, 'instruction')}."


def _transform(kind: TransformKind, header: str, program: Program) -> HeaderFunction:
    """One transform for the template of a header."""
    name, _, letter, target = kind
    inputs, outputs = len(program.inputs), len(program.outputs)
    filters = "FILTER_" if name == "filter" else ""
    vec, real = f"WINOGEN_{filters}VEC", f"WINOGEN_{filters}REAL"
    made = function(kind, header, program, vec, real, "WINOGEN_INLINE")
    return HeaderFunction(
        **{field.name: getattr(made, field.name) for field in fields(made)},
        kind=name,
        title_2d=f"{TITLES_2D[name]}: {_twice(program)} instructions.",
        vec=vec,
        source=letter,
        target=target,
        inputs=inputs,
        outputs=outputs,
        column=_wrap([_at("in", i, "in_row", inputs) + "," for i in range(inputs)]),
        row=_wrap([f"half[{j}][i]," for j in range(inputs)]),
        stores=[f"{_at('out', j, 'out_col', outputs)} = {target}[{j}];" for j in range(outputs)],
    )


TITLES_2D = {
    "input": "V = B^T D B of a tile D, columns first, then rows",
    "filter": "U = G g G^T of a filter g, columns first, then rows",
    "output": "Y = A^T P A of a tile of products P, columns first, then rows",
}


def _signature(function: str, parameters: str) -> str:
    line = f"{function}({parameters})"
    return line if len(line) <= 100 else f"{function}(\n    {parameters})"


def _at(array: str, index: int, stride: str, count: int) -> str:
    # With one element the stride would be an unused parameter, which compilers warn about.
    if index > 1 or count == 1:
        return f"{array}[{index} * {stride}]"
    return f"{array}[{stride if index else 0}]"


def _wrap(words: list[str]) -> list[str]:
    """Fill lines with ``words``, never breaking inside one."""
    lines = textwrap.wrap(" ".join(word.replace(" ", "~") for word in words), 88)
    return [line.replace("~", " ") for line in lines]


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _twice(program: Program) -> int:
    """Instructions of the nested 2D transform: once per column, then once per row of the result."""
    return program.counts().instructions * (len(program.inputs) + len(program.outputs))


# ---- the head comment ----------------------------------------------------------------------------


_ORDERS = {
    "naive": "the terms of every row are added from left to right",
    "pairwise": "every row is halved again and again, and its halves are added",
    "huffman": "in every row the two smallest partial sums are added first (Huffman)",
}


def _head(
    algorithm: BilinearAlgorithm,
    programs: Mapping[str, Program],
    source: str,
    textbook: BilinearAlgorithm,
    order: str,
) -> list[str]:
    m, r, n, products = algorithm.m, algorithm.r, algorithm.n, algorithm.products
    at_stride = f" at stride {algorithm.stride}" if algorithm.stride > 1 else ""
    first = f"{algorithm.stride} i" if algorithm.stride > 1 else "i"
    lines = [
        *textwrap.wrap(
            f"F({m}, {r}){at_stride}: {_plural(m, 'output')} of a {r}-tap filter from "
            f"{_plural(n, 'input')} with {_plural(products, 'multiplication')}; direct, {m * r}.",
            _WIDTH,
        ),
        "",
        f"    y[i] = sum over k of g[k] d[{first} + k]",
        "    y = A^T [(G g) .* (B^T d)]                  1D",
        "    Y = A^T [(G g G^T) .* (B^T D B)] A          2D",
        "",
    ]
    if algorithm.points:
        lines += _field("Points: ", in_one_line(algorithm.points))
    elif algorithm.moduli:
        lines += _field("Moduli: ", ", ".join(map(str, algorithm.moduli)))
    if source:
        lines += _field("Source: ", source)
    if order != PROGRAM:
        lines += _field("Order:  ", _ORDERS[order])
    scaled = {
        "rows of B^T": _ratios(algorithm.bt, textbook.bt),
        "columns of A^T": _ratios(zip(*algorithm.at), zip(*textbook.at)),
    }
    if any(factor != 1 for factors in scaled.values() for factor in factors):
        texts = [f"{what} by {', '.join(map(str, factors))}" for what, factors in scaled.items()]
        for label, text in zip(
            ("Scaled: ", *[" " * 8] * 2), (*texts, "rows of G to make up for both")
        ):
            lines += _field(label, text)
    for name, matrix in algorithm.matrices.items():
        lines += ["", f"{KINDS[name].symbol} =", *matrix_lines(matrix)]
    return [*lines, "", *_table(algorithm, programs), "", *_proof(first)]


def _proof(first: str) -> list[str]:
    return textwrap.wrap(
        f"Verified exactly: the sum over a of A^T[i,a] G[a,j] B^T[a,k] is 1 where k = {first} + j"
        " and 0 elsewhere, and each function below computes its matrix entry by entry.",
        _WIDTH,
    )


def _ratios(
    rows: Iterable[tuple[Scalar, ...]], textbook: Iterable[tuple[Scalar, ...]]
) -> list[Scalar]:
    """What each row was multiplied by."""
    return [next(c / t for c, t in zip(row, plain) if t != 0) for row, plain in zip(rows, textbook)]


def _field(label: str, text: str) -> list[str]:
    return textwrap.wrap(label + text, _WIDTH, subsequent_indent=" " * len(label))


def matrix_lines(rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a matrix, or of a table, in a comment."""
    return aligned([[str(entry) for entry in row] for row in rows], left=0, indent="    ")


def of_integers(made: Integral, how: str, command: str) -> list[str]:
    """Return how the comment of a header in integers begins: what it computes, and ``how``."""
    algorithm = made.algorithm
    origin = algorithm.moduli or algorithm.points or ()
    lines = [
        f"Generated by `{command}`; do not edit.",
        "",
        f"F({algorithm.m}, {algorithm.r}) {how}: {made.scale**2} Y = "
        "A^T [(G g G^T) .* (B^T D B)] A",
        "",
        f"{'Moduli' if algorithm.moduli else 'Points'}: {in_one_line(origin)}",
        "",
    ]
    for kind, rows in made.matrices.items():
        lines += [f"{KINDS[kind].symbol} =", *matrix_lines(rows), ""]
    return lines


def _table(algorithm: BilinearAlgorithm, programs: Mapping[str, Program]) -> list[str]:
    """Operation counts, row by row as in the matrices -> as in the code."""
    lines = [
        f"{'operations':<12}{'additions':>13}{'multiplications':>17}{'with FMA':>13}"
        f"{'2D, with FMA':>15}{'registers':>11}",
    ]
    for kind, matrix in algorithm.matrices.items():
        program = programs[kind]
        add, mul, fused = naive_counts(matrix)
        both = len(matrix) + len(matrix[0])
        counts = program.counts()
        lines.append(
            f"{kind:<12}{f'{add} -> {counts.add}':>13}{f'{mul} -> {counts.mul}':>17}"
            f"{f'{fused} -> {counts.instructions}':>13}"
            f"{f'{fused * both} -> {_twice(program)}':>15}{counts.registers:>11}"
        )
    return lines
