"""What runs by winogen and what by torch: the layout by prediction, every layer by measurement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from winogen.conv import Problem, planner
from winogen.conv.choice import Choice
from winogen.conv.folded import unfolded
from winogen.graph import (
    Graph,
    Node,
    Segment,
    cut,
    faster_layout,
    runtime,
)
from winogen.graph.adapter import TimedPart
from winogen.graph.choose import Way
from winogen.graph.compiling import compile_all, kernels
from winogen.graph.decide import LATE, measure
from winogen.graph.measured import digest
from winogen.graph.planning import Outlines, Planned
from winogen.graph.spending import Spending, cheapest, offered
from winogen.graph.step_ways import ways_of
from winogen.kernels.spec import KernelSpec
from winogen.progress import counting, working
from winogen.tasks.duel import Times, duel
from winogen.tasks.limit import limit
from winogen.tasks.turns import clock_of
from winogen.torch.plain import Plain
from winogen.torch.report import SMALLER, USUAL, Budget, Row

Shape = tuple[int, ...]

# Without a tolerance, a layer may be off by so many times its predicted error.
LIKELY = 10.0
# Limits of memory that a report compares, in terms of the weights.
_BUDGETS = (1, 3, 9)


@dataclass
class Decision:
    """The layout, what torch computes, and why."""

    layout: str
    excluded: set[str]  # outputs of nodes
    rows: tuple[Row, ...]
    packed: dict[str, int] = field(default_factory=dict)  # bytes, by the output of a node
    limit: int | None = None  # of bytes of packed filters, 0 for as little as they can
    weight_bytes: int = 0
    allowed: dict[str, float] = field(default_factory=dict)  # errors, by the output of a node
    budgets: tuple[Budget, ...] = ()
    choices: dict[str, Choice] = field(default_factory=dict)  # by the output of a node
    digest: str = ""  # of how every layer runs
    kernels: Sequence[KernelSpec] = ()
    gain: float = 1.0  # predicted of all layers, as far as they were not measured
    is_complete: bool = False  # whether all were measured
    options: Mapping[str, Any] = field(default_factory=dict)  # of all segments
    parts: Sequence[TimedPart] = ()  # layers that can be measured
    times: dict[str, Times] = field(default_factory=dict)  # by the keys of these
    slower: Collection[str] = ()  # outputs of nodes that torch computes faster
    decided: Callable[[Collection[str]], Decision] | None = None  # see `without`
    errors: Mapping[str, float] = field(default_factory=dict)  # predicted, where winogen computes

    def share(self, part: Graph) -> int | None:
        """The bytes of packed filters that a segment may have."""
        if not self.limit:
            return self.limit
        return sum(self.packed.get(node.output, 0) for node in part.nodes)

    def without(self, slower: Collection[str]) -> Decision:
        """Return what is decided where torch computes some layers faster."""
        return self.decided(slower) if self.decided else self

    def again(self) -> Decision:
        """Return the same with the times that are known by now."""
        return self.without(self.slower)

    def measured(self) -> Decision:
        """Measure the layers that were not, and leave to torch what it computes faster."""
        found = measure(self.parts, self.times, time)
        return self.without({part.name for part, times in found if times.is_lost})


def decide(
    graph: Graph,
    shapes: Mapping[str, Shape],
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    usual_memory: int | None = None,
    layout: str | None = None,
    most_error: float | None = None,
    times: dict[str, Times] | None = None,
    spending: Spending | None = None,
) -> Decision:
    """Return how the convolutions of a simplified graph run, for values of these shapes.

    ``layout`` None is the one that is predicted to be faster. Packed filters take at most
    ``memory_limit`` bytes, with 0 as little as they can; without a limit ``usual_memory``, or as
    little as they can. ``spending`` has tolerances of single layers.
    ``times`` keeps what was measured, for a graph that is decided on again, by
    the digest of a layer and how it runs. Compiles the kernels that may be needed, with a progress
    bar. Nothing is measured before `Decision.measured`.

    What the limit of seconds leaves no time to measure runs by winogen, as predicted, and what it
    leaves no time to compile stays torch's. Most is done first for the layers that gain most.
    """
    times = {} if times is None else times
    options: dict[str, Any] = {
        "tolerance": tolerance,
        "threads": threads,
        "most_error": most_error,
    }
    if spending:
        options["tolerances"] = dict(spending.tolerances)
    pieces = [piece.graph for piece in cut(graph) if piece.ours]
    count = threads or torch.get_num_threads()
    convolutions = [node for part in pieces for node in part.convolutions]
    if not convolutions:
        return Decision("NHWC", set(), (), options=options)
    sized = [(part, [shapes[name] for name in part.inputs]) for part in pieces]
    settings = Segment(pieces[0], **{**options, "threads": count}).settings()
    with working("planning"):
        if layout is None:
            outlines = faster_layout(sized, settings)
        else:
            outlines = Outlines(sized, replace(settings, layout=layout))
    settings, layout = outlines.settings, outlines.settings.layout
    least = outlines.least_packed_bytes
    if memory_limit is None and usual_memory is not None:
        memory_limit = max(usual_memory, least)
    weights = sum(node.op.weight_bytes for node in convolutions)
    budgets = tuple(
        _budget(times, outlines.plans(max(times * weights, least))) for times in _BUDGETS
    )
    planned = outlines.plans(memory_limit)
    specs = kernels(planned)
    plans = {step.key: (whole, i) for whole in planned for i, step in enumerate(whole.steps)}
    convolutions = [node for node in convolutions if _computes(*plans[node.output])]
    saved = {node.output: _saved(*plans[node.output]) for node in convolutions}
    specs = _by_worth(specs, saved, plans)
    with counting("compiling kernels") as step:
        segments = partial(runtime.library, settings.target, settings.dtype)
        ready = compile_all(specs, step, {"segments": segments}, limit())
    keys = [digest(*_kind(node, shapes), *_chosen(*plans[node.output])) for node in convolutions]
    lacking = {
        node.output
        for node in convolutions
        if not ready.issuperset(Planned.specs_of(*plans[node.output]))
    }
    parts = [
        TimedPart(
            key,
            node.output,
            node.label or node.output,
            saved[node.output],
            (node, *plans[node.output]),
            (node.output,),
        )
        for node, key in zip(convolutions, keys)
        if node.output not in lacking
    ]

    norms = spending.errors if spending else {}  # errors of rows are those of the worst output

    def decided(slower: Collection[str]) -> Decision:
        packed: dict[str, int] = {}
        allowed: dict[str, float] = {}
        errors: dict[str, float] = {}
        excluded, rows = set(), []
        for node, key in zip(convolutions, keys):
            row = _row(node, *plans[node.output], times.get(key))
            allowed[node.output] = tolerance or LIKELY * (row.error or 0.0)
            if node.output in lacking:
                excluded.add(node.output)
                row = row.left_to_torch(LATE)
            elif node.output in slower:
                excluded.add(node.output)
                row = row.left_to_torch("torch is faster")
            else:
                packed[node.output] = row.packed_bytes
                errors[node.output] = norms.get(node.output, row.error or 0.0)
            rows.append(row)
        if spending:
            spent_by = ((spending.tolerances.get(n), spending.share(n, errors)) for n in allowed)
            rows = [row.spent(*spent) for row, spent in zip(rows, spent_by)]
        return Decision(
            layout,
            excluded,
            tuple(rows),
            packed,
            memory_limit,
            weights,
            allowed,
            budgets,
            {node.output: _choice(*plans[node.output]) for node in convolutions},
            digest(layout, keys, sorted(excluded)),
            [spec for spec in specs if spec in ready],
            _gain(rows, saved, [node.output for node in convolutions]),
            times.keys() >= set(keys),
            options,
            parts,
            times,
            slower,
            decided,
            errors,
        )

    return decided(())


def spend(
    graph: Graph,
    shapes: Mapping[str, Shape],
    gains: Mapping[str, float],
    budget: float,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
) -> Spending:
    """Return the tolerances of a simplified graph's convolutions: see `winogen.graph.spending`.

    The layout is the one in which all these layers are predicted to be faster.
    """
    pieces = [piece.graph for piece in cut(graph) if piece.ours]
    if not any(part.convolutions for part in pieces):
        return Spending({}, {}, {})
    sized = [(part, [shapes[name] for name in part.inputs]) for part in pieces]
    count = threads or torch.get_num_threads()
    settings = Segment(pieces[0], tolerance=tolerance, threads=count).settings()
    with working("planning"):
        return cheapest(offered(sized, settings), gains, budget)


def _saved(planned: Planned, number: int) -> float:
    """Predicted seconds that a step saves beside direct convolution."""
    ways = planned.choices[number].ways
    direct = [way.candidate.seconds for way in ways if way.candidate.choice.tile is None]
    return max(0.0, min(direct, default=ways[0].candidate.seconds) - ways[0].candidate.seconds)


def _by_worth(
    specs: Sequence[KernelSpec],
    saved: Mapping[str, float],
    plans: Mapping[str, tuple[Planned, int]],
) -> list[KernelSpec]:
    """Kernels in the order of the seconds that layers save by them."""
    worth = dict.fromkeys(specs, 0.0)
    for name, seconds in saved.items():
        for spec in Planned.specs_of(*plans[name]):
            worth[spec] += seconds
    return sorted(worth, key=lambda spec: -worth[spec])


def _gain(rows: Sequence[Row], saved: Mapping[str, float], names: Sequence[str]) -> float:
    """How many times as fast as torch's all layers are, those not measured as predicted."""
    ours = theirs = 0.0
    for row, name in zip(rows, names):
        predicted = row.predicted or 0.0
        mine, other = row.measured or predicted, row.torch or predicted + saved[name]
        ours, theirs = ours + (other if row.runs == "torch" else mine), theirs + other
    return theirs / ours if ours else 1.0


