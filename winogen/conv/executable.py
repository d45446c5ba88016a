"""What every way to run a problem has in common: weights are packed once, and arrays computed."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import MutableMapping, Sequence
from math import prod
from typing import Any

import numpy as np

from winogen.conv.arguments import dtype_named
from winogen.conv.plan import Plan
from winogen.conv.solver import Offer
from winogen.records import Precision

# Input, bias, slopes, add, add_after, output; None where there is none.
Arrays = tuple["np.ndarray | None", ...]
Kept = MutableMapping[Any, np.ndarray]


class Executable(ABC):
    """A problem bound to what computes it: pack the weights once, then run any number of times.

    Immutable after construction, so that threads may share it.
    """

    workspace_bytes: int

    def __init__(self, offer: Offer, calls: Sequence[Any] = ()):
        self.offer = offer
        self.problem = problem = offer.problem
        self.target = offer.target
        self.output_shape = problem.output_shape
        self.output_bytes = prod(problem.output_shape) * problem.layer.itemsize
        self.dtype = dtype_named(problem.layer.dtype)
        self.calls = list(calls)  # of compiled kernels
        self.kernels = list(dict.fromkeys(call.kernel for call in calls))

    @abstractmethod
    def pack(self, weight: np.ndarray, kept: Kept | None = None) -> tuple[Any, ...]:
        """Return the packed weights, for `run`.

        ``weight`` is C-contiguous. ``kept`` remembers what is packed, by all that it depends on,
        which the input's sizes are not: so that all problems of one layer can share it.
        """

    def run(
        self,
        input: np.ndarray,
        packed: tuple[Any, ...],
        bias: np.ndarray | None,
        output: np.ndarray,
        slopes: np.ndarray | None = None,
        add: np.ndarray | None = None,
        add_after: np.ndarray | None = None,
    ) -> None:
        """Compute ``output`` from arrays that fit the problem, seams included; nothing is checked.

        ``slopes``: one for each filter, where the activation is "prelu".
        """
        if output.size:
            self.compute(packed, (input, bias, slopes, add, add_after, output))

    @abstractmethod
    def compute(self, packed: tuple[Any, ...], arrays: Arrays) -> None:
        """Compute as `run` does; the output is not empty."""

    def run_at(self, packed: tuple[Any, ...], *addresses: int) -> None:
        """Compute as `run` does, with C-contiguous arrays given by the addresses of their memory.

        ``addresses``: input, bias, slopes, add, add_after, output; 0 where there is none. The batch
        is not empty. The caller keeps the memory alive.
        """
        problem, outputs = self.problem, self.problem.output_shape
        filters = (problem.layer.filters,)
        computed = dtype_named(Precision.of(problem.layer.dtype).transforms)
        maps = [(outputs, self.dtype)] * 3
        kinds = ((problem.input_shape, self.dtype), *[(filters, computed)] * 2, *maps)
        places = zip(addresses, kinds)
        self.compute(packed, tuple(_at(at, *kind) if at else None for at, kind in places))

    def plan(self) -> Plan:
        """Return the description of what `run` does."""
        return Plan.of(self.offer)


def _at(address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The array whose memory is there."""
    raw = memoryview((ctypes.c_ubyte * (prod(shape) * dtype.itemsize)).from_address(address))
    return np.frombuffer(raw, np.uint8).view(dtype).reshape(shape)
