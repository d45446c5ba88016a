"""The products of transformed tiles and filters on a device: one product of matrices per position.

A matrix whose rows are read number by number meets one whose rows are read in vectors. In NHWC
tiles are the rows and filters the lanes, in NCHW it is the other way round, so that the sums lie as
the output's neighbours do. A work-item keeps a block of sums, reads a vector of each of its rows
for as many terms, and a row of lanes for each term.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from winogen.codegen.devices.expressions import (
    Expr,
    FunctionCall,
    Id,
    Lane,
    Load,
    Name,
    Number,
    Splat,
    splat,
)
from winogen.codegen.devices.statements import (
    Assign,
    Barrier,
    Declare,
    DeviceArray,
    DeviceKernel,
    ForLoop,
    Let,
    Remark,
    Shared,
    Statement,
    Store,
)


@dataclass(frozen=True)
class ProductBlock:
    """How a product is cut.

    >>> ProductBlock(rows=4, vectors=2, lanes=4).columns
    8
    """

    rows: int  # of a work-item
    vectors: int  # of a work-item, of lanes
    lanes: int  # of a vector
    group: tuple[int, int] = (8, 8)  # work-items of a group along the lanes and along the rows
    staged: int = 0  # terms whose factors a group copies to memory of its own at once; 0: none
    depth: int = 0  # terms of a chain of additions, before it is added to the others; 0: all

    @property
    def columns(self) -> int:
        """Columns of a work-item."""
        return self.vectors * self.lanes

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a group."""
        return self.rows * self.group[1], self.columns * self.group[0]

    @property
    def local_bytes(self) -> int:
        """Of the memory that a group shares."""
        return 4 * self.staged * sum(self.tile)


_Read = Callable[[Expr, Expr], Expr]  # of a row or a vector, and of the term that it begins with


def multiply(
    name: str,
    comment: str,
    rows: DeviceArray,
    columns: DeviceArray,
    sums: DeviceArray,
    terms: int,
    block: ProductBlock,
) -> DeviceKernel:
    """Return the kernel of sums[k, r, c] = Σ_t rows[k, r, t] columns[k, t, c] for each k.

    The last two axes of the arrays are these; what comes before counts as one. Rows and columns
    are multiples of those of a group, and the terms that ``rows`` has room for of the lanes.
    """
    (*_, height, depth), width = rows.shape, columns.shape[-1]
    product, lanes = Name("product"), block.lanes
    body: list[Statement] = [
        Let("product", Id("global", 2)),
        Let("row", Id("global", 1) * block.rows),
        Let("column", Id("global", 0) * block.columns),
    ]

    def of_rows(row: Expr, term: Expr) -> Expr:
        at = (product * height + Name("row") + row) * depth + term
        return Load(rows.name, at, lanes, True)

    def of_columns(vector: Expr, term: Expr) -> Expr:
        at = (product * terms + term) * width + Name("column") + vector * lanes
        return Load(columns.name, at, lanes, True)

    shared: tuple[Shared, ...] = ()
    if block.staged:
        shared = (
            Shared("row_terms", block.tile[0] * block.staged, lanes),
            Shared("term_columns", block.staged * block.tile[1], lanes),
        )
    kept = Declare("sum", (block.rows, block.vectors), lanes, value=splat(0, lanes))
    body.append(kept)
    chain = min(block.depth or terms, terms)
    whole, rest = divmod(terms, chain)

    def chained(first: Expr, count: int, into: Declare) -> list[Statement]:
        if not block.staged:
            return _summed(first, count, of_rows, of_columns, into)
        return _by_stages(first, count, rows, columns, terms, block, into)

    if whole == 1 and not rest:
        body += chained(Number(0), terms, kept)
    else:
        part = Declare("part", (block.rows, block.vectors), lanes, value=splat(0, lanes))
        places = [(r, v) for r in range(block.rows) for v in range(block.vectors)]
        clear = [Assign(part[place], splat(0, lanes)) for place in places]
        add = [Assign(kept[place], kept[place] + part[place]) for place in places]
        body.append(part)
        first = Name("first")
        inside = [*clear, *chained(first, chain, part), *add]
        body.append(
            ForLoop("first", Number(0), Number(whole * chain), Number(chain), tuple(inside))
        )
        if rest:
            body += [*clear, *chained(Number(whole * chain), rest, part), *add]
    for r in range(block.rows):
        for v in range(block.vectors):
            at = (product * height + Name("row") + r) * width + Name("column") + v * lanes
            body.append(Store(sums.name, at, kept[r, v], True))
    items = width // block.columns, height // block.rows, prod(rows.shape[:-2])
    return DeviceKernel(
        name, comment, (rows, columns), (sums,), items, (*block.group, 1), tuple(body), shared
    )


