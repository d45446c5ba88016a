"""Chains: steps that run strip by strip, where a cache then holds what lies between them.

Results have the bits of whole pictures: strips end where tiles end, and every strip is computed by
the kernel of the whole step, which never looks further than a pixel's own window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from winogen.conv.cuts import Candidate, evaluate
from winogen.conv.problem import Problem
from winogen.graph.choose import Choice
from winogen.graph.lower import Step
from winogen.graph.places import Buffer, Place
from winogen.graph.settings import Settings
from winogen.graph.shapes import Shape
from winogen.graph.strips import Compute, Move, Rows, Strips, strips_of
from winogen.kernels import Work, named
from winogen.kernels.spec import KernelSpec
from winogen.records import Strides
from winogen.tasks.idle import give_way

# How often a number between two steps moves: its line is read to be written, and read again.
PASSAGES = 3
# Rows of the last output that a strip may have.
_HEIGHTS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
_LONGEST = 6  # steps of a chain
# Strips that are tried, so many times as high: a single row of outputs might want another kernel.
_TIMES = (1, 2, 4)


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps from ``first`` on that run strip by strip, one image after the other.

    ``works`` are the kernel calls of the jobs, None of what moves numbers. ``is_certain``: whether
    the predicted gain is more than the usual error of predictions.
    """

    first: int
    steps: int
    is_certain: bool
    images: int
    strips: Strips
    works: tuple[Work | None, ...]
    windows: Mapping[Buffer, int]  # rows that there is memory for

    @property
    def numbers(self) -> range:
        """The numbers of its steps."""
        return range(self.first, self.first + self.steps)

    def room(self, buffer: Buffer, shape: Shape) -> Shape:
        """Return the shape of the memory of a buffer: of its window, if it has one."""
        rows = self.windows.get(buffer)
        return shape if rows is None else (1, shape[1], rows, shape[3])


def chains_of(
    steps: Sequence[Step],
    problems: Sequence[Problem | None],
    choices: Sequence[Choice],
    buffers: Mapping[Buffer, Shape],
    settings: Settings,
) -> tuple[Chain, ...]:
    """Return the chains that are predicted to save most time, in order."""
    return tuple(_Search(steps, problems, choices, buffers, settings).chains())


