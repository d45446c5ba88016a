"""Derivatives: the gradients of input and weight as operators, and what autograd does with them.

The convolution is linear in its input x and in its weight w. So the gradient of the input (a
function of w and of the output's gradient g) and the gradient of the weight (a function of x and g)
are linear in both, too. The derivatives of the three are each other, which serves gradients of any
order.

Both operators know only padding with zeros. Other paddings are made here by indexing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from winogen.conv import gradients
from winogen.errors import CompilerNotFound
from winogen.torch import activations, packing
from winogen.torch.arrays import array, layout, memory_format, tensor
from winogen.torch.ops import _empty, collected, library, trained
from winogen.torch.settings import LayerSettings

conv2d = torch.ops.winogen.conv2d.default
input_gradient = torch.ops.winogen.conv2d_input_gradient.default
weight_gradient = torch.ops.winogen.conv2d_weight_gradient.default


def geometry(asked: LayerSettings) -> tuple[Any, ...]:
    """Return the last arguments of both operators, of settings with zeros around."""
    return (
        asked.stride,
        asked.padding,
        asked.dilation,
        asked.groups,
        asked.algorithm,
        asked.tolerance,
        asked.threads,
    )


def _settings(
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    algorithm: str = "auto",
    tolerance: float | None = None,
    threads: int | None = None,
) -> LayerSettings:
    """The settings of `geometry`."""
    return collected(stride, padding, dilation, groups)[0].changed(
        algorithm=algorithm, tolerance=tolerance, threads=threads
    )


# The gradient of the input.


def _input_gradient(gradient: Tensor, weight: Tensor, size: Sequence[int], *rest: Any) -> Tensor:
    asked = _settings(*rest)
    way = layout(gradient, weight)
    turned = _turned(asked, weight)
    if turned is None or not gradient.numel():
        return _by_torch(gradient, None, weight, size, asked, way)
    conv = packing.turned_layer(weight, turned, way, trained(weight))
    return tensor(conv(array(gradient, way)), way)


def _turned(asked: LayerSettings, weight: Tensor) -> LayerSettings | None:
    """The settings of the convolution with the turned weight that is the gradient; None: none is.

    A row of the input reaches the outputs whose kernels see it, and these are as many as the kernel
    has taps. With a stride they are not neighbours; with more padding than the kernel reaches over,
    outputs would have to be left out.
    """
    if asked.stride != (1, 1):
        return None
    sides = []
    for axis in range(2):
        reach = asked.dilation[axis] * (weight.shape[2 + axis] - 1)
        sides += [reach - side for side in asked.padding[2 * axis : 2 * axis + 2]]
    if min(sides) < 0:
        return None
    return asked.changed(padding=tuple(sides))


def _fake_input_gradient(
    gradient: Tensor, weight: Tensor, size: Sequence[int], *rest: Any
) -> Tensor:
    asked = _settings(*rest)
    shape = (gradient.shape[0], weight.shape[1] * asked.groups, *size)
    return _empty(shape, gradient, layout(gradient, weight))


# The gradient of the weight.


def _weight_gradient(input: Tensor, gradient: Tensor, kernel: Sequence[int], *rest: Any) -> Tensor:
    asked = _settings(*rest)
    shape = (gradient.shape[1], input.shape[1] // asked.groups, *kernel)
    with suppress(CompilerNotFound):  # no kernel is at hand; torch has one
        by_kernel = _by_kernel(input, gradient, shape, asked)
        if by_kernel is not None:
            return by_kernel
    weight = input.new_empty(1).expand(shape)  # only its shape is read
    return _by_torch(gradient, input, weight, input.shape[2:], asked, "NCHW")


def _by_kernel(
    input: Tensor, gradient: Tensor, shape: tuple[int, ...], asked: LayerSettings
) -> Tensor | None:
    """The gradient of a weight of this shape by F(r, m), or None where torch's is as fast."""
    groups = asked.groups
    if asked.stride != (1, 1) or asked.dilation != (1, 1) or not input.numel():
        return None
    if not gradients.suits((shape[0] // groups, *shape[1:])):
        return None
    way = layout(input, gradient)
    if layout(gradient, input) != way:
        gradient = gradient.contiguous(memory_format=memory_format(way))
    top, bottom, left, right = asked.padding
    result = gradients.weight_gradient(
        array(input, way),
        array(gradient, way),
        shape[2:],
        padding=((top, bottom), (left, right)),
        groups=groups,
        layout=way,
        threads=asked.threads or torch.get_num_threads(),
        tolerance=asked.tolerance,
    )
    return torch.from_numpy(result)


def _fake_weight_gradient(
    input: Tensor, gradient: Tensor, kernel: Sequence[int], *rest: Any
) -> Tensor:
    asked = _settings(*rest)
    return input.new_empty((gradient.shape[1], input.shape[1] // asked.groups, *kernel))


def _by_torch(
    gradient: Tensor,
    input: Tensor | None,
    weight: Tensor,
    size: Sequence[int],
    asked: LayerSettings,
    way: str,
) -> Tensor:
    """The gradient of the weight, or without ``input`` of the input, by torch's kernels."""
    top, bottom, left, right = asked.padding
    even = top == bottom and left == right
    pads = (top, left) if even else (0, 0)
    of_input = input is None
    if input is None:
        height, width = size if even else (size[0] + top + bottom, size[1] + left + right)
        shape = (gradient.shape[0], weight.shape[1] * asked.groups, height, width)
        input = gradient.new_empty(1).expand(shape)  # only its shape is read
    elif not even:
        input = torch.nn.functional.pad(input, (left, right, top, bottom))
    result = torch.ops.aten.convolution_backward(
        gradient,
        input,
        weight,
        None,
        asked.stride,
        pads,
        asked.dilation,
        False,
        (0, 0),
        asked.groups,
        (of_input, not of_input, False),
    )[0 if of_input else 1]
    if of_input and not even:
        result = result[:, :, top : top + size[0], left : left + size[1]]
        return result.clone(memory_format=memory_format(way))  # operators return no views
    return result.contiguous(memory_format=memory_format(way))


for _name, _real, _fake in (
    ("conv2d_input_gradient", _input_gradient, _fake_input_gradient),
    ("conv2d_weight_gradient", _weight_gradient, _fake_weight_gradient),
):
    library.impl(_name, _real, "CPU")
    torch.library.register_fake(f"winogen::{_name}", _fake, lib=library)


# Padding other than with zeros, by the numbers of the rows and columns that are taken.


def _sources(size: int, before: int, after: int, mode: str, like: Tensor) -> Tensor:
    """Which rows of an axis a padded one is made of."""
    at = torch.arange(-before, size + after, device=like.device)
    if mode == "replicate":
        return at.clamp(0, size - 1)
    if mode == "circular":
        return at % size
    return (size - 1) - (at.abs() - (size - 1)).abs()


def _padded(x: Tensor, asked: LayerSettings) -> Tensor:
    top, bottom, left, right = asked.padding
    rows = _sources(x.shape[2], top, bottom, asked.padding_mode, x)
    columns = _sources(x.shape[3], left, right, asked.padding_mode, x)
    return x.index_select(2, rows).index_select(3, columns)


def _unpadded(gradient: Tensor, size: Sequence[int], asked: LayerSettings) -> Tensor:
    """The transposition of `_padded`: what was taken from a row comes back to it."""
    top, bottom, left, right = asked.padding
    rows = _sources(size[0], top, bottom, asked.padding_mode, gradient)
    columns = _sources(size[1], left, right, asked.padding_mode, gradient)
    batch, channels, _, width = gradient.shape
    high = gradient.new_zeros((batch, channels, size[0], width)).index_add(2, rows, gradient)
    return gradient.new_zeros((batch, channels, *size)).index_add(3, columns, high)


# What autograd remembers, and how it goes back.

_ARGUMENTS = len(conv2d._schema.arguments)


def _remember(ctx: Any, inputs: tuple, output: Tensor) -> None:
    input, weight, bias, *rest = inputs
    ctx.asked, slopes, add, ctx.add_after = collected(*rest)
    ctx.add_after = ctx.add_after is not None
    asked = ctx.asked
    ctx.by_output = not ctx.add_after and activations.told_by_output(
        asked.activation, asked.parameters
    )
    if asked.activation is None:
        ctx.save_for_backward(input, weight)
    elif ctx.by_output:
        ctx.save_for_backward(input, weight, output)
    else:
        ctx.save_for_backward(input, weight, bias, slopes, add)


def _back(ctx: Any, gradient: Tensor) -> tuple:
    asked: LayerSettings = ctx.asked
    input, weight, *others = ctx.saved_tensors
    # As the input lies, so that no kernel mixes layouts, and sums over expanded ones are fast.
    gradient = gradient.contiguous(memory_format=memory_format(layout(input, weight)))
    grads: list[Tensor | None] = [None] * _ARGUMENTS
    grads[12] = gradient if ctx.add_after else None
    if asked.activation is not None:
        slopes = None
        if ctx.by_output:
            (saved,) = others
        else:  # computed again: the fused layer has never stored it
            bias, slopes, add = others
            saved = _call(input, weight, bias, asked.linear(), add)
            if activations.told_by_output(asked.activation, asked.parameters):
                saved = activations.apply(asked.activation, asked.parameters, saved)
        gradient, grads[10] = activations.derivative(
            asked.activation, asked.parameters, slopes, gradient, saved
        )
    grads[11] = gradient
    needs = ctx.needs_input_grad
    plain = asked.linear()
    size = input.shape[2:]
    wide = asked.padding_mode != "zeros"
    if wide:
        plain = plain.changed(padding_mode="zeros", padding=(0, 0, 0, 0))
        input = _padded(input, asked)
    if needs[0]:
        grads[0] = input_gradient(gradient, weight, input.shape[2:], *geometry(plain))
        if wide:
            grads[0] = _unpadded(grads[0], size, asked)
    if needs[1]:
        grads[1] = weight_gradient(input, gradient, weight.shape[2:], *geometry(plain))
    if needs[2]:
        grads[2] = gradient.sum((0, 2, 3))
    return tuple(grad if need else None for grad, need in zip(grads, needs))


def _call(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    asked: LayerSettings,
    add: Tensor | None = None,
) -> Tensor:
    return conv2d(
        input,
        weight,
        bias,
        asked.stride,
        asked.padding,
        asked.dilation,
        asked.groups,
        asked.padding_mode,
        add=add,
        algorithm=asked.algorithm,
        tolerance=asked.tolerance,
        threads=asked.threads,
    )


def _remember_input_gradient(ctx: Any, inputs: tuple, output: Tensor) -> None:
    gradient, weight, _, *rest = inputs
    ctx.asked = _settings(*rest)
    ctx.save_for_backward(gradient, weight)


def _back_of_input_gradient(ctx: Any, again: Tensor) -> tuple:
    gradient, weight = ctx.saved_tensors
    of_gradient = _call(again, weight, None, ctx.asked) if ctx.needs_input_grad[0] else None
    of_weight = None
    if ctx.needs_input_grad[1]:
        of_weight = weight_gradient(again, gradient, weight.shape[2:], *geometry(ctx.asked))
    return of_gradient, of_weight, *[None] * 8


def _remember_weight_gradient(ctx: Any, inputs: tuple, output: Tensor) -> None:
    input, gradient, _, *rest = inputs
    ctx.asked = _settings(*rest)
    ctx.save_for_backward(input, gradient)


def _back_of_weight_gradient(ctx: Any, again: Tensor) -> tuple:
    input, gradient = ctx.saved_tensors
    of_input = None
    if ctx.needs_input_grad[0]:
        of_input = input_gradient(gradient, again, input.shape[2:], *geometry(ctx.asked))
    of_gradient = _call(input, again, None, ctx.asked) if ctx.needs_input_grad[1] else None
    return of_input, of_gradient, *[None] * 8


for _name, _backward, _setup in (
    ("conv2d", _back, _remember),
    ("conv2d_input_gradient", _back_of_input_gradient, _remember_input_gradient),
    ("conv2d_weight_gradient", _back_of_weight_gradient, _remember_weight_gradient),
):
    torch.library.register_autograd(
        f"winogen::{_name}", _backward, setup_context=_setup, lib=library
    )
