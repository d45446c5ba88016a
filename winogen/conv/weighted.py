"""What layers with weights of their own have in common: they are bound, copied and pickled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import MutableMapping
from typing import Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from winogen.conv import arguments
from winogen.records import ARRAY_TYPES
from winogen.toolchain.fork import Lock

SHAPES_KEPT = 256  # input shapes for which one layer remembers what runs

T = TypeVar("T")
Same = TypeVar("Same", bound="WeightedFloats")


def kept(table: dict[Any, T], key: Any, entry: T) -> T:
    """Enter what belongs to a shape, and return it; the oldest of 256 goes first.

    Threads may do so at the same time.
    """
    if len(table) >= SHAPES_KEPT:
        oldest, *_ = list(table)  # at once, whoever enters another meanwhile
        table.pop(oldest, None)
    table[key] = entry
    return entry


class Weighted:
    """A layer that packs its weights once, for all shapes of inputs."""

    _STATE: ClassVar[tuple[str, ...]]  # fields that say what it computes

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles carry the weights; C pointers are made again where they arrive."""
        return {name: getattr(self, name) for name in self._STATE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._bound: dict[Any, Any] = {}  # by shapes: what runs, and what is packed for it
        # By what packs alike: packed weights, as long as something that is bound needs them.
        self._packed: MutableMapping[Any, np.ndarray] = WeakValueDictionary()
        self._lock = Lock()  # weights are packed once even if several threads call at once

    def _keep(self, key: Any, entry: T) -> T:
        """Remember what is bound, under the lock."""
        return kept(self._bound, key, entry)


class WeightedFloats(Weighted, ABC):
    """The same of floats, for inputs of several types."""

    _dtype: np.dtype  # of the inputs

    def _forget(self) -> None:
        super()._forget()
        self._twins: dict[np.dtype, Any] = {}

    @abstractmethod
    def _retyped(self, dtype: str) -> dict[str, Any]:
        """The fields that are others for inputs of a type."""

    def _for(self: Same, dtype: np.dtype) -> Same:
        """The same with inputs of another type: raises InvalidType unless it goes with weights."""
        twin: Same | None = self if dtype == self._dtype else self._twins.get(dtype)
        if twin is None:
            fields = self._retyped(arguments.layer_dtype(dtype, self._dtype))
            twin = self.__class__.__new__(self.__class__)
            twin.__setstate__(self.__getstate__() | {"_dtype": dtype} | fields)
            self._twins[dtype] = twin
        return twin

    def _named(self: Same, dtype: str | None) -> Same:
        """The same with inputs of the type of this name; None: as it is."""
        if dtype is None:
            return self
        return self._for(arguments.dtype_named(arguments.choice("dtype", dtype, ARRAY_TYPES)))
