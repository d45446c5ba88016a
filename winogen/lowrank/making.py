"""Models with some ranks: made, compared on samples they were not fitted to, and the best taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from winogen.lowrank.building import Fitted, Step, build
from winogen.lowrank.choosing import Option, filled, halfway, least_cost, least_error, uniform
from winogen.lowrank.memory import ArrayMemory, Arrays, digest
from winogen.lowrank.searching import Gauged, mean_square, outputs
from winogen.lowrank.sites import Net
from winogen.onnx.samples import Sample

# Into how many parts samples are split, each of which judges models fitted to the others.
_FOLDS = 4
# How often a model is made for a given quality, and how near is near enough, in dB.
_MOST_MODELS = 6
_NEAR = 0.15

Fold = tuple[Sequence[Sample], Sequence[Sample]]  # what models are fitted to, and what judges


def folds_of(samples: Sequence[Sample]) -> list[Fold]:
    """Return samples in as many ways as there are parts: all but one part, and that part."""
    count = min(_FOLDS, len(samples)) if len(samples) > 1 else 0
    parts = [list(samples[part::count]) for part in range(count)]
    return [
        ([one for part in parts if part is not judges for one in part], judges) for judges in parts
    ]


@dataclass(frozen=True)
class Made:
    """A model with some ranks, and how good it is."""

    proto: Any
    fitted: dict[int, Fitted]
    square: float  # error on the samples held out, in units of the largest output
    cost: float

    @property
    def psnr(self) -> float:
        """In dB."""
        return -10 * math.log10(self.square) if self.square > 0 else math.inf


class _Judged(NamedTuple):
    chosen: Sequence[Option]
    total: float  # of its errors on folds


class LowRankMaker:
    """Makes models of low rank of one model.

    ``samples``: what they are fitted to. ``held_out``: what says how good they are. ``folds``: what
    decides between choices of ranks.
    """

    def __init__(
        self,
        net: Net,
        gauged: Sequence[Gauged],
        samples: Sequence[Sample],
        held_out: Sequence[Sample],
        folds: Sequence[Fold],
        memory: ArrayMemory,
        step: Step | None = None,
    ):
        self._net, self._gauged, self._folds = net, gauged, folds
        self._samples, self._held_out = samples, held_out
        self._memory, self._step = memory, step
        self._exact = outputs(net, net.proto, held_out)

    def within(self, options: Sequence[Sequence[Option]], limit: float) -> Made | None:
        """Return the best model whose costs add up to ``limit`` at most; None if none do."""
        chosen = least_error(options, limit)
        if chosen is None:
            return None
        same = uniform(options, limit)
        if same is None:
            return self.model(chosen)
        between = halfway(options, chosen, same, limit)
        return self.model(self.preferred([filled(options, same, limit), between, chosen]))

    def model(self, chosen: Sequence[Option]) -> Made:
        """Return the model with these options."""
        fitted = self._fitted(chosen)
        proto = self._with(fitted)
        square = mean_square(outputs(self._net, proto, self._held_out), self._exact)
        return Made(proto, fitted, square, sum(one.cost for one in chosen))

    def preferred(self, choices: Sequence[Sequence[Option]]) -> Sequence[Option]:
        """Return the first choice, or one that errs less on every single fold.

        Of several such, that whose errors add up to least. Errors of layers do not add up as they
        are expected to, and ranks that are least wrong for some samples are not so for others: what
        is better on the average may be so by one lucky fold.
        """
        first, *others = choices
        ranks = [one.rank for one in first]
        left = [_Judged(one, 0.0) for one in others if [option.rank for option in one] != ranks]
        if not self._folds:
            return others[-1] if others else first
        for fold in self._folds:
            if not left:
                break
            limit = self._square(first, fold)
            found = [(one, self._square(one.chosen, fold)) for one in left]
            left = [
                _Judged(one.chosen, one.total + square) for one, square in found if square < limit
            ]
        return min(left, key=lambda one: one.total).chosen if left else first

    def _square(self, chosen: Sequence[Option], fold: Fold) -> float:
        """The error of a choice on what judges, where it is fitted to the rest."""
        samples, judges = fold

        def square() -> float:
            proto = self._with(self._fit(chosen, samples))
            return mean_square(
                outputs(self._net, proto, judges), outputs(self._net, self._net.proto, judges)
            )

        what = "square", digest(samples), digest(judges), self._ranks(chosen)
        return self._memory.number(what, square)

    def _ranks(self, chosen: Sequence[Option]) -> dict[int, int]:
        """Ranks by the places of layers."""
        pairs = zip(self._gauged, chosen)
        return {one.site.place: o.rank for one, o in pairs if o.rank is not None}

    def _fit(self, chosen: Sequence[Option], samples: Sequence[Sample]) -> dict[int, Fitted]:
        """What becomes of layers with these options, by their places."""
        factors = {one.site.place: one.factors for one in self._gauged}
        return build(self._net, self._ranks(chosen), factors, samples, self._step)

    def _fitted(self, chosen: Sequence[Option]) -> dict[int, Fitted]:
        """The same for all samples, kept."""

        def make() -> Arrays:
            return {
                f"{place}.{name}": array
                for place, one in self._fit(chosen, self._samples).items()
                for name, array in one.arrays().items()
            }

        ranks = self._ranks(chosen)
        kept = self._memory.kept(("fit", digest(self._samples), ranks), make)
        by_place: dict[int, Arrays] = {place: {} for place in ranks}
        for key, array in kept.items():
            place, _, name = key.partition(".")
            by_place[int(place)][name] = array
        layers = {one.site.place: one for one in self._gauged}
        return {
            place: Fitted.of(layers[place].site, layers[place].factors.form, arrays)
            for place, arrays in by_place.items()
        }

    def _with(self, fitted: dict[int, Fitted]) -> Any:
        """The model in which layers are what became of them."""
        return self._net.with_stages({place: one.stages for place, one in fitted.items()})

    def for_quality(self, options: Sequence[Sequence[Option]], psnr: float) -> Made:
        """Return the model of least cost with at least this PSNR.

        What single layers do is measured on other samples, and errors are not quite independent:
        the sum that is allowed is corrected by what models turn out to have.
        """
        wanted = 10 ** (-psnr / 10)
        best = self.model([listed[0] for listed in options])
        allowed = wanted
        for _ in range(_MOST_MODELS):
            chosen = least_cost(options, allowed)
            if chosen is None:
                break
            made = self.model(chosen)
            if made.square <= wanted and made.cost < best.cost:
                best = made
            if not made.fitted or 0 <= made.psnr - psnr < _NEAR:
                break
            allowed *= wanted / max(made.square, wanted / 100)
        return best
