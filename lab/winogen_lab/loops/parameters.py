"""The choices that make a loop nest of direct convolution.

A nest computes out[m, h, w] = sum over c, y, x of in[c, h s_h + y d_h - top, w s_w + x d_w - left]
ker[m, c, y, x] by six loops around (or, in part, inside of) a micro-kernel. `LoopProblem` says what
is computed, `Parameters` how; `winogen_lab.loops.rules` has what goes together. The space is that
of Keane's thesis (chapter 4, the strategies chapter 5), plus strides, dilation and groups.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import prod
from typing import Any

from winogen.errors import InvalidValue
from winogen.records import Strides

Pair = tuple[int, int]  # height, width

DIMS = ("M", "H", "W", "C", "Y", "X")  # filters, output rows and columns, channels, taps
SUMMED = ("C", "Y", "X")  # the dims that outputs are sums over
IMAGE_DIMS = ("H", "W", "C", "Y", "X")  # they say which input is read
COPIES = ("implicit", "explicit")  # inputs are read where they lie, or from a padded copy
STREAMS = ("image", "kernel", "output")  # what may be prefetched
UNROLLS = (1, 2, 4, 8)
WIDENED = ("each", "once")


# ---- what is computed ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LoopProblem:
    """One group of one image, with every size that is compiled in; numbers of groups, images and
    the step from one image to the next are not.
    """

    layout: str  # of the arrays: "NCHW" | "NHWC"
    channels: int  # C, of a group
    filters: int  # M, of a group
    size: Pair  # of the input
    output_size: Pair  # outputs to compute
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    before: Pair = (0, 0)  # padding above and to the left; negative where inputs are left out
    padding_mode: str = "zeros"
    input: Strides = Strides(0, 0, 0, 0)
    output: Strides = Strides(0, 0, 0, 0)
    dtype: str = "float32"  # what is computed in
    arrays: str = ""  # what input and output are of, where that is narrower
    weights: str = ""  # the same of packed filters

    @classmethod
    def of(cls, layout: str, channels: int, filters: int, size: Pair, kernel: Pair,
           padding: tuple[int, int, int, int] = (0, 0, 0, 0), stride: Pair = (1, 1),
           dilation: Pair = (1, 1), groups: int = 1, padding_mode: str = "zeros",
           dtype: str = "float32") -> LoopProblem:  # fmt: skip
        """Return that of a layer with contiguous arrays; channels and filters of all groups.

        ``padding``: top, bottom, left, right.

        >>> LoopProblem.of("NCHW", 3, 8, (9, 9), (3, 3), padding=(1, 1, 1, 1)).output_size
        (9, 9)
        """
        ends = padding[:2], padding[2:]
        out_height, out_width = (
            (sum(end) + count - (taps - 1) * spread - 1) // step + 1
            for end, count, taps, spread, step in zip(ends, size, kernel, dilation, stride)
        )
        return cls(
            layout, channels // groups, filters // groups, size, (out_height, out_width), kernel,
            stride, dilation, (padding[0], padding[2]), padding_mode,
            Strides.of(layout, channels, *size),
            Strides.of(layout, filters, out_height, out_width), dtype,
        )  # fmt: skip

    def extent(self, dim: str) -> int:
        """How many steps of one the loop over a dim takes."""
        (height, width), (tall, wide) = self.output_size, self.kernel
        sizes = (self.filters, height, width, self.channels, tall, wide)
        return sizes[DIMS.index(dim)]

    @property
    def is_padded(self) -> bool:
        """Whether any input that an output sees lies outside of the image."""
        return any(
            before > 0 or (out - 1) * step + (taps - 1) * spread - before >= count
            for before, out, step, taps, spread, count in zip(
                self.before, self.output_size, self.stride, self.kernel, self.dilation, self.size
            )
        )

    @property
    def image_layout(self) -> str:
        """How the input lies in memory, outermost first."""
        return "CHW" if self.layout == "NCHW" else "HWC"

    @property
    def output_layout(self) -> str:
        """How the output lies in memory, outermost first."""
        return "MHW" if self.layout == "NCHW" else "HWM"


# ---- micro-kernels -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strategy:
    """A micro-kernel: what fills the lanes of its vectors, which loops it has, how operands meet.

    ``meet``: "dot" (both operands are vectors of channels; a horizontal add ends the sum),
    "broadcast" (one operand is a single number), "lane" (one operand is a lane of a register) or
    "permuted" (every rotation of one vector meets every one of the other). Vectors of filters of
    the taps along ``resident`` dims stay in registers, and a number of the input is loaded once for
    all of these taps: Method 2 of Kelefouras and Keramidas.
    """

    name: str
    lanes: str  # "C", "M" or "W": what neighbouring lanes of the sums are (of "dot": the terms)
    loops: str  # of the micro-kernel, outermost first: "M", "C" or "YXC"
    meet: str
    along: str = ""  # of "lane": what the lanes of the input's vectors are: "C", "W" or "WC"
    resident: str = ""  # dims of taps: "X" or "YX"

    @property
    def own(self) -> frozenset[str]:
        """The dims that have no loop around the micro-kernel, but for blocks."""
        return frozenset(self.loops + self.resident)

    @property
    def has_rows(self) -> bool:
        """Whether a register block may have several rows of outputs."""
        return self.meet == "broadcast" and self.lanes == "M"

    def taps(self, kernel: Pair) -> Pair:
        """Return the taps, down and across, whose filters stay in registers."""
        down, across = (n if dim in self.resident else 1 for dim, n in zip("YX", kernel))
        return down, across

    def step(self, dim: str, pixels: int, filters: int, lanes: int, rows: int = 1) -> int:
        """How far one run of the micro-kernel goes along a dim.

        >>> STRATEGIES["filters-yxc"].step("M", pixels=6, filters=2, lanes=8)
        16
        """
        if dim == "M":
            return filters * (1 if self.meet == "dot" or self.lanes == "W" else lanes)
        if dim == "W":
            over_pixels = self.lanes == "W" or self.meet == "permuted" or self.along == "W"
            return pixels * (lanes if over_pixels else 1)
        if dim == "H":
            return rows
        if dim == "C":
            return {"C": lanes, "WC": 2}.get("C" if self.meet == "dot" else self.along, 1)
        return 1

    def sums(self, pixels: int, filters: int, lanes: int, rows: int = 1) -> int:
        """Vectors of sums."""
        many = self.meet == "permuted" or self.along == "W"
        return rows * pixels * filters * (lanes if many else 1)

    def registers(
        self, pixels: int, filters: int, lanes: int, rows: int = 1, kernel: Pair = (1, 1)
    ) -> int:
        """Vector registers in use: sums, the kept operand, one of the other.

        >>> STRATEGIES["filters-c"].registers(14, 2, 16)
        31
        >>> STRATEGIES["filters-yc-row"].registers(12, 2, 16, kernel=(3, 3))
        31
        """
        sums = self.sums(pixels, filters, lanes, rows)
        if self.resident:
            return sums + prod(self.taps(kernel)) * filters + 1
        if self.meet == "permuted":
            return sums + 4 + 1
        if self.meet == "lane":
            held = {"C": pixels, "W": pixels, "WC": -(-2 * pixels // lanes)}[self.along]
            return sums + held + filters
        return sums + min(rows * pixels, filters) + 1

    def inputs(self, pixels: int, rows: int, kernel: Pair, stride: Pair, dilation: Pair) -> float:
        """Loads of inputs for each tap of a step, the mean of those that stay in registers.

        >>> kind = STRATEGIES["filters-yc-row"]
        >>> kind.inputs(12, 1, (3, 3), (1, 1), (1, 1)) * 3
        14.0
        """
        taps = self.taps(kernel)
        places = [len(meetings(*of)) for of in zip((rows, pixels), taps, stride, dilation)]
        return prod(places) / prod(taps)


def meetings(outputs: int, taps: int, stride: int, dilation: int) -> dict[int, list[Pair]]:
    """Return by place of the input the pairs of output and tap that meet there.

    >>> meetings(outputs=2, taps=3, stride=1, dilation=1)
    {0: [(0, 0)], 1: [(0, 1), (1, 0)], 2: [(0, 2), (1, 1)], 3: [(1, 2)]}
    """
    places: dict[int, list[Pair]] = {}
    for pair in product(range(outputs), range(taps)):
        places.setdefault(pair[0] * stride + pair[1] * dilation, []).append(pair)
    return dict(sorted(places.items()))


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("dot-c", "C", "C", "dot"),
        Strategy("dot-yxc", "C", "YXC", "dot"),
        Strategy("filters-m", "M", "M", "broadcast"),
        Strategy("filters-c", "M", "C", "broadcast"),
        Strategy("filters-yxc", "M", "YXC", "broadcast"),
        Strategy("filters-yc-row", "M", "YC", "broadcast", resident="X"),
        Strategy("filters-c-window", "M", "C", "broadcast", resident="YX"),
        Strategy("filters-m-lane", "M", "M", "lane", "C"),
        Strategy("filters-c-lane", "M", "C", "lane", "C"),
        Strategy("filters-yxc-lane", "M", "YXC", "lane", "C"),
        Strategy("outer-c", "W", "C", "broadcast"),
        Strategy("outer-yxc", "W", "YXC", "broadcast"),
        Strategy("outer-c-permuted", "M", "C", "permuted"),
        Strategy("outer-yxc-permuted", "M", "YXC", "permuted"),
        Strategy("outer-c-lane", "M", "C", "lane", "W"),
        Strategy("outer-yxc-lane", "M", "YXC", "lane", "W"),
        Strategy("wmc-c", "M", "C", "lane", "WC"),
        Strategy("wmc-yxc", "M", "YXC", "lane", "WC"),
    )
}


# ---- the choices ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prefetch:
    """Accesses to these streams fetch what lies ``distance`` bytes ahead into a cache."""

    streams: tuple[str, ...]
    distance: int
    level: int = 1  # 1 or 2


@dataclass(frozen=True)
class Parameters:
    """All choices of one nest.

    >>> nest = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H.o", "M", "H.i", "W"),
    ...                   blocks=(("H", 4),), pixels=14, filters=2)
    >>> Parameters.from_text(nest.text) == nest
    True
    """

    strategy: str
    image: str  # how the inputs lie that are read: "CHW" and so on; "HWCw": H (W/L) C L
    kernel: str  # how packed filters lie: "MCYX" and so on; a last "m" is a step along M
    output: str  # how the sums lie: "MHW" and so on
    order: tuple[str, ...]  # loops, outermost first; of blocked dims "H.o" and "H.i"
    blocks: tuple[tuple[str, int], ...] = ()  # of blocked dims, by name
    copies: str = "implicit"
    unroll: tuple[tuple[str, int], ...] = ()  # of loops, those of the micro-kernel by their dim
    pixels: int = 1  # W_r of the register block: pixels, or vectors of them
    filters: int = 1  # M_r: vectors of filters, or filters
    rows: int = 1  # H_r: rows of the register block, each of W_r pixels
    prefetch: Prefetch | None = None
    dtype: str = "float32"
    widened: str = "each"  # narrow filters: at "each" load, or those of a step along M at "once"

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(sorted(map(tuple, self.blocks))))
        object.__setattr__(self, "unroll", tuple(sorted(map(tuple, self.unroll))))
        object.__setattr__(self, "order", tuple(self.order))

    @property
    def kind(self) -> Strategy:
        """The micro-kernel."""
        return STRATEGIES[self.strategy]

    def block(self, dim: str) -> int | None:
        """The size of a dim's blocks; None if it is not blocked."""
        return dict(self.blocks).get(dim)

    def step(self, dim: str, lanes: int) -> int:
        """How far one run of the micro-kernel goes along a dim."""
        return self.kind.step(dim, self.pixels, self.filters, lanes, self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON holds; choices that are as usual are left out."""
        usual = asdict(replace(self, blocks=(), copies="implicit", unroll=(), pixels=1, filters=1,
                               rows=1, prefetch=None, dtype="float32", widened="each"))  # fmt: skip
        optional = usual.keys() - {"strategy", "image", "kernel", "output", "order"}
        fields = {
            name: value
            for name, value in asdict(self).items()
            if name not in optional or value != usual[name]
        }
        return json.loads(json.dumps(fields))  # tuples become lists, as they do on disk

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Parameters:
        """Return what `to_dict` was made of; raises InvalidValue if it is no such thing."""
        try:
            known = dict(fields)
            ahead = known.pop("prefetch", None)
            if ahead is not None:
                ahead = Prefetch(**{**ahead, "streams": tuple(ahead["streams"])})
            made = cls(**known, prefetch=ahead)
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidValue(
                f"nest: got {fields!r}; allowed: what Parameters.to_dict() returns ({error})"
            ) from None
        if made.strategy not in STRATEGIES:
            raise InvalidValue(
                f"nest: got strategy {made.strategy!r}; allowed: {', '.join(STRATEGIES)}"
            )
        return made

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Parameters:
        """Return what `text` was made of; raises InvalidValue."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:  # numbers of too many digits, too
            raise InvalidValue(f"nest: got {text[:60]!r}; allowed: JSON ({error})") from None
        if not isinstance(fields, dict):
            raise InvalidValue(f"nest: got {text[:60]!r}; allowed: a JSON object")
        return cls.from_dict(fields)
