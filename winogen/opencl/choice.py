"""Which kernels compute a problem on a device: the fastest by prediction that is accurate enough.

Tiles, points and the rule for errors are those of kernels for CPUs. Time is predicted from what the
records of kernels demand, at the rates of the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from math import prod
from random import Random
from typing import Any

from winogen.codegen.devices.statements import Array, Work
from winogen.codegen.transform import Transform
from winogen.conv.candidates import is_winograd_worth_it, tilings
from winogen.conv.choice import Choice, transform_of
from winogen.conv.problem import Problem
from winogen.conv.request import Request
from winogen.conv.tolerance import Tolerance
from winogen.errors import InvalidValue
from winogen.opencl import counting, cuts
from winogen.opencl.counting import Rates
from winogen.opencl.cuts import Buffers, Parameters
from winogen.opencl.devices import Device
from winogen.opencl.direct import direct_work
from winogen.opencl.scheme import Point
from winogen.opencl.space import Points as PointsOf
from winogen.opencl.tiles import Tiles
from winogen.opencl.winograd import arrays_of, mcmr_work
from winogen.records import Points, Precision

ALGORITHMS = ("auto", "direct", "mcmr")
_DRAWS = 16  # points of direct convolution of each kind
ALTERNATIVES = 8  # the most candidates that are returned
# Sums of a work-item: so many numbers, where the device has no vectors, or vectors.
_MOST_SUMS, _MOST_VECTORS = 64, 16
_MOST_NUMBERS = 2**31 - 1  # of an array, whose indices have 32 bits


@dataclass(frozen=True)
class Candidate:
    """One way to compute a problem on a device."""

    algorithm: str
    seconds: float  # predicted
    multiplications: int
    workspace_bytes: int
    parameters: Parameters | Point
    arrays: tuple[Array, ...] = field(repr=False)  # packed, and the workspace
    tile: tuple[int, int] | None = None
    points: tuple[Points | None, ...] = ()
    transforms: tuple[Transform, Transform] | None = field(default=None, repr=False)
    error: float | None = None  # predicted; None: see `predicted_error`
    measured: bool = False  # whether `winogen tune` found it on the device

    def work(self, problem: Problem, device: Device, bias: bool = False) -> Work:
        """Return the kernels. ``bias``: whether a call brings one."""
        if isinstance(self.parameters, Point):
            return direct_work(problem, self.parameters, device, bias=bias)
        assert self.transforms is not None
        return mcmr_work(problem, self.transforms, self.parameters, bias)

    @property
    def tag(self) -> str:
        """What its transforms are called besides m and r."""
        tags = [one.tag if one else "" for one in self.points]
        return next(filter(None, tags), "")


def choose(problem: Problem, request: Request, device: Device, rates: Rates) -> list[Candidate]:
    """Return the ways to compute a problem, the one that runs first, the others by time.

    The first is the fastest within the tolerance, as `winogen.conv.tolerance.Tolerance` has it.
    Raises InvalidValue where nothing keeps to the workspace limit, to the tolerance or to the
    device's memory.
    """
    limit, layer = request.workspace_limit, problem.layer
    every = sorted(_candidates(problem, request, device, rates), key=_seconds)
    fitting = [one for one in every if _has_room(problem, one, device)]
    if not fitting:
        needed = min((max(_sizes(problem, one)), sum(_sizes(problem, one))) for one in every)
        raise InvalidValue(
            f"input: got shape {problem.input_shape}, which takes {needed[1]} bytes on the device, "
            f"{needed[0]} of them in one buffer; allowed on {device.name}: {device.memory_bytes}, "
            f"{device.largest_buffer} in one buffer, and {_MOST_NUMBERS} numbers"
        )
    least = min(one.workspace_bytes for one in fitting)
    if limit is not None and least > limit:
        raise InvalidValue(
            f"workspace_limit: got {limit}; allowed: at least {least} bytes for this problem "
            "and algorithm"
        )
    best: dict[Any, Candidate] = {}  # of those that differ in how kernels are cut alone
    for one in fitting:
        if limit is None or one.workspace_bytes <= limit:
            best.setdefault((one.algorithm, one.tile, one.points), one)
    ways = list(best.values())

    def error(one: Candidate) -> float:
        return predicted_error(problem, one)

    chosen = ways[0]
    if not request.asks_for_tiles:
        what = f'layer with algorithm "{request.algorithm}"'
        chosen = Tolerance.of(layer, request.tolerance).best(ways, error, what)
    ranked = [chosen, *(one for one in ways if one is not chosen)][:ALTERNATIVES]
    return [replace(one, error=error(one)) for one in ranked]


def predicted_error(problem: Problem, candidate: Candidate) -> float:
    """Return the expected max |y - y_exact| / max |y_exact| on normal data."""
    layer = problem.layer
    channels = layer.channels // layer.groups
    if isinstance(candidate.parameters, Point):
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
    problem: Problem, request: Request, device: Device, rates: Rates
) -> list[Candidate]:
    asked, found = request.algorithm, list[Candidate]()
    if asked in ("auto", "direct"):
        found += direct(problem, device, rates)
    if asked == "mcmr" or (asked == "auto" and is_winograd_worth_it(problem.layer)):
        found += tiled(problem, request, device, rates)
    return found


def direct(problem: Problem, device: Device, rates: Rates) -> list[Candidate]:
    """Return direct convolution at some points, drawn at random: always the same ones.

    Half of them sum a window at once, which needs no memory besides the call's arrays.
    """
    layer = problem.layer
    channels, *kernel = layer.weight_shape[1:]
    whole = {prod(kernel) * -(-channels // v) for v in (1, 2, 4, 8, 16)}
    plain: dict[str, tuple[int, ...]] = dict.fromkeys(("pad", "crop", "coalesced", "dot"), (0,))
    at_once = {"chunk": tuple(sorted(whole)), "local_chunks": (1,)}
    found: dict[Point, Candidate] = {}
    for fixed in (plain | at_once, plain):
        points, random = PointsOf(problem, device, **fixed), Random(0)
        for _ in range(_DRAWS):
            point = points.draw(random)
            if point in found:
                continue
            work = direct_work(problem, point, device)
            found[point] = Candidate(
                "direct",
                counting.seconds(work, device, rates),
                problem.direct_multiplications,
                work.workspace_bytes,
                point,
                tuple(array for array in work.arrays if array.role in ("packed", "workspace")),
            )
    return list(found.values())


def tiled(problem: Problem, request: Request, device: Device, rates: Rates) -> list[Candidate]:
    """Return Winograd's ways: every tile that the request leaves open, cut in every way."""
    layer = problem.layer
    choice = Choice("mcmr", order=request.order)
    choices = tilings(choice, layer.kernel, layer.stride, request.tile, request.points, None)
    pairs = layer.channels * layer.filters // layer.groups
    found = []
    for one in choices:
        transforms = _transforms(problem, one)
        tiles = Tiles(problem, *transforms)
        assert one.tile is not None
        for cut in _cuts(tiles, device):
            buffers = Buffers.of(tiles, cut)
            needed = cuts.demands(tiles, cut, device)
            found.append(
                Candidate(
                    "mcmr",
                    sum(kernel.seconds(device, rates) for kernel in needed),
                    tiles.count * tiles.positions * pairs,
                    buffers.workspace_bytes,
                    cut,
                    tuple(array for array in buffers if array is not None),
                    (one.tile[0], one.tile[1]),
                    one.points,
                    transforms,
                )
            )
    return found


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


