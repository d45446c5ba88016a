"""What was measured of a net, kept in the cache folder for later processes that want the same.

Measuring takes seconds, and its answer is the same tomorrow: which draft of the net is the fastest.
It holds for one version of everything and for one machine. What others disturbed holds for a day.
WINOGEN_WISDOM=0 measures every time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from winogen.codegen.render import renderer_digest
from winogen.conv import wisdom
from winogen.errors import WinogenError
from winogen.tasks.duel import Times
from winogen.testing import is_every_layer
from winogen.toolchain import host_target, texts
from winogen.toolchain.disturbance import Watch
from winogen.toolchain.machine import current
from winogen.toolchain.machine_file import now


@dataclass(frozen=True)
class Measured:
    """The fastest draft of a net, and the times that say so."""

    uncut: bool  # as `winogen.tasks.duel.settled` calls it
    decision: str  # digest of how its layers run
    whole: Times
    rival: str = ""  # how the framework computes it
    layers: Mapping[str, Times] = field(default_factory=dict)  # by digest
    day: str = ""  # when that was
    signs: tuple[str, ...] = ()  # what speaks against it, in words


class Memory:
    """What is known of one net, and what is learned of it from now on.

    ``facts``: all that its times depend on, but for winogen, the compiler and the machine. Their
    texts are the same in every process.
    """

    def __init__(self, *facts: object) -> None:
        self._key = _key(facts)
        self._watch = Watch(False, _children)

    def recall(self) -> Measured | None:
        """Return what an earlier process has kept."""
        text = self._key and texts.read(self._key)
        if not text:
            return None
        with suppress(ValueError, KeyError, TypeError):
            known = Measured(**json.loads(text))
            layers = {name: _times(one) for name, one in known.layers.items()}
            if not known.signs or known.day == _today():
                whole, signs = _times(known.whole), tuple(known.signs)
                return replace(known, whole=whole, layers=layers, signs=signs)
        return None

    def keep(self, found: Measured) -> None:
        """Keep what was found since this object was made."""
        if self._key:
            found = replace(found, day=_today(), signs=self._watch.signs())
            texts.write(self._key, json.dumps(asdict(found)))


def digest(*facts: object) -> str:
    """Return a short name of what these texts say."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _key(facts: tuple[object, ...]) -> str | None:
    if wisdom.path() is None or is_every_layer():
        return None
    target = host_target()
    try:
        place = sorted(wisdom.place(target).items())
    except WinogenError:  # no compiler
        return None
    return f"net-{digest(place, renderer_digest(), current(), facts)}"


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
