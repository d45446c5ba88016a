"""A whole model by winogen beside the best that torch makes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from winogen.tasks.duel import FEW, Times, duel, duel_of_wholes
from winogen.tasks.turns import clock_of
from winogen.torch.calling import Calls, clones

Model = Callable[..., Any]
# Seconds, about, in which two ways of torch's are compared.
_RIVALS = (0.3,)


class Rivals:
    """The ways in which torch computes one model on the inputs of the example.

    ``best`` is the fastest of them, ``name`` says which it is: first the ``original``.
    """

    def __init__(self, original: Model, calls: Calls, threads: int | None):
        self.best, self.name = original, "as it is"
        self._calls, self._threads = calls, threads or torch.get_num_threads()
        self._seconds = 0.0  # of the best, once it was challenged

    def challenge(self, name: str, other: Model) -> None:
        """Make ``other`` the best if it is faster."""
        times = self._duel(other, partial(duel, seconds=_RIVALS, rounds=FEW, clear=0.0))
        if times.ours < times.theirs:
            self.best, self.name = other, name
        self._seconds = min(times)

    def measured(self, made: Model, earlier: float = 0.0) -> Times:
        """Return the times of winogen's and of the best of torch's.

        ``earlier``: the gain of another draft of winogen's, if there is one.
        """
        return self._duel(made, partial(duel_of_wholes, earlier=earlier, known=self._seconds))

    def _duel(self, ours: Model, measure: Callable[..., Times]) -> Times:
        args, kwargs = self._calls.arguments(clones(self._calls.tensors))
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            with torch.inference_mode():
                return measure(
                    lambda: ours(*args, **kwargs),
                    lambda: self.best(*args, **kwargs),
                    clock_of(self._threads),
                )
        finally:
            torch.set_num_threads(before)
