"""One layer by different algebra, stage by stage: points, moduli, Fourier tiles, whole transforms.

All ways take turns on one thread. Kernels have a clock in each stage; `numpy.fft` has none. What
is counted: multiplications of the element-wise stage, all instructions with those of transforms,
and the bytes that the element-wise stage moves, whose ratio to its operations is its arithmetic
intensity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2, nan, prod
from typing import Any, Protocol

import numpy as np

from winogen.codegen import shipped, transforms
from winogen.codegen.transform import Transform
from winogen.conv import fourier, memory
from winogen.conv.api import CONVOLUTIONS
from winogen.conv.spectral import Spectral
from winogen.errors import InvalidValue
from winogen.kernels import Work
from winogen.kernels.spec import KernelSpec
from winogen.tasks.turns import take_turns
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import reference
from winogen_lab.bench.products import interval
from winogen_lab.bench.profile import STAGES, ProfiledCall, demands, timed

FOURIER_TILES = (8, 16)  # inputs along an axis, with three multiplications a complex product
SEARCHED = 8  # inputs of the largest whose programs are searched for: larger ones take minutes
_POINTS = {3: (4, 6), 5: (2, 4), 7: (2,)}  # kernel -> outputs of tiles by points
_CALLS = 5  # of a turn; the fastest counts, of the whole and of each stage
MULTIPLY = STAGES.index("multiply")


@dataclass(frozen=True)
class Way:
    """How to compute a layer."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of `Conv2d`
    nested: bool = False  # products of complex points, although they could be joined


@dataclass(frozen=True)
class Row:
    """What a way takes; seconds of every round, stages that have no clock are NaN."""

    name: str
    products: float  # multiplications for each output and channel, waste of tiles included
    instructions: float  # multiply-adds and all others, on single numbers, in the same units
    intensity: float  # operations of the element-wise stage for each byte that it moves
    filter_bytes: int  # packed
    error: float  # max |y - y64| / max |y64|
    seconds: tuple[float, ...]
    stages: tuple[tuple[float, ...], ...]  # of `STAGES`

    def ratio(self, other: Row, stage: int | None = None) -> tuple[float, float, float]:
        """Return the time of the other way over that of this one: the median, and its interval.

        ``stage``: of `STAGES`; None for whole calls. Compared within each round.
        """
        ours, theirs = (
            row.seconds if stage is None else row.stages[stage] for row in (self, other)
        )
        return interval([b / a for a, b in zip(ours, theirs)])


def joined_and_nested(tile: int, kernel: int = 3) -> tuple[Way, Way]:
    """Return F(tile x tile, K x K) with the modulus of the catalog: products joined, and nested.

    Raises InvalidValue where the catalog has none.
    """
    name = shipped.entry_name(tile, kernel, "gaussian")
    entry = shipped.catalog().get(name)
    if entry is None:
        tiles = ", ".join(map(str, shipped.shipped_tiles(kernel, "gaussian")))
        raise InvalidValue(f"tiles: got {tile}; allowed: {tiles}, which ship with x^2 + 1")
    options = {"algorithm": "mcmr", "tile": tile, "moduli": tuple(entry["moduli"])}
    return Way(f"F({tile},{kernel})", options), Way(f"F({tile},{kernel})", options, nested=True)


def of_layer(layer: BenchLayer) -> list[Way]:
    """Return direct convolution and tiles from points to whole Fourier transforms, for a layer.

    Raises InvalidValue for other kernels than 3x3, 5x5 and 7x7 at stride 1, which are what the
    catalog has tiles with x^2 + 1 for.
    """
    kernel, *other = layer.weight[2:]
    tiles = _POINTS.get(kernel, ())
    if other != [kernel] or not tiles or max(layer.stride + layer.dilation) > 1:
        raise InvalidValue(
            f"layers: got {layer.name}; allowed: layers of 3x3, 5x5 or 7x7, stride 1, dilation 1"
        )
    ways = [Way("direct", {"algorithm": "direct"})]
    ways += [Way(f"F({m},{kernel}) points", {"algorithm": "mcmr", "tile": m}) for m in tiles]
    for tile in shipped.shipped_tiles(kernel, "gaussian")[-2:]:
        joined, _ = joined_and_nested(tile, kernel)
        ways.append(replace(joined, name=f"F({tile},{kernel}) x^2+1"))
    for n in FOURIER_TILES:
        m = n - kernel + 1
        options: dict[str, Any] = {"algorithm": "mcmr", "tile": m, "moduli": "fourier"}
        if n > SEARCHED:
            options["order"] = "huffman"
        ways.append(Way(f"F({m},{kernel}) Gauss FFT", options))
    return [*ways, Way("regular FFT", {"algorithm": "fft"})]


