"""A segment planned for shapes: its steps, how each runs, and the memory between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from winogen.conv.problem import Problem
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.graph import maps
from winogen.graph.chains import PASSAGES, Chain, chains_of
from winogen.graph.choose import Choice, within
from winogen.graph.ir import Graph
from winogen.graph.lower import Step, lower
from winogen.graph.memory import Life, offsets
from winogen.graph.places import Buffer, Place
from winogen.graph.settings import Settings
from winogen.graph.shapes import Shape, shapes
from winogen.graph.step_ways import problem_of, ways_of, ways_of_bytes
from winogen.kernels.spec import KernelSpec
from winogen.records import Strides

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Planned:
    """Steps with their problems and choices, in which order they run, and where buffers lie."""

    settings: Settings
    steps: tuple[Step, ...]
    problems: tuple[Problem | None, ...]  # folded; None of steps that only move numbers
    choices: tuple[Choice, ...]
    buffers: dict[Buffer, Shape]
    outputs: tuple[Shape, ...]  # of the graph

    decided: tuple[Chain, ...] | None = None  # the chains, where somebody measured them

    @cached_property
    def possible(self) -> tuple[Chain, ...]:
        """The chains that are predicted to be worth it, however little."""
        if not self.settings.strips:
            return ()
        return chains_of(self.steps, self.problems, self.choices, self.buffers, self.settings)

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The steps that run strip by strip."""
        if self.decided is not None:
            return self.decided
        return tuple(chain for chain in self.possible if chain.is_certain)

    @cached_property
    def rooms(self) -> dict[Buffer, Shape]:
        """The shapes of the memory of all buffers, (N, C, H, W)."""
        rooms = dict(self.buffers)
        for chain in self.chains:
            rooms |= {buffer: chain.room(buffer, rooms[buffer]) for buffer in chain.windows}
        return rooms

    @cached_property
    def _layout(self) -> tuple[dict[Buffer, int], int]:
        return _arena(self.steps, self.rooms, self.chains, np.dtype(self.settings.dtype).itemsize)

    @property
    def arena(self) -> dict[Buffer, int]:
        """Where each buffer of the segment begins, in bytes."""
        return self._layout[0]

    @property
    def arena_bytes(self) -> int:
        """Bytes of all of these buffers."""
        return self._layout[1]

    @cached_property
    def specs(self) -> tuple[KernelSpec, ...]:
        """The kernels of all steps."""
        return tuple(spec for number in range(len(self.steps)) for spec in self.specs_of(number))

    def specs_of(self, number: int) -> tuple[KernelSpec, ...]:
        """Return the kernels of a step; none of one that only moves numbers."""
        problem, choice = self.problems[number], self.choices[number]
        if problem is None:
            return ()
        return tuple(map(KernelSpec.of, choice.ways[0].candidate.works(problem)))

    def problem(self, number: int) -> Problem:
        """Return the problem of a step that is a convolution as the graph has it, not folded."""
        return problem_of(self.steps[number], self.buffers, self.settings)

    def map_struct(self, library: Any, step: Step, part: maps.Part | None = None) -> Any:
        """Return the `winogen_map` of a step that is no convolution, and how many parts it has.

        ``part`` of it; None for all.
        """
        rooms = self.rooms
        return maps.struct(
            library,
            step.op,
            step.input.channels,
            self.settings.layout,
            rooms[step.input.buffer],
            None if step.add is None else rooms[step.add.buffer],
            rooms[step.output.buffer],
            part,
            step.planes,
        )

    def offset(self, place: Place, row: int = 0, image: int = 0) -> int:
        """Return where a place begins in its buffer, from a row of an image on, in numbers.

        A window has rows of one image.
        """
        if not (place.channel or row or image):
            return 0  # arrays that are no maps are there from their beginning
        batch, channels, *deep, height, width = self.rooms[place.buffer]
        steps = Strides.of(self.settings.layout, channels, height, width, *deep)
        return place.channel * steps.channel + row * steps.row + image % batch * steps.image

    def with_chains(self, chains: Iterable[Chain]) -> Planned:
        """Return the same plan with these chains and no other."""
        return replace(self, decided=tuple(chains))

    @property
    def seconds(self) -> float:
        """Predicted, of one call."""
        return sum(choice.seconds for choice in self.choices)

    @property
    def packed_bytes(self) -> int:
        """Of all filters as their kernels read them."""
        largest: dict[str, int] = {}
        for step, choice in zip(self.steps, self.choices):
            largest[step.key] = max(largest.get(step.key, 0), choice.packed_bytes)
        return sum(largest.values())


