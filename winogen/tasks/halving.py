"""Successive halving: look at many briefly, at the better ones longer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

Question = TypeVar("Question")
Candidate = TypeVar("Candidate")

# Candidates, the best first, and how many go on -> the same, beginning with the survivors.
Choose = Callable[[list, int], list]


def answer(questions: Generator[Question, Any, Any], reply: Callable[[Question], Any]) -> Any:
    """Answer all questions of a generator; return what it returns in the end."""
    try:
        question = next(questions)
        while True:
            question = questions.send(reply(question))
    except StopIteration as end:
        return end.value


def halving(
    candidates: Sequence[Candidate],
    *,
    effort: int = 1,
    shrink: int = 2,
    last: int = 1,
    choose: Choose | None = None,
) -> Generator[tuple[list[Candidate], int], Sequence[float], list[Candidate]]:
    """Ask for the costs of (candidates, effort); return the ``last`` ones in the end, best first.

    Each round keeps one of ``shrink`` candidates, and asks for ``shrink`` times the effort. Equal
    costs are ordered by the candidates' texts. ``choose`` may order the survivors otherwise.

    >>> def cost(question):
    ...     print(*question)
    ...     return [abs(candidate - 3) for candidate in question[0]]
    >>> answer(halving([1, 2, 4, 8]), cost)
    [1, 2, 4, 8] 1
    [2, 4] 2
    [2] 4
    [2]
    """
    left = list(candidates)
    while True:
        costs = yield left, effort
        order = sorted(range(len(left)), key=lambda k: (costs[k], str(left[k])))
        ordered = [left[k] for k in order]
        keep = max(last, len(left) // shrink)
        if choose is not None:
            ordered = choose(ordered, keep)
        if len(left) <= last:
            return ordered
        left = ordered[:keep]
        effort *= shrink
