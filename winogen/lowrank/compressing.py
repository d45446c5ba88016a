"""`compress`: a model whose convolutions are two where that pays, within a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winogen.conv import arguments
from winogen.errors import InvalidValue
from winogen.lowrank.budget import Budget
from winogen.lowrank.building import Fitted, Step, build
from winogen.lowrank.choosing import Option, halfway, least_cost, least_error, uniform
from winogen.lowrank.report import Report, Row
from winogen.lowrank.searching import Costs, Gauged, gauge, mean_square, outputs
from winogen.lowrank.sites import Net
from winogen.onnx.loading import naming_damage, original
from winogen.onnx.samples import Sample, read_samples
from winogen.typing import FilePath

if TYPE_CHECKING:
    from onnx import ModelProto

# Of how many samples one is held out, and how many others are looked at.
HELD_OUT = 5
MOST_SAMPLES = 32
# Of how many samples that layers are fitted to one decides between choices of ranks.
_JUDGES = 4
# How often a model is made for a given quality, and how near is near enough, in dB.
_MOST_MODELS = 6
_NEAR = 0.15


def compress(
    model: ModelProto | FilePath,
    inputs: Any,
    *,
    budget: str,
    threads: int | None = None,
) -> tuple[ModelProto, Report]:
    """Return a model whose convolutions are a column and a row of taps where that pays; a report.

    The model is written in ONNX's own operators, and runs without winogen.

    Parameters
    ----------
    model
        An onnx.ModelProto, left as it is, or a path. Convolutions of float32 with constant weights
        and taps along both axes may become two; normalizations behind them are folded into them.
    inputs
        Inputs as the model will get them, five or more: an iterable of mappings from input to
        array, or of arrays for a model of one input; or the path of a .npy, whose first axis counts
        samples, of a .npz with such an array for each input, or of a folder with a .npy for each,
        called like it. Every fifth is held out, to tell
        how good the result is; up to 32 of the others are what layers are fitted to.
    budget
        "2x": half the predicted time of the convolutions, each as it is fastest, exact Winograd
        included. "10ms": so much of it. "products:2x", "params:2x": half the products of direct
        convolution, half the weights. "36dB": the least predicted time with at least this PSNR on
        the inputs held out; the peak is the largest output of the original.
    threads
        What times are predicted for; None for OMP_NUM_THREADS or else all CPUs of this process.

    Raises InvalidType; InvalidValue, also for a budget that cannot be met, with the nearest that
    can; MissingPackage without the extra `onnx`; and OSError.
    """
    Budget.of(budget)
    samples, held_out = split(list(read_samples(original(model), inputs)))
    return compressed(model, samples, held_out, budget=budget, threads=threads)


def split(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Return the samples that layers are fitted to, and those held out; raises InvalidValue."""
    if len(samples) < HELD_OUT:
        raise InvalidValue(
            f"inputs: got {len(samples)}; allowed: at least {HELD_OUT}, of which a fifth is held "
            "out"
        )
    kept = [sample for number, sample in enumerate(samples, 1) if number % HELD_OUT]
    return kept[:: -(-len(kept) // MOST_SAMPLES)], samples[HELD_OUT - 1 :: HELD_OUT]


@naming_damage
def compressed(
    model: Any,
    samples: Sequence[Sample],
    held_out: Sequence[Sample],
    *,
    budget: str,
    threads: int | None = None,
    step: Step | None = None,
    trial: tuple[Sequence[Sample], Sequence[Sample]] | None = None,
) -> tuple[Any, Report]:
    """Do the same, with the samples held out as they are given.

    ``step`` is told how far the work has come. ``trial``: samples to fit choices of ranks to, and
    others that decide between these; by itself three quarters of ``samples`` and the last one.
    """
    asked = Budget.of(budget)
    costs = Costs(arguments.threads(threads))
    net = Net(original(model), samples)
    if not any(site.splits for site in net.sites):
        raise InvalidValue(
            "model: got no convolution that may become two; allowed: a model with convolutions of "
            "float32, of constant weights and taps along both axes"
        )
    before = sum(costs.before(asked.cost, site) for site in net.sites)
    fixed = sum(costs.before(asked.cost, site) for site in net.sites if not site.splits)
    gauged = gauge(net, samples, step)
    options = [one.options(asked, costs) for one in gauged]
    search = _Search(net, gauged, options, samples, held_out, step)
    if asked.of_quality:
        made = search.for_quality(asked.value)
    else:
        limit = asked.limit(before)
        chosen = least_error(options, limit - fixed)
        if chosen is None:
            least = fixed + sum(min(one.cost for one in listed) for listed in options)
            raise InvalidValue(
                f"budget: got {budget}; allowed: what can be met, {asked.point(before, least)} at "
                "the most, where every layer has the rank with the least cost"
            )
        choices = [chosen]
        same = uniform(options, limit - fixed)
        if same is not None:
            choices += [halfway(options, chosen, same, limit - fixed), same]
        made = search.model(search.best(choices, *(trial or _judged(samples))))
    rows = [_row(site, costs, gauged, made) for site in net.sites]
    return made.proto, Report(str(asked), rows, made.psnr, len(held_out))


def _judged(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Samples to fit choices to, and others to judge them by; none if there are too few."""
    judges = samples[_JUDGES - 1 :: _JUDGES]
    return [one for number, one in enumerate(samples, 1) if number % _JUDGES], judges


@dataclass(frozen=True)
class _Made:
    """A model with some ranks, and how good it is."""

    proto: Any
    fitted: dict[int, Fitted]
    square: float  # error on the samples held out, in units of the largest output
    expected: float  # ... by the errors of single layers
    cost: float

    @property
    def psnr(self) -> float:
        """In dB."""
        return -10 * math.log10(self.square) if self.square > 0 else math.inf


class _Search:
    def __init__(
        self,
        net: Net,
        gauged: Sequence[Gauged],
        options: Sequence[Sequence[Option]],
        samples: Sequence[Sample],
        held_out: Sequence[Sample],
        step: Step | None,
    ):
        self._net, self._gauged, self._options = net, gauged, options
        self._samples, self._held_out, self._step = samples, held_out, step
        self._exact = outputs(net, net.proto, held_out)

    def model(self, chosen: Sequence[Option]) -> _Made:
        """Return the model with these options."""
        proto, fitted = self._fitted(chosen, self._samples)
        square = mean_square(outputs(self._net, proto, self._held_out), self._exact)
        expected = sum(one.error for one in chosen)
        return _Made(proto, fitted, square, expected, sum(one.cost for one in chosen))

    def _fitted(
        self, chosen: Sequence[Option], samples: Sequence[Sample]
    ) -> tuple[Any, dict[int, Fitted]]:
        """The model with these options, and what became of layers by their places."""
        pairs = [(one, o) for one, o in zip(self._gauged, chosen) if o.rank is not None]
        ranks = {one.site.place: o.rank for one, o in pairs if o.rank is not None}
        factors = {one.site.place: one.factors for one, _ in pairs}
        fitted = build(self._net, ranks, factors, samples, self._step)
        proto = self._net.with_stages({place: one.stages for place, one in fitted.items()})
        return proto, fitted

    def best(
        self,
        choices: Sequence[Sequence[Option]],
        samples: Sequence[Sample],
        judges: Sequence[Sample],
    ) -> Sequence[Option]:
        """Return the choice that errs least on ``judges`` where it is fitted to ``samples``.

        Errors of layers do not add up as they are expected to, and ranks that are least wrong for
        some samples are not so for others: ranks that are nearly the same may be better.
        """
        known: dict[tuple[int | None, ...], Sequence[Option]] = {}
        for chosen in choices:
            known.setdefault(tuple(one.rank for one in chosen), chosen)
        if len(known) == 1 or not judges:
            return choices[0]
        exact = outputs(self._net, self._net.proto, judges)

        def square(chosen: Sequence[Option]) -> float:
            proto, _ = self._fitted(chosen, samples)
            return mean_square(outputs(self._net, proto, judges), exact)

        return min(known.values(), key=square)

    def for_quality(self, psnr: float) -> _Made:
        """Return the model of least cost with at least this PSNR.

        What single layers do is measured on other samples, and errors are not quite independent:
        the sum that is allowed is corrected by what models turn out to have.
        """
        wanted = 10 ** (-psnr / 10)
        best = self.model([options[0] for options in self._options])
        allowed = wanted
        for _ in range(_MOST_MODELS):
            chosen = least_cost(self._options, allowed)
            if chosen is None:
                break
            made = self.model(chosen)
            if made.square <= wanted and made.cost < best.cost:
                best = made
            if not made.fitted or 0 <= made.psnr - psnr < _NEAR:
                break
            allowed *= wanted / max(made.square, wanted / 100)
        return best


def _row(site: Any, costs: Costs, gauged: Sequence[Gauged], made: _Made) -> Row:
    """What became of a layer."""
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
        return Row(**row, note="taps along one axis" if not site.varies else "padding varies")
    form = one.factors.form
    row["full_rank"] = form.full_rank
    if found is None:
        listed = one.options(Budget("seconds", 2, "x"), costs)
        note = "left as it was" if len(listed) > 1 else "not worth it: no rank is faster"
        return Row(**row, note=note)
    seconds = costs.seconds(site, form, found.rank)
    return Row(
        **row,
        rank=found.rank,
        first=form.first,
        residual=one.factors.residual(found.rank),
        error=found.error,
        products=costs.after("products", site, form, found.rank),
        seconds=seconds,
        parameters=form.parameters(found.rank),
        note="" if seconds < exact.seconds else "not worth it: slower than before",
    )
