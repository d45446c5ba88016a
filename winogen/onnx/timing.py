"""Seconds of models in onnxruntime: of whole sessions in turns, and of their nodes."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from winogen.errors import InvalidValue
from winogen.onnx.loading import new_session, require
from winogen.tasks import turns

_ROUNDS, _SECONDS = (5, 25), 3.0
_RUNS = 5  # of a session that tells the time of its nodes; the fastest counts


def in_turns(sessions: Sequence[Any], feed: Mapping[str, Any]) -> list[float]:
    """Return the median seconds of each session; they run one after the other, again and again.

    So whatever else the machine does meanwhile slows all of them down.
    """
    calls = [partial(session.run, None, feed) for session in sessions]
    for call in calls:
        call()
    taken = turns.in_turns(calls, time.perf_counter, _ROUNDS, _SECONDS)
    return [median(seconds) for seconds in taken]


def of_nodes(
    proto: Any, feed: Mapping[str, Any], threads: int, library: str = ""
) -> dict[str, float]:
    """Return the seconds of every node, by its name or that of what it makes.

    Raises InvalidValue for a model that onnxruntime does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        profile = str(Path(folder) / "profile")
        session = started(proto, threads=threads, library=library, profile=profile)
        try:
            for _ in range(_RUNS):
                session.run(None, feed)
        except Exception as problem:  # onnxruntime's own kinds of errors
            raise InvalidValue(f"model: onnxruntime does not run it ({problem})") from problem
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    fastest: dict[str, float] = {}
    for event in events:
        name = event["name"].removesuffix("_kernel_time")
        if event.get("cat") == "Node" and name != event["name"]:
            seconds = 1e-6 * event["dur"]
            fastest[name] = min(seconds, fastest.get(name, seconds))
    return {name.removesuffix("_nchwc").removeprefix("fused "): s for name, s in fastest.items()}


def started(proto: Any, **options: Any) -> Any:
    """Return a session of onnxruntime; raises InvalidValue for a model that it refuses."""
    require("onnxruntime")
    try:
        return new_session(proto, **options)
    except Exception as problem:  # onnxruntime's own kinds of errors
        raise InvalidValue(f"model: onnxruntime does not run it ({problem})") from problem
