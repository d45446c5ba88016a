"""What a call asks for besides tensors, in the plain types of the operator's schema."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from winogen.conv import Layer, arguments
from winogen.conv.options import NAMES as OPTIONS
from winogen.conv.options import Options
from winogen.conv.phases import outputs
from winogen.conv.request import Request
from winogen.conv.transposed_problem import TransposedLayer
from winogen.errors import InvalidValue
from winogen.kernels.spec import PADDING_MODES
from winogen.records.activations import spelled
from winogen.torch.arrays import PLANAR, named

Sizes = tuple[int, ...]  # along each axis


@dataclass(frozen=True)
class LayerSettings:
    """The options of `winogen::convolution`: what its schema has, checked as far as it needs no
    shapes. There are as many axes as strides.

    ``threads`` is None for as many as torch uses at the time of the call.
    """

    stride: Sizes
    padding: Sizes  # before and after each axis
    dilation: Sizes
    groups: int = 1
    padding_mode: str = "zeros"
    activation: str | None = None
    parameters: tuple[float, ...] = ()
    algorithm: str = "auto"
    tile: tuple[int, ...] = ()
    points: str | None = None  # for all axes, or "height;width", with nothing for default points
    moduli: str | None = None
    order: str | None = None
    edge: str = "discard"
    border: str = "unswitch"
    workspace_limit: int | None = None
    tolerance: float | None = None
    threads: int | None = None
    transposed: bool = False
    output_padding: Sizes = ()  # of a transposed layer

    def __post_init__(self) -> None:
        # Every lookup of a layer asks for it.
        object.__setattr__(self, "_hash", hash(tuple(getattr(self, name) for name in NAMES)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple:
        """Texts hash differently in every process, so the hash is made anew."""
        return LayerSettings, tuple(getattr(self, name) for name in NAMES)

    @property
    def rank(self) -> int:
        """How many axes there are: 1 to 3."""
        return len(self.stride)

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """The padding before and after each axis."""
        return tuple(zip(self.padding[::2], self.padding[1::2]))

    def options(self, layout: str) -> dict[str, Any]:
        """The arguments of winogen's layer for a layout of torch's, but for threads and slopes."""
        options = {name: getattr(self, name) for name in OPTIONS if name in NAMES}
        options |= {name: _per_axis(options[name]) for name in ("tile", "points", "moduli")}
        per_filter = self.activation == "prelu"
        options["padding"] = self.ends
        options["activation"] = None if per_filter else spelled(self.activation, self.parameters)
        options["layout"] = named(layout, self.rank)
        del options["threads"]
        if self.transposed:
            options["output_padding"] = self.output_padding
        return options

    def check(self, weight_shape: Sizes) -> None:
        """Raise what a call would for weights of this shape, whatever its input."""
        options = self.options(PLANAR)
        more = options.pop("output_padding", 0)
        asked = Options(**options, threads=self.threads)
        if self.transposed:
            TransposedLayer.of(weight_shape, "float32", asked, more)
        else:
            Request.from_options(Layer.from_options(weight_shape, "float32", asked), asked)

    def output_shape(self, input: Any, weight: Any) -> tuple[Any, ...]:
        """The shape of the output for shapes whose sizes may be symbolic.

        Raises InvalidValue where there is none.
        """
        first, second, *kernel = weight
        channels, filters = (first, second * self.groups) if self.transposed else (
            second * self.groups, first
        )  # fmt: skip
        if input[1] != channels or first % self.groups:
            raise InvalidValue(
                f"groups: got {self.groups} with input {tuple(input)} and weight {tuple(weight)}; "
                f"allowed: C channels, weight {self.weight_axes}, {self.weight_axes[1]} a multiple "
                "of groups"
            )
        sizes = []
        for axis, (count, taps, step, spread, ends) in enumerate(
            zip(input[2:], kernel, self.stride, self.dilation, self.ends)
        ):
            reach = spread * (taps - 1) + 1
            if self.transposed:
                more = self.output_padding[axis]
                sizes.append(outputs(count, taps, step, spread, ends, more))
                if sizes[-1] < 1:
                    raise InvalidValue(
                        f"padding: got {ends} along axis {2 + axis}, that leaves an output of "
                        f"{sizes[-1]}; allowed: less, so that there is an output"
                    )
                continue
            padded = count + sum(ends)
            if padded < reach:
                raise InvalidValue(
                    f"weight: got a kernel reaching over {reach} along axis {2 + axis}; allowed: "
                    f"at most the padded input, {padded}"
                )
            sizes.append((padded - reach) // step + 1)
        return (input[0], filters, *sizes)

    @property
    def weight_axes(self) -> str:
        """The axes of weights, in words."""
        taps = ", ".join(("KD", "KH", "KW")[-self.rank :])
        return f"(C, M/groups, {taps})" if self.transposed else f"(M, C/groups, {taps})"

    def turned(self, kernel: Sizes) -> LayerSettings | None:
        """The ordinary layer with turned filters that a transposed one is; None: none is.

        An input reaches the outputs whose kernels see it, and these are as many as the kernel has
        taps. With a stride they are not neighbours; with more padding than the kernel reaches over,
        outputs would have to be left out.
        """
        if max(self.stride) > 1:
            return None
        sides: list[int] = []
        for taps, spread, ends, more in zip(kernel, self.dilation, self.ends, self.output_padding):
            reach = spread * (taps - 1)
            sides += (reach - ends[0], reach - ends[1] + more)
        if min(sides) < 0:
            return None
        return self.changed(padding=tuple(sides), transposed=False, output_padding=())

    def gradient(self) -> LayerSettings:
        """What derivatives are computed with: without activation, by the planner's choice.

        Direct convolution stays, as whoever names it wants values of a tile unmixed.
        """
        return _gradient(self)

    def changed(self, **fields: Any) -> LayerSettings:
        """The same but for some fields."""
        return _changed(self, tuple(fields.items()))


NAMES = tuple(field.name for field in fields(LayerSettings))


@lru_cache(maxsize=1024)  # steps of a training ask for the same again and again, as below
def _gradient(asked: LayerSettings) -> LayerSettings:
    algorithm = asked.algorithm if asked.algorithm in ("direct", "im2col") else "auto"
    own = {name: getattr(asked, name) for name in ("tolerance", "threads", "transposed")}
    return LayerSettings(
        asked.stride, asked.padding, asked.dilation, asked.groups, asked.padding_mode,
        algorithm=algorithm, output_padding=asked.output_padding, **own,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _changed(asked: LayerSettings, items: tuple[tuple[str, Any], ...]) -> LayerSettings:
    return replace(asked, **dict(items))


@lru_cache(maxsize=1024)
def settings(
    rank: int,
    stride: Sizes = (1,),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    parameters: tuple[float, ...] = (),
    *rest: Any,
) -> LayerSettings:
    """Return the checked settings of an operator's arguments; raises InvalidValue, InvalidType.

    ``padding`` has one number, one for each axis, or two, before and after each axis. The order is
    the same as for the fields of `LayerSettings`.
    """
    arguments.choice("padding_mode", padding_mode, PADDING_MODES)
    if activation != "prelu":  # whose slopes are a tensor of their own
        parameters = arguments.activation(spelled(activation, parameters)).parameters
    given = dict(zip(NAMES[7:], rest))
    transposed = given.pop("transposed", False)
    more = arguments.per_axis("output_padding", given.pop("output_padding", 0), 0, rank)
    if any(more) and not transposed:
        raise InvalidValue(f"output_padding: got {more}; allowed: 0, unless transposed")
    if given.get("threads") is not None:
        arguments.threads(given["threads"])
    return LayerSettings(
        arguments.per_axis("stride", stride, 1, rank),
        sides(padding, rank),
        arguments.per_axis("dilation", dilation, 1, rank),
        arguments.whole("groups", groups, 1, "a positive int"),
        padding_mode,
        activation,
        parameters,
        **given,
        transposed=transposed,
        output_padding=more if transposed else (),
    )


def sides(padding: Sizes, rank: int) -> Sizes:
    """Return the padding before and after each axis of an operator's; raises InvalidValue."""
    pairs = len(padding) == 2 * rank
    given: Any = tuple(zip(padding[::2], padding[1::2])) if pairs else padding
    ends = arguments.padding(given, (1,) * rank, (1,) * rank, (1,) * rank)
    return tuple(end for both in ends for end in both)


def _per_axis(value: Any) -> Any:
    """None, one value for all axes, or a tuple in which None stands for the default."""
    if isinstance(value, str):
        value = value.split(";")
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) < 2:
        return value[0] if value else None
    return tuple(item or None for item in value)
