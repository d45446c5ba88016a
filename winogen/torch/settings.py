"""What a call asks for besides tensors, in the plain types of an operator's schema."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from winogen.conv import Layer, arguments
from winogen.conv.options import Options
from winogen.conv.request import Request
from winogen.kernels.spec import PADDING_MODES
from winogen.records.activations import spelled

Pair = tuple[int, int]  # height, width
Sides = tuple[int, int, int, int]  # top, bottom, left, right


@dataclass(frozen=True)
class LayerSettings:
    """The options of `winogen::conv2d`: what its schema has, checked as far as it needs no shapes.

    ``threads`` is None for as many as torch uses at the time of the call.
    """

    stride: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    padding_mode: str = "zeros"
    activation: str | None = None
    parameters: tuple[float, ...] = ()
    algorithm: str = "auto"
    tile: tuple[int, ...] = ()
    points: str | None = None  # for both axes, or "height;width", with nothing for default points
    moduli: str | None = None
    order: str | None = None
    edge: str = "discard"
    border: str = "unswitch"
    workspace_limit: int | None = None
    tolerance: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        # Every lookup of a layer asks for it.
        object.__setattr__(self, "_hash", hash(tuple(getattr(self, name) for name in NAMES)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple:
        """Texts hash differently in every process, so the hash is made anew."""
        return LayerSettings, tuple(getattr(self, name) for name in NAMES)

    @property
    def spelled_activation(self) -> Any:
        """The activation as `winogen.conv2d` takes it; without slopes, which are a tensor."""
        return spelled(self.activation, self.parameters)

    def options(self) -> dict[str, Any]:
        """The arguments of `winogen.Conv2d`, but for the layout, the threads and slopes."""
        top, bottom, left, right = self.padding
        plain = {name: getattr(self, name) for name in _SAME_NAME}
        per_axis = {name: _per_axis(getattr(self, name)) for name in ("tile", "points", "moduli")}
        return {
            **plain,
            **per_axis,
            "padding": ((top, bottom), (left, right)),
            "activation": self.spelled_activation,
        }

    def check(self, weight_shape: tuple[int, ...]) -> None:
        """Raise what a call would for weights of this shape, whatever its input."""
        options = self.options()
        if self.activation == "prelu":
            options["activation"] = None
        layer_options = Options(**options, threads=self.threads)
        Request.from_options(
            Layer.from_options(weight_shape, "float32", layer_options), layer_options
        )

    def changed(self, **fields: Any) -> LayerSettings:
        """The same but for some fields."""
        return replace(self, **fields)

    def linear(self) -> LayerSettings:
        """The same convolution without its activation."""
        return replace(self, activation=None, parameters=())


NAMES = tuple(field.name for field in fields(LayerSettings))
_SAME_NAME = (
    "stride dilation groups padding_mode algorithm order edge border workspace_limit tolerance"
).split()


@lru_cache(maxsize=1024)
def settings(
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    padding_mode: str,
    activation: str | None,
    parameters: tuple[float, ...],
    *rest: Any,
) -> LayerSettings:
    """Return the checked settings of an operator's arguments; raises InvalidValue, InvalidType.

    ``padding`` has one number, two (height, width) or four (top, bottom, left, right). The order is
    the same as for the fields of `LayerSettings`.
    """
    steps = (
        arguments.per_axis(name, value, 1, 2)
        for name, value in (("stride", stride), ("dilation", dilation))
    )
    (high, wide), (tall, broad) = steps
    arguments.choice("padding_mode", padding_mode, PADDING_MODES)
    if activation != "prelu":  # whose slopes are a tensor of their own
        parameters = arguments.activation(spelled(activation, parameters)).parameters
    made = LayerSettings(
        (high, wide),
        sides(padding),
        (tall, broad),
        arguments.whole("groups", groups, 1, "a positive int"),
        padding_mode,
        activation,
        parameters,
        *rest,
    )
    if made.threads is not None:
        arguments.threads(made.threads)
    return made


def sides(padding: tuple[int, ...]) -> Sides:
    """Return (top, bottom, left, right) of one, two or four numbers; raises InvalidValue."""
    given = (padding[:2], padding[2:]) if len(padding) == 4 else padding
    (top, bottom), (left, right) = arguments.padding(given, (1, 1), (1, 1), (1, 1))
    return top, bottom, left, right


def _per_axis(value: Any) -> Any:
    """None, one value for both axes, or a pair in which None stands for the default."""
    if isinstance(value, str):
        value = value.split(";")
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) < 2:
        return value[0] if value else None
    return tuple(item or None for item in value)