def _summed(
    first: Expr, count: int, of_rows: _Read, of_columns: _Read, into: Declare
) -> list[Statement]:
    """The products of ``count`` terms from the first on, added to the sums."""
    lanes = into.lanes

    def step(term: Expr, terms: int) -> list[Statement]:
        rows, vectors = into.shape
        made: list[Statement] = [Let(f"row{r}", of_rows(Number(r), term)) for r in range(rows)]
        for t in range(terms):
            made += [Let(f"column{t}_{v}", of_columns(Number(v), term + t)) for v in range(vectors)]
            for r in range(rows):
                value: Expr = Name(f"row{r}", True, lanes)
                factor = Splat(Lane(value, t), lanes) if lanes > 1 else value
                made += [
                    Assign(
                        into[r, v],
                        FunctionCall(
                            "fma", (factor, Name(f"column{t}_{v}", True, lanes), into[r, v])
                        ),
                    )
                    for v in range(vectors)
                ]
        return made

    return _in_steps("term", first, count, lanes, step)


def _in_steps(
    name: str, first: Expr, count: int, size: int, step: Callable[[Expr, int], list[Statement]]
) -> list[Statement]:
    """A loop over ``count`` terms, of which a step does ``size``, and what is left behind it."""
    whole = count // size * size
    made: list[Statement] = []
    if whole:
        body = tuple(step(Name(name), size))
        made.append(ForLoop(name, first, first + whole, Number(size), body))
    if whole < count:
        made += step(first + whole, count - whole)
    return made


def _by_stages(
    first: Expr,
    count: int,
    rows: DeviceArray,
    columns: DeviceArray,
    terms: int,
    block: ProductBlock,
    into: Declare,
) -> list[Statement]:
    """The same, by way of memory that a group shares: copied, seen by all, and read."""
    staged = block.staged

    def of_rows(row: Expr, term: Expr) -> Expr:
        at = (Id("local", 1) * block.rows + row) * staged + term
        return Load("row_terms", at, block.lanes, True)

    def of_columns(vector: Expr, term: Expr) -> Expr:
        at = term * block.tile[1] + Id("local", 0) * block.columns + vector * block.lanes
        return Load("term_columns", at, block.lanes, True)

    def stage(begin: Expr, terms_here: int) -> list[Statement]:
        copies = _copied(begin, terms_here, rows, columns, terms, block)
        summed = _summed(Number(0), terms_here, of_rows, of_columns, into)
        return [*copies, Barrier(), *summed, Barrier()]

    return _in_steps("stage", first, count, staged, stage)


def _copied(
    begin: Expr,
    count: int,
    rows: DeviceArray,
    columns: DeviceArray,
    terms: int,
    block: ProductBlock,
) -> list[Statement]:
    """The factors of ``count`` terms, copied by all items of a group, vector by vector."""
    lanes, staged, product = block.lanes, block.staged, Name("product")
    (*_, height, depth), width = rows.shape, columns.shape[-1]
    items = block.group[0] * block.group[1]
    item = Id("local", 1) * block.group[0] + Id("local", 0)
    tall, wide = block.tile
    copied = Name("copied")
    vectors = -(-count // lanes)  # of a row; its room ends with a whole vector
    row, at = copied // vectors, copied % vectors * lanes
    from_rows = (product * height + Id("group", 1) * tall + row) * depth + begin + at
    to_rows = Store("row_terms", row * staged + at, Load(rows.name, from_rows, lanes, True), True)
    across = wide // lanes
    term, column = copied // across, copied % across * lanes
    from_columns = (product * terms + begin + term) * width + Id("group", 0) * wide + column
    to_columns = Store(
        "term_columns", term * wide + column, Load(columns.name, from_columns, lanes, True), True
    )
    return [
        Remark("Each item copies some vectors."),
        ForLoop("copied", item, Number(tall * vectors), Number(items), (to_rows,)),
        ForLoop("copied", item, Number(count * across), Number(items), (to_columns,)),
    ]
