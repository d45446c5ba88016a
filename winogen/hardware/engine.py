"""The engine: how many multipliers it has, what its buffers hold, and its ports.

The model is that of P. Maji's thesis (chapter 6). In a cycle an engine multiplies one row of a
transformed tile, T positions of f_i channels, in each of L lanes, by the same row of f_o filters,
and adds the products over the channels. T such cycles are a tile. Filters are transformed before,
inputs and sums beside the multipliers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from winogen.conv.arguments import positive, whole

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.hardware.mapping import Mapping
    from winogen.hardware.others import OtherMapping

LARGEST = 4096  # channels, filters or lanes that are multiplied at a time
LARGEST_TILE = 32
_INPUT_BYTES = 2  # of a transformed input, and as many of the one that is fetched meanwhile
_FILTER_BYTES = 1


@dataclass(frozen=True)
class Engine:
    """An engine of ``f_i * T * f_o * L`` multipliers: a model, not a measurement.

    ``f_i`` channels and ``f_o`` filters are multiplied at a time, in ``L`` lanes. ``T`` is the side
    of a transformed tile: of F(m, r) by points m + r - 1. By moduli of higher degree tiles have
    fewer outputs, which is said by ``m``. With ``r=1`` nothing is transformed. Raises InvalidType
    and InvalidValue.

    >>> engine = Engine(8, 4, 8, 1)
    >>> engine.multipliers, engine.m, engine.input_buffer, engine.filter_buffer
    (256, 2, 512, 1024)
    >>> engine.mapping((1, 8, 8, 8), (8, 8, 3, 3)).cycles
    36
    >>> engine.mapping((1, 8, 8, 8), (8, 8, 1, 1)).cycles
    16
    """

    f_i: int
    T: int
    f_o: int
    L: int
    r: int = field(default=3, kw_only=True)
    m: int = field(default=0, kw_only=True)  # 0: T - r + 1

    def __post_init__(self) -> None:
        for name in ("f_i", "f_o", "L"):
            self._set(name, 1, LARGEST)
        self._set("r", 1, LARGEST_TILE)
        self._set("T", self.r, LARGEST_TILE, f" of at least r = {self.r}")
        if self.m == 0:
            object.__setattr__(self, "m", self.T - self.r + 1)
        self._set("m", 1, self.T - self.r + 1, f" for T = {self.T} and r = {self.r}")

    def _set(self, name: str, least: int, most: int, why: str = "") -> None:
        allowed = f"an int from {least} to {most}{why}"
        object.__setattr__(self, name, whole(name, getattr(self, name), least, allowed, most))

    def __str__(self) -> str:
        return f"⟨{self.f_i},{self.T},{self.f_o},{self.L}⟩"

    @property
    def multipliers(self) -> int:
        """Products of a cycle."""
        return self.f_i * self.T * self.f_o * self.L

    @property
    def input_buffer(self) -> int:
        """Bytes of transformed tiles that are held: of 16 bits, and as many to come."""
        return 2 * _INPUT_BYTES * self.f_i * self.T**2 * self.L

    @property
    def filter_buffer(self) -> int:
        """Bytes of transformed filters that are held: of 8 bits."""
        return _FILTER_BYTES * self.f_i * self.T**2 * self.f_o

    @property
    def ports(self) -> tuple[int, int]:
        """Buses of activations, one for each lane, and of weights, one for each filter."""
        return self.L, self.f_o

    def peak(self, clock: float) -> float:
        """Return multiplications and additions in a second, at a ``clock`` in Hz.

        >>> Engine(16, 4, 16, 2).peak(1e9) / 1e12
        4.096
        """
        return 2 * self.multipliers * positive("clock", clock, "a positive number of Hz")

    def partial_sums(self, tiles: int) -> int:
        """Return the words that hold the sums of so many tiles in each lane between channels.

        >>> Engine(8, 4, 8, 1).partial_sums(9)  # 8x8 pixels
        1152
        """
        tiles = whole("tiles", tiles, 1, "a positive int")
        return tiles * self.T**2 * self.f_o * self.L

    def accumulators(self, pixels: int | None = None) -> int:
        """Return the rows of accumulators of a filter in a lane: T, those of a tile.

        ``pixels``: of a window by 1x1, which is not transformed. All its rows of T pixels stay
        while the channels go by.

        >>> Engine(8, 4, 8, 1).accumulators(), Engine(8, 4, 8, 1).accumulators(64)
        (4, 16)
        """
        if pixels is None:
            return self.T
        return -(-whole("pixels", pixels, 1, "a positive int") // self.T)

    def mapping(
        self,
        input: Any,
        weight: Any = None,
        *,
        layout: str = "pieces",
        lanes: str = "regions",
        **options: Any,
    ) -> Mapping:
        """Return how a layer runs: its cycles, and what of the multipliers is busy.

        ``input`` is (N, C, H, W) and ``weight`` (M, C/groups, KH, KW), of signals alike, with
        stride, padding, dilation and groups as `conv2d` takes them; or ``input`` is a `Problem`.

        ``layout``: how taps are laid out, "pieces", "taps", "stacked pieces", "stacked taps" or
        "auto" for the one of fewest cycles; ``lanes``: "regions", "channels" or "auto". Both are
        explained in `winogen.hardware.mapping`. Raises InvalidType, InvalidValue, and Unsupported
        for volumes.
        """
        from winogen.hardware.mapping import mapped

        return mapped(self, _problem(input, weight, options), layout, lanes)

    def other(
        self,
        kind: str,
        input: Any,
        kernel: Any = 1,
        *,
        before: Mapping | None = None,
        **options: Any,
    ) -> OtherMapping:
        """Return how a layer without weights runs: its cycles, words and buffer.

        ``kind``: "max" or "average" pools, "sum", "activation" or "concatenation"; ``input`` is
        (N, C, H, W). ``kernel``, stride, padding and dilation are those of a pool, a kernel of None
        is the whole map; ``maps`` are those that a sum adds. ``before``: the layer that it is fused
        with, else it is a phase of its own. `winogen.hardware.others` explains both. Raises
        InvalidType and InvalidValue, and Unsupported where it cannot be fused.

        >>> Engine(16, 4, 16, 2).other("max", (1, 64, 112, 112), 3, stride=2, padding=1).cycles
        14112
        """
        from winogen.hardware.others import OtherLayer, OtherMapping

        return OtherMapping(self, OtherLayer.of(kind, input, kernel, **options), before)


def _problem(input: Any, weight: Any, options: dict[str, Any]) -> Problem:
    """The layer that a call asks for."""
    from winogen.conv.problem import Layer, Problem
    from winogen.errors import InvalidValue

    if isinstance(input, Problem):
        return input
    if not isinstance(weight, (tuple, list)):
        from winogen.errors import InvalidType

        raise InvalidType(f"weight: got {weight!r:.60}; allowed: a shape (M, C/groups, KH, KW)")
    allowed = ("stride", "padding", "dilation", "groups")
    for name, value in options.items():
        if name not in allowed:
            raise InvalidValue(f"{name}: got {value!r}; allowed: {', '.join(allowed)}")
    sizes = tuple(whole("weight", size, 1, "a shape of positive ints") for size in weight)
    order = {3: "NCW", 5: "NCDHW"}.get(len(sizes), "NCHW")
    return Layer.of(sizes, "float32", layout=order, **options).problem(input)
