"""The choices that make a loop nest of direct convolution, and how they go together.

A nest computes out[m, h, w] = sum over c, y, x of in[c, h s_h + y d_h - top, w s_w + x d_w - left]
ker[m, c, y, x] by six loops around (or, in part, inside of) a micro-kernel. `LoopProblem` says what
is computed, `Parameters` how. The rules are small functions, so that a search can ask each of them
as soon as the path so far allows it; `flaws` asks all of them. The space is that of Anderson's
thesis (chapter 4, the strategies chapter 5), plus strides, dilation and groups.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from typing import Any

from winogen.errors import InvalidValue
from winogen.records import Strides, Target

Pair = tuple[int, int]  # height, width

DIMS = ("M", "H", "W", "C", "Y", "X")  # filters, output rows and columns, channels, taps
SUMMED = ("C", "Y", "X")  # the dims that outputs are sums over
IMAGE_DIMS = ("H", "W", "C", "Y", "X")  # they say which input is read
COPIES = ("implicit", "explicit")  # inputs are read where they lie, or from a padded copy
STREAMS = ("image", "kernel", "output")  # what may be prefetched
UNROLLS = (1, 2, 4, 8)


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
    dtype: str = "float32"

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
    "permuted" (every rotation of one vector meets every one of the other).
    """

    name: str
    lanes: str  # "C", "M" or "W": what neighbouring lanes of the sums are (of "dot": the terms)
    loops: str  # of the micro-kernel, outermost first: "M", "C" or "YXC"
    meet: str
    along: str = ""  # of "lane": what the lanes of the input's vectors are: "C", "W" or "WC"

    def step(self, dim: str, pixels: int, filters: int, lanes: int) -> int:
        """How far one run of the micro-kernel goes along a dim.

        >>> STRATEGIES["filters-yxc"].step("M", pixels=6, filters=2, lanes=8)
        16
        """
        if dim == "M":
            return filters * (1 if self.meet == "dot" or self.lanes == "W" else lanes)
        if dim == "W":
            over_pixels = self.lanes == "W" or self.meet == "permuted" or self.along == "W"
            return pixels * (lanes if over_pixels else 1)
        if dim == "C":
            return {"C": lanes, "WC": 2}.get("C" if self.meet == "dot" else self.along, 1)
        return 1

    def sums(self, pixels: int, filters: int, lanes: int) -> int:
        """Vectors of sums."""
        many = self.meet == "permuted" or self.along == "W"
        return pixels * filters * (lanes if many else 1)

    def registers(self, pixels: int, filters: int, lanes: int) -> int:
        """Vector registers in use: sums, the kept operand, one of the other.

        >>> STRATEGIES["filters-c"].registers(14, 2, 16)
        31
        """
        sums = self.sums(pixels, filters, lanes)
        if self.meet == "permuted":
            return sums + 4 + 1
        if self.meet == "lane":
            held = {"C": pixels, "W": pixels, "WC": -(-2 * pixels // lanes)}[self.along]
            return sums + held + filters
        return sums + min(pixels, filters) + 1


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("dot-c", "C", "C", "dot"),
        Strategy("dot-yxc", "C", "YXC", "dot"),
        Strategy("filters-m", "M", "M", "broadcast"),
        Strategy("filters-c", "M", "C", "broadcast"),
        Strategy("filters-yxc", "M", "YXC", "broadcast"),
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
    prefetch: Prefetch | None = None
    dtype: str = "float32"

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
        return self.kind.step(dim, self.pixels, self.filters, lanes)

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON holds; choices that are as usual are left out."""
        usual = asdict(replace(self, blocks=(), copies="implicit", unroll=(), pixels=1, filters=1,
                               prefetch=None, dtype="float32"))  # fmt: skip
        optional = {"blocks", "copies", "unroll", "pixels", "filters", "prefetch", "dtype"}
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
        except json.JSONDecodeError as error:
            raise InvalidValue(f"nest: got {text!r}; allowed: JSON ({error})") from None
        if not isinstance(fields, dict):
            raise InvalidValue(f"nest: got {text!r}; allowed: a JSON object")
        return cls.from_dict(fields)


# ---- rules, each of what is chosen before it -----------------------------------------------------


def strategies(target: Target) -> tuple[str, ...]:
    """Return the micro-kernels that make sense on a target.

    Products by a lane of a register need such an instruction. Permuted copies are for vectors of
    several blocks of 16 bytes on machines without one.

    >>> from winogen.records import TARGETS
    >>> len(strategies(TARGETS["neon"])), len(strategies(TARGETS["avx2"]))
    (14, 9)
    """
    return tuple(
        name
        for name, kind in STRATEGIES.items()
        if {
            "lane": target.by_lane,
            "permuted": target.vector_bytes > 16 and not target.by_lane,
        }.get(kind.meet, True)
    )


def image_layouts(problem: LoopProblem, strategy: str) -> tuple[str, ...]:
    """Return the orders of inputs that a micro-kernel can read; vectors lie in one piece.

    Blocks of pixels, "HWCw", are for kernels one tap wide, whose vectors never straddle two.
    """
    kind = STRATEGIES[strategy]
    last = {"dot": "C", "permuted": "W"}.get(kind.meet, kind.along[-1:])
    if kind.lanes == "W":
        last = "W"
    orders = ["".join(order) for order in permutations("CHW")]
    allowed = [order for order in orders if not last or order[-1] == last]
    if last == "W" and problem.kernel[1] == 1 and problem.stride[1] == 1:
        allowed.append("HWCw")
    return tuple(allowed)


def kernel_layouts(strategy: str) -> tuple[str, ...]:
    """Return the orders of packed filters that a micro-kernel can read."""
    kind = STRATEGIES[strategy]
    last = "C" if kind.meet == "dot" else "" if kind.lanes == "W" else "M"
    orders = ["".join(order) for order in permutations("MCYX")]
    allowed = [order for order in orders if not last or order[-1] == last]
    return tuple(allowed) if kind.meet == "dot" else (*allowed, "MYXCm")


def output_layouts(strategy: str) -> tuple[str, ...]:
    """Return the orders of sums that a micro-kernel can write."""
    kind = STRATEGIES[strategy]
    last = {"dot": "MHW", "permuted": "MW"}.get(kind.meet, kind.lanes)
    return tuple("".join(order) for order in permutations("MHW") if order[-1] in last)


def copies(problem: LoopProblem, image: str) -> tuple[str, ...]:
    """Return how inputs may be read: where they lie only if they lie as they are read, and only
    beside a padding of zeros.
    """
    in_place = image == problem.image_layout
    plain = problem.padding_mode == "zeros" or not problem.is_padded
    return COPIES if in_place and plain else COPIES[1:]


def fits(strategy: str, pixels: int, filters: int, lanes: int, registers: int) -> bool:
    """Whether a register block fits into the registers.

    >>> fits("filters-c", 14, 2, 16, 32), fits("filters-c", 15, 2, 16, 32)
    (True, False)
    """
    kind = STRATEGIES[strategy]
    paired = kind.along != "WC" or pixels % max(1, lanes // 2) == 0
    return paired and kind.registers(pixels, filters, lanes) <= registers


def register_blocks(strategy: str, lanes: int, registers: int) -> tuple[Pair, ...]:
    """Return all register blocks (pixels, filters) that fit."""
    most = range(1, registers)
    return tuple(
        (pixels, filters)
        for pixels in most
        for filters in most
        if fits(strategy, pixels, filters, lanes, registers)
    )


def block_sizes(problem: LoopProblem, step: int, dim: str) -> tuple[int, ...]:
    """Return the sizes of a dim's blocks: whole steps of the micro-kernel, less than all."""
    return tuple(range(step, problem.extent(dim), step))


def loops(strategy: str, blocked: Sequence[str]) -> tuple[str, ...]:
    """Return the loops around a micro-kernel, without its own.

    >>> loops("filters-yxc", ("H", "C"))
    ('M', 'H.o', 'H.i', 'W', 'C.o')
    """
    names = []
    for dim in DIMS:
        own = dim in STRATEGIES[strategy].loops
        if dim in blocked:
            names += [f"{dim}.o"] if own else [f"{dim}.o", f"{dim}.i"]
        elif not own:
            names.append(dim)
    return tuple(names)


def may_follow(path: Sequence[str], loop: str, names: Sequence[str] = ()) -> bool:
    """Whether a loop may stand inside of those of ``path``, outermost first.

    An inner loop follows its own outer one, and no outer loop is inside of any inner one. With the
    ``names`` of all loops no path that may go on ends before it has them all.

    >>> may_follow(("H.o",), "H.i"), may_follow(("M",), "H.i"), may_follow(("H.o", "H.i"), "W.o")
    (True, False, False)
    >>> may_follow(("H.o",), "H.i", ("H.o", "H.i", "W.o", "W.i"))
    False
    """
    dim, _, role = loop.partition(".")
    if loop in path:
        return False
    if role == "i":
        waiting = any(other.endswith(".o") and other not in path for other in names)
        return f"{dim}.o" in path and not waiting
    return role != "o" or not any(other.endswith(".i") for other in path)


def is_order(path: Sequence[str], names: Sequence[str]) -> bool:
    """Whether ``path`` is a legal order of all loops ``names``."""
    steps = all(may_follow(path[:place], loop) for place, loop in enumerate(path))
    return steps and sorted(path) == sorted(names)


def orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all legal orders of these loops, by name.

    >>> orders(("H.o", "H.i", "W"))
    [('H.o', 'H.i', 'W'), ('H.o', 'W', 'H.i'), ('W', 'H.o', 'H.i')]
    """
    paths: list[tuple[str, ...]] = [()]
    for _ in names:
        paths = [(*path, loop) for path in paths for loop in names if may_follow(path, loop, names)]
    return paths


def unrollable(strategy: str, order: Sequence[str]) -> tuple[str, ...]:
    """Return the loops that may be unrolled: not the outer ones of blocks, nor an outermost one
    over outputs, whose steps are the threads' parts.

    >>> unrollable("filters-c", ("H", "M", "W", "Y", "X"))
    ('M', 'W', 'Y', 'X', 'C')
    """
    shared = [loop for loop in order[:1] if loop[0] not in SUMMED]
    inner = [loop for loop in order if not loop.endswith(".o") and loop not in shared]
    return (*inner, *STRATEGIES[strategy].loops)


# ---- all rules at once ---------------------------------------------------------------------------


def flaws(problem: LoopProblem, nest: Parameters, target: Target) -> list[str]:
    """Return what is wrong with the parameters of a nest, "argument: got X; allowed: Y" each."""
    lanes = target.lanes(problem.dtype)
    if nest.strategy not in STRATEGIES:
        return [f"strategy: got {nest.strategy!r}; allowed: {', '.join(STRATEGIES)}"]
    name, blocked = nest.strategy, [dim for dim, _ in nest.blocks]
    names = loops(name, blocked)
    wrong = []
    for what, value, allowed in (
        ("strategy", name, strategies(target)),
        ("image", nest.image, image_layouts(problem, name)),
        ("kernel", nest.kernel, kernel_layouts(name)),
        ("output", nest.output, output_layouts(name)),
        ("copies", nest.copies, copies(problem, nest.image)),
        ("dtype", nest.dtype, (problem.dtype,)),
    ):
        if value not in allowed:
            wrong.append(f"{what}: got {value!r}; allowed: {', '.join(allowed)}")
    for what, count in (("pixels", nest.pixels), ("filters", nest.filters)):
        if not isinstance(count, int) or count < 1:
            return [*wrong, f"{what}: got {count!r}; allowed: a positive int"]
    if not fits(name, nest.pixels, nest.filters, lanes, target.registers):
        wrong.append(
            f"pixels: got {nest.pixels} x {nest.filters} filters; allowed: a register block of "
            f"{name} within {target.registers} registers"
        )
    for dim, size in nest.blocks:
        step = nest.step(dim, lanes) if dim in DIMS else 1
        if dim not in DIMS or size < 1 or size % step or size >= problem.extent(dim):
            wrong.append(
                f"blocks: got {size} of {dim}; allowed: multiples of {step} below "
                f"{problem.extent(dim) if dim in DIMS else 'the extent of one of ' + str(DIMS)}"
            )
    if len(set(blocked)) < len(blocked) or not is_order(nest.order, names):
        wrong.append(
            f"order: got {', '.join(nest.order)}; allowed: {', '.join(names)}, an inner loop after "
            "its outer one, no outer loop after an inner one"
        )
    for loop, times in nest.unroll:
        allowed_loops = unrollable(name, nest.order)
        if loop not in allowed_loops or times not in UNROLLS:
            wrong.append(
                f"unroll: got {times} of {loop}; allowed: {', '.join(map(str, UNROLLS))} of "
                f"{', '.join(allowed_loops)}"
            )
    if nest.prefetch is not None:
        ahead = nest.prefetch
        if (
            not set(ahead.streams) <= set(STREAMS)
            or ahead.distance < 0
            or ahead.level not in (1, 2)
        ):
            wrong.append(
                f"prefetch: got {ahead}; allowed: streams of {', '.join(STREAMS)}, a distance of "
                "at least 0 bytes, level 1 or 2"
            )
    return wrong


def check(problem: LoopProblem, nest: Parameters, target: Target) -> Parameters:
    """Return ``nest`` if it is legal; raises InvalidValue that names what is not."""
    wrong = flaws(problem, nest, target)
    if wrong:
        raise InvalidValue(f"nest: {wrong[0]}")
    return nest
