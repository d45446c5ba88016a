"""Convolution of tensors with one or three axes: `conv1d`, `conv3d`, and their modules.

One operator serves both. Activations and additions are left to torch, gradients to torch's own
backward pass of convolutions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, SupportsIndex, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from winogen.conv import arguments
from winogen.conv.api import CONVOLUTIONS
from winogen.conv.options import Options
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.errors import InvalidType
from winogen.torch import activations, packing
from winogen.torch.arrays import is_channels_last
from winogen.torch.functional import (
    activation_parts,
    exported,
    frozen,
    takes,
    transformed,
    unwatched,
)
from winogen.torch.packing import packed_layer
from winogen.torch.sharing import Activated, sharing
from winogen.typing import Activation, Algorithm, IntOrInts, Padding, PaddingMode, Real, Tile


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    # parameters: stride ... padding_mode activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    activation: Activation | None = None,
    # end
    # parameters: algorithm tile threads tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    threads: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(convolution + bias) of (N, C, W) or (C, W), as `winogen.conv1d` does.

    Autograd works to any order. Other devices and dtypes are left to torch, as in `conv2d`.

    >>> import torch, winogen.torch
    >>> winogen.torch.conv1d(torch.ones(1, 4), torch.ones(1, 1, 3), padding=1).tolist()
    [[2.0, 3.0, 3.0, 2.0]]
    """
    return _convolved(
        1, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation,
        algorithm, tile, threads, tolerance,
    )  # fmt: skip


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    # parameters: stride ... padding_mode activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    activation: Activation | None = None,
    # end
    # parameters: algorithm tile threads tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    threads: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(convolution + bias) of (N, C, D, H, W) or (C, D, H, W), as `winogen.conv3d`
    does.

    A channels-last input gives a channels-last result, without copies. Autograd works to any order.
    Other devices and dtypes are left to torch, as in `conv2d`.
    """
    return _convolved(
        3, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation,
        algorithm, tile, threads, tolerance,
    )  # fmt: skip


def _convolved(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: Any, padding_mode: PaddingMode, activation: Any, algorithm: Algorithm,
    tile: Any, threads: Any, tolerance: Any,
) -> Tensor:  # fmt: skip
    taken = takes(input, weight)
    if input.dim() == rank + 1:
        one = _convolved(
            rank, input.unsqueeze(0), weight, bias, stride, padding, dilation, groups,
            padding_mode, activation, algorithm, tile, threads, tolerance,
        )  # fmt: skip
        return one.squeeze(0)
    name, parameters, slopes = activation_parts(activation)
    steps = arguments.per_axis("stride", stride, 1, rank)
    spread = arguments.per_axis("dilation", dilation, 1, rank)
    ends = arguments.padding(padding, tuple(weight.shape[2:]), steps, spread)
    inner, before = input, [end for end, _ in ends]
    # Of the operator padding is zeros, as much before as behind, as torch's backward pass has it.
    if padding_mode != "zeros" or any(begin != end for begin, end in ends):
        mode: Any = {} if padding_mode == "zeros" else {"mode": padding_mode}
        inner = F.pad(input, [end for both in reversed(ends) for end in both], **mode)
        before = [0] * rank
    if not taken or exported() or transformed():
        z = getattr(F, f"conv{rank}d")(inner, weight, bias, steps, before, spread, groups)
    else:
        if not torch.compiler.is_compiling():
            _check(
                weight.shape, inner.shape, steps, tuple(before), spread,
                *map(frozen, (groups, algorithm, tile, tolerance)),
            )  # fmt: skip
        tiles = [] if tile is None else [tile] if not isinstance(tile, (tuple, list)) else [*tile]
        compute = _computed if unwatched(inner, weight, bias) else convolution
        z = compute(
            inner, weight, bias, list(steps), before, list(spread), int(groups), algorithm, tiles,
            threads, tolerance,
        )  # fmt: skip
    return activations.apply(name, parameters if slopes is None else (slopes,), z)


@lru_cache(maxsize=1024, typed=True)
def _check(
    weight: tuple[int, ...], input: tuple[int, ...], stride: Any, padding: Any, dilation: Any,
    groups: Any, algorithm: Algorithm, tile: Any, tolerance: Any,
) -> None:  # fmt: skip
    """Raise InvalidType, InvalidValue or Unsupported for what is not allowed, before any work.

    ``weight`` and ``input`` are shapes.
    """
    asked = Options(
        stride, padding, dilation, groups, layout=arguments.LAYOUTS[len(weight) - 2][0],
        algorithm=algorithm, tile=tile, tolerance=tolerance,
    )  # fmt: skip
    layer = Layer.from_options(tuple(weight), "float32", asked)
    Request.from_options(layer, asked)
    layer.problem(tuple(input))


def _computed(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    algorithm: str,
    tile: list[int],
    threads: int | None,
    tolerance: float | None,
) -> Tensor:
    """What the operator computes."""
    rank, last = len(stride), is_channels_last(input)
    layout = arguments.LAYOUTS[rank][last]
    options = {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
        "layout": layout,
        "algorithm": algorithm,
        "tile": None if not tile else tile[0] if len(tile) == 1 else tuple(tile),
        "threads": torch.get_num_threads() if threads is None else threads,
        "tolerance": tolerance,
    }
    data = input.detach().numpy()
    layer = packed_layer(CONVOLUTIONS[rank], weight, bias, options)
    if not last:
        return torch.from_numpy(layer(data))
    y = layer(np.moveaxis(data, 1, -1))
    return torch.from_numpy(np.moveaxis(y, -1, 1))


@torch.library.custom_op("winogen::convolution", mutates_args=(), device_types="cpu")
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    algorithm: str,
    tile: list[int],
    threads: int | None,
    tolerance: float | None,
) -> Tensor:
    """The operator: padding with zeros, as much before as behind each axis; no ``tile``: []."""
    return _computed(
        input, weight, bias, stride, padding, dilation, groups, algorithm, tile, threads, tolerance
    )


@convolution.register_fake
def _fake(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int],
    dilation: list[int], *rest: Any,
) -> Tensor:  # fmt: skip
    size = [
        (count + 2 * end - spread * (taps - 1) - 1) // step + 1
        for count, end, spread, taps, step in zip(
            input.shape[2:], padding, dilation, weight.shape[2:], stride
        )
    ]
    y = input.new_empty(input.shape[0], weight.shape[0], *size)
    return y.contiguous(memory_format=torch.channels_last_3d) if is_channels_last(input) else y


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, bias, *ctx.steps = inputs[:7]
    ctx.has_bias = bias is not None
    ctx.save_for_backward(input, weight)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, weight = ctx.saved_tensors
    stride, padding, dilation, groups = ctx.steps
    needed = [*ctx.needs_input_grad[:2], ctx.has_bias and ctx.needs_input_grad[2]]
    grads = torch.ops.aten.convolution_backward(
        grad, input, weight, [weight.shape[0]] if ctx.has_bias else None, stride, padding, dilation,
        False, [0] * len(stride), groups, needed,
    )  # fmt: skip
    return (*(one if wanted else None for one, wanted in zip(grads, needed)), *[None] * 8)


convolution.register_autograd(_backward, setup_context=_setup)


_Kind = TypeVar("_Kind", bound="Asking")


class Asking(Activated):
    """What `Conv1d`, `Conv3d` and transposed layers share: options, kept as an attribute."""

    rank: ClassVar[int]

    def _ask(self, activation: Any, **options: Any) -> None:
        self.options = options
        self.activation = activation

    @classmethod
    def from_module(
        cls: type[_Kind],
        module: Any,
        *,
        # parameters: activation algorithm tile threads tolerance
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        threads: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ) -> _Kind:
        """Return a layer that shares the parameters of torch's ``module``; options as for the
        class.

        Hooks and parametrizations of ``module`` stay behind, with the module. Raises InvalidType
        for another kind of layer, and what the class raises.
        """
        if not isinstance(module, cls._plain):
            raise InvalidType(
                f"module: got {type(module).__name__}; allowed: an nn.{cls._plain.__name__}"
            )
        options: Any = {
            "algorithm": algorithm, "tile": tile, "threads": threads, "tolerance": tolerance
        }  # fmt: skip
        cls.check(module, **options)
        made: _Kind = sharing(cls, module)
        made._ask(activation, **options)
        return made

    def repack(self: Any) -> None:
        """Pack the weights anew before the next call; see `Conv2d.repack`."""
        packing.forget_layers(self.weight)

    def _named_options(self) -> dict[str, Any]:
        """The options that are not the defaults."""
        defaults = {"algorithm": "auto"}
        return {name: v for name, v in self.options.items() if v != defaults.get(name)}

    @classmethod
    def check(cls, layer: Any, **options: Any) -> None:
        """Raise InvalidType, InvalidValue or Unsupported for options that a layer cannot have."""
        options = dict(options)
        arguments.threads(options.pop("threads", None))
        asked = Options(
            layer.stride, layer.padding, layer.dilation, layer.groups,
            padding_mode=layer.padding_mode, layout=arguments.LAYOUTS[cls.rank][0], **options,
        )  # fmt: skip
        cls._check(layer, asked)

    @classmethod
    def _check(cls, layer: Any, asked: Options) -> None:
        """Raise as `check` does; ``asked``: all that is asked of the layer."""
        Request.from_options(Layer.from_options(tuple(layer.weight.shape), "float32", asked), asked)

    def forward(self: Any, input: Tensor) -> Tensor:
        """Return the output of ``input``, with or without a batch."""
        return _convolved(
            self.rank, input, self.weight, self.bias, self.stride, self.padding, self.dilation,
            self.groups, self.padding_mode, self.activation, **self.options,
        )  # fmt: skip


class Conv1d(Asking, nn.Conv1d):
    """An `nn.Conv1d` that computes with winogen's kernels; see `Conv2d` and `conv1d`.

    ``activation``, ``algorithm``, ``tile``, ``threads`` and ``tolerance`` are given by name; all
    else is as for `nn.Conv1d`, parameters and ``state_dict``, too.

    >>> import torch, winogen.torch
    >>> winogen.torch.Conv1d(3, 8, 3, padding=1, activation="relu")(torch.randn(2, 3, 50)).shape
    torch.Size([2, 8, 50])
    """

    rank = 1
    _plain = nn.Conv1d

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
        nn.Conv1d.__init__(self, *args, **others)
        self._ask(activation, algorithm=algorithm, tile=tile, threads=threads, tolerance=tolerance)


class Conv3d(Asking, nn.Conv3d):
    """An `nn.Conv3d` that computes with winogen's kernels; see `Conv2d` and `conv3d`.

    Options are as for `Conv1d`.

    >>> import torch, winogen.torch
    >>> winogen.torch.Conv3d(3, 8, (1, 3, 3))(torch.randn(2, 3, 4, 9, 9)).shape
    torch.Size([2, 8, 4, 7, 7])
    """

    rank = 3
    _plain = nn.Conv3d

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
        nn.Conv3d.__init__(self, *args, **others)
        self._ask(activation, algorithm=algorithm, tile=tile, threads=threads, tolerance=tolerance)
