"""An event-driven simulation: fetching, hold buffers, multiplying, and what waits for what.

Inputs and filters have a hold buffer each for two blocks, one that is multiplied and one that
comes. Whoever fetches a block waits until there is room, and is notified when a block is done with;
the multipliers wait for both blocks of a step, and are notified when one is filled. Inputs pass the
two multiplications of their transform on the way, each of which has registers for one more tile.
A layer that is fused takes operands as soon as all of a block of its outputs are there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from winogen.conv.arguments import whole
from winogen.errors import InvalidValue
from winogen.hardware.schedules import steps

if TYPE_CHECKING:
    from winogen.hardware.engine import Engine
    from winogen.hardware.mapping import Mapping
    from winogen.hardware.others import OtherMapping

MOST_STEPS = 2_000_000  # some seconds
_SLOTS = 2  # of a hold buffer


@dataclass(frozen=True)
class PipelineStage:
    """What a tile goes through before or behind the multipliers, and for how many cycles."""

    name: str
    cycles: int


def stages_before(engine: Engine, transformed: bool) -> tuple[PipelineStage, ...]:
    """Return what inputs go through once they are fetched: the transform, columns and rows."""
    names = ("input transform, columns", "input transform, rows") if transformed else ()
    return tuple(PipelineStage(name, engine.T) for name in names)


def stages_behind(engine: Engine, transformed: bool) -> tuple[PipelineStage, ...]:
    """Return what sums go through: ReLU last, behind the normalization, for it is not linear."""
    names = ("output transform, columns", "output transform, rows") if transformed else ()
    return (
        PipelineStage("scale and offset of sums", 1),
        *(PipelineStage(name, engine.T) for name in names),
        PipelineStage("scale and offset of outputs", 1),
        PipelineStage("normalization", 1),
        PipelineStage("ReLU", 1),
    )


def fill_and_drain(mapping: Mapping) -> tuple[int, int]:
    """Return the cycles before the first row is multiplied, and behind the last one.

    >>> from winogen.hardware import Engine
    >>> fill_and_drain(Engine(8, 4, 8, 1).mapping((1, 8, 8, 8), (8, 8, 3, 3)))
    (12, 12)
    """
    engine, transformed = mapping.engine, mapping.transformed
    before, behind = (
        sum(stage.cycles for stage in stages(engine, transformed))
        for stages in (stages_before, stages_behind)
    )
    return mapping.rows + before, behind


@dataclass(frozen=True)
class Trace:
    """What a simulation counted, in cycles: fill + busy + stalls + drain = cycles."""

    cycles: int
    busy: int  # events in which a row was multiplied
    fill: int  # before the first row
    stalls: int  # between rows
    drain: int  # behind the last row
    events: Counter[str]  # by kind; "input" and "weights" are blocks that were fetched, "operands"
    # cycles of what is fused


def simulate(
    mapping: Mapping,
    schedule: str = "OS",
    *,
    input_cycles: int | None = None,
    weight_cycles: int | None = None,
    fused: OtherMapping | None = None,
) -> Trace:
    """Return how long a layer takes, and why.

    ``input_cycles`` and ``weight_cycles``: of fetching a block of tiles, and one of filters
    (default: those of multiplying it, which is what the ports of an engine are for). ``fused``: a
    layer without weights behind this one. Raises InvalidType and InvalidValue, also for layers of
    more than two million steps.

    >>> from winogen.hardware import Engine
    >>> simulate(Engine(8, 4, 8, 1).mapping((1, 8, 8, 8), (8, 8, 3, 3))).busy
    36
    """
    if mapping.steps > MOST_STEPS:
        raise InvalidValue(
            f"mapping: got a layer of {mapping.steps} steps; allowed: at most {MOST_STEPS}"
        )
    given = {"input_cycles": input_cycles, "weight_cycles": weight_cycles}
    x, w = (
        mapping.rows if value is None else whole(name, value, 1, "a positive int")
        for name, value in given.items()
    )
    if fused is not None and fused.before != mapping:
        raise InvalidValue("fused: got what is not fused with this layer; allowed: before=mapping")
    return _Simulation(mapping, schedule, x, w, fused).run()


@dataclass
class _Buffer:
    """A hold buffer: the runs of steps that see the same block, and how many have come and gone."""

    name: str
    runs: Sequence[int]  # the last step of each run
    cycles: int  # of fetching a block
    latency: int  # of what it then goes through
    room: int  # blocks here and on the way
    asked: int = 0
    filled: int = 0
    released: int = 0
    fetching: bool = field(default=False)


class _Simulation:
    def __init__(
        self,
        mapping: Mapping,
        schedule: str,
        input_cycles: int,
        weight_cycles: int,
        fused: OtherMapping | None,
    ):
        order = list(steps(mapping, schedule))
        engine, transformed = mapping.engine, mapping.transformed
        before = stages_before(engine, transformed)
        self.rows, self.steps = mapping.rows, len(order)
        self.inputs = _Buffer(
            "input",
            _ends([step.input for step in order]),
            input_cycles,
            sum(stage.cycles for stage in before),
            _SLOTS + len(before),
        )
        self.weights = _Buffer(
            "weights", _ends([step.weights for step in order]), weight_cycles, 0, _SLOTS
        )
        self.last = {step.sums: number for number, step in enumerate(order)}
        self.sums = [step.sums for step in order]
        self.behind = sum(stage.cycles for stage in stages_behind(engine, transformed))
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.order, self.now = count(), 0
        self.step, self.row, self.multiplying = 0, 0, False
        self.first_row = self.last_row = 0
        self.events: Counter[str] = Counter()
        self.needed = [] if fused is None else fused.needed()
        self.operands = 0 if fused is None else fused.operands
        self.done: Counter[tuple[int, ...]] = Counter()  # blocks of tiles of a block of filters
        self.taken: Counter[tuple[int, ...]] = Counter()  # blocks of what is fused
        self.free = 0  # when the places behind the multipliers are

    def run(self) -> Trace:
        for buffer in (self.inputs, self.weights):
            self._fetch(buffer)
        while self.heap:
            self.now, _, event = heapq.heappop(self.heap)
            event()
        busy, drain = self.events["row"], self.now - self.last_row
        span = self.last_row - self.first_row
        return Trace(self.now, busy, self.first_row, span - busy, drain, self.events)

    def _after(self, cycles: int, event: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (self.now + cycles, next(self.order), event))

    def _fetch(self, buffer: _Buffer) -> None:
        """Begin to fetch the next block, if there is one and room for it."""
        room = buffer.asked - buffer.released < buffer.room
        if buffer.fetching or buffer.asked == len(buffer.runs) or not room:
            return
        buffer.fetching = True
        buffer.asked += 1
        self.events[buffer.name] += 1

        def sent() -> None:
            buffer.fetching = False
            self._fetch(buffer)

        def filled() -> None:
            buffer.filled += 1
            self._start()

        self._after(buffer.cycles, sent)
        self._after(buffer.cycles + buffer.latency, filled)

    def _start(self) -> None:
        """Begin with a step, if its blocks are there and the multipliers are free."""
        ready = all(one.filled > one.released for one in (self.inputs, self.weights))
        if self.multiplying or self.step == self.steps or not ready:
            return
        if not self.events["row"]:
            self.first_row = self.now
        self.multiplying, self.row = True, 0
        self._after(1, self._multiplied)

    def _multiplied(self) -> None:
        """A row of the tiles in all lanes is done."""
        self.events["row"] += 1
        self.row, self.last_row = self.row + 1, self.now
        if self.row < self.rows:
            self._after(1, self._multiplied)
            return
        self.multiplying = False
        for buffer in (self.inputs, self.weights):
            if buffer.runs[buffer.released] == self.step:
                buffer.released += 1
                self._fetch(buffer)  # the notification
        if self.last[self.sums[self.step]] == self.step:
            self._after(self.behind, partial(self._finished, self.sums[self.step][:2]))
        self.step += 1
        self._start()

    def _finished(self, filters: tuple[int, ...]) -> None:
        """Outputs leave, or are taken by what is fused as soon as it has all that it needs."""
        self.events["outputs"] += 1
        self.done[filters] += 1
        for needed in self.needed[self.taken[filters] :]:
            if needed > self.done[filters]:
                break
            self.taken[filters] += 1
            self.events["operands"] += self.operands
            self.free = max(self.free, self.now) + self.operands
            self._after(self.free - self.now, lambda: None)


def _ends(blocks: Sequence[tuple[int, ...]]) -> list[int]:
    """The last step of each run of equal blocks."""
    return [
        number
        for number, block in enumerate(blocks)
        if number + 1 == len(blocks) or blocks[number + 1] != block
    ]
