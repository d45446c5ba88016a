"""Copies of a model: evaluated, without parametrizations, and put back as they were after a run."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.nn.utils.spectral_norm import SpectralNorm, remove_spectral_norm
from torch.nn.utils.weight_norm import WeightNorm, remove_weight_norm

# What nn.Module keeps for itself; all else in a module's dictionary is the state of its user.
TABLES = ("_parameters", "_buffers", "_modules")
_CONTAINERS = (list, dict, set)
_COMPUTING = (WeightNorm, SpectralNorm, prune.BasePruningMethod)  # hooks that set a weight


def evaluated(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` in evaluation mode, whose parameters need no gradients.

    Weights that a hook computes from others, as the older `weight_norm` does, are tensors with a
    history; torch copies none of these, so the copy gets their numbers.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    with torch.no_grad():  # else weights of scripted modules have a history
        return _frozen(copy.deepcopy(model, memo))


def bare(model: nn.Module) -> nn.Module:
    """Return a copy that shares tensors with ``model`` and computes no weights from others.

    Weights behind parametrizations, pruning masks and the older `weight_norm` and `spectral_norm`
    become what they are in evaluation mode.
    """
    # Baring a module writes into its tensors, so the copy has its own of these.
    computing = [module for module in model.modules() if _computes_weights(module)]
    tensors = {id(t) for module in computing for inner in module.modules() for t in _held(inner)}
    every = {id(t): t for module in model.modules() for t in _held(module)}
    with torch.no_grad():
        copied = copy.deepcopy(model, {key: t for key, t in every.items() if key not in tensors})
        for module in list(copied.modules()):
            _bare(module)
    return _frozen(copied)


def _frozen(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model.eval()


def _held(module: nn.Module) -> list[torch.Tensor]:
    tables = (module._parameters, module._buffers, vars(module))
    return [t for table in tables for t in table.values() if isinstance(t, torch.Tensor)]


def _computes_weights(module: nn.Module) -> bool:
    return parametrize.is_parametrized(module) or any(
        isinstance(hook, _COMPUTING) for hook in module._forward_pre_hooks.values()
    )


def _bare(module: nn.Module) -> None:
    if parametrize.is_parametrized(module):
        # torch's own function changes the type, which copies share with the model.
        names = list(module.parametrizations)
        weights = [nn.Parameter(getattr(module, name).detach().clone()) for name in names]
        del module._modules["parametrizations"]
        module.__class__ = type(module).__mro__[1]
        for name, weight in zip(names, weights):
            module.register_parameter(name, weight)
    for hook in list(module._forward_pre_hooks.values()):
        if isinstance(hook, WeightNorm):
            remove_weight_norm(module, hook.name)
        elif isinstance(hook, SpectralNorm):
            remove_spectral_norm(module, hook.name)
        elif isinstance(hook, prune.BasePruningMethod):
            prune.remove(module, hook._tensor_name)


class State:
    """What a run of a model may change: its buffers, and whatever else its modules hold."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.buffers = [(t, t.clone()) for t in _tensors(model, "_buffers")]
        self.parameters = [(t, t._version) for t in _tensors(model, "_parameters")]
        self.modules = [
            (name, module, fields := _fields(module), _contents(fields))
            for name, module in model.named_modules()
            if not isinstance(module, torch.jit.ScriptModule)  # which hold what they declare
        ]

    def changes(self) -> list[str]:
        """Return the names of what is no longer as it was."""
        names_of_changes: dict[str, None] = {}
        names = {id(t): name for name, t in self.model.named_buffers()}
        names |= {id(t): name for name, t in self.model.named_parameters()}
        changed = [t for t, numbers in self.buffers if not identical(t, numbers)]
        for tensor in (*changed, *self.rewritten()):
            names_of_changes[names.get(id(tensor), "a tensor")] = None
        for path, module, fields, contents in self.modules:
            now = _fields(module)
            held = _contents(now)
            for name in {**fields, **now}:
                same = name in fields and name in now and _same(fields[name], now[name])
                if not same or not _same(contents.get(name), held.get(name)):
                    names_of_changes[f"{path}.{name}" if path else name] = None
        return list(names_of_changes)

    def rewritten(self) -> list[torch.Tensor]:
        """Return the parameters whose numbers were written; nothing can put these back."""
        return [tensor for tensor, version in self.parameters if tensor._version != version]

    def restore(self) -> None:
        """Put everything back, but for the numbers of parameters."""
        for _, module, fields, contents in self.modules:
            now = _fields(module)
            for name in [name for name in now if name not in fields]:
                _drop(module, name)
            for name, value in fields.items():
                if name not in now or now[name] is not value:
                    _put(module, name, value)
                if name in contents:
                    value.clear()
                    value.extend(contents[name]) if isinstance(value, list) else value.update(
                        contents[name]
                    )
        with torch.no_grad():
            for tensor, numbers in self.buffers:
                if not identical(tensor, numbers):
                    tensor.copy_(numbers)


@contextmanager
def restored(model: nn.Module) -> Iterator[State]:
    """Leave the state of ``model`` and all generators of random numbers as they were before."""
    state = State(model)
    generators = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield state
    finally:
        random.setstate(generators[0])
        np.random.set_state(generators[1])
        state.restore()


def identical(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors have the same type, shape and numbers, or lack of them."""
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
        return False
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    return bool(torch.equal(one, other) or ((one == other) | (one.isnan() & other.isnan())).all())


def _tensors(model: nn.Module, table: str) -> list[torch.Tensor]:
    tensors = {
        id(t): t for m in model.modules() for t in getattr(m, table).values() if t is not None
    }
    return [t for t in tensors.values() if not t.is_inference()]


def _fields(module: nn.Module) -> dict[str, Any]:
    """All that a module refers to by name."""
    fields = {name: value for name, value in vars(module).items() if name not in TABLES}
    for table in TABLES:
        fields |= getattr(module, table)
    return fields


def _contents(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What containers among the fields hold."""
    return {n: copy.copy(value) for n, value in fields.items() if type(value) in _CONTAINERS}


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, _CONTAINERS) and type(one) is type(other) and len(one) == len(other):
        if isinstance(one, set):
            return bool(one == other)
        pairs = (
            [(one[key], other.get(key)) for key in one] if isinstance(one, dict)
            else zip(one, other)
        )  # fmt: skip
        return all(a is b or _same(a, b) for a, b in pairs)
    if type(one) is type(other) and isinstance(one, (int, float, complex, str, bytes, tuple)):
        with suppress(Exception):  # tuples may hold what cannot be compared
            return bool(one == other)
    return False


def _put(module: nn.Module, name: str, value: Any) -> None:
    for table in TABLES:
        if name in getattr(module, table):
            getattr(module, table)[name] = value
            return
    vars(module)[name] = value


def _drop(module: nn.Module, name: str) -> None:
    for table in (*(getattr(module, table) for table in TABLES), vars(module)):
        table.pop(name, None)