def plan(
    graph: Graph,
    input_shapes: Sequence[Shape],
    settings: Settings,
    memory_limit: int | None = None,
) -> Planned:
    """Return the plan of a segment for inputs of these shapes (N, C, H, W); compiles nothing.

    Where filters need more than ``memory_limit`` bytes, they take as little as they can, as with 0.
    Raises InvalidValue for shapes that do not fit, and for a tolerance below all errors.
    """
    parts = [(graph, input_shapes)]
    try:
        return plan_all(parts, settings, memory_limit)[0]
    except InvalidValue:
        if not memory_limit:
            raise
        return plan_all(parts, settings, 0)[0]


def plan_all(
    parts: Sequence[tuple[Graph, Sequence[Shape]]],
    settings: Settings,
    memory_limit: int | None = None,
) -> list[Planned]:
    """Return the plans of several segments whose packed filters share one limit, if there is one.

    With 0 they take as little as they can. Raises InvalidValue as `plan` does, and for too low a
    limit.

    A segment that is planned alone, with its bytes here as its limit, has the same plan: a filter
    becomes smaller in the same order, whatever others do.
    """
    return Outlines(parts, settings).plans(memory_limit)


def plan_steps(
    steps: Sequence[Step],
    buffers: Mapping[Buffer, Shape],
    outputs: Sequence[Shape],
    settings: Settings,
) -> Planned:
    """Return the plan of steps that were lowered before, each by its fastest way."""
    return _Outline(steps, buffers, outputs, settings).planned()


class Outlines:
    """Segments for shapes with the ways of their steps, to be planned under several limits."""

    def __init__(self, parts: Sequence[tuple[Graph, Sequence[Shape]]], settings: Settings):
        self.parts, self.settings = parts, settings
        self._all = [_Outline.of(graph, shapes, settings) for graph, shapes in parts]
        self._limited = [
            (outline, number)
            for outline in self._all
            for number, step in enumerate(outline.steps)
            if step.key in outline.own
        ]

    @property
    def layers(self) -> list[tuple[str, Problem, Settings]]:
        """The convolutions that have filters of their own: what they make, problems, folded, and
        the settings of their segments.
        """
        found = ((o.steps[i].key, o.problems[i], o.settings) for o, i in self._limited)
        return [(key, problem, settings) for key, problem, settings in found if problem]

    @property
    def least_packed_bytes(self) -> int:
        """Bytes of all packed filters, each by the way that needs least of them."""
        every = (outline.options[number] for outline, number in self._limited)
        return sum(min(way.packed_bytes for way in options) for options in every if options)

    def plans(self, memory_limit: int | None = None) -> list[Planned]:
        """Return what `plan_all` does."""
        if memory_limit == 0:
            memory_limit = self.least_packed_bytes
        keys = [(f"{id(o)} {o.steps[i].key}", o.options[i]) for o, i in self._limited]
        try:
            chosen = within(memory_limit, keys)
        except InvalidValue:  # perhaps because the familiar kernels have large filters
            if self.settings.familiar is None:
                raise
            return plan_all(self.parts, replace(self.settings, familiar=None), memory_limit)
        for (outline, number), choice in zip(self._limited, chosen):
            outline.choices[number] = choice
        return [outline.planned() for outline in self._all]


