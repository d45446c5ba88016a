"""Convolution by Fourier transforms, run: `numpy.fft` on tiles, in the memory that was planned.

`Spectral` stands where `winogen.conv.execute.Prepared` stands for compiled kernels, and needs no
compiler. What is computed, and in which pieces, is decided in `winogen.conv.fourier`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from winogen.conv import fourier, memory
from winogen.conv.clocks import in_clock_cycles
from winogen.conv.epilogue import finished
from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.execute import Environment
from winogen.conv.fourier import AxisBlocks, FourierCandidate
from winogen.conv.plan import Prediction
from winogen.conv.problem import Layer
from winogen.conv.query import Query
from winogen.conv.solver import Offer, Solver
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import FFT
from winogen.records import COMPUTED_TYPES, Axis

# Before numpy 2, transforms take no array for their result and are always of float64.
_IN_PLACE = int(np.__version__.split(".")[0]) >= 2
Run = tuple[slice, slice]  # of a tile and a map


class Spectral(Executable):
    """A problem bound to its tiles: packed filters are transformed ones."""

    def __init__(self, offer: Offer):
        super().__init__(offer)
        problem, self.way = offer.problem, offer.best
        way = self.way
        self._complex = np.result_type(self.dtype, np.complex64)
        mode, sizes = problem.layer.padding_mode, zip(problem.layer.axes, problem.size, way.axes)
        # Along each axis, for each tile: the runs of the map that it reads.
        self._runs = [
            [_runs(axis, size, mode, tile * along.step, along.length)
             for tile in range(along.tiles)]
            for axis, size, along in sizes
        ]  # fmt: skip
        # ... and where its outputs are, in the result and in the tile.
        self._ends = [
            [_ends(along, tile, axis, count) for tile in range(along.tiles)]
            for along, axis, count in zip(way.axes, problem.layer.axes, problem.output_size)
        ]
        self._jobs = list(self._pieces())
        self.threads = offer.threads
        self._shapes = fourier.buffers(problem, way.lengths, way.maps, way.tiles)
        self._bytes = fourier.bytes_of(self._shapes, problem.layer.itemsize)
        self.workspace_bytes = sum(self._bytes.values()) * self.threads

    def pack(self, weight: np.ndarray, kept: Kept | None = None) -> tuple[Any, ...]:
        """Return the transformed filters, remembered per size of a tile."""
        kept, key = {} if kept is None else kept, (FFT, self.way.lengths)
        packed = kept.get(key)
        if packed is None:
            packed = kept[key] = self._transformed(weight)
        return (packed,)

    def _transformed(self, weight: np.ndarray) -> np.ndarray:
        """Filters transformed in float64 and rounded once: (M, 1, …) of one channel each, else
        (groups, …, M/groups, C/groups).
        """
        layer, lengths = self.problem.layer, self.way.lengths
        spectrum = self.way.spectrum
        filters, channels = weight.shape[:2]
        groups = layer.groups
        alone = fourier.is_alone(self.problem)
        shape = (filters, *spectrum) if alone else (
            (groups, *spectrum, filters // groups, channels)
        )  # fmt: skip
        packed = memory.empty(shape, self._complex, "transformed weight")
        axes = tuple(range(layer.rank))
        for filter, channel in product(range(filters), range(channels)):
            taps = fourier.in_tile(weight[filter, channel], layer.axes, lengths)
            # The conjugate, because filters are not flipped. Transforms of maps are scaled both
            # ways, since numpy computes those without a scale in float64; this undoes one of them.
            spectra = np.conj(np.fft.rfftn(taps, axes=axes)) * prod(lengths)
            if alone:
                packed[filter] = spectra
            else:
                group, place = divmod(filter, filters // groups)
                packed[group, ..., place, channel] = spectra
        return packed

    def compute(self, packed: tuple[Any, ...], arrays: Arrays) -> None:
        """Transform tiles, multiply them and transform them back."""
        input, bias, slopes, *others = arrays
        layer = self.problem.layer
        x, before, after, y = (fourier.planes(layer, one) for one in (input, *others))
        finish = finished(self.problem.epilogue, bias, slopes, before, after, y)
        compute = self._alone if fourier.is_alone(self.problem) else self._summed

        def one(share: int) -> None:
            # Of this thread.
            buffers = self._buffers()
            with np.errstate(all="ignore"):
                for job in self._jobs[share :: self.threads]:
                    compute(job, x, packed[0], finish, buffers)

        if self.threads == 1:
            one(0)
            return
        from concurrent.futures import ThreadPoolExecutor  # few need it, and it takes its time

        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(one, range(self.threads)))

    def _pieces(self) -> Iterator[tuple[slice, list[tuple[int, tuple[int, ...]]]]]:
        """What is computed at once: channels, or a group, and some tiles: image, place."""
        problem, way = self.problem, self.way
        places = product(*(range(axis.tiles) for axis in way.axes))
        tiles = list(product(range(problem.batch), places))
        groups = problem.layer.groups
        step = way.maps if fourier.is_depthwise(problem) else 1
        for first in range(0, groups, step):
            for some in range(0, len(tiles), way.tiles):
                yield slice(first, min(first + step, groups)), tiles[some : some + way.tiles]

    def _buffers(self) -> dict[str, np.ndarray]:
        raw = memory.workspace(sum(self._bytes.values()))
        found, begin = {}, 0
        for name, shape in self._shapes.items():
            kind = self.dtype if name == "real" else self._complex
            size = prod(shape) * kind.itemsize
            found[name] = raw[begin : begin + size].view(kind).reshape(shape)
            begin += self._bytes[name]
        return found

    def _alone(self, job: Any, x: Any, filters: np.ndarray, finish: Callable, at: dict) -> None:
        """Tiles of channels that are summed with no others."""
        layer = self.problem.layer
        groups, tiles = job
        per_group = layer.filters // layer.groups
        for image, place in tiles:
            if per_group == 1:
                spectra = self._forward(x[image, groups], place, at["real"], at["spectra"])
                spectra *= filters[groups]
                self._backward(spectra, image, groups, place, finish, at["real"])
                continue
            self._forward(x[image, groups], place, at["real"], at["inputs"])
            first = groups.start * per_group
            for some in _blocks(first, first + per_group, self.way.maps):
                spectra = at["spectra"][: some.stop - some.start]
                np.multiply(at["inputs"], filters[some], out=spectra)
                self._backward(spectra, image, some, place, finish, at["real"])

    def _summed(self, job: Any, x: Any, filters: np.ndarray, finish: Callable, at: dict) -> None:
        """Tiles of a group: a product of matrices for each frequency."""
        layer, maps = self.problem.layer, self.way.maps
        groups, tiles = job
        group, count = groups.start, len(tiles)
        inputs, sums = at["inputs"][..., :count], at["sums"][..., :count]
        channels, per_group = layer.channels // layer.groups, layer.filters // layer.groups
        first = group * channels
        for tile, (image, place) in enumerate(tiles):
            for some in _blocks(0, channels, maps):
                which = slice(first + some.start, first + some.stop)
                spectra = self._forward(x[image, which], place, at["real"], at["spectra"])
                inputs[:, some, tile] = spectra.reshape(len(spectra), -1).T
        matrices = filters[group].reshape(-1, per_group, channels)
        np.matmul(matrices, inputs, out=sums)
        for tile, (image, place) in enumerate(tiles):
            for some in _blocks(0, per_group, maps):
                spectra = at["spectra"][: some.stop - some.start]
                spectra.reshape(len(spectra), -1)[...] = sums[:, some, tile].T
                which = slice(group * per_group + some.start, group * per_group + some.stop)
                self._backward(spectra, image, which, place, finish, at["real"])

    def _forward(
        self, maps: np.ndarray, place: tuple[int, ...], real: np.ndarray, spectra: np.ndarray
    ) -> np.ndarray:
        """The transforms of a tile of some maps."""
        real, spectra = real[: len(maps)], spectra[: len(maps)]
        runs = [along[tile] for along, tile in zip(self._runs, place)]
        filled = tuple(sum(at.stop - at.start for at, _ in one) for one in runs)
        if filled != self.way.lengths:
            real[...] = 0
        for pieces in product(*runs):
            to, source = zip(*pieces)
            some = maps[(slice(None), *source)]
            if some.shape == real.shape:  # all of it, which is read where it lies
                real = some
            else:
                real[(slice(None), *to)] = some
        _transform(np.fft.rfft, real, spectra, -1, norm="forward")
        for axis in range(1, real.ndim - 1):
            _transform(np.fft.fft, spectra, spectra, axis, norm="forward")
        return spectra

    def _backward(
        self,
        spectra: np.ndarray,
        image: int,
        filters: slice,
        place: tuple[int, ...],
        finish: Callable,
        real: np.ndarray,
    ) -> None:
        """Transform products back, and finish the outputs of the tile."""
        for axis in range(1, spectra.ndim - 1):
            _transform(np.fft.ifft, spectra, spectra, axis)
        outputs, (*rows, columns) = zip(*(along[tile] for along, tile in zip(self._ends, place)))
        # Rows without outputs are not transformed.
        spectra, width = spectra[(slice(None), *rows)], real.shape[-1]
        shape = (*spectra.shape[:-1], width)
        lines = real.reshape(-1)[: prod(shape)].reshape(shape)
        _transform(np.fft.irfft, spectra, lines, -1, n=width)
        finish(lines[..., columns], image, filters, outputs)


class Fourier(Solver):
    """Fourier transforms by numpy: for large kernels, and where no kernel in C is at hand."""

    algorithm = FFT
    # Its model knows a machine by its record alone.
    safety = 1.2

    def offer(self, query: Query, best: Offer | None = None) -> Offer | None:
        """Return the fastest tiles; of small kernels if nothing else computes them."""
        problem, request, target, machine, _, stock = query
        machine = in_clock_cycles(machine, target)
        asked, reason = request.algorithm == FFT, ""
        if asked:
            self.check(problem.layer)
        else:
            measured = best is not None and getattr(best.best, "measured", None)
            small = best is not None and not fourier.is_large(problem)
            if small or measured or not fourier.computes(problem, request):
                return None
        try:
            if best is None:
                found = fourier.checked(problem, request, machine)
                reason = "" if asked or stock is None else stock.reason
            else:
                limit = request.workspace_limit
                found = fourier.fastest(problem, machine, limit, request.threads)
        except InvalidValue:
            if asked:
                raise
            return None
        threads = max(1, min(request.threads, fourier.jobs(problem, found)))
        return Offer(self, query, target, [found], threads, best, reason)

    def bind(self, offer: Offer, environment: Environment) -> Spectral:
        """Return it bound to its tiles."""
        return Spectral(offer)

    def prediction(self, offer: Offer, candidate: FourierCandidate) -> Prediction:
        """Return what is expected of all threads."""
        jobs = fourier.jobs(offer.problem, candidate)
        seconds = candidate.seconds * -(-jobs // offer.threads) / max(1, jobs)
        error = fourier.predicted_error(offer.problem, candidate.lengths)
        return Prediction(seconds, error, FFT, None, "")

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return its tiles, and what they take."""
        problem, found = offer.problem, offer.best
        tiles = problem.batch * prod(axis.tiles for axis in found.axes)
        pairs = prod(problem.layer.weight_shape[:2])
        return {
            "variant": f"{FFT} of {' x '.join(map(str, found.lengths))}",
            "workspace_bytes": found.workspace_bytes * offer.threads,
            "packed_weight_bytes": fourier.spectra_bytes(problem, found.lengths),
            # Complex products, of four multiplications each.
            "multiplications": 4 * tiles * prod(found.spectrum) * pairs,
            "source": "",
        }

    def check(self, layer: Layer) -> None:
        """Raise Unsupported for arrays that have no Fourier transforms."""
        if layer.dtype not in COMPUTED_TYPES:
            raise Unsupported(
                f'algorithm: got "{FFT}" with {layer.dtype} arrays; allowed: arrays of '
                f"{' or '.join(COMPUTED_TYPES)}, or algorithm auto, direct"
            )


