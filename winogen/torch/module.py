"""`Conv2d`, an `nn.Conv2d` that computes with winogen's kernels."""

from __future__ import annotations

import warnings
from typing import Any, SupportsIndex

import torch
from torch import Tensor, nn

from winogen.torch import packing
from winogen.torch.functional import LayerOptions, LayerRequest, call, frozen
from winogen.torch.settings import settings
from winogen.torch.sharing import Activated, sharing
from winogen.typing import (
    Activation,
    Algorithm,
    Border,
    Edge,
    IntOrInts,
    Order,
    Padding,
    PaddingMode,
    Real,
    Texts,
    Tile,
)

torch.fx.wrap("call")  # a symbolic trace has one node for it

# What a call asks for, by the names of the module's attributes.
_ASKED = frozenset(
    "stride padding dilation groups padding_mode kernel_size options _activation".split()
)


class Conv2d(Activated, nn.Conv2d):
    """An `nn.Conv2d` that computes with winogen's kernels.

    It has the parameters and the ``state_dict`` of `nn.Conv2d`, so either loads what the other
    saved (but for the slopes of "prelu"). Weights are packed on first use and kept outside of the
    module; changes by optimizers, `load_state_dict` and other operations of torch are noticed.
    Other devices and dtypes than CPU and float32 or float64, and autocast, are left to torch.

    Parameters
    ----------
    in_channels, ..., dtype
        Those of `nn.Conv2d`.
    activation
        As `winogen.conv2d` takes it. The slopes of ("prelu", slopes), a tensor (M,) or (1,), are
        kept as `slopes`: as a parameter if they are one, else as a buffer.
    algorithm, ..., tolerance
        As `winogen.torch.conv2d` takes them.

    Raises
    ------
    InvalidType, InvalidValue, Unsupported
        For an argument that is not allowed, when the layer is made. What depends on the size of an
        input, the first call raises.

    The forward pass takes ``add`` and ``add_after``, too, with the shape of the result, and returns
    activation(convolution + bias + add) + add_after.

    >>> import torch, winogen.torch
    >>> conv = winogen.torch.Conv2d(3, 8, 3, padding=1, activation="relu")
    >>> conv(torch.randn(1, 3, 32, 32)).shape
    torch.Size([1, 8, 32, 32])
    >>> conv.load_state_dict(torch.nn.Conv2d(3, 8, 3).state_dict())
    <All keys matched successfully>
    """

    _plain = nn.Conv2d

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrInts,
        # parameters: stride ... groups
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        groups: SupportsIndex = 1,
        # end
        bias: bool = True,
        # parameters: padding_mode
        padding_mode: PaddingMode = "zeros",
        # end
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        # parameters: activation algorithm ... border threads ... tolerance
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Texts | None = None,
        moduli: Texts | None = None,
        order: Order | None = None,
        edge: Edge = "discard",
        border: Border = "unswitch",
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        nn.Conv2d.__init__(
            self,
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        options = LayerOptions(
            # arguments: algorithm ... border workspace_limit tolerance threads
            algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance,
            threads,
            # end
        )  # fmt: skip
        self._ask(activation, options)

    @classmethod
    def from_module(
        cls,
        module: nn.Conv2d,
        *,
        # parameters: activation algorithm ... border threads ... tolerance
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Texts | None = None,
        moduli: Texts | None = None,
        order: Order | None = None,
        edge: Edge = "discard",
        border: Border = "unswitch",
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ) -> Conv2d:
        """Return a layer that shares the parameters of ``module``; options as for the class.

        Hooks and parametrizations of ``module`` stay behind, with the module.
        """
        made: Conv2d = sharing(cls, module)
        options = LayerOptions(
            # arguments: algorithm ... border workspace_limit tolerance threads
            algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance,
            threads,
            # end
        )  # fmt: skip
        made._ask(activation, options)
        return made

    def _ask(self, activation: Activation | None, options: LayerOptions) -> None:
        self.options = LayerOptions(*map(frozen, options))
        self.activation = activation
        settings(*self._wanted.plain()).check(tuple(self.weight.shape))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _ASKED and self.__dict__.keys() >= _ASKED:
            self.__dict__["_wanted"] = self._collected()

    def _collected(self) -> LayerRequest:
        """What a call asks for; made whenever a part of it is set, and not at every call."""
        return LayerRequest(
            frozen(self.stride),
            frozen(self.padding),
            frozen(self.dilation),
            self.groups,
            self.padding_mode,
            *self._activation,
            self.options,
            self.kernel_size,
        )

    def forward(
        self, input: Tensor, add: Tensor | None = None, add_after: Tensor | None = None
    ) -> Tensor:
        """Return the output, (N, M, OH, OW), of ``input``, (N, C, H, W), or both without N."""
        request = self._wanted
        slopes = self.slopes if request.activation == "prelu" else None
        parameters = self._parameters  # looked up twice as fast
        if "weight" in parameters and "bias" in parameters:
            weight, bias = parameters["weight"], parameters["bias"]
        else:  # computed by a parametrization
            weight, bias = self.weight, self.bias
        return call(input, weight, bias, slopes, add, add_after, request)

    def repack(self) -> None:
        """Pack the weights anew before the next call.

        For changes of a few numbers that torch does not count: writes through ``weight.data``,
        through a numpy view of it, by another library by DLPack, and by the second step of an
        optimizer made with ``fused=True`` without a forward pass in between. All others are
        noticed, and these too by a call that needs gradients.
        """
        packing.repack(self.weight)

    def _named_options(self) -> dict[str, Any]:
        """The options that are not the defaults."""
        both = zip(LayerOptions._fields, self.options, LayerOptions())
        return {name: value for name, value, default in both if value != default}

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles name options, so that other versions of winogen can read them."""
        state = {**self.__dict__, "options": self._named_options()}
        state.pop("_wanted", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        options = state.pop("options", {})
        unknown = sorted(options.keys() - LayerOptions._fields)
        if unknown:
            warnings.warn(
                f"{', '.join(unknown)}: saved by another version of winogen; this one has no such "
                "option, and computes without",
                stacklevel=2,
            )
        super().__setstate__(state)
        self.options = LayerOptions(
            **{n: frozen(v) for n, v in options.items() if n not in unknown}
        )
