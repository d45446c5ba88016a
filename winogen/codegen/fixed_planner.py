"""Which F(m, r) a device of integers can compute: the fewest products whose widths fit.

Float transforms want points whose rounding is small. Integers want points whose numbers are short,
and may prefer a tile of more products with operands that the device has. The planner takes what the
catalog has and a small search: points of 0, 1, 2, 1/2 and their negatives, infinity, and in place
of halves quadratic polynomials, each of which stands for two points and takes three products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

from winogen.columns import aligned
from winogen.errors import InvalidValue
from winogen.fixed.integral import integral
from winogen.fixed.ranges import Range, intervals_2d, signed

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.fixed.integral import Integral

_POINTS = "0", "1", "-1", "2", "-2", "inf"
_HALVES = "1/2", "-1/2"
_QUADRATICS = "x^2+1", "x^2+x+1", "x^2-x+1"
# What a set of points or polynomials becomes when x becomes -x: its widths stay as they are.
_MIRROR = {"1": "-1", "2": "-2", "1/2": "-1/2", "x^2+x+1": "x^2-x+1"}
_MIRROR |= {there: here for here, there in _MIRROR.items()}
_WIDEST = 64  # bits


@dataclass(frozen=True)
class Device:
    """What is computed, and by what: ``operands`` and ``sums`` are bits of products.

    ``wrapping``: whether sums may leave their bits on the way, as additions modulo 2^sums do.
    """

    inputs: Range
    filters: Range
    channels: int
    operands: int
    sums: int
    wrapping: bool = True


@dataclass(frozen=True)
class IntegerCandidate:
    """An algorithm of integers on a device: its widths, and why it does not fit, if it does not."""

    name: str
    made: Integral
    device: Device

    @cached_property
    def operands(self) -> tuple[Range, Range]:
        """Exact ranges of transformed tiles and of transformed filters, in two dimensions."""
        made, device = self.made, self.device
        return made.operands("input", device.inputs), made.operands("filter", device.filters)

    @property
    def bits(self) -> int:
        """Of the wider operand."""
        return max(one.bits for one in self.operands)

    @cached_property
    def interval_bits(self) -> tuple[int, int]:
        """Bits of the operands by interval arithmetic along a short program of each transform."""
        given = {"input": self.device.inputs, "filter": self.device.filters}
        v, u = (
            intervals_2d(self.made.quick_programs[kind], inputs).bits
            for kind, inputs in given.items()
        )
        return v, u

    @property
    def channels(self) -> int:
        """The most channels that sums modulo 2^w hold: their result times its power of two."""
        return self.made.channels(self.device.inputs, self.device.filters, self.device.sums)

    @property
    def channels_without_wrapping(self) -> int:
        """The most channels whose sums of products never leave w bits, as saturating sums need."""
        v, u = (max(-one.low, one.high) for one in self.operands)
        return ((1 << (self.device.sums - 1)) - 1) // (v * u)

    @property
    def products(self) -> int:
        """Of a tile in two dimensions."""
        return self.made.algorithm.products**2

    @property
    def misfit(self) -> str:
        """Why the device cannot compute it, or nothing."""
        reasons = []
        device = self.device
        for what, range_ in zip(("inputs", "filters"), self.operands):
            if range_.bits > device.operands:
                reasons.append(f"transformed {what} of {range_.bits} bits")
        most = self.channels if device.wrapping else self.channels_without_wrapping
        if most < device.channels:
            reasons.append(f"sums of {device.sums} bits hold {most} channels")
        return ", ".join(reasons)

    @property
    def origin(self) -> str:
        """What it is made of, as `winogen derive` takes it: an option and its value."""
        algorithm = self.made.algorithm
        if algorithm.moduli:
            return f"--moduli '{','.join(str(one).replace(' ', '') for one in algorithm.moduli)}'"
        return f"--points {','.join(map(str, algorithm.points or ()))}"


@dataclass(frozen=True)
class FixedPlan:
    """What `plan` found: the ``best`` candidate, or None, and others with the reason against."""

    m: int
    r: int
    device: Device
    best: IntegerCandidate | None
    others: tuple[IntegerCandidate, ...]

    def reason(self, other: IntegerCandidate) -> str:
        """Why another candidate is not the best."""
        if other.misfit or self.best is None:
            return other.misfit
        if other.products > self.best.products:
            return f"{other.products} products"
        return "as many products, no narrower"

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: the device, and all candidates, the best one first."""
        best = [self.best] if self.best else []
        return {
            "m": self.m,
            "r": self.r,
            "device": {
                **asdict(self.device),
                "inputs": self.device.inputs.bits,
                "filters": self.device.filters.bits,
            },
            "fits": self.best is not None,
            "candidates": [
                {
                    "name": one.name,
                    "products": one.products,
                    "bits": [range_.bits for range_ in one.operands],
                    "interval_bits": one.interval_bits,
                    "scale": one.made.spelled(),
                    "channels": one.channels,
                    "channels_without_wrapping": one.channels_without_wrapping,
                    "reason": "best" if one is self.best else self.reason(one),
                    "origin": one.origin,
                }
                for one in (*best, *self.others)
            ],
        }

    def __str__(self) -> str:
        device = self.device
        first = (
            f"F({self.m}x{self.m}, {self.r}x{self.r}): inputs {device.inputs}, filters "
            f"{device.filters}, channels {device.channels}, operands of {device.operands} bits, "
            f"sums of {device.sums}{'' if device.wrapping else ' that never wrap'}"
        )
        rows, reasons = [_TITLES], [""]
        for one in (*([self.best] if self.best else []), *self.others):
            (v, u), (loose_v, loose_u) = one.operands, one.interval_bits
            widths = f"{v.bits}, {u.bits}", f"{loose_v}, {loose_u}"
            most = str(one.channels), str(one.channels_without_wrapping)
            rows.append((one.name, str(one.products), *widths, one.made.spelled(), *most))
            reasons.append("best" if one is self.best else self.reason(one))
        table = (f"{row}  {reason}".rstrip() for row, reason in zip(aligned(rows, 1), reasons))
        lines = [first, "", *(f"  {row}" for row in table), ""]
        if self.best is None:
            return "\n".join([*lines, "None fits: take a smaller tile, or wider sums or operands."])
        return "\n".join([*lines, f"winogen derive {self.m} {self.r} {self.best.origin}"])


