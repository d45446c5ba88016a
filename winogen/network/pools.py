"""Pools that are others: of powers, and means that count padding or whose windows have gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.onnx.padding import Windows, windows

if TYPE_CHECKING:
    from winogen.network.others import Rewriting


def along_axes(sizes: Sequence[int], values: Mapping[str, Any]) -> list[Windows]:
    """Return the windows of a pool with these attributes along each axis of an input."""
    kernel = values["kernel_shape"]
    axes = enumerate(zip(sizes[2:], kernel))
    return [windows(values, axis, len(kernel), size, taps) for axis, (size, taps) in axes]


def averaged(rewriting: Rewriting, node: Any) -> bool:
    """Rewrite an AveragePool that no operator of maps is; return whether it was one.

    Where padding counts and a window reaches beyond it, what lies beyond does not count. Padding is
    then zeros of the input. Windows with gaps are a convolution, and a factor for each pixel.
    """
    values, sizes = rewriting.model.attributes(node), rewriting.sizes(node.input[0])
    if sizes is None or not 3 <= len(sizes) <= 5:
        return False
    made, rank = along_axes(sizes, values), len(sizes) - 2
    if set(values.get("dilations", (1,))) != {1}:
        return _with_gaps(rewriting, node, sizes, made)
    if not (values.get("count_include_pad", 0) and values.get("ceil_mode", 0)):
        return False
    before, after = _declared(values, made)
    if all(one.after <= end for one, end in zip(made, after)):
        return False
    x = rewriting.padded(node, node.input[0], before, after)
    beyond = [one.after - end for one, end in zip(made, after)]
    rewriting.write(
        "AveragePool", node, [x], kernel_shape=values["kernel_shape"],
        strides=values.get("strides", [1] * rank), pads=[0] * rank + [max(0, n) for n in beyond],
    )  # fmt: skip
    return True


def _declared(values: Mapping[str, Any], made: Sequence[Windows]) -> tuple[list[int], list[int]]:
    """The padding before and after each axis without what `ceil_mode` adds to it."""
    auto, rank = values.get("auto_pad", "NOTSET"), len(made)
    if auto.startswith("SAME"):
        return [one.before for one in made], [one.after for one in made]
    pads = list(values.get("pads", [0] * 2 * rank)) if auto == "NOTSET" else [0] * 2 * rank
    return pads[:rank], pads[rank:]


def _with_gaps(
    rewriting: Rewriting, node: Any, sizes: Sequence[int], made: Sequence[Windows]
) -> bool:
    values, rank = rewriting.model.attributes(node), len(made)
    kernel = values["kernel_shape"]
    ends = list(zip(*_declared(values, made)))
    if not values.get("count_include_pad", 0):
        ends = [(0, 0)] * rank
    counts = np.ones((1, 1), np.float64)
    for axis, (one, (before, after)) in enumerate(zip(made, ends)):
        step, apart = (values.get(name, [1] * rank)[axis] for name in ("strides", "dilations"))
        places = step * np.arange(one.outputs)[:, None] + apart * np.arange(kernel[axis])
        places -= one.before
        inside = (places >= -before) & (places < sizes[2 + axis] + after)
        counts = counts[..., None] * inside.sum(axis=1)
    if not counts.all():
        return False  # a window lies in padding alone
    whole = bool((counts == prod(kernel)).all())
    weight = np.full((sizes[1], 1, *kernel), 1 / prod(kernel) if whole else 1, np.float32)
    pads = [one.before for one in made] + [one.after for one in made]
    total = rewriting.write(
        "Conv", node, [node.input[0], rewriting.constant(weight, node.output[0])], last=whole,
        group=sizes[1], pads=pads, dilations=values["dilations"],
        strides=values.get("strides", [1] * rank),
    )  # fmt: skip
    if not whole:
        shares = rewriting.constant((1 / counts).astype(np.float32), node.output[0])
        rewriting.write("Mul", node, [total, shares])
    return True


def of_powers(rewriting: Rewriting, node: Any) -> bool:
    """Rewrite an LpPool; return whether it could be: a mean of powers, times how many there are.

    Padding is zeros, which add nothing.
    """
    values, sizes = rewriting.model.attributes(node), rewriting.sizes(node.input[0])
    if sizes is None or not 3 <= len(sizes) <= 5 or set(values.get("dilations", (1,))) != {1}:
        return False
    made, x, power = along_axes(sizes, values), node.input[0], values.get("p", 2)
    if power == 2:
        x = rewriting.write("Mul", node, [x, x], last=False)
    else:
        x = rewriting.write("Abs", node, [x], last=False)
        if power != 1:
            exponent = rewriting.constant(np.float32(power), node.output[0])
            x = rewriting.write("Pow", node, [x, exponent], last=False)
    x = rewriting.padded(node, x, [one.before for one in made], [one.after for one in made])
    kernel = values["kernel_shape"]
    strides = values.get("strides", [1] * len(kernel))
    x = rewriting.write("AveragePool", node, [x], last=False, kernel_shape=kernel, strides=strides)
    count = rewriting.constant(np.float32(prod(kernel)), node.output[0])
    x = rewriting.write("Mul", node, [x, count], last=power == 1)
    if power == 2:
        rewriting.write("Sqrt", node, [x])
    elif power != 1:
        root = rewriting.constant(np.float32(1 / power), node.output[0])
        rewriting.write("Pow", node, [x, root])
    return True
