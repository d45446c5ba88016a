"""The base of all layers: options, activation, parameters of an existing layer, a plain twin."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar

import torch
from torch import Tensor, nn

from winogen.conv import arguments
from winogen.errors import InvalidType, Unsupported
from winogen.records.activations import spelled
from winogen.torch import packing
from winogen.torch.dispatch import call
from winogen.torch.request import LayerOptions, LayerRequest, activation_parts, checked, frozen
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

_GEOMETRY = (
    "in_channels out_channels kernel_size stride padding dilation transposed "
    "output_padding groups padding_mode _reversed_padding_repeated_twice training"
).split()
# What a call asks for, by the names of the module's attributes.
_ASKED = frozenset(
    "stride padding dilation groups padding_mode kernel_size transposed output_padding options "
    "_activation".split()
)
_Kind = TypeVar("_Kind", bound="ConvolutionModule")


class ConvolutionModule:
    """What layers of one to three axes and transposed ones share; it stands before torch's class.

    ``options`` says how they compute, ``activation`` what is done to the sums.
    """

    weight: Any  # torch's, as all else
    options: LayerOptions
    _plain: type[nn.Module]  # torch's class

    @classmethod
    def from_module(
        cls: type[_Kind],
        module: Any,
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
        made: _Kind = sharing(cls, module)
        options = LayerOptions(
            # arguments: algorithm ... border workspace_limit tolerance threads
            algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance,
            threads,
            # end
        )  # fmt: skip
        made._ask(activation, options)
        return made

    def _ask(self: Any, activation: Activation | None, options: LayerOptions) -> None:
        self.options = LayerOptions(*map(frozen, options))
        self.activation = activation
        checked(self._wanted, tuple(self.weight.shape))

    @property
    def activation(self: Any) -> Any:
        """What is done to the sums, as `winogen.conv2d` takes it."""
        name, parameters = self._activation
        return (name, self.slopes) if name == "prelu" else spelled(name, parameters)

    @activation.setter
    def activation(self: Any, activation: Any) -> None:
        name, parameters, slopes = activation_parts(activation)
        if isinstance(slopes, nn.Parameter):
            self.slopes = slopes
        else:
            self.register_buffer("slopes", slopes)
        self._activation = (name, parameters)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if name == "activation":  # which nn.Module would take for a submodule
            object.__setattr__(self, name, value)
            return
        super().__setattr__(name, value)
        if name in _ASKED and self.__dict__.keys() >= _ASKED:
            # What a call asks for; made whenever a part of it is set, and not at every call.
            self.__dict__["_wanted"] = LayerRequest.of(self, self._activation, self.options)

    def _call(
        self: Any,
        input: Tensor,
        add: Tensor | None,
        add_after: Tensor | None,
        request: LayerRequest,
    ) -> Tensor:
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

    def __setstate__(self: Any, state: dict[str, Any]) -> None:
        state = dict(state)
        options = state.pop("options", {})
        unknown = sorted(options.keys() - LayerOptions._fields)
        if unknown:
            warnings.warn(
                f"{', '.join(unknown)}: saved by another version of winogen; this one has no such "
                "option, and computes without",
                stacklevel=2,
            )
        nn.Module.__setstate__(self, state)
        self.options = LayerOptions(
            **{n: frozen(v) for n, v in options.items() if n not in unknown}
        )

    def __prepare_scriptable__(self: Any) -> nn.Module:
        """What `torch.jit.script` compiles instead, for it knows no operators made in Python."""
        if self._activation[0] is not None:
            raise Unsupported(
                f"torch.jit.script: got a {self._get_name()} with activation {self.activation!r};"
                " allowed: one without, or torch.jit.trace, torch.export and torch.compile"
            )
        return sharing(self._plain, self)

    def _get_name(self) -> str:
        """Told apart from torch's in a printed model."""
        return f"winogen.torch.{type(self).__name__}"

    def extra_repr(self: Any) -> str:
        """The module's line in a printed model."""
        name, parameters = self._activation
        asked = [] if name is None else [f"activation={spelled(name, parameters)!r}"]
        asked += [f"{name}={value!r}" for name, value in self._named_options().items()]
        return ", ".join([self._plain.extra_repr(self), *asked])


_RANKS: dict[type[nn.Module], int] = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


class OrdinaryModule(ConvolutionModule):
    """The base of `Conv1d`, `Conv2d` and `Conv3d`."""

    def __init__(
        self: Any,
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
        if padding == "causal":  # which torch does not know
            sizes = (
                arguments.per_axis(name, size, 1, _RANKS[self._plain])
                for name, size in (
                    ("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation)
                )
            )  # fmt: skip
            padding = arguments.padding(padding, *sizes)
        self._plain.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        options = LayerOptions(
            # arguments: algorithm ... border workspace_limit tolerance threads
            algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance,
            threads,
            # end
        )  # fmt: skip
        self._ask(activation, options)

    def forward(
        self: Any, input: Tensor, add: Tensor | None = None, add_after: Tensor | None = None
    ) -> Tensor:
        """Return the output, (N, M, OH, OW), of ``input``, (N, C, H, W), or both without N; with
        other axes alike.
        """
        return self._call(input, add, add_after, self._wanted)


class TransposedModule(ConvolutionModule):
    """The base of `ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`."""

    def __init__(
        self: Any,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrInts,
        stride: IntOrInts = 1,
        padding: IntOrInts = 0,
        output_padding: IntOrInts = 0,
        groups: SupportsIndex = 1,
        bias: bool = True,
        dilation: IntOrInts = 1,
        padding_mode: PaddingMode = "zeros",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        # parameters: activation algorithm ... order border threads ... tolerance
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Texts | None = None,
        moduli: Texts | None = None,
        order: Order | None = None,
        border: Border = "unswitch",
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        self._plain.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups,
            bias, dilation, padding_mode, device, dtype,
        )  # fmt: skip
        options = LayerOptions(
            # arguments: algorithm ... order
            algorithm, tile, points, moduli, order,
            # end
            border=border, workspace_limit=workspace_limit, tolerance=tolerance, threads=threads,
        )  # fmt: skip
        self._ask(activation, options)

    def forward(
        self: Any,
        input: Tensor,
        output_size: Sequence[int] | None = None,
        add: Tensor | None = None,
        add_after: Tensor | None = None,
    ) -> Tensor:
        """Return the output of ``input``, with or without a batch, of ``output_size`` if given."""
        request = self._wanted
        if output_size is not None:
            more = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, request.rank,
                self.dilation,
            )  # fmt: skip
            request = request._replace(output_padding=tuple(more))
        return self._call(input, add, add_after, request)


def sharing(kind: Any, module: nn.Module) -> Any:
    """Return a layer of a kind that has the parameters and the geometry of another."""
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    for name in _GEOMETRY:
        setattr(made, name, getattr(module, name))
    for name in ("weight", "bias"):
        made.register_parameter(name, getattr(module, name))
    return made
