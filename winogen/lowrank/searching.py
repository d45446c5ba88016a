"""What ranks gain and lose: costs by the planner, errors by what one layer of low rank does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from winogen.conv.plan import Prediction
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.lowrank.budget import CompressionBudget
from winogen.lowrank.building import Maps, ModelWalk, Step, factored, fitted
from winogen.lowrank.choosing import Option
from winogen.lowrank.factors import Factors
from winogen.lowrank.form import Form, axes_of
from winogen.lowrank.memory import ArrayMemory, Arrays, digest
from winogen.lowrank.sites import Net, Site, StagedWeights
from winogen.lowrank.times import predicted
from winogen.onnx.samples import Sample

# At which compression a layer is factorised to see what that does to the output.
_TRIED = 2.0
# Ranks of a layer that are looked at, at most.
_MOST_RANKS = 24


def stage_layers(layer: Layer, form: Form, rank: int) -> tuple[Layer, Layer]:
    """Return both stages of a layer as layers."""
    maps = rank * form.groups
    one, other = (axes_of(layer, form, stage) for stage in (0, 1))
    return (
        Layer(maps, layer.channels, one, form.groups, "zeros", "NCHW", layer.epilogue, layer.dtype),
        Layer(
            layer.filters, maps, other, form.groups, "zeros", "NCHW", layer.epilogue, layer.dtype
        ),
    )


class LayerCosts:
    """Of convolutions, by what a budget counts."""

    def __init__(self, threads: int):
        self.request = Request(threads=threads)

    def exact(self, site: Site) -> Prediction:
        """Return the fastest way that the planner knows for a layer as it was."""
        return predicted(site.layer, self.request, site.shape)

    def seconds(self, site: Site, form: Form, rank: int) -> float:
        """Return what both stages are predicted to take."""
        one, other = stage_layers(site.layer, form, rank)
        between = one.problem(site.shape).output_shape
        return (
            predicted(one, self.request, site.shape).seconds
            + predicted(other, self.request, between).seconds
        )

    def before(self, what: str, site: Site) -> float:
        """Return the cost of a layer as it was."""
        if what == "seconds":
            return self.exact(site).seconds
        if what == "params":
            return float(site.weight.size)
        return float(site.layer.problem(site.shape).direct_multiplications)

    def after(self, what: str, site: Site, form: Form, rank: int) -> float:
        """Return the cost of both stages."""
        if what == "seconds":
            return self.seconds(site, form, rank)
        if what == "params":
            return float(form.parameters(rank))
        one, other = stage_layers(site.layer, form, rank)
        first = one.problem(site.shape)
        second = other.problem(first.output_shape)
        return float(first.direct_multiplications + second.direct_multiplications)


@dataclass(frozen=True)
class Gauged:
    """A layer that may become two, and what its residuals do to the output."""

    site: Site
    factors: Factors
    gain: float  # mean square at the output for a residual of 1

    def options(self, budget: CompressionBudget, costs: LayerCosts) -> list[Option]:
        """Return the ranks that cost less than the layer as it was, and the layer as it was."""
        form, what = self.factors.form, budget.cost
        whole = costs.before(what, self.site)
        found = [Option(None, whole, 0.0)]
        for rank in ranks_of(form, in_vectors=what == "seconds"):
            cost = costs.after(what, self.site, form, rank)
            if cost < whole:
                residual = self.factors.residual(rank)
                found.append(Option(rank, cost, self.gain * residual**2))
        return found


def ranks_of(form: Form, in_vectors: bool) -> list[int]:
    """Return ranks up to the full one, in steps; whole vectors of maps for predicted times."""
    full = form.full_rank
    step = max(1, -(-full // (4 * _MOST_RANKS)))
    if in_vectors:
        step = -(-max(1, full // _MOST_RANKS) // 8) * 8 if full > 8 else 1
    return [*range(step, full, step), full] if full > step else [full]


def gauge(
    net: Net, samples: Sequence[Sample], memory: ArrayMemory, step: Step | None = None
) -> list[Gauged]:
    """Return the layers that may become two, each with what it alone does to the outputs."""
    sites = [site for site in net.sites if site.splits]
    tried = _tried(net, sites, samples, memory, step)
    exact = outputs(net, net.proto, samples)

    def gain(one: _RankTrial) -> float:
        changed = outputs(net, net.with_stages({one.site.place: one.stages}), samples)
        residual = max(one.factors.residual(one.factors.form.rank(_TRIED)), 1e-9)
        return mean_square(changed, exact) / residual**2

    found = []
    for number, one in enumerate(tried):
        if step:
            step(len(sites) + number, 2 * len(sites), f"what {one.site.name} does to the output")
        what = "gain", digest(samples), one.site.place
        found.append(Gauged(one.site, one.factors, memory.number(what, partial(gain, one))))
    return found


@dataclass(frozen=True)
class _RankTrial:
    """A layer, its factors, and both stages at the rank that is tried."""

    site: Site
    factors: Factors
    stages: StagedWeights

    def arrays(self) -> Arrays:
        factors = self.factors
        names = ("values", "left", "right")
        return {
            **self.stages.arrays(),
            **{name: getattr(factors, name) for name in names},
            "rows_first": np.array(factors.form.first == "rows"),
            "noise": np.array(factors.noise),
        }

    @classmethod
    def of(cls, site: Site, arrays: Arrays) -> _RankTrial:
        form = Form.of(site.layer, "rows" if arrays["rows_first"] else "columns")
        values, left, right = (arrays[name] for name in ("values", "left", "right"))
        factors = Factors(form, values, left, right, float(arrays["noise"]))
        return cls(site, factors, StagedWeights.of(site.layer, form, arrays))


def _tried(
    net: Net,
    sites: Sequence[Site],
    samples: Sequence[Sample],
    memory: ArrayMemory,
    step: Step | None,
) -> list[_RankTrial]:
    """Each layer with its factors for what it gets, and at a rank, fitted to its outputs.

    The walk comes to all layers up to the last that is not known: what runs between two stops runs
    as one, and onnxruntime rounds it another way if the stops are others.
    """
    seen = digest(samples)
    known = [memory.find(("trial", seen, site.place)) for site in sites]
    last = max((number for number, one in enumerate(known) if one is None), default=-1)
    walk = ModelWalk(net, samples, [site.place for site in sites[: last + 1]])
    for number, (site, _) in enumerate(zip(sites, walk.stops())):
        if step:
            step(number, 2 * len(sites), site.name)
        inputs = walk.of(site.input)
        walk.run([net.nodes[site.place]], site.place + 1)
        if known[number] is None:
            factors = factored(site, inputs)
            rank = factors.form.rank(_TRIED)
            stages = fitted(site, factors, rank, inputs, walk.of(site.output))
            known[number] = made = _RankTrial(site, factors, stages).arrays()
            memory.keep(("trial", seen, site.place), made)
    return [_RankTrial.of(site, one) for site, one in zip(sites, known) if one is not None]


def outputs(net: Net, proto: object, samples: Sequence[Sample]) -> list[Maps]:
    """Return all outputs of a model, output by output."""
    from winogen.onnx.loading import session_of
    from winogen.onnx.samples import run

    session = session_of(proto)
    made = [run(session, net.outputs, sample, number) for number, sample in enumerate(samples)]
    return [list(column) for column in zip(*made)]


def mean_square(found: Sequence[Maps], exact: Sequence[Maps]) -> float:
    """Return the mean square error in units of the largest output, of the worst output."""
    worst = 0.0
    for ys, zs in zip(found, exact):
        peak = max((float(np.abs(z).max(initial=0)) for z in zs), default=0.0) or 1.0
        total = sum(float(np.square(y - z, dtype=np.float64).sum()) for y, z in zip(ys, zs))
        worst = max(worst, total / max(1, sum(z.size for z in zs)) / peak**2)
    return worst
