"""Which 3x3 layers of bytes a network computes by Winograd in integers, within a limit of bytes.

The codes are those of direct convolution: every sum is the same integer. Fewer products cost
constants, as transformed filters have 16 bits and there are more of them than weights: 3.6 times
the bytes of weights for F(2x2,3x3), 8 times for F(4x4,3x3). So a layer takes tiles where a limit
allows it, those first that save most instructions for each byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from winogen.codegen import fixed
from winogen.codegen.fixed_planner import of_catalog
from winogen.errors import InvalidValue
from winogen.fixed import Integral
from winogen.graph import QConv
from winogen.graph.ops import Shape
from winogen.graph.ops.quantized import HIGHEST, LOWEST

# Of the catalog; the planner for integers finds both.
_NAMES = {2: "f2_3", 4: "f4_3_asymmetric"}
_WORD = 2  # bytes of an operand of products
# Instructions of a Cortex-M4, fitted to what scripts/tiles_on_m4.py counts.
_OF_DIRECT = 1.3  # for each product of direct convolution
_OF_PRODUCT = 1.4  # of tiles
_OF_SUM = 4.0  # for each sum of such products, beside these
_OF_TRANSFORM = 5.0  # for each operation of a transform: its loads and stores are in it


class Tiles(NamedTuple):
    """An algorithm for 3x3 layers."""

    name: str
    made: Integral

    @property
    def m(self) -> int:
        """Rows and columns of results of a tile."""
        return self.made.algorithm.m

    @property
    def products(self) -> int:
        """Of a tile, for each channel and filter."""
        return self.made.algorithm.products**2

    def header(self, prefix: str, command: str) -> str:
        """Return its functions in C, whose names begin with winogen_prefix_name."""
        most = self.made.channels(*_BYTES)
        return fixed.render(self.made, fixed.widths(self.made, 8, 8, most), prefix, command)

    def tiles(self, made: Shape) -> int:
        """Return how many an output has."""
        return -(-made[2] // self.m) * -(-made[3] // self.m)

    def words(self, weight: np.ndarray) -> np.ndarray:
        """Return transformed filters: M x products x C, int16."""
        g = np.array(self.made.g, np.int64)
        made = np.einsum("ak,bl,mckl->mabc", g, g, weight.astype(np.int64), optimize=True)
        assert np.abs(made).max(initial=0) < 1 << 15  # as `widths` proves
        return made.reshape(len(weight), self.products, -1).astype(np.int16)

    def products_of(self, op: QConv, made: Shape) -> int:
        """Return how many products a layer has whose output has this shape."""
        filters, channels = op.weight.shape[:2]
        return self.tiles(made) * self.products * filters * channels

    def instructions(self, op: QConv, made: Shape) -> float:
        """Return about how many instructions a Cortex-M4 takes for a layer."""
        filters, channels = op.weight.shape[:2]
        transforms = 0
        for kind, maps in (("input", channels), ("output", filters)):
            program = self.made.programs[kind]
            both = len(program.inputs) + len(program.outputs)
            transforms += maps * program.counts().instructions * both
        a_tile = _OF_TRANSFORM * transforms + _OF_SUM * self.products * filters
        return _OF_PRODUCT * self.products_of(op, made) + self.tiles(made) * a_tile


_BYTES = fixed.signed(8), fixed.signed(8)


@cache
def _algorithm(m: int) -> Tiles:
    return next(Tiles(f"f{m}_3", one) for name, one in of_catalog(m, 3) if name == _NAMES[m])


@dataclass(frozen=True)
class _Way:
    """What an algorithm saves and takes in place of what a layer has so far."""

    number: int
    tiles: Tiles
    saved: float  # instructions, of direct's
    bytes: int  # more than direct's


def bias_of(op: QConv) -> np.ndarray:
    """Return biases of a layer whose inputs are codes instead of codes less their zero point.

    Modulo 2^32: the sum of such a bias and the results is right, whatever each of them is.
    """
    sums = op.weight.astype(np.int64).sum((1, 2, 3))
    bias = 0 if op.bias is None else op.bias.astype(np.int64)
    return (bias - op.x_zero * sums).astype(np.int32)


def chosen(
    layers: Mapping[int, tuple[QConv, Shape]], taken: int, limit: int | None
) -> dict[int, Tiles]:
    """Return the algorithms of layers by their numbers; others are direct.

    ``layers``: with the shapes of their outputs. ``taken``: bytes of constants if all are direct.
    ``limit``: how many constants may take; None: all are direct. Raises InvalidValue where even
    direct convolution takes more.
    """
    if limit is None:
        return {}
    if limit < taken:
        raise InvalidValue(
            f"flash_limit: got {limit}; allowed: at least {taken}, the bytes of constants if all "
            "layers are direct"
        )
    weights = Counter(op.weight.tobytes() for op, _ in layers.values())
    ways = [way for number, layer in layers.items() for way in _ways(number, *layer, weights)]
    found: dict[int, _Way] = {}
    rest = limit - taken
    while True:  # the next layer, or a larger tile of one that has tiles
        best, gain = None, 0.0
        for way in ways:
            now = found.get(way.number)
            more = way.bytes - (now.bytes if now else 0)
            saved = way.saved - (now.saved if now else 0)
            if more <= rest and saved > 0 and (more <= 0 or saved / more > gain):
                best, gain = way, saved / more if more > 0 else float("inf")
        if best is None:
            return {number: way.tiles for number, way in sorted(found.items())}
        before = found.get(best.number)
        rest -= best.bytes - (before.bytes if before else 0)
        found[best.number] = best


def _ways(number: int, op: QConv, made: Shape, weights: Counter[bytes]) -> list[_Way]:
    if op.groups > 1:
        return []
    window = op.window
    if window.kernel != (3, 3) or window.stride != (1, 1) or window.dilation != (1, 1):
        return []
    direct = _OF_DIRECT * made[2] * made[3] * op.weight.size
    ways = []
    for m in _NAMES:
        one = _algorithm(m)
        if _exact(op, one.made):
            filters, channels = op.weight.shape[:2]
            more = filters * channels * _WORD * one.products
            if weights[op.weight.tobytes()] == 1:  # else another layer has them, too
                more -= op.weight.size
            ways.append(_Way(number, one, direct - one.instructions(op, made), more))
    return ways


def _exact(op: QConv, made: Integral) -> bool:
    """Whether 32 bits hold every result times the power of two of the scale: by the weights."""
    weight = op.weight.astype(np.int64)
    above = np.where(weight > 0, weight, 0).sum((1, 2, 3))
    below = np.where(weight < 0, weight, 0).sum((1, 2, 3))
    most = HIGHEST * above + LOWEST * below
    least = LOWEST * above + HIGHEST * below
    power = made.divisor()[1]
    return bool((most << power < 1 << 31).all() and (least << power >= -(1 << 31)).all())
