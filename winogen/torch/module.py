"""`Conv2d`, an `nn.Conv2d` that computes with winogen's kernels."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from winogen.torch import packing
from winogen.torch.functional import Options, Wanted, _frozen, activation_parts, call


class Conv2d(nn.Conv2d):
    """An `nn.Conv2d` that computes with winogen's kernels.

    It has the parameters, buffers and ``state_dict`` of `nn.Conv2d`, so either loads what the other
    saved. Weights are packed on first use and kept outside of the module; changes by optimizers,
    `load_state_dict` and other operations of torch are noticed. Other devices and dtypes than CPU
    and float32 or float64, and autocast, are left to torch.

    Parameters
    ----------
    activation
        As `winogen.conv2d` takes it; "prelu" with slopes has them for a constant, (M,) or (1,).
    algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance, threads
        As `winogen.torch.conv2d` takes them.

    The others are those of `nn.Conv2d`. The forward pass takes ``add`` and ``add_after``, too, and
    returns activation(convolution + bias + add) + add_after.

    >>> import torch, winogen.torch
    >>> conv = winogen.torch.Conv2d(3, 8, 3, padding=1, activation="relu")
    >>> conv(torch.randn(1, 3, 32, 32)).shape
    torch.Size([1, 8, 32, 32])
    >>> conv.load_state_dict(torch.nn.Conv2d(3, 8, 3).state_dict())
    <All keys matched successfully>
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        activation: Any = None,
        **options: Any,
    ):
        super().__init__(
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
        self._ask(activation, options)

    @classmethod
    def from_module(cls, module: nn.Conv2d, *, activation: Any = None, **options: Any) -> Conv2d:
        """Return a layer that shares the parameters of ``module``; options as for the class.

        Hooks and parametrizations of ``module`` stay behind, with the module.
        """
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        for name in (
            "in_channels out_channels kernel_size stride padding dilation transposed "
            "output_padding groups padding_mode _reversed_padding_repeated_twice"
        ).split():
            setattr(made, name, getattr(module, name))
        made.weight = module.weight
        made.register_parameter("bias", module.bias)
        made.training = module.training
        made._ask(activation, options)
        return made

    def _ask(self, activation: Any, options: dict[str, Any]) -> None:
        self.activation = _frozen(activation)
        self.options = Options(**{name: _frozen(value) for name, value in options.items()})

    def forward(
        self, input: Tensor, add: Tensor | None = None, add_after: Tensor | None = None
    ) -> Tensor:
        """Return the output, (N, M, OH, OW), of ``input``, (N, C, H, W), or both without N."""
        weight = self.weight
        name, parameters, slopes = activation_parts(self.activation, weight)
        wanted = Wanted(
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.padding_mode,
            name,
            parameters,
            self.options,
            self.kernel_size,
        )
        return call(input, weight, self.bias, slopes, add, add_after, wanted)

    def repack(self) -> None:
        """Pack the weights anew before the next call.

        For changes that torch's version counters don't show: writes through ``weight.data`` (also
        those of old optimizers and of code that edits checkpoints), through a numpy view of it, or
        by another library that shares its memory by DLPack. All others are noticed, and these too
        by a call that needs gradients.
        """
        packing.repack(self.weight)

    def extra_repr(self) -> str:
        """The module's line in a printed model."""
        asked = [] if self.activation is None else [f"activation={self.activation!r}"]
        plain = Options()
        asked += [
            f"{name}={value!r}"
            for name, value in self.options._asdict().items()
            if value != getattr(plain, name)
        ]
        return ", ".join([super().extra_repr(), *asked])
