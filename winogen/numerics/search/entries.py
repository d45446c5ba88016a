"""What a line in a file of results may say: a task, and a result that such a task can have."""

from __future__ import annotations

import math
from typing import Any

from winogen.errors import InvalidValue


def check_entry(entry: Any) -> None:
    """Raise InvalidValue unless ``entry`` is ``{"task", "result"}`` as a search writes it."""
    if not isinstance(entry, dict) or entry.keys() != {"task", "result"}:
        raise InvalidValue('allowed: an object with "task" and "result"')
    task, result = entry["task"], entry["result"]
    kind = task.get("task") if isinstance(task, dict) else None
    if not isinstance(kind, str) or kind not in _CHECKS:
        raise InvalidValue(f"task: allowed: one of {', '.join(_CHECKS)}")
    check, allowed = _CHECKS[kind]
    if not check(result):
        raise InvalidValue(f"result: of the task {kind!r}; allowed: {allowed}")


def _is_error(value: Any) -> bool:
    """Infinity is one: narrow formats overflow."""
    return type(value) in (int, float) and not math.isnan(value) and value >= 0


def _is_candidate(value: Any) -> bool:
    sizes = isinstance(value, dict) and [value.get(name) for name in ("m", "r")]
    if not sizes or not all(type(size) is int and size >= 1 for size in sizes):
        return False
    lists = {name: value[name] for name in value if name not in ("m", "r")}
    texts = (text for texts in lists.values() if isinstance(texts, list) for text in texts)
    return (
        lists.keys() <= {"points", "moduli", "input", "output"}
        and ("points" in lists) != ("moduli" in lists)
        and ("input" in lists) == ("output" in lists)
        and all(isinstance(texts, list) and texts for texts in lists.values())
        and all(isinstance(text, str) for text in texts)
    )


def _is_proposal(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and _is_error(value[0])
        and _is_candidate(value[1])
    )


def _is_count(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"instructions", "candidate"}:
        return False
    counts = value["instructions"]
    return (
        isinstance(counts, dict)
        and counts.keys() == {"input", "filter", "output"}
        and all(type(count) is int and count >= 0 for count in counts.values())
        and _is_candidate(value["candidate"])
    )


_CHECKS = {  # kind of a task -> (whether its result can be one, what it is)
    "propose": (
        lambda result: isinstance(result, list) and all(map(_is_proposal, result)),
        "a list of [estimated error, candidate]",
    ),
    "measure": (
        lambda result: (
            isinstance(result, dict)
            and result.keys() == {"mean", "half_width"}
            and all(map(_is_error, result.values()))
        ),
        '{"mean", "half_width"}, two numbers >= 0',
    ),
    "scale": (_is_candidate, "a candidate"),
    "count": (_is_count, '{"instructions", "candidate"}'),
}
