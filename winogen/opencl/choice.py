"""Which kernels compute a problem on a device: the fastest by prediction that is accurate enough.

Tiles, points and the rule for errors are those of kernels for CPUs. Time is predicted from what the
records of kernels demand, at the rates of the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any

from winogen.codegen.devices.statements import DeviceArray, DeviceWork
from winogen.codegen.transform import Transform
from winogen.conv.candidates import is_winograd_worth_it, tilings
from winogen.conv.choice import Choice, transform_of
from winogen.conv.problem import Problem
from winogen.conv.request import Request
from winogen.conv.tolerance import Tolerance
from winogen.errors import InvalidValue
from winogen.opencl import counting, cuts
from winogen.opencl.bounds import by_least_seconds
from winogen.opencl.counting import DeviceRates
from winogen.opencl.cuts import Buffers, Parameters
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_work
from winogen.opencl.scheme import DirectPoint
from winogen.opencl.space import DirectSpace
from winogen.opencl.tiles import TileGrid
from winogen.opencl.usual import usual
from winogen.opencl.winograd import arrays_of, mcmr_work
from winogen.program.summation import PROGRAM
from winogen.records import Points, Precision

ALGORITHMS = ("auto", "direct", "mcmr")
_POINTS = 16  # of direct convolution
ALTERNATIVES = 8  # the most candidates that are returned
# Of each tile so many cuts are tried first; and all cuts of so many tiles, the fastest by then.
_SOME, _TILINGS = 2, 12
_MOST_NUMBERS = 2**31 - 1  # of an array, whose indices have 32 bits


@dataclass(frozen=True)
class DeviceCandidate:
    """One way to compute a problem on a device."""

    algorithm: str
    seconds: float  # predicted
    multiplications: int
    workspace_bytes: int
    parameters: Parameters | DirectPoint
    arrays: tuple[DeviceArray, ...] = field(repr=False)  # packed, and the workspace
    tile: tuple[int, int] | None = None
    points: tuple[Points | None, ...] = ()
    transforms: tuple[Transform, Transform] | None = field(default=None, repr=False)
    error: float | None = None  # predicted; None: see `predicted_error`
    measured: bool = False  # whether `winogen tune` found it on the device

    def work(self, problem: Problem, device: DeviceInfo, bias: bool = False) -> DeviceWork:
        """Return the kernels. ``bias``: whether a call brings one."""
        if isinstance(self.parameters, DirectPoint):
            return direct_work(problem, self.parameters, device, bias=bias)
        assert self.transforms is not None
        return mcmr_work(problem, self.transforms, self.parameters, bias)

    @property
    def nbytes(self) -> int:
        """Bytes of what it takes besides the arrays of a call: packed weights and workspace."""
        return sum(one.nbytes for one in self.arrays)

    def measured_as(self, seconds: float) -> DeviceCandidate:
        """Return the same with the time that it took on the device."""
        return replace(self, seconds=seconds, measured=True)

    @property
    def tag(self) -> str:
        """What its transforms are called besides m and r."""
        tags = [one.tag if one else "" for one in self.points]
        return next(filter(None, tags), "")


def choose(
    problem: Problem,
    request: Request,
    device: DeviceInfo,
    rates: DeviceRates,
    measured: Sequence[DeviceCandidate] = (),
) -> list[DeviceCandidate]:
    """Return the ways to compute a problem, the one that runs first, the others by time.

    The first is the fastest within the tolerance, as `winogen.conv.tolerance.Tolerance` has it.
    Where some of the ``measured`` candidates are what is asked for, nothing is predicted. Raises
    InvalidValue where nothing keeps to the workspace limit, to the tolerance or to the device's
    memory.
    """
    limit, layer = request.workspace_limit, problem.layer
    _check_room(problem, arrays_of(problem), device)
    usable = [one for one in measured if _is_asked_for(problem, one, request)]
    every = sorted(usable or _candidates(problem, request, device, rates), key=_seconds)
    fitting = [one for one in every if _has_room(_arrays(problem, one), device)]
    if not fitting:
        _check_room(problem, min((_arrays(problem, one) for one in every), key=_bytes), device)
    least = min(one.workspace_bytes for one in fitting)
    if limit is not None and least > limit:
        raise InvalidValue(
            f"workspace_limit: got {limit}; allowed: at least {least} bytes for this problem "
            "and algorithm"
        )
    best: dict[Any, DeviceCandidate] = {}  # of those that differ in how kernels are cut alone
    for one in fitting:
        if limit is None or one.workspace_bytes <= limit:
            best.setdefault((one.algorithm, one.tile, one.points), one)
    ways = list(best.values())

    def error(one: DeviceCandidate) -> float:
        return predicted_error(problem, one)

    chosen = ways[0]
    if not request.asks_for_tiles:
        what = f'layer with algorithm "{request.algorithm}"'
        chosen = Tolerance.of(layer, request.tolerance).best(ways, error, what)
    ranked = [chosen, *(one for one in ways if one is not chosen)][:ALTERNATIVES]
    return [replace(one, error=error(one)) for one in ranked]


def _is_asked_for(problem: Problem, one: DeviceCandidate, request: Request) -> bool:
    """Whether a measured candidate answers a request that leaves all but an algorithm open."""
    limit, rule = request.workspace_limit, Tolerance.of(problem.layer, request.tolerance)
    return (
        not (request.tile or request.points)
        and request.order == PROGRAM
        and request.algorithm in ("auto", one.algorithm)
        and (limit is None or one.workspace_bytes <= limit)
        and rule.allows(predicted_error(problem, one))
    )


def predicted_error(problem: Problem, candidate: DeviceCandidate) -> float:
    """Return the expected max |y - y_exact| / max |y_exact| on normal data."""
    layer = problem.layer
    channels = layer.channels // layer.groups
    if isinstance(candidate.parameters, DirectPoint):
        point = candidate.parameters
        return _direct_error(layer.dtype, prod(layer.weight_shape[1:]), point.chunk * point.vector)
    assert candidate.transforms is not None
    depth = 0 if candidate.parameters.fused else candidate.parameters.depth
    return _tiled_error(layer.dtype, channels, candidate.transforms, depth)


@lru_cache(maxsize=4096)
def _tiled_error(
    dtype: str, channels: int, transforms: tuple[Transform, Transform], depth: int
) -> float:
    from winogen.rounding.variance import estimate

    return estimate(
        transforms,
        channels=channels,
        precision=Precision.of(dtype),
        distribution="normal",
        order=transforms[1].order,
        filters="float64",
        fused=True,
        block=depth or None,
    ).relative_max


@lru_cache(maxsize=4096)
def _direct_error(dtype: str, terms: int, chunk: int) -> float:
    from winogen.rounding.tiles import Direct
    from winogen.rounding.variance import estimate

    return estimate(
        Direct(1, terms),
        dims=1,
        precision=Precision.of(dtype),
        distribution="normal",
        order="naive",
        filters="float64",
        fused=True,
        block=min(chunk, terms),
    ).relative_max


def _candidates(
    problem: Problem, request: Request, device: DeviceInfo, rates: DeviceRates
) -> list[DeviceCandidate]:
    asked, found = request.algorithm, list[DeviceCandidate]()
    if asked in ("auto", "direct"):
        found += direct(problem, request, device, rates)
    layer = problem.layer
    # Of a single tap all that is left of it are products of matrices.
    worth = is_winograd_worth_it(layer) or (layer.kernel == (1, 1) and max(layer.stride) == 1)
    if asked == "mcmr" or (asked == "auto" and worth):
        found += tiled(problem, request, device, rates)
    return found


def direct(
    problem: Problem, request: Request, device: DeviceInfo, rates: DeviceRates
) -> list[DeviceCandidate]:
    """Return direct convolution at points that are usually good, the fastest among them.

    No kernels are made of a point whose least time is more than another takes.
    """
    space, found = DirectSpace(problem, device), list[DeviceCandidate]()
    points = usual(space, _POINTS, request.workspace_limit)
    for least, point in by_least_seconds(space, points, rates):
        if found and least > min(map(_seconds, found)):
            break
        found.append(direct_candidate(problem, point, device, rates))
    return found


def direct_candidate(
    problem: Problem, point: DirectPoint, device: DeviceInfo, rates: DeviceRates | None = None
) -> DeviceCandidate:
    """Return direct convolution at a point; without ``rates`` its time is not predicted.

    Raises InvalidValue for a point that the problem or the device does not allow.
    """
    work = direct_work(problem, point, device)
    return DeviceCandidate(
        "direct",
        0.0 if rates is None else counting.seconds(work, device, rates),
        problem.direct_multiplications,
        work.workspace_bytes,
        point,
        tuple(array for array in work.arrays if array.role in ("packed", "workspace")),
    )


def tiled(
    problem: Problem, request: Request, device: DeviceInfo, rates: DeviceRates
) -> list[DeviceCandidate]:
    """Return Winograd's ways: every tile that the request leaves open, each cut in some ways, and
    those that are fastest so far in all.

    Within a workspace limit all are cut in all ways.
    """
    layer = problem.layer
    choice = Choice("mcmr", order=request.order)
    choices = tilings(choice, layer.kernel, layer.stride, request.tile, request.points, None)
    some = None if request.workspace_limit is not None else _SOME
    found = [_Tiling(problem, one) for one in choices]
    ways = [way for one in found for way in one.candidates(device, rates, some)]
    if some is None:
        return ways
    ways.sort(key=_seconds)
    best = [*dict.fromkeys((way.tile, way.points) for way in ways)][:_TILINGS]
    again = (one for one in found if (one.tile, one.points) in best)
    return ways + [way for one in again for way in one.candidates(device, rates)]


def tiled_candidate(
    problem: Problem,
    cut: Parameters,
    tile: tuple[int, int],
    points: tuple[Points | None, ...],
    device: DeviceInfo,
) -> DeviceCandidate:
    """Return Winograd's way with these parameters, whose time is not predicted.

    Raises InvalidValue for parameters that the problem or the device does not allow.
    """
    tiling = _Tiling(problem, Choice("mcmr", tile, points))
    if wrong := cut.problems(tiling.tiles, device):
        raise InvalidValue(f"parameters: got {cut}; allowed: {wrong[0]}")
    return tiling.candidate(cut, 0.0)


class _Tiling:
    """Winograd's algorithms of a tile and points along each axis."""

    def __init__(self, problem: Problem, choice: Choice):
        assert choice.tile is not None
        self.tile = choice.tile[0], choice.tile[1]
        self.points = choice.points
        self.transforms = _transforms(problem, choice)
        self.tiles = TileGrid(problem, *self.transforms)

    def candidates(
        self, device: DeviceInfo, rates: DeviceRates, most: int | None = None
    ) -> Iterator[DeviceCandidate]:
        """Yield it cut in so many ways of products, and as many with one kernel; None: in all."""
        for every in (cuts.usual(self.tiles, device), cuts.usual_fused(self.tiles, device)):
            for cut in islice(every, most):
                needed = cuts.demands(self.tiles, cut, device)
                yield self.candidate(cut, sum(one.seconds(device, rates) for one in needed))

    def candidate(self, cut: Parameters, seconds: float) -> DeviceCandidate:
        """Return it cut in one way, and how long that takes."""
        tiles, layer, buffers = self.tiles, self.tiles.problem.layer, Buffers.of(self.tiles, cut)
        return DeviceCandidate(
            "mcmr",
            seconds,
            tiles.count * tiles.positions * layer.channels * layer.filters // layer.groups,
            buffers.workspace_bytes,
            cut,
            tuple(array for array in buffers if array is not None),
            self.tile,
            self.points,
            self.transforms,
        )


