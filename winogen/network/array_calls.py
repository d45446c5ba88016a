"""Loops over arrays as calls of `csrc/network/arrays.c.j2`, for arrays that have their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.constants import spelled, spelled_double
from winogen.graph.lower import Step
from winogen.graph.places import Place
from winogen.graph.planning import Planned
from winogen.network.calls import Call, Spot
from winogen.network.functions import EACH, REDUCTIONS, in_c
from winogen.network.loops import (
    Bilinear,
    Each,
    Loops,
    Move,
    Normalise,
    Operand,
    Product,
    Reduce,
    Resample,
    Run,
    Shape,
    Walk,
    merged,
    paired,
    values_of,
    walked,
)
from winogen.network.once import Once
from winogen.records import Strides

MOST_AXES = 10  # of loops in C: a walk may be cut once, so that two have runs of one length
_NUMBER = 4  # bytes


class Written(NamedTuple):
    """A function of C for one operator, as templates want it."""

    name: str
    c: str = ""
    operands: str = ""
    begin: str = ""
    add: str = ""
    end: str = ""


class Lying(NamedTuple):
    """Where an array begins, and how far it is from one number to the next along each axis."""

    at: Spot | str
    steps: tuple[int, ...]

    def behind(self, numbers: int) -> Spot | str:
        """Where the number behind so many begins."""
        if not numbers:
            return self.at
        if isinstance(self.at, str):
            return f"{self.at} + {numbers}"
        scale = _NUMBER if self.at.array is None else 1
        return replace(self.at, offset=self.at.offset + scale * numbers)


class ArrayCalls:
    """The calls of a network's loops, and the constants and functions that they need.

    ``at`` and ``weight`` say where a place and a constant are, in C.
    """

    def __init__(
        self,
        name: str,
        planned: Planned,
        at: Callable[[Place], str | Spot],
        weight: Callable[[str, Any], str],
    ):
        self.name, self.planned, self._at, self.weight = name, planned, at, weight
        self.functions: set[str] = set()
        self.structs, self.tables = Once(), Once()

    def calls(self, label: str, step: Step) -> Iterator[Call]:
        """Yield the calls of a step."""
        loops: Loops = step.op.loops
        places = dict(zip(values_of(loops), (step.input, *step.others)))
        operands = {id(one): self._lying(one, places, step.label) for one in loops.operands}
        shape = self.planned.rooms[step.output.buffer]
        steps = _steps(loops.shape, "", shape, self.planned.settings.layout)
        call = _Call(self, label, operands, Lying(self._at(step.output), steps))
        yield from call.of(loops, step)

    def _lying(self, one: Operand, places: Mapping[str, Place], label: str) -> Lying:
        if one.constant is not None:
            name = self.weight(f"a constant of {label}", one.constant)
            steps = np.array(one.constant.strides, int) // one.constant.itemsize
            return Lying(name, tuple(map(int, steps)))
        place = places[one.value]
        room = self.planned.rooms[place.buffer]
        steps_there = _steps(one.shape, one.form, room, self.planned.settings.layout)
        return Lying(self._at(place), steps_there)

    # ---- what templates know ---------------------------------------------------------------------

    def told(self) -> Mapping[str, Any]:
        """Return what templates know of arrays."""
        each = [
            Written(in_c(name), EACH[name].c, EACH[name].operands)
            for name in sorted(self.functions & EACH.keys())
        ]
        reductions = [
            Written(in_c(name), "", "", *REDUCTIONS[name])
            for name in sorted(self.functions & REDUCTIONS.keys())
        ]
        return {
            "has_arrays": bool(self.functions),
            "most_axes": MOST_AXES,
            "array_functions": self.functions,
            "array_each": each,
            "array_limited": any("limited" in one.c for one in each),
            "array_reductions": reductions,
            "array_loops": bool(self.functions - {"move", "fill"}),
            "tables": self.tables.listed(),
            "array_structs": self.structs.listed(),
        }

    def struct(self, kind: str, fields: Sequence[str]) -> str:
        """Return the address of a constant struct; equal ones are there once."""
        return "&" + self.structs.named(f"{self.name}_{kind}", fields, kind)

    def table(self, numbers: Any) -> str:
        """Return the name of a constant array of integers or floats."""
        array = np.asarray(numbers)
        numbers = array.ravel().tolist()
        if array.dtype.kind in "iu":
            return self.tables.named("int32_t", map(str, numbers), "places")
        return self.tables.named("float", map(spelled, numbers), "shares")


class _Call:
    """One step that is written: where its arrays are."""

    def __init__(
        self, parent: ArrayCalls, label: str, operands: Mapping[int, Lying], output: Lying
    ):
        self.parent, self.label, self.operands, self.output = parent, label, operands, output

    def of(self, loops: Loops, step: Step) -> Iterator[Call]:
        if isinstance(loops, Each):
            yield self._each(loops)
        elif isinstance(loops, Move):
            yield from self._moved(loops)
        elif isinstance(loops, Reduce):
            yield self._reduced(loops)
        elif isinstance(loops, Normalise):
            yield self._normalised(loops)
        elif isinstance(loops, Product):
            yield self._multiplied(loops)
        elif isinstance(loops, Bilinear):
            yield from self._interpolated(loops)
        else:
            yield from self._resampled(loops)

    def _call(self, function: str, *arguments: str | Spot) -> Call:
        self.parent.functions.add(function)
        return Call(self.label, f"{self.parent.name}_{in_c(function)}", arguments)

    def _loops(self, runs: Sequence[Run], names: str, join: bool = True) -> str:
        """A struct of loops; ``names`` of the arrays whose steps they have."""
        if join:
            runs = merged(runs)
        fields = [f".axes = {len(runs)}", f".count = {_listed(run.turns for run in runs)}"]
        for place, name in enumerate(names):
            steps = [run.steps[place] for run in runs]
            if any(steps):
                fields.append(f".{name} = {_listed(steps)}")
        return self.parent.struct("loops", fields)

    def _lying(self, one: Operand) -> Lying:
        return self.operands[id(one)]

    def _broadcast(self, one: Operand, shape: Shape) -> tuple[int, ...]:
        """The steps of an operand along the axes of a shape that it is broadcast to."""
        steps = self._lying(one).steps
        kept = [step if count > 1 else 0 for count, step in zip(one.shape, steps)]
        return (*[0] * (len(shape) - len(kept)), *kept)

    def _each(self, loops: Each) -> Call:
        names = EACH[loops.function].operands
        steps = [self._broadcast(one, loops.shape) for one in loops.operands]
        columns = zip(loops.shape, zip(self.output.steps, *steps)) if loops.shape else ()
        runs = [Run(count, tuple(some)) for count, some in columns]
        runs = _fastest_last(runs or [Run(1, (0,) * (1 + len(steps)))])
        pointers = [self._lying(one).at for one in loops.operands]
        return self._call(loops.function, self._loops(runs, f"y{names}"), *pointers, self.output.at)

    def _fill(self, value: float, shape: Shape) -> Iterator[Call]:
        """The output, which lies in one piece, or run by run."""
        runs = merged(
            _fastest_last([Run(n, (s,)) for n, s in zip(shape, self.output.steps)])
            or [Run(1, (0,))]
        )
        *outer, last = runs
        if not outer and last.steps in ((1,), (0,)):
            number = spelled(float(np.float32(value)))
            yield self._call("fill", number, str(last.turns), self.output.at)
            return
        weight = self.parent.weight("what is filled in", np.array([value], np.float32))
        walk = [Walk(run.turns, 0) for run in runs]
        there = [Walk(run.turns, run.steps[0]) for run in runs]
        yield self._walk(walk, there, weight, self.output.at)

    def _moved(self, loops: Move) -> Iterator[Call]:
        if loops.fill is not None:
            yield from self._fill(loops.fill, loops.shape)
        for piece in loops.pieces:
            here = self._lying(piece.operand)
            first, origin = walked(piece.origin, here.steps)
            start, target = walked(piece.target, self.output.steps)
            origin, target = paired(origin, target)
            yield self._walk(origin, target, here.behind(first), self.output.behind(start))

    def _walk(
        self, origin: Sequence[Walk], target: Sequence[Walk], x: Spot | str, y: Spot | str
    ) -> Call:
        structs = []
        for walk in (origin, target):
            fields = [f".axes = {len(walk)}", f".count = {_listed(one.turns for one in walk)}"]
            fields.append(f".step = {_listed(one.step for one in walk)}")
            tables = [
                "NULL" if one.table is None else self.parent.table(np.array(one.table))
                for one in walk
            ]
            if any(one.table is not None for one in walk):
                fields.append(f".table = {_listed(tables)}")
            structs.append(self.parent.struct("walk", fields))
        return self._call("move", *structs, x, y)

    def _reduced(self, loops: Reduce) -> Call:
        here, shape = self._lying(loops.operand), loops.operand.shape
        keeps = len(loops.shape) == len(shape)
        outputs = iter(self.output.steps)
        kept, over = list[Run](), list[Run]()
        for axis, (count, step) in enumerate(zip(shape, here.steps)):
            if axis in loops.axes:
                over.append(Run(count, (step,)))
                if keeps:
                    next(outputs)
            else:
                kept.append(Run(count, (next(outputs), step)))
        return self._call(
            loops.function,
            self._loops(kept or [Run(1, (0, 0))], "ya"),
            self._loops(_fastest_last(over or [Run(1, (0,))]), "a"),
            here.at,
            self.output.at,
        )

    def _normalised(self, loops: Normalise) -> Call:
        here = self._lying(loops.operand)
        more = [None if one is None else self._lying(one) for one in (loops.scale, loops.shift)]
        kept, over = list[Run](), list[Run]()
        for number, one in enumerate(loops.view):
            steps = [self.output.steps[one.axis] * one.step, here.steps[one.axis] * one.step]
            along = loops.parameters[number] if loops.parameters else None
            for array in more:
                use = array is not None and along is not None
                steps.append(array.steps[along.axis] * along.step if use and array and along else 0)
            run = Run(one.turns, tuple(steps))
            (over if number in loops.axes else kept).append(run)
        structs = [
            self._loops(kept or [Run(1, (0, 0, 0, 0))], "yabc"),
            self._loops(_fastest_last(over), "yabc"),
        ]
        if loops.function != "moments":
            return self._call(loops.function, *structs, here.at, self.output.at)
        pointers = ["NULL" if one is None else one.at for one in more]
        epsilon = spelled_double(loops.epsilon)
        return self._call("moments", *structs, epsilon, here.at, *pointers, self.output.at)

    def _multiplied(self, loops: Product) -> Call:
        a, b = loops.operands
        (*_, rows, columns) = loops.shape
        outer = loops.shape[:-2]
        steps_a, steps_b = (self._broadcast(one, (*outer, 0, 0)) for one in loops.operands)
        batch = [
            Run(count, steps)
            for count, steps in zip(outer, zip(self.output.steps, steps_a, steps_b))
        ]
        row_a, sum_a = self._matrix(a, loops.across[0])
        sum_b, column_b = self._matrix(b, loops.across[1])
        row_y, column_y = self.output.steps[-2:]
        inner = a.shape[-2] if loops.across[0] else a.shape[-1]
        sizes = [
            Run(rows, (row_y, row_a, 0)),
            Run(columns, (column_y, 0, column_b)),
            Run(inner, (0, sum_a, sum_b)),
        ]
        return self._call(
            "product",
            self._loops(batch or [Run(1, (0, 0, 0))], "yab"),
            self._loops(sizes, "yab", join=False),
            self._lying(a).at,
            self._lying(b).at,
            self.output.at,
        )

    def _matrix(self, one: Operand, across: bool) -> tuple[int, int]:
        rows, columns = self._lying(one).steps[-2:]
        return (columns, rows) if across else (rows, columns)

    def _resampled(self, loops: Resample) -> Iterator[Call]:
        if loops.fill is not None:
            yield from self._fill(loops.fill, loops.shape)
        here, there = self._lying(loops.operand), self.output
        outputs, taps = loops.places.shape
        begin = sum(start * step for start, step in zip(loops.begin, there.steps))
        others = [
            Run(count, (there.steps[axis], here.steps[axis]))
            for axis, count in enumerate(loops.operand.shape)
            if axis != loops.axis
        ]
        others = merged(_fastest_last(others or [Run(1, (0, 0))]))
        one = Run(outputs, (there.steps[loops.axis], here.steps[loops.axis]))
        along = one.steps[0] < others[-1].steps[0] or others[-1].turns == 1
        runs = [*others, one] if along else [one, *others]
        yield self._call(
            "resample_run" if along else "resample",
            self._loops(runs, "ya", join=False),
            str(taps),
            self.parent.table(loops.places),
            self.parent.table(np.asarray(loops.weights, np.float32)),
            here.at,
            there.behind(begin),
        )

    def _interpolated(self, loops: Bilinear) -> Iterator[Call]:
        if loops.fill is not None:
            yield from self._fill(loops.fill, loops.shape)
        here, there = self._lying(loops.operand), self.output
        steps = list(zip(there.steps, here.steps))
        planes = [Run(count, step) for count, step in zip(loops.shape[:2], steps)]
        counts = [len(one.places) for one in (loops.rows, loops.columns)]
        sizes = [Run(count, step) for count, step in zip(counts, steps[2:])]
        tables = [self.parent.table(table) for one in (loops.rows, loops.columns) for table in one]
        begin = sum(start * step for start, step in zip(loops.begin, there.steps))
        yield self._call(
            "bilinear",
            self._loops(planes, "ya"),
            self._loops(sizes, "ya", join=False),
            *tables,
            here.at,
            there.behind(begin),
        )


def _listed(values: Any) -> str:
    return f"{{ {', '.join(map(str, values))} }}"


def _fastest_last(runs: Sequence[Run]) -> list[Run]:
    """The loops in an order in which the last has the smallest step where it can."""
    return sorted(runs, key=lambda run: -abs(run.steps[0]) if run.turns > 1 else -(1 << 62))


def _steps(shape: Shape, form: str, room: Shape, layout: str) -> tuple[int, ...]:
    """From one number to the next along each axis of a value, whose buffer is a map of this size.

    Arrays of other than 4 and 5 axes lie as `winogen.network.reading.map_of` says.
    """
    _, channels, *deep, height, width = room
    one = Strides.of(layout, channels, height, width, *deep)
    if form == "last":
        return one.image, one.row, one.pixel, one.channel
    rank = len(shape)
    if rank <= 1:
        return (one.channel,)[:rank]
    if rank == 2:
        return one.image, one.channel
    if rank == 3:
        return one.image, one.channel, one.pixel
    if rank == 4:
        return one.image, one.channel, one.row, one.pixel
    if rank == 5:
        return one.image, one.channel, one.plane, one.row, one.pixel
    rest = [one.pixel * prod(shape[axis + 1 :]) for axis in range(3, rank)]
    return (one.image, one.channel, one.row, *rest)
