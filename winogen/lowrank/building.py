"""Layers made two one after the other, each for what the layers before it have become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.lowrank.factors import Factors, decompose, first_weight, second_weight
from winogen.lowrank.fitting import covariance, refit
from winogen.lowrank.form import FIRSTS, Form
from winogen.lowrank.memory import Arrays
from winogen.lowrank.sites import Net, Site, StagedWeights, two_nodes
from winogen.onnx.samples import Sample

Step = Callable[[int, int, str], None]
Maps = list[np.ndarray]  # of each sample


@dataclass(frozen=True)
class Fitted:
    """A convolution that became two."""

    rank: int
    stages: StagedWeights
    error: float  # of its outputs before the bias, relative, for what it gets in the new model

    def arrays(self) -> Arrays:
        """Return what `of` makes it of again, beside its site and its form."""
        return {**self.stages.arrays(), "rank": np.array(self.rank), "error": np.array(self.error)}

    @classmethod
    def of(cls, site: Site, form: Form, arrays: Arrays) -> Fitted:
        """Return it as it was kept."""
        stages = StagedWeights.of(site.layer, form, arrays)
        return cls(int(arrays["rank"]), stages, float(arrays["error"]))


class ModelWalk:
    """The values of a model for samples, from one convolution to the next; the rest is forgotten.

    ``convs``: the places of the convolutions at which it stops.
    """

    def __init__(self, net: Net, samples: Sequence[Sample], convs: Sequence[int]):
        self._net, self._convs = net, list(convs)
        self.values: list[dict[str, np.ndarray]] = [dict(sample) for sample in samples]

    def stops(self) -> Iterator[int]:
        """Come to one convolution after the other: its inputs are there, its outputs are not.

        Whoever iterates computes the outputs, by `run` or in another way, and puts them in.
        """
        net, begin = self._net, 0
        for place in self._convs:
            self.run(net.nodes[begin:place], place)
            yield place
            begin = place + 1

    def run(self, nodes: Sequence[Any], place: int) -> None:
        """Compute what nodes make, and keep what nodes from ``place`` on read."""
        later = self._net.read_later(place)
        made = sorted({name for node in nodes for name in node.output} & later)
        part = self._net.part(nodes, set(self.values[0]), made)
        for number, values in enumerate(self.values):
            values.update(part.run(values))
            self.values[number] = {name: one for name, one in values.items() if name in later}

    def of(self, name: str) -> Maps:
        """Return a value of each sample."""
        return [values[name] for values in self.values]


def factored(site: Site, images: Maps) -> Factors:
    """Return factors for images, of the order with fewer products, of equals columns first.

    Their vectors are rounded to float32, as they are kept. Raises InvalidValue for images that are
    not finite.
    """
    if not all(np.isfinite(image).all() for image in images):
        raise InvalidValue(
            f"inputs: got such for which what {site.name} reads is not finite; allowed: inputs "
            "that the model computes without overflow"
        )
    form = min((Form.of(site.layer, first) for first in FIRSTS), key=lambda one: one.products(1))
    found = decompose(form, site.weight, covariance(form, site.layer, images))
    return replace(found, left=found.left.astype(np.float32), right=found.right.astype(np.float32))


def fitted(site: Site, factors: Factors, rank: int, inputs: Maps, outputs: Maps) -> StagedWeights:
    """Return a convolution at a rank, stage 2 and its bias fitted to ``outputs``."""
    left, right = factors.left[:, :, :rank], factors.right[:, :rank]
    bias = np.zeros(site.layer.filters) if site.bias is None else site.bias.astype(np.float64)
    wanted = [array - bias[:, None, None] for array in outputs]
    right, shift = refit(factors.form, site.layer, left, right, zip(inputs, wanted), shifts=True)
    return StagedWeights(
        site.layer,
        factors.form,
        first_weight(factors.form, left).astype(np.float32),
        second_weight(factors.form, right).astype(np.float32),
        (bias + shift).astype(np.float32),
    )


def build(
    net: Net,
    ranks: Mapping[int, int],
    factors: Mapping[int, Factors],
    samples: Sequence[Sample],
    step: Step | None = None,
) -> dict[int, Fitted]:
    """Return what the convolutions at some places become, fitted to the samples in their order.

    ``ranks`` and ``factors`` by place. Each is fitted so that it makes of what it gets, which has
    the errors of those before it, what it made before of what it got then.
    """
    places = sorted(ranks)
    before, after = ModelWalk(net, samples, places), ModelWalk(net, samples, places)
    sites = {site.place: site for site in net.sites}
    found: dict[int, Fitted] = {}
    for number, (place, _) in enumerate(zip(before.stops(), after.stops())):
        site = sites[place]
        if step:
            step(number, len(places), site.name)
        before.run([net.nodes[place]], place + 1)
        outputs = before.of(site.output)
        stages = fitted(site, factors[place], ranks[place], after.of(site.input), outputs)
        _stand_in(net, after, site, stages)
        error = _distance(after.of(site.output), outputs, site.bias)
        found[place] = Fitted(ranks[place], stages, error)
    return found


def _stand_in(net: Net, walk: ModelWalk, site: Site, stages: StagedWeights) -> None:
    """Compute the outputs of a convolution by the two that it has become."""
    made = two_nodes(net.nodes[site.place], stages, set())
    arrays = {tensor.name: tensor for tensor in made.tensors}
    later = net.read_later(site.place + 1)
    for number, values in enumerate(walk.values):
        if number == 0:
            part = net.part(made.nodes, {site.input}, [site.output], arrays)
        values.update(part.run(values))
        walk.values[number] = {name: one for name, one in values.items() if name in later}


def _distance(found: Maps, wanted: Maps, bias: np.ndarray | None) -> float:
    """√ of the squares of the errors over those of what is wanted, without the bias."""
    shift = 0.0 if bias is None else bias[:, None, None]
    errors = sum(float(np.square(y - z, dtype=np.float64).sum()) for y, z in zip(found, wanted))
    whole = sum(float(np.square(z - shift, dtype=np.float64).sum()) for z in wanted)
    return float(np.sqrt(errors / whole)) if whole else 0.0