class _Outline:
    """A segment for shapes before its ways are chosen."""

    def __init__(
        self,
        steps: Sequence[Step],
        buffers: Mapping[Buffer, Shape],
        outputs: Sequence[Shape],
        settings: Settings,
    ):
        self.buffers, self.outputs = dict(buffers), tuple(outputs)
        nothing = any(0 in shape for shape in buffers.values())
        self.steps = () if nothing else tuple(steps)
        self.problems = [
            problem_of(step, buffers, settings).folded if step.op.is_convolution else None
            for step in self.steps
        ]
        filters = sum(step.op.weight_bytes for step in self.steps)
        self.settings = settings = replace(settings, machine=settings.machine.among(filters))
        before = {step.output.buffer: step.op.samples_before for step in self.steps}
        self.options = [
            ()
            if problem is None
            else ways_of(problem, settings.of(step.key), before.get(step.input.buffer, 0))
            for problem, step in zip(self.problems, self.steps)
        ]
        self.choices = [
            Choice(ways, 0.0 if ways else self._seconds(step))
            for ways, step in zip(self.options, self.steps)
        ]
        self.own: Collection[str] = ()  # keys of the steps that have filters of their own

    @classmethod
    def of(cls, graph: Graph, input_shapes: Sequence[Shape], settings: Settings) -> _Outline:
        """Return that of a graph."""
        values = shapes(graph, dict(zip(graph.inputs, input_shapes)))
        steps, buffers = lower(graph, values, np.dtype(settings.dtype))
        outline = cls(steps, buffers, [values[name] for name in graph.outputs], settings)
        convolutions = {node.output for node in graph.convolutions}
        outline.own = convolutions.intersection(
            step.key for step in outline.steps if step.op.is_convolution
        )
        return outline

    def _seconds(self, step: Step) -> float:
        """Seconds of a step that is no convolution of floats; about, where it moves numbers."""
        if step.op.quantized is not None:
            return ways_of_bytes(step.op.quantized, step.shape, self.settings)[0].seconds
        size = prod(step.shape) * np.dtype(self.settings.dtype).itemsize
        machine = self.settings.machine
        return PASSAGES * size / machine.memory_rate / (machine.clock_ghz * 1e9)

    def planned(self) -> Planned:
        return Planned(
            self.settings,
            self.steps,
            tuple(self.problems),
            tuple(self.choices),
            self.buffers,
            self.outputs,
        )


def computable(ways: Iterable[Callable[[], T]]) -> list[T]:
    """Return what these make, without those that the kernels at hand do not suffice for.

    Raises CompilerNotFound if they suffice for none.
    """
    made, refusal = [], None
    for way in ways:
        try:
            made.append(way())
        except CompilerNotFound as lack:
            refusal = lack
    if not made and refusal is not None:
        raise refusal
    return made


def faster_layout(parts: Sequence[tuple[Graph, Sequence[Shape]]], settings: Settings) -> Outlines:
    """Return graphs on inputs of these shapes in the layout that is predicted to be faster.

    Raises CompilerNotFound if the kernels at hand suffice in neither layout.
    """
    layouts = computable(
        partial(Outlines, parts, replace(settings, layout=layout)) for layout in ("NHWC", "NCHW")
    )
    return min(layouts, key=lambda outlines: sum(one.seconds for one in outlines.plans()))


def _arena(
    steps: Sequence[Step],
    rooms: Mapping[Buffer, Shape],
    chains: Sequence[Chain],
    itemsize: int,
) -> tuple[dict[Buffer, int], int]:
    lives = lives_of(steps, rooms, chains, itemsize)
    begins, total = offsets(list(lives.values()))
    return dict(zip(lives, begins)), total


def lives_of(
    steps: Sequence[Step],
    rooms: Mapping[Buffer, Shape],
    chains: Sequence[Chain],
    itemsize: int,
) -> dict[Buffer, Life]:
    """Return of each buffer of a segment its bytes, and the first and last step that touches it."""
    touched: dict[Buffer, list[int]] = {}
    # What a chain reads and writes is in use from its first strip to its last.
    spans = {
        number: (chain.numbers[0], chain.numbers[-1])
        for chain in chains
        for number in chain.numbers
    }
    for number, step in enumerate(steps):
        for place in (step.output, *step.reads):
            if place.buffer[0] == "arena":
                touched.setdefault(place.buffer, []).extend(spans.get(number, (number,)))
    return {
        name: Life(prod(rooms[name]) * itemsize, min(numbers), max(numbers))
        for name, numbers in touched.items()
    }