def _budget(times: int, planned: Sequence[Planned]) -> Budget:
    packed = sum(whole.packed_bytes for whole in planned)
    return Budget(times, packed, sum(whole.seconds for whole in planned))


def _kind(node: Node, shapes: Mapping[str, Shape]) -> tuple:
    """What two layers have in common that take the same time."""
    op: Any = node.op
    name = op.activation[0] if isinstance(op.activation, tuple) else op.activation
    layer = vars(op) | {"weight": op.weight.shape, "bias": op.bias is None, "activation": name}
    seams = (bool(node.add), bool(node.add_after))
    return (type(op), *layer.items(), seams, shapes[node.inputs[0]])


def _chosen(planned: Planned, number: int) -> tuple:
    """How a step runs: what was measured of one choice says nothing of another."""
    settings = planned.settings
    return settings.layout, settings.threads, _choice(planned, number)


def _choice(planned: Planned, number: int) -> Choice:
    return planned.choices[number].ways[0].candidate.choice


def time(part: TimedPart) -> Times:
    """Return the seconds of a layer alone by winogen and by torch."""
    return _timed(*part.subject)


def _timed(node: Node, planned: Planned, number: int) -> Times:
    """Seconds of a layer alone by winogen and by torch, measured in turns."""
    settings, choice = planned.settings, planned.choices[number]
    names = tuple(dict.fromkeys(node.reads))
    segment = Segment(
        Graph(names, [node], node.outputs),
        tolerance=settings.of(node.output).tolerance,
        threads=settings.threads,
        layout=settings.layout,
        memory_limit=choice.packed_bytes,
        most_error=settings.most_error,
    )
    problem = planned.problem(number)
    input, output = problem.input_shape, problem.output_shape
    rng = np.random.default_rng(0)
    sizes = [input if name == node.inputs[0] else output for name in names]
    arrays = [rng.standard_normal(size, np.dtype(settings.dtype)) for size in sizes]
    last = settings.layout == "NHWC"
    tensors = {
        name: torch.from_numpy(x).movedim(-1, 1) if last else torch.from_numpy(x)
        for name, x in zip(names, arrays)
    }
    plain = Plain(node).ordered(settings.layout).eval()
    reads = [tensors[name] for name in node.reads]
    bound = segment.bound([tuple(tensors[name].shape) for name in names])
    out = np.empty(bound.output_shapes[0], settings.dtype)
    addresses = [array.ctypes.data for array in (*arrays, out)]
    return in_turns(lambda: bound.run(addresses), lambda: plain(*reads), settings.threads)


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], threads: int) -> Times:
    """Return the seconds of both, measured in turns while torch has so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            return duel(ours, theirs, clock_of(threads))
    finally:
        torch.set_num_threads(before)


def _row(node: Node, planned: Planned, number: int, times: Times | None) -> Row:
    problem, choice = _problem(planned, number), planned.choices[number]
    way, target = choice.ways[0], planned.settings.target
    chosen = way.candidate.choice
    variant = way.candidate.works(problem)[0].variant
    runs = chosen.algorithm if variant == chosen.algorithm else f"{chosen.algorithm} {variant}"
    tile = unfolded(planned.problem(number).layer, chosen.tile, 1)
    if tile is not None:
        runs += " " + "x".join(map(str, tile))
    seams = (" + add" if node.add else "") + (" ... + add_after" if node.add_after else "")
    # Candidates that two threads planned at once are alike, but hold arrays, which do not compare.
    why = USUAL if chosen == _first(planned, number).candidate.choice else SMALLER
    if times is None and limit().seconds is not None:
        why += f", as predicted: not measured in {limit().seconds:g} seconds"
    return Row(
        name=node.label or node.output,
        what=f"{node.op}{seams}",
        runs=runs,
        why=why,
        predicted=choice.seconds,
        measured=times and times.ours,
        torch=times and times.theirs,
        error=planner.predicted_error(problem.layer, chosen, target),
        packed_bytes=way.packed_bytes,
    )


def _first(planned: Planned, number: int) -> Way:
    """What would run without a limit of memory."""
    settings = planned.settings.of(planned.steps[number].key)
    return ways_of(_problem(planned, number), settings)[0]


def _computes(planned: Planned, number: int) -> bool:
    """Whether a kernel computes a step: factors alone are no layer that is decided on."""
    return planned.problems[number] is not None


def _problem(planned: Planned, number: int) -> Problem:
    problem = planned.problems[number]
    assert problem is not None  # of a convolution
    return problem
