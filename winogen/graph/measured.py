"""What was measured of a net, kept in the cache folder for later processes that want the same.

Measuring takes seconds, and its answer is the same tomorrow: which draft of the net is the fastest,
and which of its chains. It holds for one version of everything and for one machine. What others
disturbed holds for a day. WINOGEN_WISDOM=0 measures every time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from winogen.codegen.render import renderer_digest
from winogen.conv import wisdom
from winogen.conv.stock import stock_of
from winogen.errors import CacheUnavailable
from winogen.progress import note
from winogen.tasks.duel import Times, settled
from winogen.tasks.limit import limit
from winogen.testing import is_every_layer
from winogen.toolchain import host_target, texts
from winogen.toolchain.cache import KernelStore, cache_root
from winogen.toolchain.disturbance import Watch
from winogen.toolchain.machine import current
from winogen.toolchain.machine_file import now

T = TypeVar("T")

_FORMAT = 3  # of what is kept


@dataclass(frozen=True)
class Measured:
    """Which draft of a net is the fastest, and all times that say so."""

    uncut: bool  # as `winogen.tasks.duel.settled` calls it
    times: Mapping[str, Times]  # of layers and wholes, by digest
    facts: Mapping[str, str]  # by what else to make it again
    day: str = ""  # when that was
    signs: tuple[str, ...] = ()  # what speaks against it, in words


class Memory:
    """What is known of one net, ``known``, and all ``times`` by digest, those of this process too.

    ``facts``: all that the times depend on, but for winogen, the compiler and the machine. Their
    texts are the same in every process. Without any nothing is known or kept.
    """

    def __init__(self, *facts: object) -> None:
        self._key = key_of("net", *facts) if facts else None
        self._watch = watch()
        self.known = _known(self._key)
        self.times: dict[str, Times] = dict(self.known.times) if self.known else {}

    def settled(
        self,
        draft: Callable[[bool], T],
        has_lost: Callable[[T], bool],
        gain: Callable[[T], float],
        facts: Callable[[T], Mapping[str, str] | None] = lambda best: {},
    ) -> T:
        """Return what `winogen.tasks.duel.settled` does: of a known net, no draft but that.

        A draft of no gain, 0, must not be used. ``facts`` says by what else to make the best again;
        None: nothing is kept, as another net of the same kind may do better. It may check the best,
        and raise: nothing is kept then, either.
        """
        if self.known:
            again = draft(self.known.uncut)
            if gain(again):
                by, signs = facts(again), self.known.signs
                more = self.times.keys() != self.known.times.keys()
                if by is not None and (more or by != self.known.facts):  # of other numbers
                    if more:
                        signs = signs or self._watch.signs()
                    self._keep(self.known.uncut, by, signs, self.known.day)
                return again
        made: dict[bool, T] = {}
        best = settled(lambda uncut: made.setdefault(uncut, draft(uncut)), has_lost, gain)
        by = facts(best)
        if self._key and self.times and by is not None:
            self._keep(best is made.get(True), by, self._watch.signs())
        return best

    def _keep(
        self, uncut: bool, facts: Mapping[str, str], signs: Sequence[str], day: str = ""
    ) -> None:
        keep(self._key, {"uncut": uncut, "times": self.times, "facts": facts}, signs, day)


def digest(*facts: object) -> str:
    """Return a short name of what these texts say."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def key_of(kind: str, *facts: object) -> str | None:
    """Return the name of what was measured under these ``facts``; None where nothing is kept.

    It holds for one version of everything and for one machine.
    """
    if wisdom.path() is None or is_every_layer():
        return None
    target = host_target()
    place = sorted(wisdom.place(target).items())
    # What is at hand only loses against what a compiler would have allowed.
    place.append(("compiles", str(stock_of(target) is None)))
    return f"{kind}-{digest(_FORMAT, place, renderer_digest(), current(), facts)}"


def watch() -> Watch:
    """Return what looks on whether others disturb what is measured from now on."""
    return Watch(False, _children)


def keep(key: str | None, found: Mapping[str, Any], signs: Sequence[str], day: str = "") -> None:
    """Keep what was measured, by default today; ``signs`` speak against it."""
    if key:
        texts.write(key, json.dumps({**found, "day": day or _today(), "signs": signs}))


@contextmanager
def alone(*facts: object) -> Iterator[bool]:
    """Let one process after the other measure what these ``facts`` say; yield whether this waited.

    Whoever waited finds what another kept, and the time counts for nothing. Nobody waits where
    nothing is kept, or where the cache folder has no locks: then both measure.
    """
    key, begun = key_of("alone", *facts), 0.0

    def wait() -> None:
        nonlocal begun
        begun = time.monotonic()
        note("another process measures the same model: waiting for it")

    with ExitStack() as stack:
        if key:
            with suppress(CacheUnavailable, OSError):
                store = KernelStore(cache_root())
                stack.enter_context(store.lock(key.partition("-")[2], wait))
        if begun:
            limit().extend(time.monotonic() - begun)
        yield bool(begun)


def recalled(key: str | None) -> dict[str, Any] | None:
    """Return what `keep` was given, unless that was disturbed on another day."""
    text = key and texts.read(key)
    if text:
        with suppress(ValueError, KeyError, TypeError):
            found = dict(json.loads(text))
            if not found["signs"] or found["day"] == _today():
                return found
    return None


def _known(key: str | None) -> Measured | None:
    with suppress(ValueError, TypeError, AttributeError):  # TypeError also of what is not there
        known = Measured(**(recalled(key) or {}))
        times = {name: _times(one) for name, one in known.times.items()}
        facts = {name: str(fact) for name, fact in known.facts.items()}
        return replace(known, times=times, facts=facts, signs=tuple(known.signs))
    return None


def _times(pair: tuple[float, float]) -> Times:
    times = Times(*map(float, pair))
    if not all(0 < seconds < math.inf for seconds in times):
        raise ValueError("times")
    return times


def _today() -> str:
    return now().date().isoformat()


def _children() -> float:
    """CPU seconds of compilers that have ended."""
    times = os.times()
    return times.children_user + times.children_system
