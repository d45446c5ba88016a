"""Quantized convolution by Winograd's algorithm: fewer products than direct, and not exact.

Transformed tiles of bytes need more than 8 bits. So tiles are transformed in float32 and rounded to
16 bits, with a scale for each tile, position and 32 channels, and the 32-bit sums of their products
are exact; see `winogen.kernels.integers_family`. The result is rounded to bytes once: it may differ
by one step from the exact one where that lies near a half. Rounded to 8 bits, tiles are multiplied
in half the time, and results are as far off again as the rounding of inputs and weights makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import inf, prod
from operator import itemgetter
from typing import Any

import numpy as np

from winogen import resources
from winogen.conv import arguments, memory
from winogen.conv.options import Options
from winogen.conv.pictures import PixelConvolution
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer
from winogen.conv.quantization import RANGES, QuantizedFilters, Scales
from winogen.conv.stock import first_at_hand
from winogen.conv.weighted import kept
from winogen.errors import CompilerNotFound, InvalidValue, Unsupported
from winogen.records import Target
from winogen.toolchain import Library, host_target
from winogen.toolchain.loader import Build
from winogen.toolchain.machine import current
from winogen.toolchain.threads import with_team
from winogen.typing import ProductType

Kind = tuple[int, ProductType]  # outputs of a tile along each axis, and what is multiplied
TILES = (2, 4, 6)
PRODUCTS: tuple[ProductType, ...] = ("int16", "int8")
EVERY: tuple[Kind, ...] = tuple(product(TILES, PRODUCTS))
# What larger tiles that are rounded to bytes are computed modulo: with 1.3 times the products of
# those by points, they are a quarter as far off, or a tenth.
LARGER = {4: "x, x-1, x+1, x^2+1, inf", 6: "x, x-3/4, x+3/4, x-4/3, x+4/3, x^2+1, inf"}
# Why a kind takes no part where others may: it cannot compute the layer, or has no kernel here.
DO_NOT_APPLY = (Unsupported, InvalidValue, CompilerNotFound)
_CDEF = """
void winogen_widen(const void *from, int64_t count, int flip, int zero, void *to, int threads);
void winogen_narrow(const void *from, int64_t count, float zero, float lowest, float highest,
                    void *to, int threads);
