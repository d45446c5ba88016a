"""Which tiles the gradient of weights has, by predicted time and error."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from winogen.codegen.shipped import shipped_tiles
from winogen.codegen.transforms import load
from winogen.conv.accuracy import direct_error
from winogen.conv.problem import Pair, Problem, plane_of
from winogen.conv.tolerance import Tolerance
from winogen.kernels.weight_gradient import GradientSpec, GradientWork, tuning
from winogen.records import Machine, Precision, Target

if TYPE_CHECKING:
    from winogen.conv.stock import Stock

_LARGEST_TILE = 6  # that is considered without being asked for
# Terms of a chain of additions whose error frameworks have: between 8e-7 and 9e-6 where measured.
_USUAL_CHAIN = 8192


class _Way(NamedTuple):
    seconds: float  # cycles, in fact: they are only compared
    work: GradientWork

    def specs(self, problem: Problem) -> list[GradientSpec]:
        """Return the kernel of its call."""
        return [self.work.spec]


def choose(
    problem: Problem,
    tile: Pair | None,
    threads: int,
    tolerance: float | None,
    target: Target,
    machine: Machine,
    stock: Stock | None = None,
) -> GradientWork:
    """Return the work of the chosen tile: the fastest on one thread among the accurate ones.

    ``stock``: what it must be in, as for `winogen.conv.planner.ranked`. Raises InvalidValue if none
    keeps to the ``tolerance``, CompilerNotFound if the stock has none.
    """
    wanted = _chosen(problem, tile, threads, tolerance, target, machine)
    if stock is None:
        return wanted[0].work
    layer = problem.layer
    what = "" if tile is None else f"tile {tile}, "
    what = f"gradient of weights, {what}in {layer.dtype}, {layer.layout}"

    def on(one: Target) -> list[_Way]:
        return _chosen(problem, tile, threads, tolerance, one, machine, stock)

    return stock.first(problem, wanted, target, on, what)[0].work


def _chosen(
    problem: Problem,
    tile: Pair | None,
    threads: int,
    tolerance: float | None,
    target: Target,
    machine: Machine,
    stock: Stock | None = None,
) -> list[_Way]:
    """The work of the chosen tile; none where the stock has none."""
    layer = problem.layer
    tiles = [tile] if tile else tiles_of(plane_of(layer.kernel))
    works = [_work(problem, one, 1, target) for one in tiles]
    ways = [_Way(work.cycles(machine), work) for work in works]
    ways.sort(key=lambda way: way.seconds)
    if stock is not None:
        ways = stock.among(problem, ways)
    if not ways:
        return []

    def error(way: _Way) -> float:
        count = problem.batch * way.work.tiles[0] * way.work.tiles[1]
        return predicted_error(layer.dtype, layer.kernel, way.work.tile, count, way.work.depth)

    chosen = ways[0]
    if tile is None:
        rule = Tolerance.of(layer, tolerance, direct_error(layer.dtype, _USUAL_CHAIN))
        chosen = rule.best(ways, error, "gradient")
    return [_Way(chosen.seconds, _work(problem, chosen.work.tile, threads, target))]


def tiles_of(kernel: Pair) -> list[Pair]:
    """The tiles to consider: all with transforms at hand, square for square kernels.

    Every tile takes a kernel of its own, which takes seconds to compile.
    """
    height, width = (
        [1, *(m for m in shipped_tiles(taps) if 1 < m <= _LARGEST_TILE)] if taps > 1 else [1]
        for taps in kernel
    )
    return list(zip(height, width) if kernel[0] == kernel[1] else product(height, width))


def _work(problem: Problem, tile: Pair, threads: int, target: Target) -> GradientWork:
    layer = problem.layer
    height, width = (load(m, taps) for m, taps in zip(tile, layer.kernel))
    spec = GradientSpec(
        layer.layout, Precision.of(layer.dtype), target, tuning(target), height, width
    )
    return GradientWork(
        spec,
        batch=problem.batch,
        groups=layer.groups,
        channels=layer.channels // layer.groups,
        filters=layer.filters // layer.groups,
        size=plane_of(problem.size),
        output_size=plane_of(problem.output_size),
        padding=(layer.padding[0], layer.padding[2]),
        around=problem.seams[:2],
        threads=threads,
    )


@lru_cache(maxsize=1024)
def predicted_error(dtype: str, kernel: Pair, tile: Pair, tiles: int, depth: int) -> float:
    """The expected max |dw - dw_exact| / max |dw_exact| on normal data."""
    from winogen.rounding.variance import estimate

    return estimate(
        (_exchanged(tile[0], kernel[0]), _exchanged(tile[1], kernel[1])),
        dtype=dtype,
        distribution="normal",
        fused=True,
        order="naive",
        channels=tiles,
        block=depth,
    ).worst_l2


class _Matrices(NamedTuple):
    """F(r, m), as errors are estimated of it."""

    m: int
    r: int
    matrices: dict[str, Any]


@lru_cache(maxsize=256)
def _exchanged(m: int, taps: int) -> _Matrices:
    t = load(m, taps)
    turned = {"input": t.bt, "filter": tuple(zip(*t.at)), "output": tuple(zip(*t.g))}
    return _Matrices(taps, m, turned)
