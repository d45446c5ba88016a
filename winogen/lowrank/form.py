"""What a layer of rank R is: two layers, a column of taps and a row of taps, and what they cost.

A filter's taps along the height and the width are summed one axis after the other. Stage 1 has the
taps of one axis and makes R maps per group of channels, stage 2 has those of the other axis and
makes the outputs. Both orders compute the same function of the same rank only if it is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from winogen.conv.problem import Layer
from winogen.records import Axis

First = Literal["columns", "rows"]
FIRSTS: tuple[First, First] = ("columns", "rows")


@dataclass(frozen=True)
class Form:
    """A layer as two stages, before its rank is known.

    >>> form = Form.of(Layer.of((64, 64, 3, 3), "float32", padding=1), "columns")
    >>> form.full_rank, form.rank(2.0), form.products(48), form.direct_products
    (192, 48, 18432, 36864)
    """

    first: First  # which taps stage 1 has
    channels: int  # of one group
    filters: int  # of one group
    groups: int
    taps: tuple[int, int]  # of stage 1 and of stage 2
    step: int  # the stride of stage 2

    @classmethod
    def of(cls, layer: Layer, first: First) -> Form:
        """Return the form of a layer with two axes."""
        one, other = layer.axes if first == "columns" else layer.axes[::-1]
        return cls(
            first,
            layer.channels // layer.groups,
            layer.filters // layer.groups,
            layer.groups,
            (one.kernel, other.kernel),
            other.stride,
        )

    @property
    def full_rank(self) -> int:
        """The rank, per group, that every kernel of this size has at most."""
        return min(self.taps[0] * self.channels, self.taps[1] * self.filters)

    def products(self, rank: int) -> int:
        """Return the products of both stages per pixel of the output, borders left out.

        Stage 1 computes all pixels along the other axis; stage 2 keeps one of ``step``.
        """
        one, other = self.taps
        return self.groups * rank * (one * self.channels * self.step + other * self.filters)

    def parameters(self, rank: int) -> int:
        """Return the weights of both stages, biases left out."""
        one, other = self.taps
        return self.groups * rank * (one * self.channels + other * self.filters)

    @property
    def direct_products(self) -> int:
        """The products of the layer as it is, per pixel of the output."""
        return self.groups * self.channels * self.filters * prod(self.taps)

    def compression(self, rank: int) -> float:
        """Return how many times fewer products a rank has than the layer as it is."""
        return self.direct_products / self.products(rank)

    def rank(self, compression: float) -> int:
        """Return the rank whose compression is nearest, from 1 to the full one."""
        return min(max(round(self.direct_products / (compression * self.products(1))), 1),
                   self.full_rank)  # fmt: skip


def axes_of(layer: Layer, form: Form, stage: int) -> tuple[Axis, Axis]:
    """Return the axes of a stage: the layer's along its taps, a single pixel along the other."""
    height, width = layer.axes
    along_height = (form.first == "columns") == (stage == 0)
    return (height, Axis(1)) if along_height else (Axis(1), width)