"""


class QuantizedTiles:
    """A quantized convolution whose tiles are computed in real numbers.

    ``padding``, ``stride`` and so on are those of ``layer``. ``kinds``: the one that computes, or
    with a ``tolerance`` those that may. Raises InvalidValue for sums as output, Unsupported where
    tiles do not apply: large strides, a stride beside a dilation.
    """

    def __init__(
        self, filters: QuantizedFilters, scales: Scales | None, layer: Layer, x_zero: int,
        relu: bool, kinds: Sequence[Kind], threads: int, tolerance: float | None = None,
    ):  # fmt: skip
        if scales is None:
            raise InvalidValue(
                'algorithm: got "mcmr" without y_scale; allowed: direct, im2col, which are exact'
            )
        allowed = " or ".join(map(str, TILES))
        for tile, products in kinds:
            tile = arguments.whole("tile", tile, TILES[0], allowed, TILES[-1])
            if tile not in TILES:
                raise InvalidValue(f"tile: got {tile}; allowed: {allowed}")
            arguments.choice("product_dtype", products, PRODUCTS)
        self._scales, self._x_zero, self._relu, self._threads = scales, x_zero, relu, threads
        self._layer, self._kinds, self._tolerance = layer, kinds, tolerance
        self._weight, self._bias = in_steps(filters, scales.multiplier)
        # Each has a copy of the weights, so that only those are kept which compute something.
        self._made: dict[tuple[Kind, str], PixelConvolution] = {}
        # What computes inputs of a shape and of pixels.
        self._chosen: dict[tuple[tuple[int, ...], str], PixelConvolution | None] = {}
        if tolerance is None:  # refuses what it cannot do
            self._built(kinds[0], "float32")

    def error(self, input_shape: Any, dtype: np.dtype) -> float:
        """Return the expected max |y - exact| / max |exact|, before y is rounded to bytes."""
        return float(self.plan(input_shape, dtype).predictions[0].error)

    def seconds(self, input_shape: tuple[int, ...], dtype: np.dtype) -> float:
        """Return the predicted time of a call; inf where no kind is within the tolerance."""
        pixels = self._pixels(dtype)
        conv, machine = self._found(input_shape, pixels), current()
        if conv is None:
            return inf
        plan = conv.plan(input_shape)
        # A pass before and one behind, of bytes and floats.
        numbers = 0 if pixels == "uint8" else prod(plan.input_shape) + prod(plan.output_shape)
        passes = 5 * numbers / (machine.memory_rate * machine.clock_ghz * 1e9)
        return float(plan.predictions[0].seconds) + passes

    def plan(self, input_shape: Any, dtype: np.dtype) -> Plan:
        """Return what a call with an input of this shape and dtype does."""
        pixels = self._pixels(dtype)
        plan = self._one(input_shape, pixels).plan(input_shape)
        if pixels == "uint8":
            return plan
        numbers = prod(plan.input_shape) + prod(plan.output_shape)
        return replace(plan, workspace_bytes=plan.workspace_bytes + 4 * numbers)

    def _pixels(self, dtype: np.dtype) -> str:
        """What its kernel reads and writes: bytes where these stand for themselves, else floats.

        Around an image kernels have zeros, and what ReLU leaves out is below 0.
        """
        output = self._scales.dtype or dtype.name
        as_they_are = not (self._x_zero or (self._relu and self._scales.zero))
        return "uint8" if as_they_are and dtype.name == output == "uint8" else "float32"

    def _built(self, kind: Kind, pixels: str) -> PixelConvolution:
        asked, bias = options_of(kind, self._layer, self._threads), self._bias
        if pixels == "uint8":
            bias = bias + self._scales.zero
        return PixelConvolution(self._weight, pixels, asked, bias.astype(np.float32))

    def _one(self, input_shape: Any, pixels: str) -> PixelConvolution:
        found = self._found(tuple(input_shape), pixels)
        assert found is not None, "whoever asks knows that there is one"
        return found

    def _found(self, input_shape: tuple[int, ...], pixels: str) -> PixelConvolution | None:
        """What computes inputs of a shape: within a tolerance what is predicted to be fastest."""
        key = input_shape, pixels
        if key in self._chosen:
            return self._chosen[key]
        found: list[tuple[float, Kind, PixelConvolution]] = []
        most = inf if self._tolerance is None else self._tolerance
        for kind in self._kinds:
            with suppress(*(() if self._tolerance is None else DO_NOT_APPLY)):
                conv = self._made.get((kind, pixels)) or self._built(kind, pixels)
                prediction = conv.plan(input_shape).predictions[0]
                if prediction.error <= most:
                    found.append((prediction.seconds, kind, conv))
        best = min(found, key=itemgetter(0), default=None)
        if best is not None:
            self._made[best[1], pixels] = best[2]
        return kept(self._chosen, key, None if best is None else best[2])

    def __call__(self, x: np.ndarray, y: np.ndarray) -> None:
        """Compute ``y``, bytes of the type that it has; nothing is checked."""
        x, threads = np.ascontiguousarray(x), self._threads
        pixels = self._pixels(x.dtype)
        conv = self._one(x.shape, pixels)
        if pixels == "uint8":
            conv(x, y)
            return
        library = _library(host_target())
        pointer = library.ffi.from_buffer
        real = memory.empty(x.shape, np.dtype(np.float32), "input as float32")
        flip = 128 if x.dtype == np.int8 else 0
        library.lib.winogen_widen(
            pointer(x), x.size, flip, self._x_zero + flip, pointer(real), threads
        )
        sums = conv(real)
        zero, (lowest, highest) = self._scales.zero, RANGES[y.dtype.name]
        whole = y if y.flags.c_contiguous else np.empty(y.shape, y.dtype)
        library.lib.winogen_narrow(
            pointer(sums), sums.size, zero, max(lowest, zero) if self._relu else lowest, highest,
            pointer(whole), threads,
        )  # fmt: skip
        if whole is not y:
            y[...] = whole


def in_steps(filters: QuantizedFilters, multiplier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and biases as what they make of outputs, in steps of these: float32, float64.

    ``multiplier``: what sums of each filter are multiplied by.
    """
    weight, factor = filters.weight.astype(np.float64), multiplier.astype(np.float64)
    if filters.zero is not None:
        weight -= filters.zero[:, None, None, None]
    weight = (weight * factor[:, None, None, None]).astype(np.float32)
    return weight, np.zeros(len(weight)) if filters.bias is None else filters.bias * factor


def options_of(kind: Kind, layer: Layer, threads: int) -> Options:
    """Return what asks `conv2d` for such tiles of a layer."""
    tile, products = kind
    usual = (layer.kernel, layer.stride) == ((3, 3), (1, 1))
    top, bottom, left, right = layer.padding
    return Options(
        stride=layer.stride,
        padding=((top, bottom), (left, right)),
        dilation=layer.dilation,
        groups=layer.groups,
        layout="NCHW" if layer.planar else "NHWC",
        algorithm="mcmr",
        tile=tile,
        moduli=LARGER.get(tile) if usual and products == "int8" else None,
        product_dtype=products,
        threads=threads,
    )


def build_of(target: Target) -> Build:
    """Return what the library is built from that turns bytes to real numbers and back."""
    source = with_team((resources.folder("csrc") / "bytes.c").read_text("utf-8"))
    return Build(source, _CDEF, target, name="bytes")


@lru_cache(maxsize=8)
def _library(target: Target) -> Library:
    return first_at_hand(target, build_of).load()
