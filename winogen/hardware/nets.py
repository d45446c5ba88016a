"""Layers of known nets, as their papers have them: what engines are compared on.

Convolutions in the order of the net, then the fully connected layers as 1x1 on one pixel.
AlexNet is the one without groups (arXiv 1404.5997 has other widths; these are those of 2012),
ResNet-50 has its strides on the 3x3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from winogen.conv.arguments import choice

if TYPE_CHECKING:
    from winogen.conv.problem import Problem

# C, H = W, M, kernel, stride, padding; a pair of kernel and padding: height and width.
Row = tuple[int, int, int, "int | tuple[int, int]", int, "int | tuple[int, int]"]


def _alexnet() -> Iterator[Row]:
    yield 3, 227, 96, 11, 4, 0
    yield 96, 27, 256, 5, 1, 2
    for channels, filters in ((256, 384), (384, 384), (384, 256)):
        yield channels, 13, filters, 3, 1, 1
    yield from _connected(256 * 6 * 6, 4096, 4096, 1000)


def _vgg16() -> Iterator[Row]:
    channels, size = 3, 224
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            yield channels, size, width, 3, 1, 1
            channels = width
        size //= 2
    yield from _connected(512 * 7 * 7, 4096, 4096, 1000)


# Size, channels; filters: 1x1; 1x1 and 3x3; 1x1 and 5x5; 1x1 behind the pool.
_INCEPTION = (
    (28, 192, 64, 96, 128, 16, 32, 32), (28, 256, 128, 128, 192, 32, 96, 64),
    (14, 480, 192, 96, 208, 16, 48, 64), (14, 512, 160, 112, 224, 24, 64, 64),
    (14, 512, 128, 128, 256, 24, 64, 64), (14, 512, 112, 144, 288, 32, 64, 64),
    (14, 528, 256, 160, 320, 32, 128, 128), (7, 832, 256, 160, 320, 32, 128, 128),
    (7, 832, 384, 192, 384, 48, 128, 128),
)  # fmt: skip


def _googlenet() -> Iterator[Row]:
    yield 3, 224, 64, 7, 2, 3
    yield 64, 56, 64, 1, 1, 0
    yield 64, 56, 192, 3, 1, 1
    for size, channels, one, before3, three, before5, five, pool in _INCEPTION:
        for filters in (one, before3):
            yield channels, size, filters, 1, 1, 0
        yield before3, size, three, 3, 1, 1
        yield channels, size, before5, 1, 1, 0
        yield before5, size, five, 5, 1, 2
        yield channels, size, pool, 1, 1, 0
    yield from _connected(1024, 1000)


def _resnet50() -> Iterator[Row]:
    yield 3, 224, 64, 7, 2, 3
    channels, size = 64, 56
    for stage, depth in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for number in range(depth):
            stride = 2 if stage and not number else 1
            if number == 0:
                yield channels, size, 4 * width, 1, stride, 0
            yield channels, size, width, 1, 1, 0
            yield width, size, width, 3, stride, 1
            size //= stride
            yield width, size, 4 * width, 1, 1, 0
            channels = 4 * width
    yield from _connected(2048, 1000)


def _squeezenet() -> Iterator[Row]:
    """Version 1.1."""
    yield 3, 224, 64, 3, 2, 0
    channels = 64
    for size, narrow, wide in (
        (55, 16, 64), (55, 16, 64), (27, 32, 128), (27, 32, 128),
        (13, 48, 192), (13, 48, 192), (13, 64, 256), (13, 64, 256),
    ):  # fmt: skip
        yield channels, size, narrow, 1, 1, 0
        yield narrow, size, wide, 1, 1, 0
        yield narrow, size, wide, 3, 1, 1
        channels = 2 * wide
    yield channels, 13, 1000, 1, 1, 0


def _inception_v3() -> Iterator[Row]:
    yield 3, 299, 32, 3, 2, 0
    yield 32, 149, 32, 3, 1, 0
    yield 32, 147, 64, 3, 1, 1
    yield 64, 73, 80, 1, 1, 0
    yield 80, 73, 192, 3, 1, 0
    for channels, pool in ((192, 32), (256, 64), (288, 64)):
        for filters in (64, 48):
            yield channels, 35, filters, 1, 1, 0
        yield 48, 35, 64, 5, 1, 2
        yield from _chain(channels, 35, (64, 1), (96, 3), (96, 3))
        yield channels, 35, pool, 1, 1, 0
    yield 288, 35, 384, 3, 2, 0
    yield from _chain(288, 35, (64, 1), (96, 3))
    yield 96, 35, 96, 3, 2, 0
    for width in (128, 160, 160, 192):
        yield 768, 17, 192, 1, 1, 0
        yield from _chain(768, 17, (width, 1), (width, (1, 7)), (192, (7, 1)))
        sevens = ((width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7)))
        yield from _chain(768, 17, (width, 1), *sevens)
        yield 768, 17, 192, 1, 1, 0
    yield 768, 17, 192, 1, 1, 0
    yield 192, 17, 320, 3, 2, 0
    yield from _chain(768, 17, (192, 1), (192, (1, 7)), (192, (7, 1)))
    yield 192, 17, 192, 3, 2, 0
    for channels in (1280, 2048):
        yield channels, 8, 320, 1, 1, 0
        for before in (((384, 1),), ((448, 1), (384, 3))):
            yield from _chain(channels, 8, *before)
            yield from ((384, 8, 384, kernel, 1, _same(kernel)) for kernel in ((1, 3), (3, 1)))
        yield channels, 8, 192, 1, 1, 0
    yield from _connected(2048, 1000)


def _chain(channels: int, size: int, *layers: tuple[int, int | tuple[int, int]]) -> Iterator[Row]:
    """Layers one after another, of filters and kernels, on maps of one size."""
    for filters, kernel in layers:
        yield channels, size, filters, kernel, 1, _same(kernel)
        channels = filters


def _same(kernel: int | tuple[int, int]) -> int | tuple[int, int]:
    """The padding that keeps the size."""
    return kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)


def _connected(*widths: int) -> Iterator[Row]:
    for channels, filters in pairwise(widths):
        yield channels, 1, filters, 1, 1, 0


NETS: dict[str, Callable[[], Iterator[Row]]] = {
    "alexnet": _alexnet,
    "vgg16": _vgg16,
    "googlenet": _googlenet,
    "inception-v3": _inception_v3,
    "resnet50": _resnet50,
    "squeezenet": _squeezenet,
}


@lru_cache(maxsize=16)
def layers(net: str, connected: bool = False) -> tuple[Problem, ...]:
    """Return the convolutions of a net of `NETS`, each as often as it has it.

    ``connected``: with the fully connected layers. Raises InvalidType and InvalidValue.

    >>> len(layers("resnet50")), sum(one.direct_multiplications for one in layers("vgg16")) / 1e9
    (53, 15.346630656)
    """
    from winogen.conv.problem import Layer

    problems = []
    for channels, size, filters, kernel, stride, padding in NETS[choice("net", net, (*NETS,))]():
        if size == 1 and not connected:
            continue
        taps = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        layer = Layer.of((filters, channels, *taps), "float32", stride=stride, padding=padding)
        problems.append(layer.problem((1, channels, size, size)))
    return tuple(problems)
