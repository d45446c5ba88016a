"""Planners of the blocks of direct convolution, compared: the cycle model and two rules that count.

Each chooses a register block and a block of outputs for a layer. `PLANNERS` are:

- *model*: what the cycle model predicts to be fastest, of all that the planner compares;
- *default*: the same with the one register block that the target has for all layers;
- *kelefouras*: the block of the fewest loads whose footprint fits L2, then the rows of outputs of
  the fewest bytes from memory, L3 and L2, in this order;
- *bandwidth*: the block and the rows whose slowest level of the caches takes the least time.

What they chose is measured in turns, together with what the model holds for almost as fast. Regret
is the time of a choice over that of the fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from winogen.conv.candidates import candidates
from winogen.conv.choice import Choice, Cut
from winogen.conv.cuts import Candidate, evaluate, work_of
from winogen.conv.execute import Prepared
from winogen.conv.problem import Problem, plane_of
from winogen.conv.request import Request
from winogen.errors import InvalidValue
from winogen.kernels import Work, assign
from winogen.kernels.register_blocks import outputs_of, register_blocks, sizes_of
from winogen.kernels.registers import RegisterBlock
from winogen.records import Machine, Sizes, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.regret import heats
from winogen_lab.loops.traffic import (
    Convolution,
    Tile,
    shortest_reads,
    slowest_levels,
    smallest_reads,
    tiles,
)

PLANNERS = ("model", "default", "kelefouras", "bandwidth")
# Of every register block, so many of the blocks of outputs that the model holds for fastest.
_NEAR = 2
_ROWS = (1, 2, 4, 8, 16, 32, 64, 1 << 30)


@dataclass(frozen=True)
class Blocks:
    """How direct convolution of a layer is cut, and the seconds of a call."""

    register: tuple[int, int]  # rows and vectors
    outputs: tuple[int, int]  # rows and columns
    predicted_s: float
    measured_s: float

    def __str__(self) -> str:
        return " in ".join(f"{high}x{wide}" for high, wide in (self.register, self.outputs))


@dataclass(frozen=True)
class Comparison:
    """What every planner chose for one layer, and the fastest of all that were measured."""

    layer: str
    chosen: dict[str, Blocks]
    fastest: Blocks

    def regret(self, planner: str) -> float:
        """The time of its choice over that of the fastest; 1 is perfect."""
        return self.chosen[planner].measured_s / self.fastest.measured_s

    def to_dict(self) -> dict:
        """Return it as JSON shows it."""
        return {
            "layer": self.layer,
            "fastest": vars(self.fastest),
            **{name: vars(blocks) for name, blocks in self.chosen.items()},
            "regret": {name: self.regret(name) for name in self.chosen},
        }


def compare(
    layers: Sequence[BenchLayer],
    names: Sequence[str] = PLANNERS,
    *,
    layout: str = "NCHW",
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Comparison]:
    """Yield, layer by layer, what the planners of these names choose, measured on one thread."""
    for index, layer in enumerate(layers, 1):
        where = f"{index}/{len(layers)} {layer.name}"
        yield _of_layer(layer, names, layout, lambda text, at=where: progress(f"{at}: {text}"))


def summary(comparisons: Sequence[Comparison]) -> dict[str, dict[str, float]]:
    """Return the median and the worst regret of every planner."""
    regrets = {name: [one.regret(name) for one in comparisons] for name in comparisons[0].chosen}
    return {
        name: {"median": median(values), "worst": max(values)} for name, values in regrets.items()
    }


def planned(
    problem: Problem, target: Target, machine: Machine, names: Sequence[str] = PLANNERS
) -> dict[str, Choice]:
    """Return the choice of every planner, complete: no block is left open."""
    work = assign(work_of(problem, Choice("direct"), target))
    register = register_blocks(work)
    choices: dict[str, Callable[[], Choice]] = {
        "default": lambda: _fastest(problem, [Choice("direct")], target, machine),
        "model": lambda: _fastest(
            problem, candidates(problem, Request(algorithm="direct"), target), target, machine
        ),
        "kelefouras": lambda: _by_bytes(problem, work, register, machine),
        "bandwidth": lambda: _by_time(problem, work, register, machine),
    }
    return {name: choices[name]() for name in names}


def convolution(problem: Problem, work: Work, block: RegisterBlock) -> Convolution:
    """Return the sizes that the rules count with; every group counts as an image of its own.

    A map whose pixels form one row counts with the rows that it has.
    """
    pixels, filters = outputs_of(work, block)
    return Convolution(
        images=work.batch * work.groups,
        channels=work.channels,
        filters=work.filters,
        kernel=work.kernel,
        output=plane_of(problem.output_size),
        block_pixels=pixels,
        block_filters=filters,
        stride=work.stride,
        itemsize=work.itemsize,
    )


def _of_layer(layer: BenchLayer, names: Sequence[str], layout: str, say: Callable) -> Comparison:
    problem, target, machine = layer.problem(layout), host_target(), current()
    chosen = planned(problem, target, machine, names)
    field = list(dict.fromkeys([*chosen.values(), *_near(problem, target, machine)]))
    ways = evaluate(problem, field, target, machine, None)
    prepared = []
    for number, way in enumerate(ways, 1):
        say(f"kernel {number} of {len(ways)}")
        prepared.append(Prepared(problem, [way], target))
    times = heats(prepared, say, {field.index(choice) for choice in chosen.values()})
    measured = {way.choice: _blocks(way, problem, s) for way, s in zip(ways, times)}
    return Comparison(
        layer.name,
        {name: measured[choice] for name, choice in chosen.items()},
        min(measured.values(), key=lambda blocks: blocks.measured_s),
    )


def tile_by_bytes(problem: Problem, target: Target, machine: Machine) -> tuple[Convolution, Tile]:
    """Return the register block and the tile of planner *kelefouras*; the block is in the sizes.

    Raises InvalidValue for a layer that has no register blocks to choose from.
    """
    work = assign(work_of(problem, Choice("direct"), target))
    register = register_blocks(work)
    if not register:
        raise InvalidValue(
            f"weight: got {work.filters} filters; allowed: enough for register blocks of filters"
        )
    _, layer, tile = _least_bytes(problem, work, register, machine)
    return layer, tile


def _by_bytes(
    problem: Problem, work: Work, register: list[RegisterBlock], machine: Machine
) -> Choice:
    block, _, tile = _least_bytes(problem, work, register, machine)
    return _choice(problem, work, block, tile)


def _least_bytes(
    problem: Problem, work: Work, register: list[RegisterBlock], machine: Machine
) -> tuple[RegisterBlock, Convolution, Tile]:
    """The rule of the source: registers first, then the tile."""
    sizes = [(block, convolution(problem, work, block)) for block in register]
    fits = [pair for pair in sizes if pair[1].footprint().total <= machine.l2_bytes]
    block, layer = (fits or [min(sizes, key=lambda pair: pair[1].block_filters)])[0]
    return block, layer, smallest_reads(layer, machine, tiles(layer, [layer.block_filters]))


def _by_time(
    problem: Problem, work: Work, register: list[RegisterBlock], machine: Machine
) -> Choice:
    """The rule of bandwidths: registers and tile at once."""
    ways: dict[tuple[float, ...], tuple[RegisterBlock, Tile]] = {}
    for block in register:
        layer = convolution(problem, work, block)
        tile = shortest_reads(layer, machine, tiles(layer, [layer.block_filters]))
        ways[(*slowest_levels(layer, tile, machine), block.loads)] = block, tile
    return _choice(problem, work, *ways[min(ways)])


def _choice(problem: Problem, work: Work, block: RegisterBlock, tile: Tile) -> Choice:
    return Choice("direct", sizes=sizes_of(work, block), cut=_cut(problem, work, tile.rows))


def _cut(problem: Problem, work: Work, rows: int) -> Cut:
    """Whole rows of the map, which are one row where no pixel sees another."""
    height, width = problem.output_size
    rows = min(rows, height)
    return Cut((rows, width) if work.out[0] == height else (1, rows * width))


def _sizes(work: Work) -> list[Sizes]:
    """The target's own register block, and the others that suit the layer."""
    return list(dict.fromkeys([(), *(sizes_of(work, block) for block in register_blocks(work))]))


def _fastest(
    problem: Problem, choices: Iterable[Choice], target: Target, machine: Machine
) -> Choice:
    """What the model holds for fastest, with the block of outputs that it chose."""
    ways = evaluate(problem, list(choices), target, machine, None)
    best = min(ways, key=lambda way: way.seconds)
    return replace(best.choice, cut=Cut(best.works(problem)[0].block))


def _near(problem: Problem, target: Target, machine: Machine) -> Iterator[Choice]:
    """Whole rows of outputs that the model holds for good, with every register block."""
    work = assign(work_of(problem, Choice("direct"), target))
    cuts = list(dict.fromkeys(_cut(problem, work, rows) for rows in _ROWS))
    for sizes in _sizes(work):
        ways = evaluate(
            problem,
            [Choice("direct", sizes=sizes, cut=cut) for cut in cuts],
            target,
            machine,
            None,
        )
        ways.sort(key=lambda way: way.seconds)
        yield from (way.choice for way in ways[:_NEAR])


def _blocks(way: Candidate, problem: Problem, seconds: float) -> Blocks:
    work = way.works(problem)[0]
    register = work.tuning.rows, work.tuning.vectors
    return Blocks(register, work.block, way.seconds, seconds)
