"""Whole networks for which plans from the chosen kernels are promised to be near the best ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from winogen.kernels.kind import Spec
from winogen_lab.cover.greedy import packed_bytes
from winogen_lab.cover.problems import (
    BYTE_PLACES,
    LAYOUTS,
    NUMBERS,
    PLACES,
    TOLERANCES,
    Way,
    byte_ways,
    places,
    spelled,
    ways_of,
)
from winogen_lab.nets.layers import layers_called

LOSS = 0.05  # of a net's time, at most
_BY_COST = attrgetter("cost")
_NETS, _BYTE_NETS = ("resnet18", "vgg16", "unet"), ("resnet50",)


@dataclass(frozen=True)
class Promise:
    """A net on a machine, in a layout, with a tolerance or for a kind of outputs."""

    net: str
    target: str
    cpu: str
    what: str
    layers: tuple[tuple[int, tuple[Way, ...]], ...]  # how many there are alike, all their ways

    def loss(self, kernels: Collection[Spec]) -> float:
        """Return the predicted time by these kernels over the best one, less 1."""
        return self._seconds(kernels) / self._ideal - 1

    def gains(self, kernels: Collection[Spec]) -> Iterator[tuple[Spec, float]]:
        """Yield what each other kernel would take off the loss; one may come several times."""
        for count, ways in self.layers:
            now = _taken(ways, kernels)
            for way in ways:
                if now is None or (way.seconds < now.seconds and way.cost < now.cost):
                    seconds = now.seconds if now else 1e9
                    yield way.kernel, count * (seconds - way.seconds) / self._ideal

    @property
    def _ideal(self) -> float:
        return sum(count * min(ways, key=_BY_COST).seconds for count, ways in self.layers)

    def _seconds(self, kernels: Collection[Spec]) -> float:
        taken = ((count, _taken(ways, kernels)) for count, ways in self.layers)
        return sum(count * (way.seconds if way else 1e9) for count, way in taken)


def _taken(ways: Iterable[Way], kernels: Collection[Spec]) -> Way | None:
    """The way that the planner takes, if it has these kernels only."""
    return min((way for way in ways if way.kernel in kernels), key=_BY_COST, default=None)


def promises() -> Iterator[Promise]:
    """Yield all of them, of one image each; raises MissingPackage without torch."""
    for net in _NETS:
        layers = Counter(layers_called(net))
        for place in places(PLACES):
            for layout in LAYOUTS:
                of_layers = [
                    (n, ways_of(one.problem(layout).folded, place)) for one, n in layers.items()
                ]
                each = [[(n, ways) for ways in some] for n, some in of_layers]
                for tolerance, column in zip(TOLERANCES, zip(*each)):
                    what = layout if tolerance is None else f"{layout} {tolerance:g}"
                    yield Promise(net, place.target.name, place.cpu, what, column)
    for net in _BYTE_NETS:
        layers = Counter(layers_called(net))
        for place in places(BYTE_PLACES):
            for layout in LAYOUTS:
                problems = [(n, one.problem(layout, "uint8")) for one, n in layers.items()]
                for numbers, kind in zip(NUMBERS, ("sums", "bytes", "reals")):
                    column = tuple((n, tuple(byte_ways(p, numbers, place))) for n, p in problems)
                    what = f"{layout} {kind}"
                    yield Promise(f"int8 {net}", spelled(place.target), place.cpu, what, column)


def kept(kernels: Iterable[Spec], promised: Iterable[Promise], loss: float = LOSS) -> list[Spec]:
    """Return kernels with those that keep all promises, always the one that helps most for its
    bytes.
    """
    chosen, promised = dict.fromkeys(kernels), list(promised)
    while broken := [one for one in promised if one.loss(chosen) > loss]:
        gains: dict[Any, float] = defaultdict(float)
        for one in broken:
            for kernel, gain in one.gains(chosen):
                gains[kernel] += gain / packed_bytes(kernel)
        if not gains:
            break
        chosen[max(gains, key=lambda kernel: gains[kernel])] = None
    return list(chosen)