_TITLES = "algorithm", "products", "bits", "by intervals", "scale", "channels", "unwrapped"


def plan(
    m: int,
    r: int,
    bits: int = 8,
    filter_bits: int | None = None,
    channels: int = 1,
    *,
    operands: int = 16,
    sums: int = 32,
    wrapping: bool = True,
) -> FixedPlan:
    """Return the F(m, r) with fewest products whose widths fit, in two dimensions.

    ``bits``, ``filter_bits``: of signed inputs and filters; filters have as many as inputs by
    default. ``channels``: whose products are summed. ``operands``: bits of the factors of products.
    ``sums``: bits of sums, modulo 2^sums: 32, or 64 where the device has them, as ARM's SMLALD.
    ``wrapping``: False for sums that saturate; then the largest operands times the channels have to
    stay below 2^(sums - 1).
    Among as many products, narrower operands are better, then a smaller scale.
    Raises InvalidValue for sizes and bits that are none.

    >>> plan(4, 3, channels=64).best.name, plan(4, 3, channels=910).best.name
    ('f4_3_classic', 'f4_3_asymmetric')
    >>> plan(4, 3, channels=910, wrapping=False).best.name
    'f4_3_gaussian'
    """
    filter_bits = bits if filter_bits is None else filter_bits
    for what, value, least, most in (
        ("m", m, 2, 12), ("r", r, 2, 12), ("m + r - 1", m + r - 1, 3, 12),
        ("bits", bits, 2, 32), ("filter_bits", filter_bits, 2, 32),
        ("channels", channels, 1, 1 << 32), ("operands", operands, 2, _WIDEST),
        ("sums", sums, 2, 2 * _WIDEST),
    ):  # fmt: skip
        if not least <= value <= most:
            raise InvalidValue(f"{what}: got {value}; allowed: {least} .. {most}")
    device = Device(signed(bits), signed(filter_bits), channels, operands, sums, wrapping)
    known = [IntegerCandidate(name, made, device) for name, made in of_catalog(m, r)]
    best: IntegerCandidate | None = None
    by_origin = {one.origin: one for one in known}
    for products, algorithms in _searched(m, r):
        if products >= m * r or (best is not None and best.products <= products**2):
            break
        found = [IntegerCandidate("", integral(one), device) for one in algorithms]
        found += [one for one in known if one.made.algorithm.products == products]
        for one in found:
            if not one.misfit and (best is None or _order(one) < _order(best)):
                best = one
    if best is not None:
        best = by_origin.get(best.origin, best)
        if not best.name:
            best = IntegerCandidate(best.origin.split(" ", 1)[1].strip("'"), best.made, device)
    others = sorted((one for one in known if one is not best), key=_order)
    return FixedPlan(m, r, device, best, tuple(others))


def _order(one: IntegerCandidate) -> tuple[int, ...]:
    both = sum(range_.bits for range_ in one.operands)
    return one.products, one.bits, both, one.made.scale, not one.name


def of_catalog(m: int, r: int, stride: int = 1) -> Iterator[tuple[str, Integral]]:
    """Return the catalog's algorithms of a size by their names, but for those with roots."""
    from winogen.codegen import shipped, transforms

    for name, entry in shipped.catalog().items():
        if (entry["m"], entry["r"], entry.get("stride", 1)) != (m, r, stride):
            continue
        points, moduli = (tuple(entry[key]) or None for key in ("points", "moduli"))
        try:
            yield name, integral(transforms.derive(m, r, points, moduli, stride)[0])
        except InvalidValue:  # it has roots
            continue


def _searched(m: int, r: int) -> Iterator[tuple[int, Iterator[BilinearAlgorithm]]]:
    """Algorithms by their products along one axis, fewest first."""
    degree = m + r - 1
    for quadratics in range(degree // 2 + 1):
        yield degree + quadratics, _made_of(m, r, degree - 2 * quadratics, quadratics)


def _made_of(m: int, r: int, points: int, quadratics: int) -> Iterator[BilinearAlgorithm]:
    from winogen.algebra import cook_toom, winograd

    seen = set()
    for some in combinations(_POINTS + (() if quadratics else _HALVES), points):
        for others in combinations(_QUADRATICS, quadratics):
            mirrored = frozenset(_MIRROR.get(one, one) for one in (*some, *others))
            if mirrored in seen:
                continue
            seen.add(frozenset((*some, *others)))
            if not others:
                yield cook_toom(m, r, ", ".join(_last(some)))
            else:
                yield winograd(m, r, ", ".join(_last([*map(_linear, some), *others])))


def _last(some: Sequence[str]) -> list[str]:
    """Infinity as the last, as everywhere."""
    return sorted(some, key="inf".__eq__)


def _linear(point: str) -> str:
    """The polynomial of a point: x - 1 of 1."""
    if point in ("0", "inf"):
        return {"0": "x", "inf": "inf"}[point]
    return f"x+{point[1:]}" if point.startswith("-") else f"x-{point}"
