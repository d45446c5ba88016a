"""Calls that together show every constant of the kernels' model: what `winogen calibrate` measures.

The layers are of no net. Sizes are such that each level of the caches is streamed from, and each
stage of a kernel is most of some call. A tile or a block serves several layers, because compiling
takes longer than measuring.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from winogen.kernels import algorithms
from winogen.records import Precision, Target
from winogen.tuning.layers import BenchLayer

# Input (C, H, W) and weight, options, and the algorithms that compute it, with their tiles.
_Sizes = tuple[int, ...]
_Options = dict[str, int]
_3X3: _Options = {"padding": 1}
_CALLS: tuple[tuple[_Sizes, _Sizes, _Options, tuple[str, ...]], ...] = (
    # Transforms, products and stores of Winograd: maps from large with few channels to small with
    # many, whose filters come from the last cache or from memory.
    ((48, 64, 64), (48, 48, 3, 3), _3X3, ("mcmr 2", "mcmr 4", "mcmr 6", "winograd1d 4", "direct")),
    ((96, 36, 36), (96, 96, 3, 3), _3X3, ("mcmr 4", "mcmr 6", "direct", "im2col")),
    ((160, 24, 24), (160, 160, 3, 3), _3X3, ("mcmr 4", "mcmr 6", "winograd1d 4", "direct")),
    ((288, 12, 12), (288, 288, 3, 3), _3X3, ("mcmr 2", "mcmr 4", "mcmr 6", "direct")),
    ((448, 8, 8), (448, 448, 3, 3), _3X3, ("mcmr 2", "mcmr 4", "winograd1d 4", "direct")),
    ((32, 30, 30), (64, 32, 5, 5), {"padding": 2}, ("mcmr 2", "direct")),
    ((24, 128, 128), (24, 24, 3, 3), _3X3, ("mcmr 4", "direct")),
    # Few channels: tiles and filters in the lanes.
    ((3, 160, 160), (32, 3, 3, 3), _3X3, ("winograd2d 2", "winograd2d 4", "direct")),
    ((3, 192, 192), (64, 3, 3, 3), _3X3, ("winograd2d 4", "direct")),
    # Direct convolution: strides, 1x1, pixels in the lanes.
    ((96, 40, 40), (128, 96, 3, 3), {"padding": 1, "stride": 2}, ("direct",)),
    ((3, 200, 200), (48, 3, 7, 7), {"padding": 3, "stride": 2}, ("direct",)),
    ((64, 64, 64), (96, 64, 1, 1), {}, ("direct",)),
    ((320, 24, 24), (160, 320, 1, 1), {}, ("direct",)),
    ((640, 8, 8), (320, 640, 1, 1), {}, ("direct",)),
    ((64, 40, 40), (6, 64, 3, 3), _3X3, ("direct",)),
    # Depthwise layers.
    ((96, 64, 64), (96, 1, 3, 3), {"padding": 1, "groups": 96}, ("direct",)),
    ((320, 16, 16), (320, 1, 3, 3), {"padding": 1, "groups": 320}, ("direct",)),
    ((192, 40, 40), (192, 1, 3, 3), {"padding": 1, "groups": 192, "stride": 2}, ("direct",)),
    # A depthwise layer of no usual size: no micro-kernel is for it alone.
    ((128, 48, 48), (128, 1, 4, 4), {"padding": 2, "groups": 128}, ("direct",)),
    # Few filters, whose vectors of sums are added up.
    ((48, 64, 64), (2, 48, 3, 3), _3X3, ("direct",)),
)
# Products of float16, where a target has them.
_HALVES: tuple[tuple[_Sizes, _Sizes, _Options], ...] = (
    ((72, 48, 48), (96, 72, 3, 3), _3X3),
    ((200, 20, 20), (224, 200, 1, 1), {}),
    ((3, 144, 144), (24, 3, 3, 3), _3X3),
)
# Gradients of the weights, by tiles of these sizes: many pixels, then large sums.
_GRADIENTS: tuple[tuple[_Sizes, _Sizes, _Options, tuple[int, ...]], ...] = (
    ((40, 72, 72), (40, 40, 3, 3), _3X3, (2, 4)),
    ((128, 26, 26), (128, 128, 3, 3), _3X3, (2, 4)),
    ((256, 10, 10), (272, 256, 3, 3), _3X3, (4,)),
)

# Convolutions of bytes: products, long and short runs of words, outputs that are many beside their
# sums, depthwise layers.
_BYTES: tuple[tuple[_Sizes, _Sizes, _Options, tuple[str, ...]], ...] = (
    ((96, 36, 36), (96, 96, 3, 3), _3X3, ("direct", "im2col")),
    ((320, 24, 24), (160, 320, 1, 1), {}, ("direct",)),
    ((448, 8, 8), (448, 448, 3, 3), _3X3, ("direct",)),
    ((24, 128, 128), (24, 24, 3, 3), _3X3, ("direct", "im2col")),
    ((16, 112, 112), (64, 16, 1, 1), {}, ("direct",)),
    ((3, 192, 192), (64, 3, 3, 3), _3X3, ("direct", "im2col")),
    ((3, 200, 200), (48, 3, 7, 7), {"padding": 3, "stride": 2}, ("direct", "im2col")),
    ((64, 40, 40), (6, 64, 3, 3), _3X3, ("direct",)),
    ((96, 40, 40), (128, 96, 3, 3), {"padding": 1, "stride": 2}, ("direct",)),
    ((96, 64, 64), (96, 1, 3, 3), {"padding": 1, "groups": 96}, ("direct",)),
    ((320, 16, 16), (320, 1, 3, 3), {"padding": 1, "groups": 320}, ("direct",)),
    ((160, 40, 40), (160, 1, 5, 5), {"padding": 2, "groups": 160, "stride": 2}, ("direct",)),
)


def calls(target: Target) -> Iterator[tuple[BenchLayer, dict[str, Any]]]:
    """Yield layers with the options of `conv2d` that say how ``target`` computes them."""
    for size, weight, options, ways in _CALLS:
        layer = _layer(size, weight, options)
        for way in ways:
            algorithm, _, tile = way.partition(" ")
            yield layer, {"algorithm": algorithm, **({"tile": int(tile)} if tile else {})}
    if algorithms(Precision.of("float32", products="float16"), target):
        for sizes in _HALVES:
            yield _layer(*sizes), {"algorithm": "direct", "product_dtype": "float16"}


def gradients() -> Iterator[tuple[BenchLayer, int]]:
    """Yield layers with the tile by which the gradient of their weights is computed."""
    for size, weight, options, tiles in _GRADIENTS:
        for tile in tiles:
            yield _layer(size, weight, options), tile


def quantized() -> Iterator[tuple[BenchLayer, str]]:
    """Yield layers of bytes with the algorithm that computes them."""
    for size, weight, options, algorithms_ in _BYTES:
        for algorithm in algorithms_:
            yield _layer(size, weight, options), algorithm


def _layer(size: _Sizes, weight: _Sizes, options: _Options) -> BenchLayer:
    shape = "x".join(map(str, (*size[1:], size[0], weight[0])))
    fields = {"name": f"sample-{shape}", "input": [1, *size], "weight": list(weight)}
    return BenchLayer.from_dict({**fields, **options})
