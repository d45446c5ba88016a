"""What a call asks for besides tensors, as a user spells it, and what an operator is told of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, SupportsIndex

from torch import Tensor

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue
from winogen.torch.settings import LayerSettings, settings
from winogen.typing import Algorithm, Border, Edge, Order, PaddingMode, Real, Texts, Tile


class LayerOptions(NamedTuple):
    """How to compute, as `winogen.conv2d` takes it."""

    # fields: algorithm ... border workspace_limit tolerance threads
    algorithm: Algorithm = "auto"
    tile: Tile | None = None
    points: Texts | None = None
    moduli: Texts | None = None
    order: Order | None = None
    edge: Edge = "discard"
    border: Border = "unswitch"
    workspace_limit: SupportsIndex | None = None
    tolerance: Real | None = None
    threads: SupportsIndex | None = None
    # end


class LayerRequest(NamedTuple):
    """What a call asks for besides tensors, as a user spells it but for the activation."""

    stride: Any
    padding: Any
    dilation: Any
    groups: SupportsIndex
    padding_mode: PaddingMode
    activation: str | None
    parameters: tuple[float, ...]
    options: LayerOptions
    kernel: tuple[int, ...]
    transposed: bool = False
    output_padding: Any = 0

    @classmethod
    def of(cls, module: Any, activation: tuple[Any, Any], options: LayerOptions) -> LayerRequest:
        """Return what a layer of torch asks for, of any number of axes."""
        stride, padding, dilation, more = map(
            frozen, (module.stride, module.padding, module.dilation, module.output_padding)
        )
        name, parameters = activation
        return cls(
            stride, padding, dilation, module.groups, module.padding_mode, name, parameters,
            options, module.kernel_size, module.transposed, more,
        )  # fmt: skip

    @property
    def rank(self) -> int:
        """How many axes there are."""
        return len(self.kernel)

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after each axis, of any spelling; raises InvalidType, InvalidValue."""
        if self.transposed and isinstance(self.padding, str):
            raise InvalidValue(
                f"padding: got {self.padding!r}; allowed: numbers, with a transposed layer"
            )
        stride = arguments.per_axis("stride", self.stride, 1, self.rank)
        dilation = arguments.per_axis("dilation", self.dilation, 1, self.rank)
        return arguments.padding(self.padding, self.kernel, stride, dilation)

    def plain(self) -> tuple:
        """The arguments of the operator; kept simple, since dynamo traces it."""
        options = self.options
        return (
            _listed(self.stride),
            tuple(end for both in self.ends for end in both),
            _listed(self.dilation),
            self.groups,
            self.padding_mode,
            self.activation,
            self.parameters,
            options.algorithm,
            () if options.tile is None else tuple(size or 0 for size in _listed(options.tile)),
            _joined(options.points),
            _joined(options.moduli),
            *options[4:7],
            options.workspace_limit,
            options.tolerance,
            options.threads,
            self.transposed,
            _listed(self.output_padding),
        )


@lru_cache(maxsize=1024)
def checked(wanted: LayerRequest, weight: tuple[int, ...]) -> LayerSettings:
    """Return the same in the types of the operator, checked for weights of this shape.

    Raises InvalidType, InvalidValue and Unsupported.
    """
    asked = settings(wanted.rank, *wanted.plain())
    asked.check(weight)
    return asked


def activation_parts(activation: Any) -> tuple[str | None, tuple[float, ...], Tensor | None]:
    """Return the name, numbers and slopes of an operator for ``activation=``.

    Raises InvalidType and InvalidValue.
    """
    asked = arguments.activation(activation)
    if not asked.per_filter:
        return asked.activation, asked.parameters, None
    slopes = activation[1]
    if isinstance(slopes, (int, float)):  # the same for all channels
        return "leaky_relu", (float(slopes),), None
    if not isinstance(slopes, Tensor):
        raise InvalidType(f"activation: got {activation!r}; allowed: slopes as a tensor")
    return asked.activation, (), slopes


def frozen(value: Any) -> Any:
    """Lists as tuples, which caches can look up."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    return value


def _listed(value: Any) -> tuple:
    """One number, or one for each axis, as the list of a schema."""
    return value if isinstance(value, tuple) else (value,)


def _joined(value: Any) -> Any:
    """None, a text, or one for each axis, as one text."""
    return ";".join(text or "" for text in value) if isinstance(value, tuple) else value
