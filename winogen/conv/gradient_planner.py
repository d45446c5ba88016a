"""Which tiles the gradient of weights has, by predicted time and error, bound to their kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.shipped import shipped_tiles
from winogen.codegen.transforms import load
from winogen.conv import memory
from winogen.conv.accuracy import direct_error
from winogen.conv.choice import Choice
from winogen.conv.contest import rank
from winogen.conv.execute import Call, Environment
from winogen.conv.one_call import CallSolver, OneCall
from winogen.conv.problem import Pair, Problem, plane_of
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer
from winogen.conv.tolerance import Tolerance
from winogen.kernels.weight_gradient import GradientSpec, GradientWork, tuning
from winogen.records import Machine, Precision, Target

_LARGEST_TILE = 6  # that is considered without being asked for
# Terms of a chain of additions whose error frameworks have: between 8e-7 and 9e-6 where measured.
_USUAL_CHAIN = 8192


def choose(
    problem: Problem,
    tile: Pair | None,
    threads: int,
    tolerance: float | None,
    target: Target,
    machine: Machine,
) -> GradientWork:
    """Return the work of the chosen tile: the fastest on one thread among the accurate ones.

    Raises InvalidValue if none keeps to the ``tolerance``.
    """
    request = Request(tile=tile or (), threads=threads, tolerance=tolerance)
    (best,) = rank(Gradients(), Query(problem, request, target, machine), 1)
    return best.work


class Gradients(CallSolver):
    """Kernels of gradients of weights, which differ in their tiles."""

    def bind(self, offer: Offer, environment: Environment) -> WeightGradient:
        """Return it bound to its kernel."""
        return WeightGradient(offer.problem, offer.best.work, environment)

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the choice, the sizes and the C of its kernel."""
        _, products, _ = offer.best.work.count()
        own = {"operation": "weight_gradient", "multiplications": products.products}
        return super().described(offer) | own

    def candidates(self, query: Query) -> list[OneCall]:
        """Return all tiles on one thread, or the one of the request."""
        tile = query.request.tile
        tiles = [plane_of(tile)] if tile else tiles_of(plane_of(query.problem.layer.kernel))
        return [_evaluated(query, one, 1) for one in tiles]

    def wanted(self, query: Query) -> str:
        """Return in words what a stock may lack."""
        layer, tile = query.problem.layer, query.request.tile
        named = f"tile {tile}, " if tile else ""
        return f"gradient of weights, {named}in {layer.dtype}, {layer.layout}"

    def what(self, query: Query) -> str:
        """Return in words what a tolerance is for."""
        return "gradient"

    def tolerance(self, query: Query, fitting: Sequence[OneCall]) -> Tolerance:
        """Return the rule for sums over all tiles of all images."""
        layer = query.problem.layer
        usual = direct_error(layer.dtype, _USUAL_CHAIN)
        return Tolerance.of(layer, query.request.tolerance, usual)

    def error(self, query: Query, candidate: OneCall) -> float:
        """Return the predicted error: of a sum over all tiles of all images."""
        layer, work = query.problem.layer, candidate.work
        count = query.problem.batch * work.tiles[0] * work.tiles[1]
        return predicted_error(layer.dtype, layer.kernel, work.tile, count, work.depth)

    def on_threads(self, query: Query, chosen: list[OneCall]) -> list[OneCall]:
        """Return the same tiles on all threads; times are predicted for one."""
        threads = query.request.threads
        return [_evaluated(query, one.work.tile, threads) for one in chosen]


def _evaluated(query: Query, tile: Pair, threads: int) -> OneCall:
    """A tile with its kernel call and its predicted time."""
    problem, _, target, machine, *_ = query
    work = _work(problem, tile, threads, target)
    tiled = max(tile) > 1
    name = "winograd" if tiled else "direct"
    choice = Choice(name, tile if tiled else None, threads=threads, variant="weight_gradient")
    return OneCall(choice, work, work.cycles(machine) / (machine.clock_ghz * 1e9))


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


class WeightGradient(Call):
    """The gradient for arrays of certain shapes, planned and bound to its kernel."""

    def __init__(self, problem: Problem, work: GradientWork, environment: Environment):
        super().__init__(work.spec, work, environment)
        self.problem = problem

    def __call__(self, input: np.ndarray, grad_output: np.ndarray) -> np.ndarray:
        """Return the gradient of arrays that fit the problem, slices included; none is checked."""
        layer = self.problem.layer
        dw = memory.empty(layer.weight_shape, np.dtype(layer.dtype), "gradient")
        self.run(*map(self.kernel.pointer, (input, grad_output, dw)))
        return dw
