"""The reference twin of the generated C: a nest is run statement by statement in Python.

Numbers are what the lists hold, so integers stay exact; vectors are lists. Every access is checked
against the bounds of its array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from winogen_lab.loops.nest import (
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
    Let,
    Load,
    Nest,
    Node,
    Permute,
    Reg,
    Region,
    Store,
    Unscramble,
    Widen,
)
from winogen_lab.loops.parameters import LoopProblem


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


Run = Callable[[], None]
Values = dict[str, int]


def formula(form: Affine) -> Callable[[Values], int]:
    """Return a form as a function of the indices.

    >>> formula(Affine.of("h") * 2 - 1)({"h": 3})
    5
    """
    if not form.terms:
        number = form.const
        return lambda at: number
    if form.const == 0 and len(form.terms) == 1 and form.terms[0][1] == 1:
        name = form.terms[0][0]
        return lambda at: at[name]
    terms = "".join(f" + {times} * at[{name!r}]" for name, times in form.terms)
    made: Callable[[Values], int] = eval(f"lambda at: {form.const}{terms}")
    return made


def key_of(reg: Reg) -> Callable[[Values], tuple]:
    """Return what a register is kept under, as a function of the indices."""
    places = [formula(form) for form in reg.place]
    name = reg.name
    if len(places) == 2:
        first, second = places
        return lambda at: (name, first(at), second(at))
    return lambda at: (name, *[place(at) for place in places])


class Machine:
    """The arrays and registers of one run; statements become functions before they run.

    ``counts`` says how often each kind of statement was executed, if they are ``counted``.
    """

    def __init__(
        self,
        problem: LoopProblem,
        nest: Nest,
        arrays: dict[str, list[Any]],
        counted: bool = False,
    ):
        self.problem, self.nest, self.counted = problem, nest, counted
        sizes = {"tile": nest.tile, "sums": nest.sums, "wide": nest.wide}
        self.arrays = arrays | {name: [None] * size for name, size in sizes.items()}
        self.at: Values = {}
        self.registers: dict[tuple, Any] = {}
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Execute the nest."""
        self.body(self.nest.body)()

    def body(self, body: Body) -> Run:
        """Return statements as one function."""
        steps = [self._step(node) for node in body]
        if len(steps) == 1:
            return steps[0]

        def run() -> None:
            for step in steps:
                step()

        return run

    def _step(self, node: Node) -> Run:
        step = _STATEMENTS[type(node)](self, node)
        if not self.counted:
            return step
        kind = type(node).__name__
        kind = f"{kind} {node.array}" if isinstance(node, Load) else kind

        def run() -> None:
            self.counts[kind] += 1
            step()

        return run

    def read(self, array: str, address: int) -> Any:
        """Return one number; raises IndexError outside of the array, ValueError before a write."""
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


def _for(m: Machine, node: For) -> Run:
    at, index, step, body = m.at, node.index, node.step, m.body(node.body)
    low, high = formula(node.low), [formula(form) for form in node.high]

    def run() -> None:
        place = at[index] if node.resumes else low(at)
        end = min([form(at) for form in high])
        while place < end:
            at[index] = place
            body()
            place += step
        at[index] = place

    return run


def _guard(m: Machine, node: Guard) -> Run:
    conditions = [formula(form) for form in node.conditions]
    body, otherwise = m.body(node.body), m.body(node.otherwise)

    def run() -> None:
        if all(form(m.at) >= 0 for form in conditions):
            body()
        else:
            otherwise()

    return run


def _let(m: Machine, node: Let) -> Run:
    places: list[tuple] = [(node.symbol.name,)]
    for count in node.symbol.shape:
        places = [(*place, i) for place in places for i in range(count)]

    def run() -> None:
        for place in places:
            m.registers[place] = [0] * m.nest.lanes if node.zero else None

    return run


def _load(m: Machine, node: Load) -> Run:
    lanes, at, array = m.nest.lanes, m.at, node.array
    run_, stride, inside = node.run or lanes, node.stride, node.inside
    address, key = formula(node.address), key_of(node.to)
    some = None if node.some is None else formula(node.some)
    position = None if inside is None else formula(inside.position)
    many = lanes if node.kind == "vector" else 1

    def run() -> None:
        first, last = address(at), run_ if some is None else some(at)
        begin = 0 if position is None else position(at)
        value = []
        for lane in range(many):
            place, within = divmod(lane, run_)
            exists = within < last
            if exists and inside is not None:
                exists = 0 <= begin + place * inside.step < inside.extent
            value.append(m.read(array, first + place * stride + within) if exists else 0)
        if node.kind == "broadcast":
            value = value * lanes
        m.registers[key(at)] = value[0] if node.kind == "scalar" else value

    return run


def _store(m: Machine, node: Store) -> Run:
    address, key, lanes = formula(node.address), key_of(node.value), m.nest.lanes
    some = None if node.some is None else formula(node.some)

    def run() -> None:
        value, first = m.registers[key(m.at)], address(m.at)
        if node.scalar:
            m.write(node.array, first, value)
            return
        for lane in range(lanes if some is None else min(lanes, max(0, some(m.at)))):
            m.write(node.array, first + lane, value[lane])

    return run