def _transforms(problem: Problem, choice: Choice) -> tuple[Transform, Transform]:
    """The algorithms along height and width: complex products are real ones here."""
    layer, rank = problem.layer, problem.layer.rank
    assert choice.tile is not None
    sets = choice.points or (None,) * rank
    along = zip(choice.tile, layer.kernel, sets, layer.stride)
    height, width = (
        transform_of(m, taps, points, choice.order, stride) for m, taps, points, stride in along
    )
    return height, width


def _seconds(one: DeviceCandidate) -> float:
    return one.seconds


def _arrays(problem: Problem, one: DeviceCandidate) -> tuple[DeviceArray, ...]:
    return (*arrays_of(problem), *one.arrays)


def _bytes(arrays: tuple[DeviceArray, ...]) -> int:
    return sum(one.nbytes for one in arrays)


def _has_room(arrays: tuple[DeviceArray, ...], device: DeviceInfo) -> bool:
    fits = max(one.nbytes for one in arrays) <= device.largest_buffer
    return (
        fits
        and _bytes(arrays) <= device.memory_bytes
        and all(prod(one.shape) <= _MOST_NUMBERS for one in arrays)
    )


def _check_room(problem: Problem, arrays: tuple[DeviceArray, ...], device: DeviceInfo) -> None:
    """Raise InvalidValue where a device has no room for arrays."""
    if not _has_room(arrays, device):
        largest = max(one.nbytes for one in arrays)
        raise InvalidValue(
            f"input: got shape {problem.input_shape}, which takes {_bytes(arrays)} bytes on the "
            f"device, {largest} of them in one buffer; allowed on {device.name}: "
            f"{device.memory_bytes}, {device.largest_buffer} in one buffer, and {_MOST_NUMBERS} "
            "numbers"
        )
