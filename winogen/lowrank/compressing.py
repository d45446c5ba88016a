"""`compress`: a model whose convolutions are two where that pays, within a budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue
from winogen.lowrank.budget import CompressionBudget
from winogen.lowrank.building import Step
from winogen.lowrank.making import Fold, LowRankMaker, Made, folds_of
from winogen.lowrank.memory import ArrayMemory
from winogen.lowrank.report import Report, Row
from winogen.lowrank.searching import Gauged, LayerCosts, gauge
from winogen.lowrank.sites import Net
from winogen.lowrank.subject import Subject, is_module, subject_of
from winogen.lowrank.times import measured
from winogen.onnx.loading import naming_damage
from winogen.onnx.samples import Sample, read_samples

# Of how many samples one is held out, and how many others are looked at.
HELD_OUT = 5
MOST_SAMPLES = 32

Timer = Callable[..., tuple[float, float]]  # of a layer as it was and of both stages, in seconds


def compress(
    model: Any,
    inputs: Any,
    *,
    budget: str,
    threads: int | None = None,
    measure: bool = False,
) -> tuple[Any, Report]:
    """Return a model whose convolutions are a column and a row of taps where that pays; a report.

    A model of ONNX becomes one of ONNX's own operators, a program of `torch.export` another
    program, and a module of torch a copy of it with layers of torch's own: all run without winogen.

    Parameters
    ----------
    model
        An onnx.ModelProto, an ExportedProgram or an nn.Module, all of which are left as they are;
        or the path of a model of ONNX, or of a .pt2 of `torch.export.save`. A module is compressed
        as `torch.export` sees it in evaluation mode; both ways of torch need the extra `onnx`, too.
        Convolutions of float32 with constant weights
        and taps along both axes may become two; normalizations behind them are folded into them.
    inputs
        Inputs as the model will get them, five or more: an iterable of mappings from input to
        array, or of arrays for a model of one input; or the path of a .npy, whose first axis counts
        samples, of a .npz with such an array for each input, or of a folder with a .npy for each,
        called like it. A module needs an iterable. Every fifth is held out, to tell
        how good the result is; up to 32 of the others are what layers are fitted to.
    budget
        "2x": half the predicted time of the convolutions, each as it is fastest, exact Winograd
        included. "10ms": so much of it. "products:2x", "params:2x": half the products of direct
        convolution, half the weights. "36dB": the least predicted time with at least this PSNR on
        the inputs held out; the peak is the largest output of the original.
    threads
        What times are predicted for; None for OMP_NUM_THREADS or else all CPUs of this process.
    measure
        Also measure what both stages of a layer take, in turns with the layer as it was. Compiles
        their kernels, seconds each.

    What was found out about the model is kept in the cache folder: a run that was interrupted goes
    on from it, and another budget takes much less time.

    Raises InvalidType; InvalidValue, also for a budget that cannot be met, with the nearest that
    can; MissingPackage without the extra `onnx`; and OSError.
    """
    CompressionBudget.of(budget)
    example = None
    if is_module(model):
        if isinstance(inputs, (str, os.PathLike, np.ndarray)) or not isinstance(inputs, Iterable):
            raise InvalidType(
                f"inputs: got {type(inputs).__name__}; allowed for a module: an iterable of arrays,"
                " or of mappings from argument to array"
            )
        inputs = list(inputs)
        split(inputs)
        example = inputs[0]
    subject = subject_of(model, example)
    samples, held_out = split(list(read_samples(subject.proto, inputs)))
    return compressed(subject, samples, held_out, budget=budget, threads=threads, measure=measure)


def split(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Return the samples that layers are fitted to, and those held out; raises InvalidValue."""
    if len(samples) < HELD_OUT:
        raise InvalidValue(
            f"inputs: got {len(samples)}; allowed: at least {HELD_OUT}, of which a fifth is held "
            "out"
        )
    kept = [sample for number, sample in enumerate(samples, 1) if number % HELD_OUT]
    return kept[:: -(-len(kept) // MOST_SAMPLES)], samples[HELD_OUT - 1 :: HELD_OUT]


def compressed(
    subject: Subject,
    samples: Sequence[Sample],
    held_out: Sequence[Sample],
    *,
    budget: str,
    threads: int | None = None,
    measure: bool = False,
    step: Step | None = None,
    folds: Sequence[Fold] | None = None,
) -> tuple[Any, Report]:
    """Do the same for a subject, with the samples held out as they are given.

    ``step`` is told how far the work has come. ``folds``: samples to fit choices of ranks to, and
    others that decide between these; None for quarters of ``samples`` and the rest of them.
    """
    asked = CompressionBudget.of(budget)
    costs = LayerCosts(arguments.threads(threads))
    proto = subject.proto
    net = _net(proto, samples)
    net.exclude(subject.obstacles(net))
    if not any(site.splits for site in net.sites):
        raise InvalidValue(
            "model: got no convolution that may become two; allowed: a model with convolutions of "
            "float32, of constant weights and taps along both axes"
        )
    before = sum(costs.before(asked.cost, site) for site in net.sites)
    fixed = sum(costs.before(asked.cost, site) for site in net.sites if not site.splits)
    memory = ArrayMemory(proto)
    gauged = gauge(net, samples, memory, step)
    options = [one.options(asked, costs) for one in gauged]
    trials = folds_of(samples) if folds is None else folds
    maker = LowRankMaker(net, gauged, samples, held_out, trials, memory, step)
    if asked.of_quality:
        made = maker.for_quality(options, asked.value)
    else:
        found = maker.within(options, asked.limit(before) - fixed)
        if found is None:
            least = fixed + sum(min(one.cost for one in listed) for listed in options)
            raise InvalidValue(
                f"budget: got {budget}; allowed: what can be met, {asked.point(before, least)} at "
                "the most, where every layer has the rank with the least cost"
            )
        made = found
    timer = cache(partial(measured, threads=costs.request.threads)) if measure else None
    rows = []
    for number, site in enumerate(net.sites):
        if step and measure:
            step(number, len(net.sites), f"what {site.name} takes")
        rows.append(_row(site, costs, gauged, made, timer))
    return subject.result(net, made), Report(str(asked), rows, made.psnr, len(held_out))


@naming_damage
def _net(proto: Any, samples: Sequence[Sample]) -> Net:
    return Net(proto, samples)


def _row(
    site: Any, costs: LayerCosts, gauged: Sequence[Gauged], made: Made, timer: Timer | None
) -> Row:
    """What became of a layer; ``timer`` measures what it takes."""
    exact = costs.exact(site)
    one = next((one for one in gauged if one.site is site), None)
    found = made.fitted.get(site.place)
    products = costs.before("products", site)
    row = {
        "name": site.name, "shape": site.layer.weight_shape, "exact": exact.algorithm,
        "tile": exact.tile, "products_before": products,
        "seconds_before": exact.seconds, "parameters_before": site.weight.size,
    }  # fmt: skip
    if one is None:
        return Row(**row, note=site.obstacle)
    form = one.factors.form
    row["full_rank"] = form.full_rank
    if found is None:
        listed = one.options(CompressionBudget("seconds", 2, "x"), costs)
        note = "left as it was" if len(listed) > 1 else "not worth it: no rank is faster"
        return Row(**row, note=note)
    seconds = costs.seconds(site, form, found.rank)
    times = None if timer is None else timer(site.layer, form, found.rank, site.shape)
    note = "" if seconds < exact.seconds else "not worth it: slower than before"
    if times is not None and times[1] >= times[0]:
        note = "not worth it: measured to be slower"
    return Row(
        **row,
        rank=found.rank,
        first=form.first,
        residual=one.factors.residual(found.rank),
        error=found.error,
        products=costs.after("products", site, form, found.rank),
        seconds=seconds,
        parameters=form.parameters(found.rank),
        measured=None if times is None else times[1],
        measured_before=None if times is None else times[0],
        note=note,
    )
