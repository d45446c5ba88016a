"""Which engine suits a net: time, buffers and error of many, and those worth having.

All are models: cycles by the rule of `mapping`, bytes by `traffic`, errors by rounding random
tiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from winogen.conv.arguments import positive, whole
from winogen.errors import InvalidValue, Unsupported
from winogen.fixed.ranges import signed
from winogen.hardware.arithmetic import check_bits, check_channels, integers, transform
from winogen.hardware.engine import Engine
from winogen.hardware.mapping import LAYOUTS
from winogen.hardware.traffic import SUM_BYTES, best_traffic, seconds
from winogen.rounding.quantised import Quantised
from winogen.tasks.pareto import worth_having

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.hardware.mapping import Mapping
    from winogen.hardware.traffic import Traffic

MOST_MULTIPLIERS = 1 << 20
# T, r, m: direct convolution, and tiles of 3 taps by points of small integers; the last but one
# has x^2 + 1 in place of two points.
TILES = ((4, 1, 4), (4, 3, 2), (5, 3, 3), (6, 3, 4), (7, 3, 4), (8, 3, 6))
_SIZES = tuple(sorted(k << n for n in range(15) for k in (1, 3)))  # of f_i, f_o and L
_SHARES = 1, 2, 4, 8
_MOST_LEFT = 0.9  # of the most multipliers that fit
_APART = 4  # f_i and f_o differ by this factor at most: both operands want reuse
_LANES = 64
_MARGIN = 0.02  # what is no better by more is left out
_TRIALS, _CHANNELS = 400, 64


class Demands(NamedTuple):
    """What an engine may have, and what is around it."""

    multipliers: int = 1024
    sram: int = 1 << 20  # bytes
    bandwidth: float = 16e9  # bytes in a second
    clock: float = 1e9  # Hz
    bits: int = 8
    exact: bool = False  # whether transformed values keep all their bits

    def check(self) -> Demands:
        """Return the checked demands; raises InvalidType and InvalidValue."""
        bound = f"an int from 4 to {MOST_MULTIPLIERS}"
        return Demands(
            whole("multipliers", self.multipliers, 4, bound, MOST_MULTIPLIERS),
            whole("sram", self.sram, 1, "a positive number of bytes", 1 << 40),
            positive("bandwidth", self.bandwidth, "a positive number of bytes in a second"),
            positive("clock", self.clock, "a positive number of Hz"),
            check_bits("bits", self.bits),
            self.exact,
        )


@dataclass(frozen=True)
class Sized:
    """A net on an engine, with the best layout of each layer and the best schedule."""

    engine: Engine
    seconds: float
    cycles: int
    products: int
    direct: int  # multiplications of the definition
    bytes: int
    bound_by_memory: float  # the share of the time in layers that wait for it
    error: float  # relative, of outputs: transformed values are rounded to bits
    operands: tuple[int, int]  # bits of transformed inputs and filters, if nothing is rounded

    @property
    def storage(self) -> int:
        """Bytes beside the multipliers: both hold buffers, and the sums of a tile in each lane."""
        sums = SUM_BYTES * self.engine.partial_sums(1)
        inputs, filters = self.engine.input_buffer, self.engine.filter_buffer
        if not self.error:
            inputs, filters = inputs * self.operands[0] // 16, filters * self.operands[1] // 8
        return inputs + filters + sums

    @property
    def area(self) -> int:
        """The multipliers, and what bits of operands make of them if nothing is rounded."""
        return self.engine.multipliers * (1 if self.error else prod(self.operands))

    def utilisation(self, clock: float) -> float:
        """The share of multipliers and time in which products are computed."""
        return self.products / (self.engine.multipliers * clock * self.seconds)

    def to_dict(self, clock: float) -> dict[str, Any]:
        """Return all figures, for JSON."""
        engine = self.engine
        return {
            "engine": [engine.f_i, engine.T, engine.f_o, engine.L],
            "m": engine.m,
            "r": engine.r,
            "algorithm": algorithm_name(engine),
            "multipliers": engine.multipliers,
            "seconds": self.seconds,
            "cycles": self.cycles,
            "utilisation": self.utilisation(clock),
            "direct_multiplications": self.direct,
            "products": self.products,
            "bytes": self.bytes,
            "bound_by_memory": self.bound_by_memory,
            "input_buffer": engine.input_buffer,
            "filter_buffer": engine.filter_buffer,
            "storage": self.storage,
            "ports": engine.ports,
            "error": self.error,
            "exact_bits": self.operands,
        }


class Front(NamedTuple):
    """The engines worth having, and why algorithms leave layers out: those run tap by tap."""

    engines: list[Sized]
    refused: dict[str, str]


def algorithm_name(engine: Engine) -> str:
    """Return what an engine transforms by.

    >>> algorithm_name(Engine(16, 7, 16, 1, m=4)), algorithm_name(Engine(16, 4, 16, 1, r=1))
    ('F(4x4,3x3) x^2+1', 'direct')
    """
    if engine.r == 1:
        return "direct"
    m, r = engine.m, engine.r
    return f"F({m}x{m},{r}x{r})" + (" x^2+1" if engine.T > m + r - 1 else "")


def engines(multipliers: int) -> Iterator[Engine]:
    """Yield engines of so many multipliers, a half, a quarter and an eighth, as many as fit."""
    for (T, r, m), share in product(TILES, _SHARES):
        left = multipliers // share // T
        sizes = [size for size in _SIZES if size <= left]
        some = [
            (f_i, f_o, lanes)
            for f_i, f_o, lanes in product(sizes, repeat=3)
            if f_i <= _APART * f_o and f_o <= _APART * f_i and lanes <= _LANES
            if f_i * f_o * lanes <= left
        ]
        most = max(map(prod, some), default=0)
        for f_i, f_o, lanes in some:
            if f_i * f_o * lanes >= _MOST_LEFT * most:
                yield Engine(f_i, T, f_o, lanes, r=r, m=m)


def best_mapping(
    engine: Engine,
    problem: Problem,
    demands: Demands,
    note: Callable[[str], object] = lambda text: None,
) -> tuple[float, Mapping, Traffic]:
    """Return the seconds of a layer, the layout and lanes of least time, and what they move.

    ``note`` is told why layouts are left out whose sums do not hold all channels. Raises
    Unsupported where none is left, or nothing fits the SRAM.
    """
    algorithm = transform(engine) if demands.exact else None
    layouts = LAYOUTS if engine.r > 1 else LAYOUTS[1::2]
    mappings = [engine.mapping(problem, layout=layout, lanes="auto") for layout in layouts]
    best: tuple[float, Mapping, Traffic] | None = None
    refused: Unsupported | None = None
    for mapping in sorted(mappings, key=lambda one: one.cycles):
        if best is not None and mapping.cycles / demands.clock >= best[0]:
            break  # nor has any other one fewer cycles
        try:
            check_channels(mapping, algorithm, demands.bits)
        except Unsupported as error:
            refused = error
            note(str(error))
            continue
        wide = algorithm is not None and mapping.transformed
        bits = operand_bits(engine, demands.bits)[1] if wide else demands.bits
        try:
            moved = best_traffic(mapping, demands.sram, bits)
        except Unsupported as error:
            refused = error
            continue
        time = seconds(mapping, moved, demands.clock, demands.bandwidth)
        if best is None or time < best[0]:
            best = time, mapping, moved
    if best is None:
        assert refused is not None
        raise refused
    return best


@lru_cache(maxsize=256)
def operand_bits(engine: Engine, bits: int) -> tuple[int, int]:
    """Return the bits of transformed inputs and filters of so many bits, if none is lost."""
    exact, inputs = integers(transform(engine)), signed(bits)
    return exact.operands("input", inputs).bits, exact.operands("filter", inputs).bits


def sized(
    engine: Engine,
    layers: Counter[Problem],
    demands: Demands,
    note: Callable[[str], object] = lambda text: None,
) -> Sized:
    """Return a net on an engine; ``note`` as for `best_mapping`.

    Raises Unsupported for layers that it cannot compute.
    """
    total, cycles, products, moved, waiting = 0.0, 0, 0, 0, 0.0
    for problem, times in layers.items():
        time, mapping, traffic = best_mapping(engine, problem, demands, note)
        total += times * time
        cycles += times * mapping.cycles
        products += times * mapping.products
        moved += times * traffic.bytes
        if traffic.bytes / demands.bandwidth >= time:
            waiting += times * time
    return Sized(
        engine,
        total,
        cycles,
        products,
        sum(times * one.direct_multiplications for one, times in layers.items()),
        moved,
        waiting / total,
        0.0 if demands.exact else rounding_error(engine.T, engine.r, engine.m, demands.bits),
        operand_bits(engine, demands.bits),
    )


def front(
    layers: Iterable[Problem],
    demands: Demands,
    step: Callable[[int, int, str], None] = lambda done, count, name: None,
) -> Front:
    """Return the engines worth having for a net, the fastest first.

    No other one is as good in time, multipliers (times the bits of both operands, if these are
    exact), storage and error, but for 2 %. ``layers``: those of the net, each as often as it has
    it. ``step`` is told how far it is. Raises InvalidType and InvalidValue, and Unsupported where
    no engine computes all layers.
    """
    demands, counted = demands.check(), Counter(layers)
    if not counted:
        raise InvalidValue("layers: got none; allowed: a net with a convolution")
    candidates: list[Sized] = []
    refused: dict[str, str] = {}
    problem: Unsupported | None = None
    some = list(engines(demands.multipliers))
    for number, engine in enumerate(some):
        step(number, len(some), str(engine))
        note = partial(refused.setdefault, algorithm_name(engine))
        try:
            candidates.append(sized(engine, counted, demands, note))
        except Unsupported as error:
            problem = error
    if not candidates:
        assert problem is not None
        raise problem
    costs = [(one.seconds, one.area, one.storage, one.error or 1.0) for one in candidates]
    best = [one for one, worth in zip(candidates, worth_having(costs, _MARGIN)) if worth]
    best.sort(key=lambda one: one.seconds)
    return Front(best, refused)


@lru_cache(maxsize=256)
def rounding_error(T: int, r: int, m: int, bits: int) -> float:
    """Return the relative L2 error of outputs where transformed values are rounded to ``bits``.

    Normal inputs and filters of 64 channels; a step for each position of a tile, as fine as the
    largest value of all tiles, or filters, at this position allows.

    >>> [round(100 * rounding_error(*tile, 8), 1) for tile in TILES]
    [1.4, 2.3, 8.0, 14.9, 2.5, 29.0]
    """
    random = np.random.default_rng(0)
    algorithm = transform(Engine(1, T, 1, 1, r=r, m=m))
    bt, g, at = (_array(rows) for rows in (algorithm.bt, algorithm.g, algorithm.at))
    inputs = random.standard_normal((_CHANNELS, _TRIALS, bt.shape[1], bt.shape[1]))
    filters = random.standard_normal((_CHANNELS, _TRIALS, g.shape[1], g.shape[1]))
    v, u = bt @ inputs @ bt.T, g @ filters @ g.T
    largest = (1 << (bits - 1)) - 1
    steps = Quantised(_CHANNELS, tiles=largest, filters=largest)

    def outputs(v: np.ndarray, u: np.ndarray) -> np.ndarray:
        return at @ (v * u).sum(0) @ at.T

    exact = outputs(v, u)
    error = outputs(_rounded(steps, v), _rounded(steps, u)) - exact
    return sqrt(float((error**2).sum() / (exact**2).sum()))


def _rounded(steps: Quantised, values: np.ndarray) -> np.ndarray:
    """Values (C, tiles, T, T) as multiples of the step of their position."""
    whole_numbers, step = steps.scaled_filters(values.reshape(-1, *values.shape[2:]))
    return (whole_numbers * step).reshape(values.shape)


def _array(rows: Sequence[Sequence[Any]]) -> np.ndarray:
    return np.array([[float(value) for value in row] for row in rows])