def _cuts(tiles: Tiles, device: Device) -> Iterator[Parameters]:
    """Yield ways to cut products that a device has room for, the usual one first."""
    layer = tiles.problem.layer
    planar = layer.planar
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
    in_lanes, in_rows = (tiles.count, filters) if planar else (filters, tiles.count)
    vectors = dict.fromkeys((device.vector if device.vector > 1 else 4, 4, 1))
    fits = [v for v in vectors if v < 2 * in_lanes] or [1]
    items = min(64, device.group, *device.items[:2])
    staged = 16 if device.local_is_near else 0
    for vector, rows, wide in product(fits, (8, 4, 2, 1), (2, 1, 4)):
        sums = rows * wide * vector
        if rows >= 2 * in_rows or (wide > 1 and (wide - 1) * vector >= in_lanes):
            continue
        if sums > (_MOST_SUMS if device.vector == 1 else _MOST_VECTORS * device.vector):
            continue
        sizes = (rows, wide * vector) if planar else (wide * vector, rows)
        for group in ((8, 8), (16, 4), (4, 2), (1, 1)):
            cut = Parameters(*sizes, vector, group, staged, 64, items)
            if channels <= staged:
                cut = replace(cut, staged=0)
            if not cut.problems(tiles, device):
                yield cut
    for at_once, vector in product((8, 16, 32, 4), fits):
        lanes = vector if not planar else 1
        cut = Parameters(lanes, at_once * lanes, lanes, (1, 1), 0, 0, items, fused=True)
        cut = replace(cut, tiles=at_once) if not planar else cut
        if not cut.problems(tiles, device):
            yield cut


def _seconds(one: Candidate) -> float:
    return one.seconds


def _arrays(problem: Problem, one: Candidate) -> tuple[Array, ...]:
    return (*arrays_of(problem), *one.arrays)


def _sizes(problem: Problem, one: Candidate) -> list[int]:
    return [array.nbytes for array in _arrays(problem, one)]


def _has_room(problem: Problem, one: Candidate, device: Device) -> bool:
    sizes = _sizes(problem, one)
    fits = max(sizes) <= device.largest_buffer and sum(sizes) <= device.memory_bytes
    return fits and all(prod(array.shape) <= _MOST_NUMBERS for array in _arrays(problem, one))