class _Search:
    """The steps of a plan, among which chains are looked for."""

    def __init__(
        self,
        steps: Sequence[Step],
        problems: Sequence[Problem | None],
        choices: Sequence[Choice],
        buffers: Mapping[Buffer, Shape],
        settings: Settings,
    ):
        self.steps, self.problems, self.buffers = steps, problems, buffers
        self.choices = choices
        self.candidates = [choice.ways[0].candidate if choice.ways else None for choice in choices]
        self.settings, self.machine = settings, settings.machine
        self.rows = [self._rows(number) for number in range(len(steps))]
        self.touched = Counter(p.buffer for step in steps for p in (step.output, *step.reads))

    def chains(self) -> Iterator[Chain]:
        """Yield them in order."""
        start = 0
        for number in range(len(self.steps)):
            give_way()
            if number + 1 < len(self.steps) and self._linked(number):
                continue
            for begin, end, height, is_certain in self._best(start, number + 1):
                chains = (self._chain(begin, end, n * height, is_certain) for n in _TIMES)
                yield from islice((chain for chain in chains if chain is not None), 1)
            start = number + 1

    def _rows(self, number: int) -> Rows | None:
        """How rows of a step depend on each other; None where it cannot be part of a chain."""
        step, problem, candidate = (
            self.steps[number],
            self.problems[number],
            self.candidates[number],
        )
        outputs = self.buffers[step.output.buffer][2]
        if len(step.shape) > 4:
            return None  # rows of volumes depend on planes besides
        if step.op.rows is not None:
            reach, stride, above, grows = step.op.rows
            rows = Rows(reach, stride, above, step.shape[2], outputs, grows, grows)
            return rows if rows.all_read else None
        if problem is None or candidate is None or "weight" in step.arrays:
            return None
        axis, tile = problem.layer.axes[0], candidate.choice.tile
        padded = axis.before > 0 or axis.after > 0
        if len(candidate.cut) > 1 or (padded and problem.layer.padding_mode != "zeros"):
            return None
        # Tiles of dilated layers are of the rows of one phase.
        unit = tile[0] * axis.dilation if tile else 1
        rows = Rows(axis.reach, axis.stride, axis.before, step.shape[2], outputs, unit)
        return rows if rows.all_read else None

    def _linked(self, number: int) -> bool:
        """Whether all that a step writes is read by the next step, as its input, and only there."""
        place, following = self.steps[number].output, self.steps[number + 1]
        return (
            None not in self.rows[number : number + 2]
            and following.input == place
            and self.touched[place.buffer] == 2
            and place.buffer[0] == "arena"
            and (place.channel, place.channels) == (0, self.buffers[place.buffer][1])
        )

    # ---- which steps, and how high a strip is ----------------------------------------------------

    def _best(self, start: int, stop: int) -> list[tuple[int, int, int, bool]]:
        """The chains among linked steps that save most: begin, end, rows of a strip, certainty."""
        saved, taken = {start: 0.0}, {start: (start, 0)}
        for end in range(start + 1, stop + 1):
            saved[end], taken[end] = saved[end - 1], (end - 1, 0)
            for begin in range(max(start, end - _LONGEST), end - 1):
                gain, height = self._gain(begin, end)
                if saved[begin] + gain > saved[end]:
                    saved[end], taken[end] = saved[begin] + gain, (begin, height)
        found, end = [], stop
        while end > start:
            begin, height = taken[end]
            if height:
                seconds = sum(choice.seconds for choice in self.choices[begin:end])
                usual = self.machine.costs.residual * seconds * self.machine.clock_ghz * 1e9
                found.append((begin, end, height, saved[end] - saved[begin] > usual))
            end = begin
        return found[::-1]

    def _gain(self, begin: int, end: int) -> tuple[float, int]:
        """The cycles that strips save, and the rows of the best strip."""
        between = [self.buffers[step.output.buffer] for step in self.steps[begin : end - 1]]
        first, *readers = [rows for rows in self.rows[begin:end] if rows is not None]
        threads, itemsize = self.settings.threads, np.dtype(self.settings.dtype).itemsize
        batch, last = between[0][0], readers[-1].outputs
        of_row = [itemsize * shape[1] * shape[3] / threads for shape in between]
        whole = [batch * size * shape[2] for size, shape in zip(of_row, between)]
        before = sum(PASSAGES * size * self._per_byte(size) for size in whole)
        best = 0.0, 0
        for height in _HEIGHTS:
            # A single row of outputs takes no steps.
            if height == 1 < max(rows.stride for rows in (first, *readers)):
                continue
            if height >= last and (batch == 1 or height >= 2 * last):
                break
            window, kept = 0.0, 0.0
            step: float = height  # rows that a strip computes
            for size, reader in zip(reversed(of_row), reversed(readers)):
                step *= reader.stride / reader.grows
                again = max(0, reader.reach - reader.stride)
                kept += size * again
                window += size * min(step + again, reader.inputs)
            count = batch * -(-last // height)
            moved = PASSAGES * (sum(whole) + count * kept)
            cycles = moved * self._per_byte(window)
            cycles += count * (end - begin) * self.machine.costs.barrier
            best = max(best, (before - cycles, height))
        return best

    def _per_byte(self, size: float) -> float:
        """Cycles per byte of what is written and read again, after ``size`` bytes passed by.

        Of what is too large for a cache as much stays there as it holds.
        """
        machine = self.machine

        def missed(cache: float) -> float:
            return max(0.0, 1 - cache / size)

        near, far, memory = (
            1 / rate for rate in (machine.l2_rate, machine.l3_rate, machine.memory_rate)
        )
        beyond = missed(machine.l2_bytes) * (far - near)
        # The last cache is shared: what else passes by displaces some of it.
        return near + beyond + missed(machine.l3_bytes / machine.costs.displaced) * (memory - far)

    # ---- what is computed ------------------------------------------------------------------------

    def _chain(self, begin: int, end: int, height: int, is_certain: bool) -> Chain | None:
        """The chain of these steps; None where strips would need other kernels."""
        members = self.steps[begin:end]
        strips = strips_of([rows for rows in self.rows[begin:end] if rows is not None], height)
        windows = {step.output.buffer: count for step, count in zip(members, strips.windows)}
        images = members[0].shape[0]
        chain = Chain(begin, len(members), is_certain, images, strips, (), windows)
        known: dict[tuple, Work | None] = {}
        works: list[Work | None] = []
        for job in strips.jobs:
            problem = self.problems[begin + job.step]
            candidate = self.candidates[begin + job.step]
            if isinstance(job, Move) or problem is None or candidate is None:
                works.append(None)
                continue
            one = strip_problem(problem, job)
            if (job.step, one) not in known:
                work = self._work(problem, one, candidate)
                known[job.step, one] = work and self._placed(work, members[job.step], chain)
            work = known[job.step, one]
            if work is None:
                return None
            works.append(work)
        return replace(chain, works=tuple(works))

    def _work(self, whole: Problem, strip: Problem, candidate: Candidate) -> Work | None:
        """The kernel call of a strip; None where it would be one of another kernel."""
        (meant,) = candidate.works(whole)
        choice = replace(candidate.choice, cut=None, variant=meant.variant)
        (one,) = evaluate(strip, [choice], self.settings.target, self.machine, None)
        works = one.works(strip)
        variant = named(meant.variant)
        if len(works) > 1 or KernelSpec.of(works[0]) != KernelSpec.of(meant):
            return None
        # A low strip may leave out taps, whose sums are then added in another order.
        same = works[0].kernel == meant.kernel and variant.depth(works[0]) == variant.depth(meant)
        return works[0] if same else None

    def _placed(self, work: Work, step: Step, chain: Chain) -> Work:
        """The call with the strides of the arrays that it works on."""

        def strides(place: Place | None, none: Strides) -> Strides:
            if place is None:
                return none
            _, channels, height, width = chain.room(place.buffer, self.buffers[place.buffer])
            return Strides.of(work.layout, channels, height, width)

        return replace(
            work,
            input=strides(step.input, work.input),
            output=strides(step.output, work.output),
            add=strides(step.add, work.add),
            add_after=strides(step.add_after, work.add_after),
        )


def strip_problem(problem: Problem, job: Compute) -> Problem:
    """Return the problem of some rows of one image: padding only where the image ends."""
    height, width = problem.layer.axes
    count, inputs = job.end - job.begin, job.last - job.first
    if job.end == problem.output_size[0]:
        after = height.after
    else:
        after = max(0, (count - 1) * height.stride + height.reach - job.above - inputs)
    axis = replace(height, before=job.above, after=after)
    layer = replace(problem.layer, axes=(axis, width))
    planar, columns = layer.layout == "NCHW", problem.size[1]
    shape = (layer.channels, inputs, columns) if planar else (inputs, columns, layer.channels)
    one = layer.problem((1, *shape)).sewn(problem.seams)
    assert one.output_size == (count, problem.output_size[1])
    return one
