"""Work-items of a nest's kernel: the loops that they stand for, where the numbers of each lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from winogen.codegen.devices import statements as records
from winogen.codegen.devices.expressions import (
    Element,
    Expr,
    FunctionCall,
    Id,
    Name,
    Number,
    Select,
    Splat,
    total,
)
from winogen.codegen.devices.expressions import Load as Read
from winogen.codegen.devices.statements import DeviceArray, Statement
from winogen.conv.problem import Problem
from winogen_lab.loops.nest import (
    Affine,
    Body,
    Bound,
    Fetch,
    Finish,
    For,
    Inside,
    Let,
    Nest,
    Reg,
    Region,
    rebuilt,
    walk,
)
from winogen_lab.loops.parameters import LoopProblem

ZERO = Number(0.0)


@dataclass(frozen=True)
class Items:
    """The loops that items stand for, and what is left for each."""

    loops: tuple[tuple[str, int, int, int], ...]  # index, low, step, count
    body: Body

    @classmethod
    def of(cls, nest: Nest, problem: LoopProblem) -> Items:
        """Take outermost loops over outputs, as long as they do nothing else.

        Where the nest writes whole sums to the output, an item finishes its own.
        """
        body, loops = nest.body, list[tuple[str, int, int, int]]()
        at_once = nest.stores_all and not nest.sums
        if at_once:
            body = _without_finish(body)
        while len(body) == 1 and isinstance(node := body[0], For):
            (end, *others) = node.high
            known = not (node.low.names or end.names or others or node.resumes)
            if not known or node.index[0] not in "mhw" or node.role not in ("full", "outer"):
                break
            count = -(-(end.const - node.low.const) // node.step)
            loops.append((node.index, node.low.const, node.step, count))
            body = node.body
        if at_once:
            body = (*body, Finish(_region(loops, problem), waits=False))
        return cls(tuple(loops), body)

    @property
    def count(self) -> int:
        """How many items there are, of a group of channels and an image."""
        return prod(count for *_, count in self.loops)


def _without_finish(body: Body) -> Body:
    return tuple(
        rebuilt(node, _without_finish) for node in body if not isinstance(node, (Finish, Fetch))
    )


def _region(loops: Sequence[tuple[str, int, int, int]], problem: LoopProblem) -> Region:
    """The outputs of an item: those of one step of each loop, and all along other axes."""
    lows, sizes = [], []
    for dim in "MHW":
        extent = problem.extent(dim)
        low: Affine = Affine()
        size: Bound = (Affine(extent),)
        for index, _, step, _ in loops:
            if index[0] == dim.lower():
                low = Affine.of(index)
                whole = extent % step == 0
                size = (Affine(step),) if whole else (Affine(step), Affine(extent) - low)
        lows.append(low)
        sizes.append(size)
    return Region(tuple(lows), tuple(sizes))  # type: ignore[arg-type]


class Places:
    """The arrays of a nest's kernel, and the addresses in them that an item reads and writes."""

    def __init__(self, problem: Problem, seen: LoopProblem, nest: Nest, bias: bool):
        self.problem, self.seen, self.nest = problem, seen, nest
        self.lanes, layer = nest.lanes, problem.layer
        self.items = Items.of(nest, seen)
        self.symbols = {
            one.symbol.name: one.symbol for one in walk(nest.body) if isinstance(one, Let)
        }
        self.group = Name("group") if layer.groups > 1 else Number(0)
        self.image = Name("image") if problem.batch > 1 else Number(0)
        count = self.items.count
        self.shape = (problem.batch, layer.groups, count)
        self.arrays = {
            "image": DeviceArray("input", problem.input_shape, "float32", "input"),
            "kernel": DeviceArray("packed", (layer.groups, nest.packed), "float32", "packed"),
            "bias": DeviceArray("bias", (layer.filters,), "float32", "bias"),
            "output": DeviceArray("output", problem.output_shape, "float32", "output"),
            "tile": DeviceArray("tile", (*self.shape, nest.tile), "float32", "workspace"),
            "sums": DeviceArray("sums", (*self.shape, nest.sums), "float32", "workspace"),
        }
        self.bias = bias

    def _is_own(self, array: str) -> bool:
        """Whether an array is the output, or one of the items' own that the nest has."""
        return array == "output" or (array in ("tile", "sums") and self.arrays[array].shape[-1] > 0)

    def _affine(self, form: Affine) -> Expr:
        found = total([Name(name) * times for name, times in form.terms if times > 0])
        found = found + max(form.const, 0)
        for name, times in form.terms:
            found = found - Name(name) * -times if times < 0 else found
        return found - -form.const if form.const < 0 else found

    def _least(self, bound: Bound) -> Expr:
        forms = [self._affine(form) for form in dict.fromkeys(bound)]
        return reduce(lambda one, other: FunctionCall("min", (one, other)), forms)

    def _base(self, array: str) -> Expr:
        """The name of where the numbers of this image, group and item begin in an array."""
        value = self._start(array)
        return value if value == Number(0) else Name(f"{self.arrays[array].name}_at")

    def _starts(self, arrays: Sequence[str]) -> list[Statement]:
        """The definitions of these names."""
        ids = ((self.group, "group", 1), (self.image, "image", 2))
        lets: list[Statement] = [
            records.Let(name, Id("global", axis)) for one, name, axis in ids if one == Name(name)
        ]
        for array in arrays:
            start = self._start(array)
            if start != Number(0):
                lets.append(records.Let(f"{self.arrays[array].name}_at", start))
        return lets

    def _start(self, array: str) -> Expr:
        """Where the numbers of this image, group and item begin in an array."""
        seen = self.seen
        match array:
            case "image":
                channels = self.group * (seen.channels * seen.input.channel)
                return self.image * prod(self.problem.input_shape[1:]) + channels
            case "output":
                filters = self.group * (seen.filters * seen.output.channel)
                return self.image * prod(self.problem.output_shape[1:]) + filters
            case "kernel":
                return self.group * self.nest.packed
            case "bias":
                return self.group * seen.filters
        _, groups, count = self.shape
        item = (self.image * groups + self.group) * count + Name("part")
        return item * self.arrays[array].shape[-1]

    def _read(self, array: str, address: Expr, lanes: int = 1) -> Expr:
        if array == "bias" and not self.bias:
            return Splat(ZERO, lanes)
        return Read(self.arrays[array].name, self._base(array) + address, lanes)

    def _write(self, array: str, address: Expr, value: Expr) -> Statement:
        return records.Store(self.arrays[array].name, self._base(array) + address, value)

    def _register(self, reg: Reg) -> Name | Element:
        lanes = self.lanes if self.symbols[reg.name].kind == "vector" else 1
        if not reg.place:
            return Name(reg.name, True, lanes)
        return Element(reg.name, tuple(map(self._affine, reg.place)), True, lanes)

    def _end(self, node: For) -> Expr:
        """Where a loop ended: the first of its steps that is not below its end."""
        low = self._affine(node.low)
        steps = (self._least(node.high) - low + (node.step - 1)) // node.step
        if isinstance(steps, Number):
            return low + max(0, int(steps.value)) * node.step
        return low + FunctionCall("max", (steps, Number(0))) * node.step

    def _is_inside(self, inside: Inside, run: int) -> Expr:
        place = self._affine(inside.position + run * inside.step)
        return (place >= 0) & (place < inside.extent)

    def _source(self, position: Expr, axis: int) -> tuple[Expr, Expr]:
        """Which input a position of a padded axis is, and whether it is any."""
        seen, size = self.seen, self.seen.size[axis]
        if seen.padding_mode == "zeros":
            return position, (position >= 0) & (position < size)
        end = (seen.output_size[axis] - 1) * seen.stride[axis] - seen.before[axis]
        end += (seen.kernel[axis] - 1) * seen.dilation[axis] + 1
        below, above = {
            "reflect": (0 - position, 2 * (size - 1) - position),
            "replicate": (Number(0), Number(size - 1)),
            "circular": (position + size, position - size),
        }[seen.padding_mode]
        index = Select(position < 0, below, Select(position < size, position, above))
        return index, position < max(end, size)

    def _in_sums(self, place: tuple[Expr, Expr, Expr]) -> Expr:
        return total([at * pitch for at, pitch in zip(place, self.nest.pitch)])
