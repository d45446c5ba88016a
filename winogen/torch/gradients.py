"""Derivatives: the gradients of input and weight, and what autograd does with them.

A convolution is linear in its input x and in its weight w. So the gradient of the input (a function
of w and of the output's gradient g) and the gradient of the weight (a function of x and g) are
linear in both, too. The first is a transposed convolution, of which it is the gradient in turn. The
derivatives of all are each other, which serves gradients of any order.

Both know only padding with zeros. Other paddings are made here by indexing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from winogen.conv import gradients
from winogen.errors import CompilerNotFound
from winogen.torch import activations, ops
from winogen.torch.arrays import PLANAR, array, layout, memory_format
from winogen.torch.ops import collected, library
from winogen.torch.settings import LayerSettings
from winogen.torch.watched import unseen

library.define(
    "convolution_weight_gradient(Tensor input, Tensor gradient, SymInt[] kernel, int[1] stride=1, "
    "int[1] padding=0, int[1] dilation=1, int groups=1, "
    'str algorithm="auto", float? tolerance=None, int? threads=None) -> Tensor'
)
convolution = torch.ops.winogen.convolution.default
weight_gradient = torch.ops.winogen.convolution_weight_gradient.default


def _convolved(
    input: Tensor, weight: Tensor, bias: Tensor | None, asked: LayerSettings,
    add: Tensor | None = None,
) -> Tensor:  # fmt: skip
    if unseen(input, weight, bias, add) and not torch.is_grad_enabled():
        ops.check(asked, input, weight, bias, None, add)
        return ops.run(input, weight, bias, asked, None, add, trained=ops.trained(weight, bias))
    return convolution(
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
        transposed=asked.transposed,
        output_padding=asked.output_padding or 0,
    )


# The gradient of the input.


def _of_input(
    gradient: Tensor, weight: Tensor, size: Sequence[int], asked: LayerSettings
) -> Tensor:
    """The gradient of an input with these sizes along its axes; ``asked`` has zeros around."""
    if asked.transposed:
        return _convolved(
            gradient, weight, None, asked.changed(transposed=False, output_padding=())
        )
    turned = asked.changed(transposed=True, output_padding=(0,) * asked.rank)
    if turned.turned(tuple(map(int, weight.shape[2:]))) is None:
        return _by_torch(gradient, None, weight, size, asked, layout(gradient, weight))
    return _convolved(gradient, weight, None, turned)


# The gradient of the weight.

# Channels of a group, and filters, from which tiles along one axis pay: measured beside torch 2.13
# with 3 and 5 taps on AVX-512, 2026-11.
_LEAST_OF_SIGNALS = 192


def _settings(
    input: Tensor, stride: Any = (1,), padding: Any = (0,), dilation: Any = (1,), groups: int = 1,
    *rest: Any,
) -> LayerSettings:  # fmt: skip
    """The settings of the last arguments of `weight_gradient`."""
    asked = collected(input, stride, padding, dilation, groups)[0]
    return asked.changed(**dict(zip(("algorithm", "tolerance", "threads"), rest)))


def _of_weight(
    input: Tensor, gradient: Tensor, kernel: Sequence[int], asked: LayerSettings
) -> Tensor:
    """The gradient of a weight with such a kernel, as an operator."""
    if asked.transposed:  # input and output are each other's
        input, gradient = gradient, input
    if unseen(input, gradient) and not torch.is_grad_enabled():
        return _weight_gradient_of(input, gradient, kernel, asked)
    return weight_gradient(
        input, gradient, kernel, asked.stride, asked.padding, asked.dilation, asked.groups,
        asked.algorithm, asked.tolerance, asked.threads,
    )  # fmt: skip


def _weight_gradient(input: Tensor, gradient: Tensor, kernel: Sequence[int], *rest: Any) -> Tensor:
    return _weight_gradient_of(input, gradient, kernel, _settings(input, *rest))


def _weight_gradient_of(
    input: Tensor, gradient: Tensor, kernel: Sequence[int], asked: LayerSettings
) -> Tensor:
    shape = (gradient.shape[1], input.shape[1] // asked.groups, *kernel)
    with suppress(CompilerNotFound):  # no kernel is at hand; torch has one
        by_kernel = _by_kernel(input, gradient, shape, asked)
        if by_kernel is not None:
            return by_kernel
    weight = input.new_empty(1).expand(shape)  # only its shape is read
    return _by_torch(gradient, input, weight, input.shape[2:], asked, PLANAR)


def _by_kernel(
    input: Tensor, gradient: Tensor, shape: tuple[int, ...], asked: LayerSettings
) -> Tensor | None:
    """The gradient of a weight of this shape by F(r, m), or None where torch's is as fast."""
    groups, dense = asked.groups, max(*asked.stride, *asked.dilation) == 1
    if not dense or asked.rank == 3 or not input.numel():
        return None
    each = (shape[0] // groups, *shape[1:])
    if not gradients.suits(each) or (asked.rank == 1 and min(each[:2]) < _LEAST_OF_SIGNALS):
        return None
    way = layout(input, gradient)
    if layout(gradient, input) != way:
        gradient = gradient.contiguous(memory_format=memory_format(way, gradient.dim()))
    x, dy, (*above, width) = array(input, way), array(gradient, way), shape[2:]
    if not above:  # signals are images of one row
        x, dy = x[:, :, None], dy[:, :, None]
    result = gradients.weight_gradient(
        x,
        dy,
        (*(above or (1,)), width),
        padding=((0, 0), *asked.ends)[-2:],
        groups=groups,
        layout=way,
        threads=asked.threads or torch.get_num_threads(),
        tolerance=asked.tolerance,
    )
    return torch.from_numpy(result.reshape(shape))


def _fake_weight_gradient(
    input: Tensor, gradient: Tensor, kernel: Sequence[int], *rest: Any
) -> Tensor:
    groups = _settings(input, *rest).groups
    return input.new_empty((gradient.shape[1], input.shape[1] // groups, *kernel))


def _by_torch(
    gradient: Tensor,
    input: Tensor | None,
    weight: Tensor,
    size: Sequence[int],
    asked: LayerSettings,
    way: str,
) -> Tensor:
    """The gradient of the weight, or without ``input`` of the input, by torch's kernels."""
    before, after = asked.padding[::2], asked.padding[1::2]
    even = before == after
    of_input = input is None
    if input is None:
        sizes = size if even else [count + sum(ends) for count, ends in zip(size, asked.ends)]
        shape = (gradient.shape[0], weight.shape[1] * asked.groups, *sizes)
        input = gradient.new_empty(1).expand(shape)  # only its shape is read
    elif not even:
        input = torch.nn.functional.pad(input, [end for pair in asked.ends[::-1] for end in pair])
    result = torch.ops.aten.convolution_backward(
        gradient,
        input,
        weight,
        None,
        asked.stride,
        before if even else [0] * asked.rank,
        asked.dilation,
        False,
        [0] * asked.rank,
        asked.groups,
        (of_input, not of_input, False),
    )[0 if of_input else 1]
    form = memory_format(way, result.dim())
    if of_input and not even:
        for axis, (count, begin) in enumerate(zip(size, before), 2):
            result = result.narrow(axis, begin, count)
        return result.clone(memory_format=form)  # operators return no views
    return result.contiguous(memory_format=form)


library.impl("convolution_weight_gradient", _weight_gradient, "CPU")
torch.library.register_fake(
    "winogen::convolution_weight_gradient", _fake_weight_gradient, lib=library
)


# Padding other than with zeros, by the numbers of the rows and columns that are taken.


def _sources(size: int, ends: tuple[int, int], mode: str, like: Tensor) -> Tensor:
    """Which rows of an axis a padded one is made of."""
    before, after = ends
    at = torch.arange(-before, size + after, device=like.device)
    if mode == "replicate":
        return at.clamp(0, size - 1)
    if mode == "circular":
        return at % size
    return (size - 1) - (at.abs() - (size - 1)).abs()


def _padded(x: Tensor, asked: LayerSettings) -> Tensor:
    for axis, ends in enumerate(asked.ends, 2):
        x = x.index_select(axis, _sources(x.shape[axis], ends, asked.padding_mode, x))
    return x


def _unpadded(gradient: Tensor, size: Sequence[int], asked: LayerSettings) -> Tensor:
    """The transposition of `_padded`: what was taken from a row comes back to it."""
    for axis, (count, ends) in enumerate(zip(size, asked.ends), 2):
        shape = [*gradient.shape]
        shape[axis] = count
        rows = _sources(count, ends, asked.padding_mode, gradient)
        gradient = gradient.new_zeros(shape).index_add(axis, rows, gradient)
    return gradient


# What autograd remembers, and how it goes back.


def _keep(ctx: Any, asked: LayerSettings, tensors: Sequence[Tensor | None], output: Tensor) -> None:
    """``tensors``: input, weight, bias, slopes, add and add_after."""
    input, weight, bias, slopes, add, add_after = tensors
    ctx.asked, ctx.add_after = asked, add_after is not None
    ctx.by_output = not ctx.add_after and activations.told_by_output(
        asked.activation, asked.parameters
    )
    if asked.activation is None:
        ctx.save_for_backward(input, weight)
    elif ctx.by_output:
        ctx.save_for_backward(input, weight, output)
    else:
        ctx.save_for_backward(input, weight, bias, slopes, add)


def _gradients(ctx: Any, needs: Sequence[bool], gradient: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of the tensors that `_keep` was given.

    ``needs``: those of input, weight and bias are computed only if they are needed.
    """
    asked: LayerSettings = ctx.asked
    input, weight, *others = ctx.saved_tensors
    # As the input lies, so that no kernel mixes layouts, and sums over expanded ones are fast.
    form = memory_format(layout(input, weight), input.dim())
    gradient = gradient.contiguous(memory_format=form)
    of_bias = of_slopes = None
    of_add_after = gradient if ctx.add_after else None
    plain = asked.gradient()
    if asked.activation is not None:
        slopes = None
        if ctx.by_output:
            (saved,) = others
        else:  # computed again: the fused layer has never stored it
            bias, slopes, add = others
            saved = _convolved(input, weight, bias, plain, add)
            if activations.told_by_output(asked.activation, asked.parameters):
                saved = activations.apply(asked.activation, asked.parameters, saved)
        gradient, of_slopes = activations.derivative(
            asked.activation, asked.parameters, slopes, gradient, saved
        )
    if needs[2]:
        of_bias = gradient.sum((0, *range(2, gradient.dim())))
    size, wide = input.shape[2:], asked.padding_mode != "zeros"
    if wide:
        plain = plain.changed(padding_mode="zeros", padding=(0,) * len(asked.padding))
        input = _padded(input, asked)
    of_input, of_weight = _both(needs, gradient, input, weight, plain)
    if wide and of_input is not None:
        of_input = _unpadded(of_input, size, asked)
    return of_input, of_weight, of_bias, of_slopes, gradient, of_add_after


def _needed(needs: Sequence[bool], grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return tuple(grad if need else None for grad, need in zip(grads, needs))


_ARGUMENTS = len(convolution._schema.arguments)


def _remember(ctx: Any, inputs: tuple, output: Tensor) -> None:
    input, weight, bias, *rest = inputs
    asked, *others = collected(weight, *rest)
    _keep(ctx, asked, (input, weight, bias, *others), output)


def _back(ctx: Any, gradient: Tensor) -> tuple:
    grads: list[Tensor | None] = [None] * _ARGUMENTS
    needs = ctx.needs_input_grad
    grads[0], grads[1], grads[2], *grads[10:13] = _gradients(ctx, needs, gradient)
    return _needed(needs, grads)


class Recorded(torch.autograd.Function):
    """The same without an operator, for calls that nobody watches.

    torch fills in the defaults of an operator that is differentiated in a time that grows with the
    square of how many arguments it has: 0.15 ms here.
    """

    @staticmethod
    def forward(ctx: Any, asked: LayerSettings, *tensors: Any) -> Tensor:
        """Return the convolution; ``tensors`` as `ops.check` takes them, all six."""
        ops.check(asked, *tensors)
        input, weight, bias, slopes, add, add_after = tensors
        training = ops.trained(weight, bias, slopes)
        y = ops.run(input, weight, bias, asked, slopes, add, add_after, trained=training)
        _keep(ctx, asked, tensors, y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        """Return the gradients of all arguments."""
        _, *needs = ctx.needs_input_grad
        return None, *_needed(needs, _gradients(ctx, needs, gradient))


def _both(
    needs: Sequence[bool], gradient: Tensor, input: Tensor, weight: Tensor, asked: LayerSettings
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of input and weight, as far as they are needed."""
    padding = [*asked.padding]
    for axis, (more, step) in enumerate(zip(asked.output_padding, asked.stride)):
        if more >= step:  # as if an ordinary layer had read so much less
            after = padding[2 * axis + 1]
            padding[2 * axis + 1] = max(0, after - more)
            count = gradient.shape[2 + axis] - max(0, more - after)
            if count <= 0:  # no output sees an input
                return torch.zeros_like(input), torch.zeros_like(weight)
            gradient = gradient.narrow(2 + axis, 0, count)
    asked = asked.changed(padding=tuple(padding))
    of_input = of_weight = None
    if needs[0]:
        of_input = _of_input(gradient, weight, input.shape[2:], asked)
    if needs[1]:
        of_weight = _of_weight(input, gradient, weight.shape[2:], asked)
    return of_input, of_weight


def _remember_weight_gradient(ctx: Any, inputs: tuple, output: Tensor) -> None:
    input, gradient, _, *rest = inputs
    ctx.asked = _settings(input, *rest)
    ctx.save_for_backward(input, gradient)


def _back_of_weight_gradient(ctx: Any, again: Tensor) -> tuple:
    input, gradient = ctx.saved_tensors
    of_input = of_gradient = None
    if ctx.needs_input_grad[0]:
        of_input = _of_input(gradient, again, input.shape[2:], ctx.asked)
    if ctx.needs_input_grad[1]:
        of_gradient = _convolved(input, again, None, ctx.asked)
    return of_input, of_gradient, *[None] * 8


for _name, _backward, _setup in (
    ("convolution", _back, _remember),
    ("convolution_weight_gradient", _back_of_weight_gradient, _remember_weight_gradient),
):
    torch.library.register_autograd(
        f"winogen::{_name}", _backward, setup_context=_setup, lib=library
    )
