"""Which modules, functions and methods of torch are activations, by the names in `ACTIVATIONS`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from winogen.graph import Activation
from winogen.records import ACTIVATIONS
from winogen.records.activation import FrameworkFunction
from winogen.records.activations import spelled
from winogen.torch.calls import Call, Translation, Untranslated

aten = torch.ops.aten

# What a target may be, first those with the fewest parameters: clip from 0 to 6 is "relu6".
Meanings = list[tuple[str, FrameworkFunction]]


def _activated(call: Call, x: Any, meanings: Meanings, values: Mapping[str, Any]) -> Translation:
    """Return the first activation that a function is with these arguments."""
    for name, function in meanings:
        entry = ACTIVATIONS[name]
        parameters = entry.taken(function, values)
        if parameters is None:
            continue
        x = call.map(x)
        if entry.per_filter:
            parameters = (_per_channel(call, x, parameters[0]),)
        elif not _are_numbers(parameters) or not entry.allows(*parameters):
            continue
        return Translation([Activation(spelled(name, parameters))], [x])
    raise Untranslated


def _are_numbers(parameters: tuple[Any, ...]) -> bool:
    return all(isinstance(one, (int, float)) and np.isfinite(one) for one in parameters)


def _per_channel(call: Call, x: Any, value: Any) -> np.ndarray:
    """The numbers of a weight, one for each channel of the map ``x``."""
    numbers = call.constant(value)
    if numbers is None:
        raise Untranslated
    flat = numbers.reshape(-1)
    return np.repeat(flat, call.channels(x)) if flat.size == 1 else flat


def _of_module(meanings: Meanings) -> Callable[[Call, Any], Translation]:
    """Return the maker of a module, whose attributes are the arguments."""
    names = {one.name for _, function in meanings for one in function.arguments}

    def maker(call: Call, module: Any) -> Translation:
        values = {name: getattr(module, name) for name in names}
        return _activated(call, call.node.args[0], meanings, values)

    return maker


def _of_function(meanings: Meanings) -> Callable[[Call], Translation]:
    """Return the maker of a function or method."""
    names = " ".join(one.name for one in meanings[0][1].arguments)

    def maker(call: Call) -> Translation:
        values = call.bind(f"input {names} inplace", inplace=False)
        if not isinstance(values["inplace"], bool):  # functions of C have other arguments there
            raise Untranslated
        return _activated(call, values["input"], meanings, values)

    return maker


def _of_operator(operator: Any, meanings: Meanings) -> Callable[[Call], Translation]:
    """Return the maker of an operator of aten. What no activation knows must be as by default."""
    arguments = operator._schema.arguments
    names = [one.name for one in arguments]
    arguments_taken = {one.name for _, function in meanings for one in function.arguments}
    fixed = {
        one.name: one.default_value for one in arguments[1:] if one.name not in arguments_taken
    }

    def maker(call: Call) -> Translation:
        values = call.bind(" ".join(names))
        if any(values.get(name, default) != default for name, default in fixed.items()):
            raise Untranslated
        return _activated(call, values[names[0]], meanings, values)

    return maker


def _known() -> Iterator[tuple[str, str, FrameworkFunction]]:
    """Names in torch, the activation's name, its function; those with fewer parameters first."""
    for entry in sorted(ACTIVATIONS.values(), key=lambda one: len(one.parameters)):
        for function in entry.torch:
            for name in function.names.split():
                yield name, entry.name, function
                yield f"{name}_", entry.name, function


def _tables() -> tuple[dict[Any, Any], dict[Any, Any], dict[str, Any]]:
    """Makers by modules, by functions and operators of aten, by the names of methods."""
    modules: dict[Any, Meanings] = defaultdict(list)
    functions: dict[Any, Meanings] = defaultdict(list)
    operators: dict[Any, Meanings] = defaultdict(list)
    methods: dict[str, Meanings] = defaultdict(list)
    for name, activation, function in _known():
        meaning = (activation, function)
        for home in (F, torch):
            target = getattr(home, name, None)
            if target is not None and meaning not in functions[target]:
                functions[target].append(meaning)
        if hasattr(aten, name):
            operators[getattr(aten, name).default].append(meaning)
        if hasattr(torch.Tensor, name):
            methods[name].append(meaning)
        module = getattr(nn, function.module) if function.module else None
        if module is not None and meaning not in modules[module]:
            modules[module].append(meaning)
    return (
        {target: _of_module(meanings) for target, meanings in modules.items()},
        {target: _of_function(meanings) for target, meanings in functions.items()}
        | {target: _of_operator(target, meanings) for target, meanings in operators.items()},
        {target: _of_function(meanings) for target, meanings in methods.items()},
    )


MODULES, FUNCTIONS, METHODS = _tables()