def _fma(m: Machine, node: Fma) -> Run:
    of_sum, of_a, of_b = map(key_of, (node.sum, node.a, node.b))
    lane = None if node.lane is None else formula(node.lane)
    registers, at = m.registers, m.at

    def run() -> None:
        key, a, b = of_sum(at), registers[of_a(at)], registers[of_b(at)]
        if lane is None:
            registers[key] = [s + x * y for s, x, y in zip(registers[key], a, b)]
        else:
            one = b[lane(at)]
            registers[key] = [s + x * one for s, x in zip(registers[key], a)]

    return run


def _add(m: Machine, node: Add) -> Run:
    of_sum, of_a = key_of(node.sum), key_of(node.a)

    def run() -> None:
        key, a = of_sum(m.at), m.registers[of_a(m.at)]
        m.registers[key] = [s + x for s, x in zip(m.registers[key], a)]

    return run


def _hadd(m: Machine, node: HAdd) -> Run:
    of_sum, of_a = key_of(node.sum), key_of(node.a)

    def run() -> None:
        m.registers[of_sum(m.at)] += sum(m.registers[of_a(m.at)])

    return run


def _permute(m: Machine, node: Permute) -> Run:
    to, of_a = key_of(node.to), key_of(node.a)

    def run() -> None:
        a = m.registers[of_a(m.at)]
        m.registers[to(m.at)] = [a[lane] for lane in node.lanes]

    return run


def unscrambled(lanes: int, block: int, pixel: int, filter_: int) -> tuple[int, int]:
    """Return the sum and its lane in which `Unscramble` finds a pixel's product with a filter.

    >>> unscrambled(8, 4, pixel=5, filter_=2)    # moved by one block, turned by one lane
    (5, 1)
    """
    moved = (pixel // block - filter_ // block) % (lanes // block)
    turned = (filter_ - pixel) % block
    return moved * block + turned, filter_ // block * block + pixel % block


def _unscramble(m: Machine, node: Unscramble) -> Run:
    lanes, sums = m.nest.lanes, key_of(node.sums)

    def run() -> None:
        base = sums(m.at)
        for vector in range(lanes):
            values = []
            for lane in range(lanes):
                pair = (vector, lane) if node.by == "W" else (lane, vector)
                place, which = unscrambled(lanes, node.block, *pair)
                values.append(m.registers[(*base, place)][which])
            m.registers[(node.to, vector)] = values

    return run


def _copy(m: Machine, node: Copy) -> Run:
    problem, strides = m.problem, m.problem.input
    low = [formula(form) for form in node.low]
    (height, width), mode = problem.size, problem.padding_mode

    def run() -> None:
        row, col, channel = (form(m.at) for form in low)
        rows, cols, channels = node.size
        for r in range(rows):
            y = source_index(row + r, height, mode)
            for q in range(cols):
                x = source_index(col + q, width, mode)
                exists = 0 <= y < height and 0 <= x < width
                for c in range(channels):
                    value = 0
                    if exists and channel + c < problem.channels:
                        address = y * strides.row + x * strides.pixel
                        value = m.read("image", address + (channel + c) * strides.channel)
                    m.write("tile", node.layout.at(r, q, c), value)

    return run


def _widen(m: Machine, node: Widen) -> Run:
    address = formula(node.address)

    def run() -> None:
        first = address(m.at)
        for place in range(node.count):
            m.write("wide", place, m.read("kernel", first + place))

    return run


def _each_output(m: Machine, region: Region, do: Callable[..., None]) -> Run:
    """Call ``do`` with a filter, row and column, and with the same in the region."""
    low = [formula(form) for form in region.low]
    size = [[formula(form) for form in bound] for bound in region.size]

    def run() -> None:
        first, row, col = (form(m.at) for form in low)
        filters, rows, cols = (min(form(m.at) for form in bound) for bound in size)
        for k in range(filters):
            for r in range(rows):
                for q in range(cols):
                    do(first + k, row + r, col + q, k, r, q)

    return run


def _begin(m: Machine, node: Begin) -> Run:
    address, (of_m, of_h, of_w) = formula(node.address), m.nest.pitch

    def set_bias(f: int, row: int, col: int, k: int, r: int, q: int) -> None:
        place = address(m.at) + k * of_m + r * of_h + q * of_w
        m.write(node.array, place, m.read("bias", f))

    each = _each_output(m, node.region, set_bias)

    def run() -> None:
        # Sums that wait all get a number: steps of the micro-kernel may go beyond the outputs.
        m.arrays["sums"] = [0] * m.nest.sums
        each()

    return run


def _finish(m: Machine, node: Finish) -> Run:
    (of_m, of_h, of_w), to = m.nest.pitch, m.problem.output

    def deliver(f: int, row: int, col: int, k: int, r: int, q: int) -> None:
        value = m.read("sums", k * of_m + r * of_h + q * of_w)
        m.write("output", f * to.channel + row * to.row + col * to.pixel, value)

    return _each_output(m, node.region, deliver) if node.waits else m.body(())


_STATEMENTS: dict[type, Callable[[Machine, Any], Run]] = {
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
    Widen: _widen,
    Begin: _begin,
    Finish: _finish,
    Fetch: lambda m, node: m.body(()),
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