def compare(
    layer: BenchLayer,
    ways: Sequence[Way],
    rounds: int,
    layout: str = "NCHW",
    say: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Return a row for every way, all measured in turns on one thread.

    Raises what `Conv2d` raises; InvalidValue for a nested way whose products are not joined.
    """
    x, weight = layer.data()
    exact = reference.exact(layer, x, weight)
    runs: list[_Run] = []
    for way in ways:
        say(f"{layer.name}: preparing {way.name}")
        runs.append(_run(layer, way, x, weight, layout))
    say(f"{layer.name}: measuring")
    for run in runs:
        run()
    taken = take_turns([_fastest(run) for run in runs], (rounds, rounds))
    rows = []
    for way, run, turns in zip(ways, runs, taken):
        whole, *stages = zip(*turns)
        counts = run.counts()
        error = reference.relative_error(run.output_nchw(), exact)
        rows.append(Row(way.name, *counts, error, tuple(whole), tuple(stages)))
    return rows


class _Run(Protocol):
    def __call__(self) -> tuple[float, ...]: ...

    def counts(self) -> tuple[float, float, float, int]: ...

    def output_nchw(self) -> np.ndarray: ...


def _fastest(run: _Run) -> Callable[[], tuple[float, ...]]:
    return lambda: tuple(map(min, zip(*(run() for _ in range(_CALLS)))))


def _run(layer: BenchLayer, way: Way, x: np.ndarray, weight: np.ndarray, layout: str) -> _Run:
    data = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == "NHWC" else x
    options = {**layer.options, **way.options, "layout": layout, "threads": 1}
    prepared = CONVOLUTIONS[layer.rank](weight, **options)._prepare(data.shape)
    output = memory.empty(prepared.output_shape, np.dtype(np.float32), "output")
    if isinstance(prepared, Spectral):
        return _Transforms(layer, prepared, data, weight, output, layout)
    works = [call.work for call in prepared.calls]
    if way.nested:
        works = [nested(work) for work in works]
    return _Kernels(layer, works, data, weight, output, layout)


def nested(work: Work) -> Work:
    """Return the same kernel call, in the same blocks, with products that are nested.

    Raises InvalidValue where none are joined.
    """
    if not all(isinstance(t, Transform) and t.ring for t in work.transforms):
        raise InvalidValue("nested: got a call without joined products; allowed: one with them")
    height, width = (transforms.load(t.m, t.r, moduli=t.moduli) for t in work.transforms)
    return replace(work, transforms=(height, width))


class _Kernels:
    """A layer by compiled kernels with clocks."""

    def __init__(
        self, layer: BenchLayer, works: list[Work], data: np.ndarray, weight: np.ndarray,
        output: np.ndarray, layout: str,
    ):  # fmt: skip
        self._layer, self._works, self._data = layer, works, data
        self._output, self._layout = output, layout
        self._calls = [ProfiledCall(KernelSpec.of(work), work, weight) for work in works]

    def __call__(self) -> tuple[float, ...]:
        return timed(self._calls, self._data, self._output)

    def counts(self) -> tuple[float, float, float, int]:
        stages = demands(tuple(self._works))
        multiply, lanes = stages["multiply"], self._works[0].lanes
        made = sum(lanes * (stage.steps + stage.instructions) for stage in stages.values())
        moved = sum(move.bytes for move in multiply.moves)
        unit = _unit(self._layer)
        size = sum(call.struct.packed_bytes for call in self._calls)
        return multiply.products / unit, made / unit, 2 * multiply.products / moved, size

    def output_nchw(self) -> np.ndarray:
        return _nchw(self._output, self._layout)


class _Transforms:
    """A layer by `numpy.fft`."""

    def __init__(
        self, layer: BenchLayer, prepared: Spectral, data: np.ndarray, weight: np.ndarray,
        output: np.ndarray, layout: str,
    ):  # fmt: skip
        self._layer, self._prepared, self._data = layer, prepared, data
        self._output, self._layout = output, layout
        self._packed = prepared.pack(weight)

    def __call__(self) -> tuple[float, ...]:
        from time import perf_counter

        begin = perf_counter()
        self._prepared.run(self._data, self._packed, None, self._output)
        return (perf_counter() - begin, *(nan for _ in STAGES))

    def counts(self) -> tuple[float, float, float, int]:
        problem, way = self._prepared.problem, self._prepared.way
        layer = problem.layer
        tiles = problem.batch * prod(axis.tiles for axis in way.axes)
        points, spectrum = prod(way.lengths), prod(way.spectrum)
        pairs = layer.filters * layer.channels // layer.groups
        # Real multiplications: four of a complex product.
        products = 4 * spectrum * pairs * tiles
        maps = layer.channels + layer.filters
        transformed = 2.5 * points * log2(points) * maps * tiles
        each = 2 * layer.itemsize * spectrum  # bytes of a transformed map
        filters = fourier.spectra_bytes(problem, way.lengths)
        moved = tiles * (each * maps + filters / way.tiles)
        unit = _unit(self._layer)
        return products / unit, (products + transformed) / unit, 2 * products / moved, filters

    def output_nchw(self) -> np.ndarray:
        return _nchw(self._output, self._layout)


def _unit(layer: BenchLayer) -> int:
    """Outputs, times the channels that each sums."""
    return prod(layer.output) * layer.weight[1]


def _nchw(output: np.ndarray, layout: str) -> np.ndarray:
    return np.moveaxis(output, -1, 1) if layout == "NHWC" else output
