"""The roofline: the least time of a computation, by what it multiplies and what it must move.

    arithmetic = 2 * (multiply-adds of numbers) / (measured FMA peak)
    traffic    = sum over everything moved of bytes / (measured rate of its level)
    roofline   = max(arithmetic, traffic)

For a whole layer the multiply-adds are all products of its algorithm, waste of tiles included, and
what is moved is compulsory: packed weights and the inputs that some output sees are read once,
outputs are written once (`of_layer`). For a stage of a kernel both are what that stage does given
its blocks (`of_stage`): its vector instructions, idle lanes included, run at the rate of
multiply-adds, and so do its loads, as they may outnumber them; bytes are all that it really moves.

The level of an array is the smallest whose half holds it on its own, since others stream past it:
the layer's roofline is the best of a machine that knows what to keep. Stages say themselves what
passes by (`winogen.kernels.count.Move.size`). Levels do not help each other: their times add up, as
in the execution-cache-memory model (Treibig and Hager 2010; Stengel et al. 2015); only in L1 loads
and stores go side by side. Arithmetic hides behind traffic or the other way round, as in the
roofline model (Williams, Waterman and Patterson 2009). Peak and rates are those of as many threads
as compute, together.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from winogen.conv.problem import Problem
from winogen.conv.transposed_problem import TransposedProblem
from winogen.kernels.count import Demand, Move
from winogen.kernels.dots import of_variant
from winogen.records import NUMBERS, Precision
from winogen.toolchain.limits import Limits

_PER_THREAD = ("L1", "L2")  # levels of which every thread has its own


class Passage(NamedTuple):
    """A `Move` at the speed of its level."""

    what: str
    level: str
    writes: bool
    bytes: int
    gbytes_per_s: float

    @property
    def seconds(self) -> float:
        """Its least time."""
        return self.bytes / self.gbytes_per_s / 1e9

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON form."""
        return {**self._asdict(), "seconds": self.seconds}


@dataclass(frozen=True)
class Roof:
    """The least seconds, for each thing that may bind."""

    arithmetic: float
    loads: float  # of a micro-kernel; 0 for a whole layer
    passages: tuple[Passage, ...]

    @property
    def traffic(self) -> float:
        """Seconds to move all bytes, one after the other; but L1 is read and written at once."""
        near = {True: 0.0, False: 0.0}
        far = 0.0
        for passage in self.passages:
            if passage.level == "L1":
                near[passage.writes] += passage.seconds
            else:
                far += passage.seconds
        return far + max(near.values())

    @property
    def seconds(self) -> float:
        """The roofline."""
        return max(self.arithmetic, self.loads, self.traffic)

    @property
    def binds(self) -> str:
        """What takes that long: "arithmetic", "loads" or "traffic"."""
        sides = {"arithmetic": self.arithmetic, "loads": self.loads, "traffic": self.traffic}
        return max(sides, key=lambda name: sides[name])

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON form."""
        return {
            "seconds": self.seconds, "binds": self.binds, "arithmetic_s": self.arithmetic,
            "loads_s": self.loads, "traffic_s": self.traffic,
            "moves": [passage.to_dict() for passage in self.passages],
        }  # fmt: skip


def of_layer(
    problem: Problem | TransposedProblem,
    multiplications: int,
    packed_bytes: int,
    peak_gflops: float,
    limits: Limits,
    products: str = "float32",
    variant: str = "",
) -> Roof:
    """Return the roofline of a layer, given what its algorithm multiplies and packs.

    ``peak_gflops``: the FMA peak of float32 at the time of the measurement, of ``limits.threads``
    threads. ``products``: the type that is multiplied; an instruction takes as many of them as fill
    a vector, whether they are added one by one (FMA) or in groups (dot products of integers).
    ``variant``: of the kernel, whose name has the instruction where it multiplies bytes.
    """
    moves = compulsory(problem, packed_bytes)
    dot = of_variant(variant)
    rate = dot.rate if dot else NUMBERS["float32"].itemsize / NUMBERS[products].itemsize
    return Roof(
        2 * multiplications / (rate * peak_gflops) / 1e9,
        0.0,
        tuple(_passage(move, limits) for move in moves),
    )


def of_stage(
    demand: Demand, lanes: int, peak_gflops: float, limits: Limits, at_once: int = 1
) -> Roof:
    """Return the limits of one stage: its instructions, its loads, and what it moves.

    ``at_once``: steps in the time of a multiply-add of floats, more than one with tiles.
    """
    per_instruction = 2 * lanes / peak_gflops / 1e9
    return Roof(
        (demand.steps / at_once + demand.instructions) * per_instruction,
        demand.loads * per_instruction,
        tuple(_passage(move, limits) for move in demand.moves),
    )


def compulsory(problem: Problem | TransposedProblem, packed_bytes: int) -> tuple[Move, Move, Move]:
    """Return what no algorithm can do without: weights, the inputs that are seen, outputs.

    In NCHW whole rows count: a cache line has pixels that strides or dilation leave out. Every
    input of a transposed layer counts.
    """
    if isinstance(problem, TransposedProblem):
        layer, pixels = problem.layer.sample, prod(problem.size)
    else:
        layer, pixels = problem.layer, _pixels_seen(problem)
    size = Precision.of(layer.dtype).itemsize
    planes = problem.batch * layer.channels * size
    output = problem.batch * layer.filters * prod(problem.output_size) * size
    return (
        Move("U", packed_bytes, packed_bytes),
        Move("input", planes * pixels, planes * prod(problem.size)),
        Move("output", output, output, writes=True),
    )


def _pixels_seen(problem: Problem) -> int:
    """Of a plane or a volume, those that some output sees, in NCHW in whole rows."""
    layer = problem.layer
    *outer, cols = (
        seen(axis_size, out, kernel, stride, dilation, axis.before)
        for axis_size, out, kernel, stride, dilation, axis in zip(
            problem.size, problem.output_size, layer.kernel, problem.stride,
            layer.dilation, layer.axes,
        )
    )  # fmt: skip
    return prod(outer) * (problem.size[-1] if layer.planar else cols)


def seen(size: int, out: int, kernel: int, stride: int, dilation: int, before: int) -> int:
    """Return how many of ``size`` rows some output sees; ``before`` are padded in front of them.

    >>> seen(8, 4, 1, 2, 1, 0), seen(8, 8, 3, 1, 1, 1)
    (4, 8)
    """
    places: set[int] = set()
    for tap in range(kernel):
        begin = tap * dilation - before
        places.update(range(begin, begin + out * stride, stride))
    return sum(0 <= place < size for place in places)


def _passage(move: Move, limits: Limits) -> Passage:
    speed = limits.writing if move.writes else limits.reading
    level, rate = speed(move.size)
    if move.private and level in _PER_THREAD:
        level, rate = speed(move.size * limits.threads)
    return Passage(move.what, level, move.writes, move.bytes, rate)
