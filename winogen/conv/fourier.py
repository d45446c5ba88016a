"""Convolution by Fourier transforms, planned: its tiles, its memory, its time and its error.

Overlap-save: a tile of the padded map is transformed, multiplied by the transformed filter and
transformed back; all outputs whose windows lie in the tile are right. `winogen.conv.spectral` runs
it by `numpy.fft`, and `winogen.conv.fourier_tiles` layers of many tiles in C. Nothing here touches
data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import log2, prod, sqrt
from typing import Any

import numpy as np

from winogen.conv.cuts import WORKSPACE
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import Request
from winogen.conv.tolerance import Tolerance
from winogen.errors import InvalidValue
from winogen.records import COMPUTED_TYPES, Axis, Machine, Precision
from winogen.records.machine import LINE

LEAST_TAPS = 81  # of a large filter, for which "auto" considers this, or two passes
_LENGTHS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Rates:
    """What the steps take on any machine, in its clock cycles; counted, not fitted.

    numpy's library for transforms, pocketfft, is compiled for vectors of 16 bytes, whatever the
    CPU has. A multiplication and an addition of four numbers each, half of the time: the other half
    are loads, stores and shuffles.
    """

    flops: float = 4.0  # of a transform, per cycle, in float32
    product: float = 1.5  # cycles of a complex product of two spectra
    # The same in a product of matrices, one for each frequency, and to begin with one of these.
    summed: float = 0.8
    matrix: float = 150
    call: float = 24_000  # that Python takes for one step of one batch of maps


@dataclass(frozen=True)
class AxisBlocks:
    """How one axis is cut."""

    length: int  # of the transform
    step: int  # outputs of a tile, strides not counted: from one tile to the next
    tiles: int


@dataclass(frozen=True)
class FourierCandidate:
    """How a problem is computed by Fourier transforms, on one thread."""

    axes: tuple[AxisBlocks, ...]
    maps: int  # that are transformed at once
    tiles: int  # whose channels are summed at once
    seconds: float  # predicted, on one thread
    workspace_bytes: int  # of one thread

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the transform, along each axis."""
        return tuple(axis.length for axis in self.axes)

    @property
    def spectrum(self) -> tuple[int, ...]:
        """The shape of a transformed map, half of the numbers being the conjugates of others."""
        return spectrum_of(self.lengths)


