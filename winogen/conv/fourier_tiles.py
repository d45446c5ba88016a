"""Fourier transforms in C, of layers whose channels are summed with no others.

Tiles of a channel fill the lanes, two each, or tiles of as many channels do. So vectors are full
from the first pixel to the last output, of pictures as of layers of many channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from winogen.conv import fourier, memory
from winogen.conv.cuts import WORKSPACE
from winogen.conv.epilogue import finished
from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.execute import Call, Environment
from winogen.conv.plan import Prediction
from winogen.conv.problem import Problem, plane_of
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer, Solver
from winogen.conv.stock import build_of
from winogen.kernels import FFT
from winogen.kernels.fourier import LENGTHS, FourierSpec, FourierWork, frequencies
from winogen.kernels.kind import Spec
from winogen.records import COMPUTED_TYPES, PIXEL_TYPES, Axis, Machine, Precision, Strides, Target


@dataclass(frozen=True)
class TilesCandidate:
    """A kernel call with its predicted time on one thread."""

    work: FourierWork
    seconds: float

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of a call."""
        return self.work.spec.workspace_bytes(self.work)

    def specs(self, problem: Any) -> list[Spec]:
        """Return the kernel of its call."""
        return [self.work.spec]


class TilesInLanes(Executable):
    """A problem bound to its kernel: packed filters are transformed ones."""

    def __init__(self, offer: Offer, environment: Environment):
        work = replace(offer.best.work, threads=offer.threads)
        self._call = Call(work.spec, work, environment, offer.best.seconds)
        super().__init__(offer, [self._call])
        self.workspace_bytes = self._call.workspace_bytes
        layer, spec = self.problem.layer, work.spec
        ends = zip(layer.plane, plane_of(self.problem.size), spec.lengths, work.step, work.tiles)
        self._sources = [
            fourier.sources(axis, size, layer.padding_mode, 0, (tiles - 1) * step + length)
            for axis, size, length, step, tiles in ends
        ]

    def pack(self, weight: np.ndarray, kept: Kept | None = None) -> tuple[Any, ...]:
        """Return the transformed filters, remembered per kernel."""
        kept, spec = {} if kept is None else kept, self._call.work.spec
        packed = kept.get(spec)
        if packed is None:
            packed = kept[spec] = self._transformed(weight)
        return (packed,)

    def _transformed(self, weight: np.ndarray) -> np.ndarray:
        """Filters transformed in float64 and rounded once, as `FourierWork.filters` has them."""
        work, layer = self._call.work, self.problem.layer
        spec, lanes = work.spec, work.spec.lanes
        rows, columns = map(frequencies, spec.lengths)
        packed = memory.empty(
            work.filters, np.dtype(spec.precision.real.name), "transformed weight"
        )
        if spec.channels:
            packed[-1] = 0  # lanes that no channel is in
        for channel, taps in enumerate(weight.reshape(-1, *plane_of(layer.kernel))):
            tile = fourier.in_tile(taps, layer.plane, spec.lengths)
            # The conjugate, because filters are not flipped.
            spectrum = np.conj(np.fft.fft2(tile, norm="forward"))[rows][:, columns].T
            own = (
                packed[channel]
                if not spec.channels
                else packed[channel // lanes][..., channel % lanes]
            )
            own[..., 0], own[..., 1] = spectrum.real, spectrum.imag
        return packed

    def compute(self, packed: tuple[Any, ...], arrays: Arrays) -> None:
        """Call the kernel, and finish what it gave by numpy where there is anything left to do."""
        input, bias, slopes, add, add_after, output = arrays
        assert output is not None
        self._call.run(*map(self._call.kernel.pointer, (input, *packed, *self._sources, output)))
        epilogue, layer = self.problem.epilogue, self.problem.layer
        if epilogue.activation is None and all(one is None for one in (bias, add, add_after)):
            return
        maps = [fourier.planes(layer, one) for one in (add, add_after, output)]
        finish = finished(epilogue, bias, slopes, *maps)
        whole = tuple(slice(0, count) for count in self.problem.output_size)
        with np.errstate(all="ignore"):
            for image, sums in enumerate(maps[-1]):
                finish(sums, image, slice(0, len(sums)), whole)


class FourierTiles(Solver):
    """Fourier transforms in C: for large kernels, channel by channel."""

    safety = 1.1

    def offer(self, query: Query, best: Offer | None = None) -> Offer | None:
        """Return the fastest tiles whose kernel may be had; None for all that it cannot compute."""
        problem, request, target, machine, _, stock = query
        if best is None or not _computes(problem, request, best):
            return None
        limit = request.workspace_limit
        most = WORKSPACE if limit is None else limit // request.threads
        ways = [one for one in _candidates(problem, target, machine) if one.workspace_bytes <= most]
        if stock is not None and ways and not stock.has(ways[0].specs(problem)):
            stock.wants(ways[0].specs(problem))
            ways = stock.among(problem, ways)
        if not ways:
            return None
        threads = max(1, min(request.threads, ways[0].work.schedule[1]))
        return Offer(self, query, target, ways[:1], threads, best)

    def bind(self, offer: Offer, environment: Environment) -> TilesInLanes:
        """Return it bound to its kernel."""
        return TilesInLanes(offer, environment)

    def prediction(self, offer: Offer, candidate: TilesCandidate) -> Prediction:
        """Return what is expected of all threads."""
        (_, parts), work = candidate.work.schedule, candidate.work
        seconds = candidate.seconds * -(-parts // offer.threads) / max(1, parts)
        error = fourier.predicted_error(offer.problem, work.spec.lengths)
        return Prediction(seconds, error, FFT, None, "")

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return its tiles, what they take, and the C of its kernel."""
        work = replace(offer.best.work, threads=offer.threads)
        spec = work.spec
        size, lanes = " x ".join(map(str, spec.lengths)), "channels" if spec.channels else "tiles"
        return {
            "variant": f"{FFT} of {size}, {lanes} in the lanes",
            "workspace_bytes": spec.workspace_bytes(work),
            "packed_weight_bytes": prod(work.filters) * spec.precision.real.itemsize,
            "multiplications": work.products,
            "source": str(build_of(spec).source),
        }


def _computes(problem: Problem, request: Request, best: Offer) -> bool:
    """Whether it computes what is asked for, and may be worth a thought."""
    layer = problem.layer
    plain = all(axis.stride == 1 for axis in layer.axes) and layer.rank < 3
    fits = plain and fourier.is_depthwise(problem) and fourier.is_large(problem)
    if not fits or layer.dtype not in (*COMPUTED_TYPES, *PIXEL_TYPES):
        return False
    measured = getattr(best.best, "measured", None)
    if layer.dtype in PIXEL_TYPES:  # nothing is left to do for numpy, which would round twice
        plain = layer.epilogue.activation is None
    return plain and (request.algorithm == FFT or (fourier.asks_for_any(request) and not measured))


@lru_cache(maxsize=64)
def _candidates(problem: Problem, target: Target, machine: Machine) -> tuple[TilesCandidate, ...]:
    """All lengths of tiles that leave room for outputs, by their predicted time."""
    layer, precision = problem.layer, Precision.of(problem.layer.dtype)
    storing = target.storing(*(one.name for one in precision.stored))
    height, width = layer.plane
    lanes = precision.lanes(target.vector_bytes)
    heights = [1] if height.kernel == 1 else _lengths(height, 1)
    lengths = product(heights, _lengths(width, lanes))
    layout = "NCHW" if layer.planar else "NHWC"
    specs = [
        FourierSpec(precision, storing, both, layout, channels)
        for both in lengths
        for channels in ((False, True) if layer.channels > 1 else (False,))
    ]
    works = [_work(problem, spec) for spec in specs]
    rate = machine.clock_ghz * 1e9
    found = (TilesCandidate(work, work.cycles(machine) / rate) for work in works)
    return tuple(sorted(found, key=lambda one: one.seconds))


def _lengths(axis: Axis, multiple: int) -> list[int]:
    """The lengths to consider along an axis, a quarter of which at least are outputs."""
    each = (length for length in LENGTHS if length % multiple == 0)
    return [length for length in each if length - axis.reach + 1 >= length // 4]


def _work(problem: Problem, spec: FourierSpec) -> FourierWork:
    layer, (around, out_around) = problem.layer, problem.seams[:2]
    step = tuple(length - axis.reach + 1 for axis, length in zip(layer.plane, spec.lengths))
    ends = zip(layer.plane, plane_of(problem.size), step, spec.lengths)
    inside = [1.0, 1.0]
    if layer.padding_mode == "zeros":
        inside = [_inside(*each) for each in ends]
    return FourierWork(
        spec,
        batch=problem.batch,
        channels=layer.channels,
        output_size=plane_of(problem.output_size),
        step=(step[0], step[1]),
        input=Strides.of(spec.layout, around, *plane_of(problem.size)),
        output=Strides.of(spec.layout, out_around, *plane_of(problem.output_size)),
        around=layer.padding_mode != "zeros",
        inside=(inside[0], inside[1]),
    )


def _inside(axis: Axis, size: int, step: int, length: int) -> float:
    """Which part of an axis of all tiles is read of the map; all else are zeros.

    >>> _inside(Axis(5, before=2, after=2), size=20, step=12, length=16)
    0.75
    """
    begins = range(-axis.before, size + axis.after - axis.reach + 1, step)
    read = sum(min(begin + length, size) - max(begin, 0) for begin in begins)
    return read / (len(begins) * length)
