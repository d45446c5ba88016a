"""Which chains are worth it on this machine: measured on scratch data, before the first result.

Strips change the time of a result and no bit of it. How much of what lies between two layers a
cache keeps follows from more than its size, so a prediction is only sure where a gain is large.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from winogen.conv import memory
from winogen.graph import measured, runtime
from winogen.graph.chains import Chain
from winogen.graph.planning import Planned
from winogen.graph.steps import Packed, Steps
from winogen.tasks.duel import duel
from winogen.tasks.limit import limit
from winogen.tasks.turns import clock_of
from winogen.toolchain.machine import may_measure

# Seconds for the measuring of a chain, and for that of all chains of a segment, about.
_CHAIN, _SEGMENT = 0.02, 1.0
_ROUNDS = 8  # that a chain is measured for, about: a long one is not measured for longer
_REMEMBERED = 4096

_known: dict[str, bool] = {}


def tried(planned: Planned, packed: Packed) -> Planned:
    """Return the plan with all chains that are faster than their steps one after the other.

    Chains that take too long to be measured are taken where the prediction is certain, and so are
    all where nothing may be measured.
    """
    if not planned.possible or not may_measure():
        return planned
    keys = [_key(planned, chain) for chain in planned.possible]
    if not _known.keys() >= set(keys):
        _measure(planned, packed, keys)
    return planned.with_chains(
        chain for key, chain in zip(keys, planned.possible) if _known.get(key, chain.is_certain)
    )


def _measure(planned: Planned, packed: Packed, keys: Sequence[str]) -> None:
    """Measure the chains of a plan, as many as its seconds allow, unless they were before."""
    name, watch = measured.key_of("chains", keys), measured.watch()
    earlier = measured.recalled(name)
    if len(_known) >= _REMEMBERED:
        _known.clear()
    if earlier is not None:
        _known.update(earlier["faster"])
        return
    trial: _Trial | None = None
    left = min(_SEGMENT, limit().left())
    for key, chain in zip(keys, planned.possible):
        seconds = sum(planned.choices[number].seconds for number in chain.numbers)
        if key not in _known and 2 * _ROUNDS * seconds < left:
            trial = trial or _Trial(planned, packed)
            begin = time.perf_counter()
            _known[key] = trial.is_faster(chain)
            left -= time.perf_counter() - begin
    found = {key: _known[key] for key in keys if key in _known}
    if limit().allows():  # else others would take chains for measured that were left out
        measured.keep(name, {"faster": found}, watch.signs())


def _key(planned: Planned, chain: Chain) -> str:
    """What two chains have in common that take the same time."""
    settings = planned.settings
    choices = [planned.choices[number] for number in chain.numbers]
    return measured.digest(
        (settings.layout, settings.dtype, settings.threads, settings.machine),
        (settings.target.name, sorted(settings.target.extensions)),
        [choice.ways[0].candidate.choice if choice.ways else None for choice in choices],
        planned.problems[chain.first : chain.first + chain.steps],
        [planned.steps[number].shape for number in chain.numbers],
        chain.strips.jobs,
    )


class _Trial:
    """A segment with all chains beside the same without any."""

    def __init__(self, planned: Planned, packed: Packed):
        library = runtime.library(planned.settings.target, planned.settings.dtype)
        self.run, self.threads = library.lib.winogen_run_segment, planned.settings.threads
        self.both = [
            Steps(planned.with_chains(chains), library, packed, threads=self.threads)
            for chains in (planned.possible, ())
        ]
        dtype = np.dtype(planned.settings.dtype)
        # Ones: zeros would be too easy, and tiny numbers slow.
        self._arrays = [
            np.ones(prod(shape), dtype)
            for (kind, _), shape in sorted(planned.buffers.items())
            if kind != "arena"
        ]
        size = max(steps.scratch_bytes for steps in self.both)
        scratch = memory.aligned(size, "scratch memory")
        scratch[: size // dtype.itemsize * dtype.itemsize].view(dtype).fill(1)
        self._kept = scratch
        addresses = (array.ctypes.data for array in (*self._arrays, scratch))
        self.slots = library.ffi.new("int64_t[]", (0, *addresses))

    def is_faster(self, chain: Chain) -> bool:
        """Whether the chain takes less time than its steps one after the other."""
        ours, theirs = (partial(self._call, *self._rows(steps, chain)) for steps in self.both)
        clock = clock_of(self.threads)
        times = duel(ours, theirs, clock, seconds=(_CHAIN,), lost=lambda times: False)
        return times.ours < times.theirs

    def _rows(self, steps: Steps, chain: Chain) -> tuple[Any, int]:
        """The steps of a chain in a table, and how many."""
        places = [i for i, row in enumerate(steps.rows) if row.number in chain.numbers]
        return steps.table + places[0], len(places)

    def _call(self, table: Any, count: int) -> None:
        self.run(table, count, self.slots, self.threads)