def _transform(
    function: Any, source: np.ndarray, out: np.ndarray, axis: int, **options: Any
) -> None:
    """Transform along an axis, in place if ``out`` is the source."""
    if _IN_PLACE:
        function(source, axis=axis, out=out, **options)
    else:
        out[...] = function(source, axis=axis, **options)


def _blocks(first: int, last: int, step: int) -> Iterator[slice]:
    for begin in range(first, last, step):
        yield slice(begin, min(begin + step, last))


def _ends(along: AxisBlocks, tile: int, axis: Axis, count: int) -> Run:
    """The outputs of a tile, and where they lie in it."""
    per_tile = -(-along.step // axis.stride)
    first, last = tile * per_tile, min((tile + 1) * per_tile, count)
    return slice(first, last), slice(0, (last - first - 1) * axis.stride + 1, axis.stride)


def _runs(axis: Axis, size: int, mode: str, start: int, length: int) -> list[Run]:
    """Where a tile of the padded axis comes from: runs of neighbours, of mirrored ones, or of one.

    ``start`` is in the padded axis. What is not in any run is zero.
    """
    places = fourier.sources(axis, size, mode, start, length)
    steps, zeros = np.diff(places), places < 0
    runs, begin = [], 0
    while not zeros[begin:].all():
        begin += int(zeros[begin:].argmin())
        here, more = int(places[begin]), steps[begin:]
        step = int(more[0]) if len(more) and not zeros[begin + 1] else 1
        if abs(step) > 1:
            step = 1
        others = np.flatnonzero((more != step) | zeros[begin + 1 :])
        end = begin + 1 + int(others[0] if len(others) else len(more))
        last = int(places[end - 1])
        source = slice(here, here + 1) if step == 0 else (
            slice(here, last + 1) if step > 0 else slice(here, last - 1 if last else None, -1)
        )  # fmt: skip
        runs.append((slice(begin, end), source))
        begin = end
    return runs
