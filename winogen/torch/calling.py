"""How a model is called: the tensors in its arguments, and whether another call is alike."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

_PLAIN = (Tensor, nn.Parameter)
SIGNATURE = "winogen_signature"  # attribute of a module that says itself what it is called with


@dataclass(frozen=True)
class TensorKind:
    """What a tensor among the arguments of a call must be like."""

    dtype: torch.dtype
    rank: int
    plain: bool  # on the CPU, strided, of no subclass

    @classmethod
    def of(cls, tensor: Tensor) -> TensorKind:
        """Return the kind of a tensor."""
        plain = type(tensor) in _PLAIN and tensor.is_cpu and tensor.layout is torch.strided
        return cls(tensor.dtype, tensor.dim(), plain)


class CallStructure:
    """How containers are nested; files and copies hold a container of numbers of that structure."""

    def __init__(self, spec: Any):
        self.spec = spec

    @classmethod
    def of(cls, value: Any) -> tuple[list[Any], CallStructure]:
        """Return the leaves of nested containers, and how these are nested."""
        leaves, spec = pytree.tree_flatten(value)
        return leaves, cls(spec)

    def filled(self, leaves: Sequence[Any]) -> Any:
        """Return containers that hold these leaves."""
        return pytree.tree_unflatten(list(leaves), self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallStructure) and bool(self.spec == other.spec)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {"nested": self.filled(range(self.spec.num_leaves))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.spec = pytree.tree_flatten(state["nested"])[1]

    def __deepcopy__(self, memo: dict) -> CallStructure:
        return self


class Calls:
    """Calls that are like an example: the same structure, types and ranks, and the same constants.

    The leaves of a call are what its arguments hold, in torch's order of nested containers.
    """

    def __init__(self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]):
        hooked = model._forward_pre_hooks or model._forward_hooks
        # A hook may look at how an argument was given.
        self.signature = vars(model).get(SIGNATURE) or (None if hooked else _signature(model))
        try:
            self.example = self._normal(tuple(args), dict(kwargs))
        except TypeError:  # arguments that the model does not have, as it will say itself
            self.signature, self.example = None, (tuple(args), dict(kwargs))
        leaves, self.structure = CallStructure.of(self.example)
        self.leaves = [TensorKind.of(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        # A tensor that is given twice is one tensor; `order` has its number for every place.
        self.tensors, self.order = _distinct([leaves[i] for i in self.places])
        self.single = len(leaves) == 1 and self.places == [0] and len(self.example[0]) == 1

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the example, positional and by name, with other tensors.

        What else they hold is copied, since a model may change it, too.
        """
        leaves = self.filled(tensors)
        for place in set(range(len(leaves))).difference(self.places):
            with suppress(Exception):  # what cannot be copied is given as it is
                leaves[place] = copy.deepcopy(leaves[place])
        args, kwargs = self.structure.filled(leaves)
        return tuple(args), kwargs

    def filled(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the leaves of the example with other tensors."""
        leaves = list(self.leaves)
        for place, number in zip(self.places, self.order):
            leaves[place] = tensors[number]
        return leaves

    def tensors_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor] | None:
        """Return the tensors of a call, or None where the call is not like the example."""
        if self.single and len(args) == 1 and not kwargs and type(args[0]) in _PLAIN:
            leaves: list[Any] | None = [args[0]]
        else:
            leaves = self.leaves_of(args, kwargs)
        if leaves is None or not all(self._is_like(leaves[place], place) for place in self.places):
            return None
        tensors, order = _distinct([leaves[place] for place in self.places])
        return tensors if order == self.order else None

    def leaves_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        """Return the leaves of a call, whatever stands for tensors in it; None if it is unlike."""
        try:
            leaves, structure = CallStructure.of(self._normal(args, kwargs))
        except TypeError:  # arguments that the model does not have
            return None
        if structure != self.structure:
            return None
        others = (at for at in range(len(leaves)) if at not in self.places)
        return leaves if all(_equal(leaves[at], self.leaves[at]) for at in others) else None

    def _is_like(self, leaf: Any, place: int) -> bool:
        kind = self.leaves[place]
        return isinstance(leaf, Tensor) and TensorKind.of(leaf) == kind and kind.plain

    def _normal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The same call with its defaults, and by name only what has to be."""
        if self.signature is None:
            return args, kwargs
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def __getstate__(self) -> dict[str, Any]:
        """The example's tensors stay behind."""
        return {**vars(self), "example": (), "tensors": []}


def _distinct(tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[int]]:
    """Return every tensor once, and for each that was given its number among these."""
    numbers: dict[int, int] = {}
    order = [numbers.setdefault(id(tensor), len(numbers)) for tensor in tensors]
    return [tensors[order.index(number)] for number in range(len(numbers))], order


def _signature(model: nn.Module) -> inspect.Signature | None:
    try:
        return inspect.signature(model.forward)
    except (TypeError, ValueError):
        return None


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other)
    except Exception:  # arrays, and whatever else cannot be compared as a whole
        return False


def clones(tensors: Sequence[Any]) -> list[Any]:
    """Return tensors that a model may change."""
    return [tensor.detach().clone() for tensor in tensors]
