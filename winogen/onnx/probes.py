"""Inputs on which two models are compared: sizes accepted by a model, numbers of its types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.onnx.model import Model
from winogen.onnx.sizes import Size, declared

Feed = dict[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]

# Heights and widths of maps, all sizes of volumes, and those of all else, where a model leaves them
# open. Many nets halve them five times, some have a layer that wants what they were trained for.
_MAPS = (64, 224, 32, 256, 96)
_VOLUMES = (16, 32, 64, 8, 96)
_OTHERS = 16
_GROWN = ((8, 24), (64, 32), (1, 2))  # by how much the height and the width of another size differ


def first_sizes(model: Model) -> Iterator[Shapes]:
    """Yield the sizes of all inputs: what is written or fixed, and what is plausible."""
    tried: list[Shapes] = []
    channels = _channels(model)
    for size, deep in zip(_MAPS, _VOLUMES):
        shapes = _shapes(model, (1, channels, size, size), (1, channels, deep, deep, deep))
        if shapes not in tried:
            tried.append(shapes)
            yield shapes


def other_sizes(model: Model, first: Shapes) -> Iterator[list[Shapes]]:
    """Yield lists of sizes besides the first, of which each needs no more than one: as batch + 1.

    Empty where a model leaves nothing open.
    """
    maps = [shape for shape in first.values() if len(shape) in (4, 5)]
    if not maps:
        return
    batch, channels, *_, high, wide = maps[0]
    deep = maps[0][2]
    changes = [[(batch + 1, channels, deep, high, wide)]]
    changes += [[(batch, channels, deep + more, high + more, wide + much) for more, much in _GROWN]]
    for options in changes:
        shapes = [_shapes(model, (*one[:2], *one[3:]), one) for one in options]
        shapes = [one for one in shapes if one != first]
        if shapes:
            yield shapes


def feed_of(model: Model, shapes: Mapping[str, tuple[int, ...]], seed: int) -> Feed:
    """Return numbers for all inputs; those of odd seeds are of both signs. Raises TypeError."""
    random = np.random.default_rng(seed)
    return {
        value.name: numbers_of(random, _dtype(model, value), shapes[value.name], seed % 2 == 1)
        for value in required(model)
    }


def numbers_of(random: Any, dtype: np.dtype, shape: tuple[int, ...], signed: bool) -> np.ndarray:
    """Return random numbers of a type; raises TypeError where nobody knows which make sense."""
    if dtype.kind == "f" or dtype.name == "bfloat16":
        made = random.standard_normal(shape) if signed else random.random(shape)
    elif dtype.name in ("uint8", "int8"):
        info = np.iinfo(dtype)
        made = random.integers(info.min, info.max, shape, endpoint=True)
    elif dtype.kind in "biu":  # indices and flags, mostly
        made = random.integers(0, 2, shape)
    else:
        raise TypeError(f"numbers are {dtype}")
    return np.asarray(made).astype(dtype)


def usual_sizes(model: Model) -> Shapes:
    """Return the sizes of all inputs that are written or fixed, with 1 for an open batch.

    Raises InvalidValue where others are open.
    """
    sizes = {value.name: _sizes(model, value) for value in required(model)}
    unknown = [name for name, one in sizes.items() if not all(size.known for size in one[1:])]
    if unknown:
        channels = _channels(model)
        some = _shapes(model, (1, channels, 224, 224), (1, channels, 64, 64, 64))
        said = (f"--input {name}={','.join(map(str, some[name]))}" for name in unknown)
        raise InvalidValue(
            f"input_shapes: got none for {unknown[0]}, {' x '.join(map(str, sizes[unknown[0]]))}; "
            f"allowed: sizes for it, on the command line as {' '.join(said)}"
        )
    return _shapes(model, (1,), (1,))


def sized(model: Model) -> Model:
    """Return the same model at its `usual_sizes`."""
    sizes = usual_sizes(model)
    return Model(model.proto, {n: shape for n, shape in sizes.items() if shape and min(shape) > 0})


def required(model: Model) -> list[Any]:
    """Return the inputs that a caller has to give."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in defaults]


def _channels(model: Model) -> int:
    """The channels of the map that the first convolution reads, where they are open."""
    sizes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    for node in model.graph.node:
        place = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}.get(node.op_type)
        if place is not None and node.input[place] in sizes and len(sizes[node.input[place]]) > 1:
            per_group: int = sizes[node.input[place]][1]
            return per_group * int(model.attributes(node).get("group", 1))
    return 3


def _dtype(model: Model, value: Any) -> np.dtype:
    kind = value.type.tensor_type.elem_type
    if not kind:
        raise TypeError(f"{value.name} is no array")
    return np.dtype(model.onnx.helper.tensor_dtype_to_np_dtype(kind))


def _shapes(model: Model, maps: Sequence[int], volumes: Sequence[int]) -> Shapes:
    """Sizes of all inputs; ``maps`` and ``volumes``: theirs, or the first, where they are open.

    What has one name is of one size.
    """
    chosen: dict[int, Sequence[int]] = {4: maps, 5: volumes}
    symbols: dict[Size, int] = {}
    values = required(model)
    # Maps first, so that what shares their names follows them.
    for value in sorted(values, key=lambda value: len(_sizes(model, value)) not in (4, 5)):
        sizes = _sizes(model, value)
        for axis, size in enumerate(sizes):
            if not size.known:
                given = chosen.get(len(sizes), maps[:1])
                symbols.setdefault(size, given[axis] if axis < len(given) else _OTHERS)
    return {
        value.name: tuple(s.number if s.known else symbols[s] for s in _sizes(model, value))
        for value in values
    }


def _sizes(model: Model, value: Any) -> tuple[Size, ...]:
    fixed = model.fixed.get(value.name)
    if fixed is not None:
        return tuple(Size("", n) for n in fixed)
    return declared(value) or ()
