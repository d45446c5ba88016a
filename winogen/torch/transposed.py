"""Transposed convolution of tensors: `conv_transpose1d`, `conv_transpose2d`, `conv_transpose3d`,
and their modules.

One operator serves all. Activations are left to torch, gradients to torch's own backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from winogen.conv import arguments
from winogen.conv.api_transposed import ConvTranspose1d as OfSignals
from winogen.conv.api_transposed import ConvTranspose2d as OfImages
from winogen.conv.api_transposed import ConvTranspose3d as OfVolumes
from winogen.conv.options import Options
from winogen.conv.phases import outputs
from winogen.conv.transposed_problem import TransposedLayer
from winogen.torch import activations
from winogen.torch.arrays import CHANNELS_LAST, is_channels_last, memory_format
from winogen.torch.axes import Asking
from winogen.torch.functional import (
    activation_parts,
    exported,
    frozen,
    takes,
    transformed,
    unwatched,
)
from winogen.torch.packing import packed_layer
from winogen.typing import Activation, Algorithm, IntOrInts, Real, Tile

TRANSPOSED = {made.rank: made for made in (OfSignals, OfImages, OfVolumes)}


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters: activation algorithm tile threads tolerance
    activation: Activation | None = None,
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    threads: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(transposed convolution + bias), as `winogen.conv_transpose1d` does.

    The other arguments are those of `torch.nn.functional.conv_transpose1d`. Autograd works to any
    order. Other devices and dtypes are left to torch, as in `conv2d`.
    """
    return _transposed(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation, activation,
        algorithm, tile, threads, tolerance,
    )  # fmt: skip


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters: activation algorithm tile threads tolerance
    activation: Activation | None = None,
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    threads: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(transposed convolution + bias), as `winogen.conv_transpose2d` does.

    The other arguments are those of `torch.nn.functional.conv_transpose2d`. Autograd works to any
    order. Other devices and dtypes are left to torch, as in `conv2d`.

    >>> import torch, winogen.torch
    >>> weight = torch.ones(3, 8, 4, 4)
    >>> winogen.torch.conv_transpose2d(torch.ones(1, 3, 5, 5), weight, stride=2).shape
    torch.Size([1, 8, 12, 12])
    """
    return _transposed(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation, activation,
        algorithm, tile, threads, tolerance,
    )  # fmt: skip


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters: activation algorithm tile threads tolerance
    activation: Activation | None = None,
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    threads: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(transposed convolution + bias), as `winogen.conv_transpose3d` does.

    The other arguments are those of `torch.nn.functional.conv_transpose3d`. Autograd works to any
    order. Other devices and dtypes are left to torch, as in `conv2d`.
    """
    return _transposed(
        3, input, weight, bias, stride, padding, output_padding, groups, dilation, activation,
        algorithm, tile, threads, tolerance,
    )  # fmt: skip


def _transposed(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    output_padding: Any, groups: Any, dilation: Any, activation: Any, algorithm: Algorithm,
    tile: Any, threads: Any, tolerance: Any,
) -> Tensor:  # fmt: skip
    taken = takes(input, weight)
    if input.dim() == rank + 1:
        one = _transposed(
            rank, input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups,
            dilation, activation, algorithm, tile, threads, tolerance,
        )  # fmt: skip
        return one.squeeze(0)
    name, parameters, slopes = activation_parts(activation)
    steps = arguments.per_axis("stride", stride, 1, rank)
    ends = arguments.per_axis("padding", padding, 0, rank)
    more = arguments.per_axis("output_padding", output_padding, 0, rank)
    spread = arguments.per_axis("dilation", dilation, 1, rank)
    if not taken or exported() or transformed():
        made = getattr(F, f"conv_transpose{rank}d")
        z = made(input, weight, bias, steps, ends, more, groups, spread)
    else:
        if not torch.compiler.is_compiling():
            _check(
                weight.shape, input.shape, steps, ends, more, spread,
                *map(frozen, (groups, algorithm, tile, tolerance)),
            )  # fmt: skip
        tiles = [] if tile is None else [tile] if not isinstance(tile, (tuple, list)) else [*tile]
        compute = _computed if unwatched(input, weight, bias) else transposed_convolution
        z = compute(
            input, weight, bias, list(steps), list(ends), list(more), list(spread), int(groups),
            algorithm, tiles, threads, tolerance,
        )  # fmt: skip
    return activations.apply(name, parameters if slopes is None else (slopes,), z)


@lru_cache(maxsize=1024, typed=True)
def _check(
    weight: tuple[int, ...], input: tuple[int, ...], stride: Any, padding: Any, more: Any,
    dilation: Any, groups: Any, algorithm: Algorithm, tile: Any, tolerance: Any,
) -> None:  # fmt: skip
    """Raise InvalidType, InvalidValue or Unsupported for what is not allowed, before any work.

    ``weight`` and ``input`` are shapes.
    """
    asked = Options(
        stride, padding, dilation, groups, layout=arguments.LAYOUTS[len(weight) - 2][0],
        algorithm=algorithm, tile=tile, tolerance=tolerance,
    )  # fmt: skip
    TransposedLayer.of(tuple(weight), "float32", asked, more).problem(tuple(input))