def spectrum_of(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the transform of a real map."""
    return (*lengths[:-1], lengths[-1] // 2 + 1)


def fastest(
    problem: Problem, machine: Machine, limit: int | None, threads: int = 1
) -> FourierCandidate:
    """Return the fastest one by prediction whose workspace on all threads keeps to the limit.

    ``limit``: None for what is usual. Raises InvalidValue where all take more.
    """
    share = None if limit is None else limit // threads
    candidates = _candidates(problem, machine)
    least = min(one.workspace_bytes for one in candidates)
    if share is not None and least > share:
        raise InvalidValue(
            f"workspace_limit: got {limit}; allowed: at least {least * threads} bytes for this "
            "problem and algorithm"
        )
    most = max(least, WORKSPACE) if share is None else share
    fitting = (one for one in candidates if one.workspace_bytes <= most)
    return min(fitting, key=lambda one: (one.seconds, one.workspace_bytes))


@lru_cache(maxsize=64)
def _candidates(problem: Problem, machine: Machine) -> tuple[FourierCandidate, ...]:
    sizes = zip(problem.layer.axes, problem.size, problem.output_size)
    mode = problem.layer.padding_mode
    cuts = [_cuts(axis, size, outputs, mode) for axis, size, outputs in sizes]
    return tuple(
        _evaluated(problem, axes, maps, tiles, machine)
        for axes in product(*cuts)
        for maps in _counts(_most_maps(problem))
        for tiles in _counts(1 if is_alone(problem) else _tiles(problem, axes))
    )


def _counts(most: int) -> list[int]:
    return [count for count in (1, 4, 16, 64) if count == 1 or count < 4 * most]


def _tiles(problem: Problem, axes: tuple[AxisBlocks, ...]) -> int:
    return problem.batch * prod(axis.tiles for axis in axes)


def _cuts(axis: Axis, size: int, outputs: int, mode: str) -> list[AxisBlocks]:
    """The ways to cut an axis: as a whole, and into tiles of usual lengths."""
    outputs = (outputs - 1) * axis.stride + 1
    inputs = outputs + axis.reach - 1
    if mode == "zeros":
        # Around a circle the zeros before the map are those behind it, too.
        shared = size + max(axis.before, axis.after)
        inputs = min(inputs, max(shared, outputs, axis.reach))
    whole = AxisBlocks(_fast(inputs), outputs, 1)
    cuts = [whole]
    for length in _LENGTHS:
        # Whole strides, so that every tile begins with an output.
        step = (length - axis.reach + 1) // axis.stride * axis.stride
        if length < whole.length and step >= max(1, length // 4):
            cuts.append(AxisBlocks(length, step, -(-outputs // step)))
    return cuts


def _fast(length: int) -> int:
    """The least length from ``length`` on with the factors 2 and 3 only.

    Transforms of other factors take longer, and have larger errors.

    >>> [_fast(n) for n in (1, 7, 86, 1095)]
    [1, 8, 96, 1152]
    """
    threes = [3**n for n in range(length.bit_length())]
    return min(three << (-(-length // three) - 1).bit_length() for three in threes)


def _most_maps(problem: Problem) -> int:
    layer = problem.layer
    per_group = max(layer.channels, layer.filters) // layer.groups
    return layer.groups if is_depthwise(problem) else per_group


def is_alone(problem: Problem) -> bool:
    """Whether a filter sees one channel only, so that no products are summed."""
    return problem.layer.channels == problem.layer.groups


def is_depthwise(problem: Problem) -> bool:
    """Whether also a channel is seen by one filter only."""
    return is_alone(problem) and problem.layer.filters == problem.layer.groups


def buffers(
    problem: Problem, lengths: tuple[int, ...], maps: int, tiles: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a thread's buffers.

    ``real``, of real numbers, are maps, and ``spectra`` their transforms. ``inputs`` are what all
    filters of a group are multiplied with, and ``sums`` the sums over its channels.
    """
    layer, spectrum = problem.layer, spectrum_of(lengths)
    shapes = {"real": (maps, *lengths), "spectra": (maps, *spectrum)}
    if is_alone(problem):
        return shapes if is_depthwise(problem) else {**shapes, "inputs": (1, *spectrum)}
    channels, filters = (count // layer.groups for count in (layer.channels, layer.filters))
    frequencies = prod(spectrum)
    return {
        **shapes,
        "inputs": (frequencies, channels, tiles),
        "sums": (frequencies, filters, tiles),
    }


def bytes_of(shapes: dict[str, tuple[int, ...]], itemsize: int) -> dict[str, int]:
    """Return the bytes of each buffer, up to the next cache line."""
    each = {
        name: prod(shape) * itemsize * (1 if name == "real" else 2)
        for name, shape in shapes.items()
    }
    return {name: -(-size // LINE) * LINE for name, size in each.items()}


def spectra_bytes(problem: Problem, lengths: tuple[int, ...]) -> int:
    """Return the bytes of all transformed filters."""
    layer = problem.layer
    return 2 * layer.itemsize * prod(layer.weight_shape[:2]) * prod(spectrum_of(lengths))


def _evaluated(
    problem: Problem,
    axes: tuple[AxisBlocks, ...],
    maps: int,
    tiles: int,
    machine: Machine,
    rates: Rates = Rates(),
) -> FourierCandidate:
    layer, lengths = problem.layer, tuple(axis.length for axis in axes)
    item, points, spectrum = layer.itemsize, prod(lengths), prod(spectrum_of(lengths))
    workspace = sum(bytes_of(buffers(problem, lengths, maps, tiles), item).values())
    wide = item / 4  # numbers of float64 take twice as long
    # Of one tile: all transforms of maps, ...
    per_tile = layer.channels + layer.filters
    cycles = 2.5 * points * log2(max(2, points)) * per_tile * wide / rates.flops
    # ... whose steps read and write a map each, once more for its copy, ...
    moved = per_tile * (layer.rank + 1) * 2 * item * points
    cycles += moved / float(machine.read_rate(workspace))
    # ... products, and the filters that they read, ...
    pairs, filters = prod(layer.weight_shape[:2]), spectra_bytes(problem, lengths)
    work = pairs * spectrum * wide * (rates.product if is_alone(problem) else rates.summed)
    if not is_alone(problem):
        work += rates.matrix * layer.groups * spectrum / tiles
    cycles += max(work, filters / tiles / float(machine.read_rate(filters)))
    # ... and steps in Python.
    sides = (layer.channels, layer.filters)
    together = 1 if is_depthwise(problem) else layer.groups
    batches = together * sum(-(-(count // together) // maps) for count in sides)
    cycles += rates.call * batches * (layer.rank + 2)
    seconds = _tiles(problem, axes) * cycles / (machine.clock_ghz * 1e9)
    return FourierCandidate(axes, maps, tiles, seconds, workspace)


def jobs(problem: Problem, candidate: FourierCandidate) -> int:
    """Return in how many pieces it is computed: some channels, or a group, and some tiles each."""
    step = candidate.maps if is_depthwise(problem) else 1
    tiles = _tiles(problem, candidate.axes)
    return -(-problem.layer.groups // step) * -(-tiles // candidate.tiles)


def is_large(problem: Problem) -> bool:
    """Whether the filters are large enough to be worth a thought."""
    return prod(problem.layer.kernel) >= LEAST_TAPS


def asks_for_any(request: Request) -> bool:
    """Whether a request is for any algorithm, with any numbers."""
    return request.algorithm == "auto" and not request.asks_for_numbers


def computes(problem: Problem, request: Request) -> bool:
    """Whether transforms compute what a request for any algorithm asks for."""
    return asks_for_any(request) and problem.layer.dtype in COMPUTED_TYPES


def sources(axis: Axis, size: int, mode: str, start: int, length: int) -> np.ndarray:
    """Return where positions of the padded axis come from, ``start`` being the first; -1: zero.

    >>> sources(Axis(3, before=2, after=1), 4, "reflect", 0, 8).tolist()
    [2, 1, 0, 1, 2, 3, 2, -1]
    """
    places = np.arange(start, start + length) - axis.before
    padded = places < size + axis.after
    if mode == "circular":
        places %= size
    elif mode == "replicate":
        places = places.clip(0, size - 1)
    elif mode == "reflect":
        places = np.abs(places)
        places = np.where(places < size, places, 2 * (size - 1) - places)
    else:
        padded &= (0 <= places) & (places < size)
    return np.where(padded, places, -1)


def in_tile(taps: np.ndarray, axes: Sequence[Axis], lengths: tuple[int, ...]) -> np.ndarray:
    """Return the taps of a filter in a tile of zeros, as far apart as the dilation says."""
    tile = np.zeros(lengths)
    tile[tuple(slice(0, axis.reach, axis.dilation) for axis in axes)] = taps
    return tile


def planes(layer: Layer, array: np.ndarray | None) -> Any:
    """Return a view (N, C, …) of an array in the layer's layout; None for None."""
    if array is None:
        return None
    if array.ndim == layer.rank:  # one map of one channel
        array = array[None] if layer.planar else array[..., None]
    if array.ndim == layer.rank + 1:
        array = array[None]
    return array if layer.planar else np.moveaxis(array, -1, 1)


def checked(problem: Problem, request: Request, machine: Machine) -> FourierCandidate:
    """Return the fastest one of a request that names the algorithm, or has no other.

    Raises InvalidValue for limits.
    """
    found = fastest(problem, machine, request.workspace_limit, request.threads)
    rule = Tolerance.of(problem.layer, request.tolerance)
    what = f'layer with algorithm "{request.algorithm}"'
    return rule.best([found], lambda one: predicted_error(problem, one.lengths), what)


def predicted_error(problem: Problem, lengths: tuple[int, ...]) -> float:
    """Return the expected max |y - y_exact| / max |y_exact| on normal data.

    Each of the log2(n) levels of a transform adds errors of about 0.6 u relative to the norm, and
    they add up as independent ones do: 0.6 u sqrt(log2 n), where u is half a unit in the last place
    (J. C. Schatzman, Accuracy of the discrete Fourier transform and the fast Fourier transform,
    SIAM J. Sci. Comput. 17, 1996). There are two transforms with rounding; filters are transformed
    in float64 and rounded once. A product rounds and its sum over channels as many
    times as there are channels; half of it on average, and in two chains or more.
    """
    layer = problem.layer
    unit = 2.0 ** -Precision.of(layer.dtype).real.bits
    levels = log2(max(2, prod(lengths)))
    terms = layer.channels // layer.groups
    return unit * sqrt(2 * 0.36 * levels + 1 + terms / 4)
