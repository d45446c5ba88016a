"""What a loop nest is made of: statements, registers, and addresses that are affine in indices.

A nest is a tree of frozen dataclasses; passes make new trees. Indices are absolute: the inner loop
over blocked rows runs over "h" from "h_o" on. Conditions are affine forms that have to be at least
zero, and bounds are the least of several forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

# ---- numbers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Affine:
    """A constant plus multiples of indices.

    >>> row = Affine.of("h") * 2 + Affine.of("y") - 1
    >>> print(row, "|", row.at({"h": 3}), "|", row.span({"h": (0, 4), "y": (0, 2)}))
    2*h + y - 1 | y + 5 | (-1, 9)
    """

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, value: str | int | Affine) -> Affine:
        """Return an index or a number as a form."""
        if isinstance(value, Affine):
            return value
        return cls(value) if isinstance(value, int) else cls(0, ((value, 1),))

    def __add__(self, other: Affine | int) -> Affine:
        other = Affine.of(other)
        sums = dict(self.terms)
        for name, times in other.terms:
            sums[name] = sums.get(name, 0) + times
        return Affine(self.const + other.const, tuple((n, t) for n, t in sums.items() if t))

    def __sub__(self, other: Affine | int) -> Affine:
        return self + Affine.of(other) * -1

    def __mul__(self, times: int) -> Affine:
        terms = self.terms if times else ()
        return Affine(self.const * times, tuple((n, t * times) for n, t in terms))

    @property
    def names(self) -> frozenset[str]:
        """The indices that it depends on."""
        return frozenset(name for name, _ in self.terms)

    def at(self, values: Mapping[str, Any]) -> Affine:
        """Return it with some indices replaced by numbers or other forms."""
        result = Affine(self.const)
        for name, times in self.terms:
            result += Affine.of(values.get(name, name)) * times
        return result

    def value(self, values: Mapping[str, int]) -> int:
        """Return its number, all indices given."""
        return self.const + sum(times * values[name] for name, times in self.terms)

    def span(self, spans: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """Return its least and largest value, given those of the indices."""
        low = high = self.const
        for name, times in self.terms:
            ends = sorted(times * end for end in spans[name])
            low, high = low + ends[0], high + ends[1]
        return low, high

    def __str__(self) -> str:
        pieces = [(times, name) for name, times in self.terms]
        pieces.sort(key=lambda piece: piece[0] < 0)  # what is subtracted comes last
        behind = self.const < 0 or (bool(pieces) and pieces[0][0] > 0)
        if self.const or not pieces:
            pieces.insert(len(pieces) if behind else 0, (self.const, ""))
        text = ""
        for times, name in pieces:
            size = f"{abs(times)}*{name}" if name and abs(times) != 1 else name or str(abs(times))
            sign = "-" if times < 0 else "+"
            text += f" {sign} {size}" if text else f"{sign.strip('+')}{size}"
        return text


Bound = tuple[Affine, ...]  # the least of them


@dataclass(frozen=True)
class Symbol:
    """A register or an array of them: a single number or a vector each."""

    name: str
    kind: str  # "scalar" | "vector"
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reg:
    """One register of a symbol."""

    name: str
    place: tuple[Affine, ...] = ()

    def __str__(self) -> str:
        return self.name + "".join(f"[{index}]" for index in self.place)


@dataclass(frozen=True)
class Inside:
    """Lanes (runs of them) that exist: run p is at position + p * step of `extent` places."""

    position: Affine
    step: int
    extent: int


@dataclass(frozen=True)
class TileLayout:
    """How a copy of inputs lies in memory: pitches of rows, columns and channels, in numbers.

    With blocks of columns, those of one block are neighbours.
    """

    row: int
    col: int
    channel: int
    block: int = 0

    def at(self, row: int, col: int, channel: int) -> int:
        """Return where one number lies."""
        block = self.block or 1
        across = col // block * block * self.col + col % block
        return row * self.row + across + channel * self.channel


# ---- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class For:
    """A loop; `role`: "full", "outer" or "inner" (of a blocked dim), "micro" or "register".

    Register loops have constant ends and disappear when the C is compiled. The iterations of a
    parallel loop are the parts of the work. A loop that `resumes` begins where the one before it
    ended.
    """

    index: str
    low: Affine
    high: Bound
    step: int
    body: Body
    role: str
    unroll: int = 1
    parallel: bool = False
    resumes: bool = False


@dataclass(frozen=True)
class Guard:
    """If all conditions are at least 0: the body, else `otherwise`."""

    conditions: tuple[Affine, ...]
    body: Body
    otherwise: Body = ()


@dataclass(frozen=True)
class Let:
    """New registers; vectors begin as zeros if `zero`."""

    symbol: Symbol
    zero: bool = False


@dataclass(frozen=True)
class Load:
    """A vector from `address` on, or one number for all lanes ("broadcast") or alone ("scalar").

    Vectors are runs of `run` neighbours, `stride` numbers apart; 0: one run. Lanes outside
    `inside`, and lanes from `some` on (of each run), are zero and not read.
    """

    to: Reg
    array: str
    address: Affine
    kind: str = "vector"
    run: int = 0
    stride: int = 0
    inside: Inside | None = None
    some: Affine | None = None


@dataclass(frozen=True)
class Store:
    """Write a register; of a vector only the lanes before `some`."""

    array: str
    address: Affine
    value: Reg
    some: Affine | None = None
    scalar: bool = False


@dataclass(frozen=True)
class Fma:
    """sum += a * b, or a times lane `lane` of b for all lanes."""

    sum: Reg
    a: Reg
    b: Reg
    lane: Affine | None = None


@dataclass(frozen=True)
class Add:
    """sum += a."""

    sum: Reg
    a: Reg


@dataclass(frozen=True)
class HAdd:
    """The number `sum` += the sum of all lanes of a."""

    sum: Reg
    a: Reg


@dataclass(frozen=True)
class Permute:
    """Lane l of `to` is lane `lanes[l]` of a."""

    to: Reg
    a: Reg
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class Unscramble:
    """Sums of all pairs of lanes (pixel, filter) become one vector per pixel, or per filter.

    Sum r = s T + t holds in lane l pixel (l + s T) mod L and, of the T filters in the block of l,
    the one (l + t) mod T further; T lanes make 16 bytes.
    """

    to: str  # an array of L vectors
    sums: Reg  # that of the first; a last index is left out
    by: str  # "W": a vector per pixel, its lanes filters; "M": the other way round
    block: int  # T


@dataclass(frozen=True)
class Copy:
    """Inputs from (row, col, channel) on into the tile; what is not in the image is padding."""

    low: tuple[Affine, Affine, Affine]
    size: tuple[int, int, int]
    layout: TileLayout


@dataclass(frozen=True)
class Widen:
    """Packed filters of a step, `count` of them from `address` on, become what is computed with."""

    address: Affine
    count: int


@dataclass(frozen=True)
class Region:
    """Outputs from (filter, row, col) on, as many as fit."""

    low: tuple[Affine, Affine, Affine]
    size: tuple[Bound, Bound, Bound]


@dataclass(frozen=True)
class Begin:
    """Sums of a region begin as the bias: in `array`, from `address` on."""

    region: Region
    array: str
    address: Affine


@dataclass(frozen=True)
class Finish:
    """Sums of a region are complete: waiting ones go to the outputs, then comes the epilogue."""

    region: Region
    waits: bool


@dataclass(frozen=True)
class Fetch:
    """Prefetch what lies some bytes behind an address."""

    array: str
    address: Affine
    distance: int
    level: int
    write: bool = False


Node = (
    For | Guard | Let | Load | Store | Fma | Add | HAdd | Permute | Unscramble | Copy | Widen
    | Begin | Finish | Fetch
)  # fmt: skip
Body = tuple[Node, ...]


@dataclass(frozen=True)
class Nest:
    """A tree, the buffers that it needs, and where its packed filters lie."""

    body: Body
    lanes: int
    tile: int = 0  # numbers of the copy of inputs
    sums: int = 0  # numbers of the outputs that wait
    wide: int = 0  # numbers of the filters that are widened once
    region: tuple[int, int, int] = (0, 0, 0)  # filters, rows, columns that are finished together
    pitch: tuple[int, int, int] = (0, 0, 0)  # from the sum of one filter, row, column to the next
    packed: int = 0  # numbers of the filters of a group
    packed_order: tuple[tuple[str, int, int], ...] = ()  # loops that write them: dim, extent, step
    parts: int = 1  # of the work of one group and image
    stores_all: bool = field(default=False)  # whether every output is stored once, as a whole sum


# ---- walks ---------------------------------------------------------------------------------------


def children(node: Node) -> tuple[Body, ...]:
    """Return the bodies of a statement."""
    if isinstance(node, For):
        return (node.body,)
    return (node.body, node.otherwise) if isinstance(node, Guard) else ()


def walk(body: Body) -> Iterator[Node]:
    """Yield all statements, parents first."""
    for node in body:
        yield node
        for inner in children(node):
            yield from walk(inner)


def rebuilt(node: Node, change: Callable[[Body], Body]) -> Node:
    """Return a statement with its bodies changed."""
    if isinstance(node, For):
        return replace(node, body=change(node.body))
    if isinstance(node, Guard):
        return replace(node, body=change(node.body), otherwise=change(node.otherwise))
    return node


def forms(node: Any) -> Iterator[Affine]:
    """Yield the affine forms of a statement, but not of its bodies."""
    if isinstance(node, Affine):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from forms(item)
    elif isinstance(node, (For, Guard)):
        yield from forms((node.low, node.high) if isinstance(node, For) else node.conditions)
    elif hasattr(node, "__dataclass_fields__"):
        for one in fields(node):
            yield from forms(getattr(node, one.name))


def depends(node: Node, index: str) -> bool:
    """Whether a statement itself, not its bodies, mentions an index."""
    return any(index in form.names for form in forms(node))


def substituted(node: Any, values: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    """Return a statement with indices replaced by forms, and registers renamed."""
    if isinstance(node, Affine):
        return node.at(values)
    if isinstance(node, tuple):
        return tuple(substituted(item, values, names) for item in node)
    if isinstance(node, (Reg, Symbol)):
        node = replace(node, name=names.get(node.name, node.name))
    if isinstance(node, Unscramble):
        node = replace(node, to=names.get(node.to, node.to))
    if hasattr(node, "__dataclass_fields__"):
        changed = {
            one.name: substituted(getattr(node, one.name), values, names) for one in fields(node)
        }
        return replace(node, **changed)
    return node


def least(bound: Iterable[Affine], values: Mapping[str, int]) -> int:
    """Return the number that a bound is."""
    return min(form.value(values) for form in bound)