def _computed(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    dilation: list[int],
    groups: int,
    algorithm: str,
    tile: list[int],
    threads: int | None,
    tolerance: float | None,
) -> Tensor:
    """What the operator computes."""
    rank, last = len(stride), is_channels_last(input)
    options = {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "output_padding": tuple(output_padding),
        "dilation": tuple(dilation),
        "groups": groups,
        "layout": arguments.LAYOUTS[rank][last],
        "algorithm": algorithm,
        "tile": None if not tile else tile[0] if len(tile) == 1 else tuple(tile),
        "threads": torch.get_num_threads() if threads is None else threads,
        "tolerance": tolerance,
    }
    data = input.detach().numpy()
    layer = packed_layer(TRANSPOSED[rank], weight, bias, options)
    if not last:
        return torch.from_numpy(layer(data))
    return torch.from_numpy(np.moveaxis(layer(np.moveaxis(data, 1, -1)), -1, 1))


@torch.library.custom_op("winogen::transposed_convolution", mutates_args=(), device_types="cpu")
def transposed_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    dilation: list[int],
    groups: int,
    algorithm: str,
    tile: list[int],
    threads: int | None,
    tolerance: float | None,
) -> Tensor:
    """The operator; no ``tile``: []."""
    return _computed(
        input, weight, bias, stride, padding, output_padding, dilation, groups, algorithm, tile,
        threads, tolerance,
    )  # fmt: skip


@transposed_convolution.register_fake
def _fake(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int],
    output_padding: list[int], dilation: list[int], groups: int, *rest: Any,
) -> Tensor:  # fmt: skip
    size = [
        outputs(count, taps, step, spread, (end, end), more)
        for count, taps, step, spread, end, more in zip(
            input.shape[2:], weight.shape[2:], stride, dilation, padding, output_padding
        )
    ]
    y = input.new_empty(input.shape[0], weight.shape[1] * groups, *size)
    return (
        y.contiguous(memory_format=memory_format(CHANNELS_LAST, input.dim()))
        if is_channels_last(input)
        else y
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, bias, *ctx.steps = inputs[:8]
    ctx.filters = weight.shape[1] * ctx.steps[-1]
    ctx.has_bias = bias is not None
    ctx.save_for_backward(input, weight)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, weight = ctx.saved_tensors
    stride, padding, more, dilation, groups = ctx.steps
    needed = [*ctx.needs_input_grad[:2], ctx.has_bias and ctx.needs_input_grad[2]]
    grads = torch.ops.aten.convolution_backward(
        grad, input, weight, [ctx.filters] if ctx.has_bias else None, stride, padding, dilation,
        True, more, groups, needed,
    )  # fmt: skip
    return (*(one if wanted else None for one, wanted in zip(grads, needed)), *[None] * 9)


transposed_convolution.register_autograd(_backward, setup_context=_setup)


class _Transposed(Asking):
    @classmethod
    def _check(cls, layer: Any, asked: Options) -> None:
        TransposedLayer.of(tuple(layer.weight.shape), "float32", asked, layer.output_padding)

    def forward(self: Any, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the output of ``input``, with or without a batch, of ``output_size`` if given."""
        more = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self.rank,
            self.dilation,
        )  # fmt: skip
        return _transposed(
            self.rank, input, self.weight, self.bias, self.stride, self.padding, more, self.groups,
            self.dilation, self.activation, **self.options,
        )  # fmt: skip


class ConvTranspose1d(_Transposed, nn.ConvTranspose1d):
    """An `nn.ConvTranspose1d` that computes with winogen's kernels; see `conv_transpose1d`.

    ``activation``, ``algorithm``, ``tile``, ``threads`` and ``tolerance`` are given by name; all
    else is as for `nn.ConvTranspose1d`, parameters and ``state_dict``, too.
    """

    rank = 1
    _plain = nn.ConvTranspose1d

    def __init__(
        self,
        *args: Any,
        # parameters: activation algorithm tile threads tolerance
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        threads: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
        **others: Any,
    ):
        nn.ConvTranspose1d.__init__(self, *args, **others)
        self._ask(activation, algorithm=algorithm, tile=tile, threads=threads, tolerance=tolerance)


class ConvTranspose2d(_Transposed, nn.ConvTranspose2d):
    """An `nn.ConvTranspose2d` that computes with winogen's kernels; see `conv_transpose2d`.

    ``activation``, ``algorithm``, ``tile``, ``threads`` and ``tolerance`` are given by name; all
    else is as for `nn.ConvTranspose2d`, parameters and ``state_dict``, too.

    >>> import torch, winogen.torch
    >>> layer = winogen.torch.ConvTranspose2d(3, 8, 4, stride=2, padding=1, activation="relu")
    >>> layer(torch.ones(2, 3, 9, 9)).shape
    torch.Size([2, 8, 18, 18])
    """

    rank = 2
    _plain = nn.ConvTranspose2d

    def __init__(
        self,
        *args: Any,
        # parameters: activation algorithm tile threads tolerance
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        threads: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
        **others: Any,
    ):
        nn.ConvTranspose2d.__init__(self, *args, **others)
        self._ask(activation, algorithm=algorithm, tile=tile, threads=threads, tolerance=tolerance)


class ConvTranspose3d(_Transposed, nn.ConvTranspose3d):
    """An `nn.ConvTranspose3d` that computes with winogen's kernels; see `conv_transpose3d`.

    ``activation``, ``algorithm``, ``tile``, ``threads`` and ``tolerance`` are given by name; all
    else is as for `nn.ConvTranspose3d`, parameters and ``state_dict``, too.
    """

    rank = 3
    _plain = nn.ConvTranspose3d

    def __init__(
        self,
        *args: Any,
        # parameters: activation algorithm tile threads tolerance
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        threads: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
        **others: Any,
    ):
        nn.ConvTranspose3d.__init__(self, *args, **others)
        self._ask(activation, algorithm=algorithm, tile=tile, threads=threads, tolerance=tolerance)
