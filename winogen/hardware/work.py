"""What nets ask of any machine: operations, words, kernels, and energy by a published table.

These are chapter 2's tables of the thesis for the nets that are known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from winogen.conv.arguments import choice

if TYPE_CHECKING:
    from winogen.conv.problem import Problem

# Picojoules of an operation in 45 nm at 0.9 V, and of a word of 32 bits that is moved: M. Horowitz,
# ISSCC 2014, as S. Han et al. have it (arXiv 1506.02626).
ENERGY = {
    "add, int8": 0.03, "add, int32": 0.1, "add, float16": 0.4, "add, float32": 0.9,
    "multiply, int8": 0.2, "multiply, int32": 3.1, "multiply, float16": 1.1,
    "multiply, float32": 3.7, "register file": 1.0, "SRAM": 5.0, "DRAM": 640.0,
}  # fmt: skip
KINDS = ("1x1", "3x3", "5x5", "other", "depthwise", "connected")
DATAFLOWS = ("IS", "OS", "WS", "RS")


def watts(words: float, per_second: float, where: str = "DRAM") -> float:
    """Return the power of moving so many words of 32 bits so often in a second.

    >>> round(watts(1e9, 30), 1)  # a net of 10^9 weights, 30 pictures in a second
    19.2
    """
    return words * per_second * ENERGY[where] * 1e-12


class LayerWords(NamedTuple):
    """Numbers that a layer reads and writes, each once."""

    inputs: int
    weights: int
    outputs: int


def words(problem: Problem) -> LayerWords:
    """Return the words of a layer."""
    return LayerWords(
        prod(problem.input_shape), prod(problem.layer.weight_shape), prod(problem.output_shape)
    )


def kind(problem: Problem) -> str:
    """Return which of `KINDS` a layer is: by its groups, its map, or its kernel.

    >>> from winogen.hardware.nets import layers
    >>> [kind(one) for one in layers("alexnet", connected=True)][::2]
    ['other', '3x3', '3x3', 'connected']
    """
    layer = problem.layer
    if layer.groups > 1 and layer.groups == layer.channels:
        return "depthwise"
    if prod(problem.size) == 1:
        return "connected"
    name = "x".join(map(str, layer.kernel))
    return name if name in KINDS else "other"


def operations_per_word(problem: Problem) -> float:
    """Return multiplications and additions of a layer for each word that it reads or writes."""
    return 2 * problem.direct_multiplications / sum(words(problem))


@dataclass(frozen=True)
class NetWorkload:
    """A net in numbers, of one image."""

    convolutions: int
    connected: int
    products: int  # multiplications of the definition
    weights: int
    activations: int  # outputs of all layers
    small: float  # the share of the convolutions that have at most 3 taps along each axis
    shares: dict[str, float]  # of the convolutions, by kind
    product_shares: dict[str, float]  # of their products

    def millijoules(self, numbers: str = "float32") -> float:
        """Return what its products and sums take, of numbers as `ENERGY` has them."""
        one = ENERGY[f"multiply, {numbers}"] + ENERGY[f"add, {numbers}"]
        return self.products * one * 1e-9

    @property
    def dram_millijoules(self) -> float:
        """What its weights and activations take if each word of 32 bits is moved once."""
        return (self.weights + self.activations) * ENERGY["DRAM"] * 1e-9


def work(layers: Iterable[Problem]) -> NetWorkload:
    """Return a net in numbers. ``layers``: each as often as the net has it.

    >>> from winogen.hardware.nets import layers
    >>> net = work(layers("vgg16", connected=True))
    >>> net.products / 1e9, net.weights / 1e6, net.convolutions, net.connected
    (15.47026432, 138.344128, 13, 3)
    """
    some = list(layers)
    kinds = [kind(one) for one in some]
    maps = [(name, one) for name, one in zip(kinds, some) if name != "connected"]
    total = sum(one.direct_multiplications for _, one in maps)
    names = [name for name in KINDS if any(name == other for other, _ in maps)]
    counted = {name: [one for other, one in maps if other == name] for name in names}
    return NetWorkload(
        convolutions=len(maps),
        connected=len(some) - len(maps),
        products=sum(one.direct_multiplications for one in some),
        weights=sum(words(one).weights for one in some),
        activations=sum(words(one).outputs for one in some),
        small=sum(max(one.layer.kernel) <= 3 for _, one in maps) / len(maps),
        shares={name: len(rows) / len(maps) for name, rows in counted.items()},
        product_shares={
            name: sum(one.direct_multiplications for one in rows) / total
            for name, rows in counted.items()
        },
    )


def intensities(layers: Sequence[Problem]) -> dict[str, tuple[float, float, float]]:
    """Return the least, the mean and the largest operations per word of each kind of layer.

    The mean is that of all operations over all words.
    """
    ranges = {}
    for name in KINDS:
        some = [one for one in layers if kind(one) == name]
        if some:
            each = [operations_per_word(one) for one in some]
            operations = 2 * sum(one.direct_multiplications for one in some)
            mean = operations / sum(sum(words(one)) for one in some)
            ranges[name] = min(each), mean, max(each)
    return ranges


class Reuse(NamedTuple):
    """Products for each input, weight and sum that comes to a processing element, or leaves it."""

    inputs: float
    weights: float
    sums: float


def reuse(problem: Problem, dataflow: str) -> Reuse:
    """Return how often what is stationary is used, by "IS", "OS", "WS" or "RS"; a batch of one.

    Row stationary (Y.-H. Chen et al., ISCA 2016): a processing element has a row of a filter and
    one of the input. A column of elements shares the sums of a row of outputs, a row of them the
    filter, a diagonal the inputs. So none of the three is moved for each product.

    >>> from winogen.hardware import Engine
    >>> layer = Engine(8, 4, 8, 1).mapping((1, 64, 56, 56), (64, 64, 3, 3), padding=1).problem
    >>> reuse(layer, "WS"), reuse(layer, "RS")
    (Reuse(inputs=1, weights=3136, sums=1), Reuse(inputs=9.0, weights=3136, sums=9))
    """
    choice("dataflow", dataflow, DATAFLOWS)
    layer = problem.layer
    taps, pixels = prod(layer.kernel), prod(problem.output_size)
    seen = taps / prod(layer.stride)  # outputs of a filter that an input is in
    return {
        "IS": Reuse(layer.filters // layer.groups * seen, 1, 1),
        "OS": Reuse(1, 1, layer.channels // layer.groups * taps),
        "WS": Reuse(1, pixels, 1),
        "RS": Reuse(seen, pixels, taps),
    }[dataflow]
