"""The engine that replaces parts of other people's models: draft, measure in turns, prove, report.

A framework is an `Adapter`. What comes first and what next, what a limit of seconds leaves out,
which draft is kept and what later processes know of it stands here, once for all frameworks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import astuple
from typing import Any, Generic

from winogen.graph import ceilings, promise
from winogen.graph.adapter import Adapter, Draft, DraftRequest, M, TimedPart
from winogen.graph.ceilings import Errors, accurate
from winogen.graph.later import waiting
from winogen.graph.measured import Memory, digest
from winogen.graph.promise import OutputPromise
from winogen.graph.spending import Spending
from winogen.progress import counting, working
from winogen.tasks.duel import Times
from winogen.tasks.limit import exhausted, limit
from winogen.testing import is_every_layer

# Why the framework computes a layer, or all of a model.
LATE = "no time was left to compile its kernel"
WHOLE = "{} is faster in the whole model"
INACCURATE = "the error at its output would be above output_tolerance"
PREDICTED = "nothing was measured, and the gain that is predicted is too small to rely on"
# Where no time is left to measure the whole, layers must be predicted to be so many times as fast.
_RELIABLE = 1.2
# The ceiling of errors where no time is left to see the error at the output.
_CAREFUL = 1


class _Refuted(Exception):
    """The fastest draft is not what the model computes, and others are to be made."""


class Decider(Generic[M]):
    """Drafts of one model; what was measured or refused for one holds for the next."""

    def __init__(
        self,
        adapter: Adapter[M],
        memory: Memory,
        numbers: str,
        facts: Mapping[str, str] | None = None,
    ):
        """``numbers``: a digest of these; ``facts``: by what to make a draft again, if known."""
        self.adapter, self.memory, self._numbers = adapter, memory, numbers
        self._facts = facts or (memory.known.facts if memory.known else {})
        # What an earlier process has shown of the same net with the same numbers.
        self._is_known = bool(numbers) and self._facts.get("numbers") == numbers
        self._refused: dict[str, str] = {}
        if self._is_known:
            self._refused = json.loads(self._facts["refused"])
        self._wrong: dict[bool, Draft[M]] = {}  # those that must not be used, uncut or not
        self._layers: dict[str, Times] = {}
        self._gain = 0.0  # of the best whole so far

    def best(self) -> Draft[M]:
        """Return the fastest draft that computes what the model does; it alone is compared."""
        self._reserve(self.adapter.proof)
        while True:
            with suppress(_Refuted):
                return self._settled()

    def again(self) -> Draft[M] | None:
        """Return what an earlier process found of the same numbers; None if that is nothing.

        It is compared, and is nothing where it differs. Nothing is measured or compiled.
        """
        if self._is_known and self.memory.known:
            with exhausted(), suppress(_Refuted):
                draft = self._settled()
                return draft if draft.facts else None
        return None

    def described(self, draft: Draft[M]) -> Any:
        """Return what users get of a draft."""
        return self.adapter.describe(draft, self._layers)

    def _settled(self) -> Draft[M]:
        return self.memory.settled(
            self.draft,
            lambda draft: draft.has_lost and self._has_time(self.adapter.contest),
            lambda draft: draft.gain,
            self._proven_facts,
        )

    def _has_time(self, runs: float) -> bool:
        """Whether the limit leaves time for so many runs of the model."""
        return limit().seconds is None or limit().allows(runs * self.adapter.seconds)

    def _reserve(self, runs: float) -> None:
        """Keep some time for so many runs."""
        if limit().seconds is not None:
            limit().reserve(runs * self.adapter.seconds)

    def draft(self, uncut: bool) -> Draft[M]:
        """Return a draft that leaves layers to the framework where it is faster; ``uncut``: none.

        Where winogen's whole is no faster than the framework's, that is left alone.
        """
        if uncut in self._wrong:
            return self._wrong[uncut]
        draft, times = self._accurate(uncut), self.memory.times
        if not draft.left:
            self._leave_slower(draft)
        if self._is_known and not self._kept(draft).items() <= self._facts.items():
            self._is_known = False  # another one was proven
            raise _Refuted
        if is_every_layer() or draft.made.is_empty or draft.left:
            return draft
        key = digest("whole", draft.made.key)
        if key not in times:
            if not (self.adapter.needs_whole or self._has_time(self.adapter.contest)):
                if draft.made.gain < _RELIABLE:
                    draft.left, draft.errors = PREDICTED, None
                    draft.promise = draft.promise and draft.promise.of_framework()
                return draft
            # Within waiting, else the model would compute until kernels are there.
            with working("measuring the whole model"), waiting():
                whole = self.adapter.time(draft.made, None, self._gain)
            if whole is None:
                return draft
            times[key] = whole
        known = self.memory.known
        draft.day = known.day if known and key in known.times else ""
        draft.whole = times[key]
        self._gain = max(self._gain, draft.whole.gain)
        broken = draft.promise is not None and draft.promise.theirs > draft.promise.asked
        if draft.whole.is_slower and not broken:  # what is slower may keep more than it promised
            draft.left = WHOLE.format(self.adapter.name)
        return draft

    def _accurate(self, uncut: bool) -> Draft[M]:
        """Return a draft whose error at the output is small enough, if that of any is."""
        adapter = self.adapter
        if adapter.output_tolerance is not None:
            return self._promised(uncut, adapter.output_tolerance)

        def made(ceiling: int) -> Draft[M]:
            way = DraftRequest(uncut, ceiling, dict(self._refused))
            return Draft(adapter.replace(way), way)

        if self._is_known:
            draft, errors = made(int(self._facts["ceiling"])), json.loads(self._facts["errors"])
            draft.errors = Errors(*errors) if errors else None
            return draft
        if adapter.is_careful and not self._has_time(adapter.double):
            return made(_CAREFUL)
        self._reserve(adapter.double)
        tried: set[str] = set()
        largest = math.inf

        def under(ceiling: int) -> Draft[M] | None:
            nonlocal largest
            if largest <= (ceilings.CEILINGS[ceiling] or 0):  # no layer is above it
                return None
            # Where its kernels lacked, all that the first has cost would be in vain.
            with limit().granted() if ceiling else nullcontext():
                draft = made(ceiling)
            if draft.made.key in tried:
                return None
            tried.add(draft.made.key)
            self._see_errors(draft)
            largest = draft.made.largest
            return draft

        return accurate(under, lambda draft: draft.errors, adapter.is_careful)

    def _promised(self, uncut: bool, asked: float) -> Draft[M]:
        """Return the fastest draft that keeps what is promised of the error at the output."""
        adapter, tried = self.adapter, set[str]()

        def under(spending: Spending) -> Draft[M]:
            way = DraftRequest(uncut, 0, dict(self._refused), spending=spending)
            return Draft(adapter.replace(way), way)

        def made(budget: float) -> Draft[M] | None:
            # Where its kernels lacked, all that the first has cost would be in vain.
            with limit().granted() if tried else nullcontext():
                draft = under(adapter.spend(budget))
            is_new = draft.made.key not in tried
            tried.add(draft.made.key)
            return draft if is_new else None

        def seen(draft: Draft[M]) -> OutputPromise | None:
            self._see_errors(draft)
            return draft.promise

        if self._is_known:
            draft = under(Spending.read(self._facts["spending"]))
            draft.promise = OutputPromise.read(self._facts["promise"])
            errors = json.loads(self._facts["errors"])
            draft.errors = Errors(*errors) if errors else None
            return draft
        self._reserve(adapter.double)
        draft, holds = promise.kept(asked, made, seen, limit().allows)
        if not holds and draft.promise:
            promise.check_framework(draft.promise, adapter.name)
            draft.left = INACCURATE
            self._see_errors(draft)  # of what is returned
        return draft

    def _see_errors(self, draft: Draft[M]) -> None:
        with working("comparing with float64"):
            draft.errors = self.adapter.run_exactly(draft)
            if draft.way.spending:
                draft.promise = self.adapter.promise(draft)

    def _leave_slower(self, draft: Draft[M]) -> None:
        """Leave to the framework what it computes faster.

        Layers under another ceiling are not measured in vain, and leave time for their kernels.
        """
        kept = draft.way, draft.made, draft.errors, draft.promise
        while True:
            slower = self._slower(draft)
            if draft.way.uncut or not slower:
                break
            draft.way = draft.way._replace(slower=(*draft.way.slower, *slower))
            draft.made = self.adapter.replace(draft.way)
        if draft.way.slower and (draft.errors or draft.promise) and not self._is_known:
            self._see_errors(draft)
            if draft.promise and not draft.promise.holds:  # the framework's layers are worse
                draft.way, draft.made, draft.errors, draft.promise = kept

    def _slower(self, draft: Draft[M]) -> list[tuple[TimedPart, Times]]:
        """The parts that are slower than the framework's, all that come first measured.

        Those that the framework computes by now are among the parts of some adapters.
        """
        left = {part.name for part, _ in draft.way.slower}
        for parts in draft.made.stages():
            found = measure(
                parts, self.memory.times, lambda part: self.adapter.time(draft.made, part, 0.0)
            )
            self._layers |= {part.name: times for part, times in found if part.is_layer}
            lost = [(part, times) for part, times in found if times.is_lost]
            slower = [(part, times) for part, times in lost if part.name not in left]
            if slower or draft.way.uncut:
                return slower
        return []

    def _proven_facts(self, draft: Draft[M]) -> Mapping[str, str] | None:
        """Return by what to make a draft again. Raises _Refuted where it must not be used.

        Parts that do not compute what the model does stay the framework's in all drafts to come.
        """
        if draft.reason:
            return None
        if draft.left:
            if draft.whole and not self._is_known:
                self._see_errors(draft)
        else:
            fault = self.adapter.run(draft, self._is_known)
            if fault is not None:
                if self._is_known:
                    self._is_known = False
                elif fault.parts:
                    self._refused |= fault.parts
                else:
                    draft.reason, self._wrong[draft.way.uncut] = fault.why, draft
                raise _Refuted
        if self.memory.times and (draft.whole or draft.made.is_empty):
            draft.facts = self._kept(draft) | {
                "numbers": self._numbers,
                "errors": json.dumps(draft.errors and astuple(draft.errors)),
                "refused": json.dumps(self._refused),
            }
            if draft.promise:
                draft.facts = {**draft.facts, "promise": draft.promise.text()}
        return draft.facts

    def _kept(self, draft: Draft[M]) -> dict[str, str]:
        spending = draft.way.spending
        spent = {"spending": spending.text()} if spending else {}
        return {"ceiling": str(draft.way.ceiling), **spent, **self.adapter.keep(draft)}


def measure(
    parts: Sequence[TimedPart], times: dict[str, Times], time: Callable[[TimedPart], Times | None]
) -> list[tuple[TimedPart, Times]]:
    """Measure the parts whose ``times`` are not known, by key, as far as the limit allows.

    Returns all with a time. Those that are worth most come first, in this list, too.
    """
    worth: dict[str, float] = {}
    for part in parts:
        worth[part.key] = worth.get(part.key, 0.0) + part.worth
    ordered = sorted(parts, key=lambda part: worth[part.key], reverse=True)
    lacking: dict[str, TimedPart] = {}
    for part in ordered:
        if part.key not in times:
            lacking.setdefault(part.key, part)
    with counting("measuring layers") as step:
        for number, part in enumerate(lacking.values()):
            step(number, len(lacking), part.label or part.name)
            if not limit().allows():
                break
            with waiting():
                found = time(part)
            if found is not None:
                times[part.key] = found
    return [(part, times[part.key]) for part in ordered if part.key in times]
