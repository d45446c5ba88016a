"""The reference twin of the generated C: a nest is run statement by statement in Python.

Numbers are what the lists hold, so integers stay exact; vectors are lists. Every access is checked
against the bounds of its array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from winogen.loops.nest import (
    Add,
    Affine,
    Begin,
    Body,
    Copy,
    Fetch,
    Finish,
    Fma,
    For,
    Guard,
    HAdd,
    Inside,
    Let,
    Load,
    Nest,
    Node,
    Permute,
    Reg,
    Region,
    Store,
    Unscramble,
    least,
)
from winogen.loops.parameters import LoopProblem


def source_index(position: int, size: int, mode: str) -> int:
    """Return where a position of a padded axis comes from; -1 for a zero.

    >>> [source_index(i, 4, "reflect") for i in (-2, -1, 0, 4)], source_index(-1, 4, "zeros")
    ([2, 1, 0, 2], -1)
    """
    if 0 <= position < size or mode == "zeros":
        return position if 0 <= position < size else -1
    if mode == "reflect":
        return -position if position < 0 else 2 * (size - 1) - position
    if mode == "replicate":
        return 0 if position < 0 else size - 1
    return position % size


def packed(problem: LoopProblem, nest: Nest, weight: Sequence[Any]) -> list[Any]:
    """Return the filters of a group, flat [M][C][KH][KW], in the order in which a nest reads them.

    What fills up whole steps of filters and channels is 0.
    """
    values: list[Any] = []
    shape = problem.filters, problem.channels, *problem.kernel

    def fill(depth: int, at: dict[str, int]) -> None:
        if depth == len(nest.packed_order):
            place = at["M"] + at.get("m", 0), at["C"], at["Y"], at["X"]
            index = 0
            for one, count in zip(place, shape):
                index = index * count + one
            exists = all(one < count for one, count in zip(place, shape))
            values.append(weight[index] if exists else 0)
            return
        dim, count, step = nest.packed_order[depth]
        for position in range(count):
            fill(depth + 1, {**at, dim: position * step})

    fill(0, {})
    return values


class Machine:
    """The arrays and registers of one run, and how often each kind of statement was executed."""

    def __init__(self, problem: LoopProblem, nest: Nest, arrays: dict[str, list[Any]]):
        self.problem, self.nest, self.arrays = problem, nest, arrays
        self.arrays |= {"tile": [None] * nest.tile, "sums": [None] * nest.sums}
        self.at: dict[str, int] = {}
        self.registers: dict[tuple, Any] = {}
        self.counts: Counter[str] = Counter()

    def run(self, body: Body | None = None) -> None:
        """Execute statements, by default all of the nest."""
        for node in self.nest.body if body is None else body:
            self.counts[_counted(node)] += 1
            _STATEMENTS[type(node)](self, node)

    def number(self, form: Affine) -> int:
        """Return the value of a form."""
        return form.value(self.at)

    def key(self, reg: Reg) -> tuple:
        """Return what a register is kept under."""
        return (reg.name, *map(self.number, reg.place))

    def read(self, array: str, address: int) -> Any:
        """Return one number; raises IndexError outside of the array."""
        values = self.arrays[array]
        if not 0 <= address < len(values):
            raise IndexError(f"{array}[{address}] of {len(values)}")
        value = values[address]
        if value is None:
            raise ValueError(f"{array}[{address}] is read before it is written")
        return value

    def write(self, array: str, address: int, value: Any) -> None:
        """Write one number; raises IndexError outside of the array."""
        if not 0 <= address < len(self.arrays[array]):
            raise IndexError(f"{array}[{address}] of {len(self.arrays[array])}")
        self.arrays[array][address] = value


def _counted(node: Node) -> str:
    if isinstance(node, Load):
        return f"load {node.array}"
    return f"store {node.array}" if isinstance(node, Store) else type(node).__name__.lower()


def _for(m: Machine, node: For) -> None:
    begin = m.at[node.index] if node.resumes else m.number(node.low)
    end = least(node.high, m.at)
    m.at[node.index] = begin
    while m.at[node.index] < end:
        m.run(node.body)
        m.at[node.index] += node.step


def _guard(m: Machine, node: Guard) -> None:
    holds = all(m.number(form) >= 0 for form in node.conditions)
    m.run(node.body if holds else node.otherwise)


def _let(m: Machine, node: Let) -> None:
    places: list[tuple] = [()]
    for count in node.symbol.shape:
        places = [(*place, i) for place in places for i in range(count)]
    vector = [0] * m.nest.lanes if node.zero else None
    for place in places:
        m.registers[(node.symbol.name, *place)] = list(vector) if vector else None


def _load(m: Machine, node: Load) -> None:
    lanes, address = m.nest.lanes, m.number(node.address)
    run = node.run or lanes
    some = run if node.some is None else m.number(node.some)

    def exists(lane: int) -> bool:
        inside = node.inside
        within = inside is None or _is_inside(m, inside, lane // run)
        return within and lane % run < some

    def one(lane: int) -> Any:
        if not exists(lane):
            return 0
        return m.read(node.array, address + lane // run * node.stride + lane % run)

    if node.kind == "vector":
        m.registers[m.key(node.to)] = [one(lane) for lane in range(lanes)]
    else:
        m.registers[m.key(node.to)] = [one(0)] * lanes if node.kind == "broadcast" else one(0)


def _is_inside(m: Machine, inside: Inside, run: int) -> bool:
    return 0 <= m.number(inside.position) + run * inside.step < inside.extent


def _store(m: Machine, node: Store) -> None:
    value, address = m.registers[m.key(node.value)], m.number(node.address)
    if not isinstance(value, list):
        m.write(node.array, address, value)
        return
    some = m.nest.lanes if node.some is None else m.number(node.some)
    for lane in range(min(m.nest.lanes, max(0, some))):
        m.write(node.array, address + lane, value[lane])


def _fma(m: Machine, node: Fma) -> None:
    sums, a, b = (m.registers[m.key(reg)] for reg in (node.sum, node.a, node.b))
    if node.lane is not None:
        b = [b[m.number(node.lane)]] * len(sums)
    m.registers[m.key(node.sum)] = [s + x * y for s, x, y in zip(sums, a, b)]


def _add(m: Machine, node: Add) -> None:
    sums, a = m.registers[m.key(node.sum)], m.registers[m.key(node.a)]
    m.registers[m.key(node.sum)] = [s + x for s, x in zip(sums, a)]


def _hadd(m: Machine, node: HAdd) -> None:
    m.registers[m.key(node.sum)] += sum(m.registers[m.key(node.a)])


def _permute(m: Machine, node: Permute) -> None:
    a = m.registers[m.key(node.a)]
    m.registers[m.key(node.to)] = [a[lane] for lane in node.lanes]


def unscrambled(lanes: int, block: int, pixel: int, filter_: int) -> tuple[int, int]:
    """Return the sum and its lane in which `Unscramble` finds a pixel's product with a filter.

    >>> unscrambled(8, 4, pixel=5, filter_=2)    # moved by one block, turned by one lane
    (5, 1)
    """
    moved = (pixel // block - filter_ // block) % (lanes // block)
    turned = (filter_ - pixel) % block
    return moved * block + turned, filter_ // block * block + pixel % block


def _unscramble(m: Machine, node: Unscramble) -> None:
    lanes = m.nest.lanes
    for vector in range(lanes):
        values = []
        for lane in range(lanes):
            pair = (vector, lane) if node.by == "W" else (lane, vector)
            place, which = unscrambled(lanes, node.block, *pair)
            values.append(m.registers[(*m.key(node.sums), place)][which])
        m.registers[(node.to, vector)] = values


def _copy(m: Machine, node: Copy) -> None:
    problem, strides = m.problem, m.problem.input
    row, col, channel = map(m.number, node.low)
    rows, cols, channels = node.size
    for r in range(rows):
        for q in range(cols):
            y = source_index(row + r, problem.size[0], problem.padding_mode)
            x = source_index(col + q, problem.size[1], problem.padding_mode)
            for c in range(channels):
                exists = 0 <= y < problem.size[0] and 0 <= x < problem.size[1]
                exists = exists and channel + c < problem.channels
                address = y * strides.row + x * strides.pixel + (channel + c) * strides.channel
                value = m.read("image", address) if exists else 0
                m.write("tile", node.layout.at(r, q, c), value)


def _each_output(m: Machine, region: Region, do: Callable[[int, int, int, int, int, int], None]
                 ) -> None:  # fmt: skip
    first, row, col = map(m.number, region.low)
    filters, rows, cols = (least(bound, m.at) for bound in region.size)
    for k in range(filters):
        for r in range(rows):
            for q in range(cols):
                do(first + k, row + r, col + q, k, r, q)


def _begin(m: Machine, node: Begin) -> None:
    address, (of_m, of_h, of_w) = m.number(node.address), m.nest.pitch

    def set_bias(f: int, row: int, col: int, k: int, r: int, q: int) -> None:
        m.write(node.array, address + k * of_m + r * of_h + q * of_w, m.read("bias", f))

    # All of the sums that wait get a number: steps of the micro-kernel may go beyond the outputs.
    m.arrays["sums"] = [0] * m.nest.sums
    _each_output(m, node.region, set_bias)


def _finish(m: Machine, node: Finish) -> None:
    (of_m, of_h, of_w), to = m.nest.pitch, m.problem.output

    def deliver(f: int, row: int, col: int, k: int, r: int, q: int) -> None:
        value = m.read("sums", k * of_m + r * of_h + q * of_w)
        m.write("output", f * to.channel + row * to.row + col * to.pixel, value)

    if node.waits:
        _each_output(m, node.region, deliver)


_STATEMENTS: dict[type, Callable[[Machine, Any], None]] = {
    For: _for,
    Guard: _guard,
    Let: _let,
    Load: _load,
    Store: _store,
    Fma: _fma,
    Add: _add,
    HAdd: _hadd,
    Permute: _permute,
    Unscramble: _unscramble,
    Copy: _copy,
    Begin: _begin,
    Finish: _finish,
    Fetch: lambda m, node: None,
}


def convolve(
    problem: LoopProblem,
    nest: Nest,
    image: Sequence[Any],
    weight: Sequence[Any],
    bias: Sequence[Any],
) -> list[Any]:
    """Return the outputs of one group of one image, flat, None where nothing was written.

    ``image`` lies as the problem's input strides say, ``weight`` is [M][C][KH][KW].
    """
    (height, width), strides = problem.output_size, problem.output
    numbers = strides.extent(1, height, width, problem.filters)
    machine = Machine(problem, nest, {
        "image": list(image),
        "kernel": packed(problem, nest, weight),
        "bias": list(bias),
        "output": [None] * numbers,
    })  # fmt: skip
    machine.run()
    return machine.arrays["output"]
