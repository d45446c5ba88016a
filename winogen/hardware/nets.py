"""Layers of known nets, as their papers have them: what engines are compared on.

Convolutions in the order of the net, then the fully connected layers as 1x1 on one pixel.
AlexNet is the one without groups (arXiv 1404.5997 has other widths; these are those of 2012),
ResNet-50 has its strides on the 3x3. Between them are pools and sums; normalization across channels
and softmax are left out. A pool behind a concatenation is one behind each convolution before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from winogen.conv.arguments import choice

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.hardware.others import OtherLayer

# C, H = W, M, kernel, stride, padding; a pair of kernel and padding: height and width.
Row = tuple[int, int, int, "int | tuple[int, int]", int, "int | tuple[int, int]"]


class Between(NamedTuple):
    """A layer without weights."""

    kind: str
    channels: int
    size: int
    kernel: int = 1
    stride: int = 1
    padding: int | tuple[tuple[int, int], tuple[int, int]] = 0
    alone: bool = False  # others see its inputs, too, so that they have to be in memory


_ROUNDED_UP = (0, 1), (0, 1)  # padding of pools that see the last row, too


def _halved(channels: int, size: int) -> Between:
    """A pool of 3x3 without padding."""
    return Between("max", channels, size, 3, 2)


def _mean(channels: int, size: int) -> Between:
    return Between("average", channels, size, size)


def _alexnet() -> Iterator[Row | Between]:
    yield 3, 227, 96, 11, 4, 0
    yield _halved(96, 55)
    yield 96, 27, 256, 5, 1, 2
    yield _halved(256, 27)
    for channels, filters in ((256, 384), (384, 384), (384, 256)):
        yield channels, 13, filters, 3, 1, 1
    yield _halved(256, 13)
    yield from _connected(256 * 6 * 6, 4096, 4096, 1000)


def _vgg16() -> Iterator[Row | Between]:
    channels, size = 3, 224
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            yield channels, size, width, 3, 1, 1
            channels = width
        yield Between("max", width, size, 2, 2)
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


def _googlenet() -> Iterator[Row | Between]:
    def pooled(filters: int, size: int, after: int) -> Iterator[Between]:
        if after == 0:
            yield _mean(filters, size)
        elif after < size:
            yield Between("max", filters, size, 3, 2, _ROUNDED_UP)

    yield 3, 224, 64, 7, 2, 3
    yield from pooled(64, 112, 56)
    yield 64, 56, 64, 1, 1, 0
    yield 64, 56, 192, 3, 1, 1
    yield from pooled(192, 56, 28)
    sizes = (*(row[0] for row in _INCEPTION[1:]), 0)
    for (size, channels, one, before3, three, before5, five, pool), after in zip(_INCEPTION, sizes):
        yield channels, size, one, 1, 1, 0
        yield from pooled(one, size, after)
        yield channels, size, before3, 1, 1, 0
        yield before3, size, three, 3, 1, 1
        yield from pooled(three, size, after)
        yield channels, size, before5, 1, 1, 0
        yield before5, size, five, 5, 1, 2
        yield from pooled(five, size, after)
        yield Between("max", channels, size, 3, 1, 1, alone=True)
        yield channels, size, pool, 1, 1, 0
        yield from pooled(pool, size, after)
    yield from _connected(1024, 1000)


def _resnet50() -> Iterator[Row | Between]:
    yield 3, 224, 64, 7, 2, 3
    yield Between("max", 64, 112, 3, 2, 1)
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
            yield Between("sum", channels, size)
    yield _mean(2048, 7)
    yield from _connected(2048, 1000)


def _squeezenet() -> Iterator[Row | Between]:
    """Version 1.1."""
    yield 3, 224, 64, 3, 2, 0
    yield _halved(64, 111)
    channels = 64
    for size, narrow, wide, is_last in (
        (55, 16, 64, False), (55, 16, 64, True), (27, 32, 128, False), (27, 32, 128, True),
        (13, 48, 192, False), (13, 48, 192, False), (13, 64, 256, False), (13, 64, 256, False),
    ):  # fmt: skip
        yield channels, size, narrow, 1, 1, 0
        for kernel in (1, 3):
            yield narrow, size, wide, kernel, 1, kernel // 2
            if is_last:
                yield _halved(wide, size)
        channels = 2 * wide
    yield channels, 13, 1000, 1, 1, 0
    yield _mean(1000, 13)


def _inception_v3() -> Iterator[Row | Between]:
    yield 3, 299, 32, 3, 2, 0
    yield 32, 149, 32, 3, 1, 0
    yield 32, 147, 64, 3, 1, 1
    yield _halved(64, 147)
    yield 64, 73, 80, 1, 1, 0
    yield 80, 73, 192, 3, 1, 0
    yield _halved(192, 71)
    for channels, pool in ((192, 32), (256, 64), (288, 64)):
        for filters in (64, 48):
            yield channels, 35, filters, 1, 1, 0
        yield 48, 35, 64, 5, 1, 2
        yield from _chain(channels, 35, (64, 1), (96, 3), (96, 3))
        yield _averaged(channels, 35)
        yield channels, 35, pool, 1, 1, 0
    yield 288, 35, 384, 3, 2, 0
    yield from _chain(288, 35, (64, 1), (96, 3))
    yield 96, 35, 96, 3, 2, 0
    yield _halved(288, 35)._replace(alone=True)
    for width in (128, 160, 160, 192):
        yield 768, 17, 192, 1, 1, 0
        yield from _chain(768, 17, (width, 1), (width, (1, 7)), (192, (7, 1)))
        sevens = ((width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7)))
        yield from _chain(768, 17, (width, 1), *sevens)
        yield _averaged(768, 17)
        yield 768, 17, 192, 1, 1, 0
    yield 768, 17, 192, 1, 1, 0
    yield 192, 17, 320, 3, 2, 0
    yield from _chain(768, 17, (192, 1), (192, (1, 7)), (192, (7, 1)))
    yield 192, 17, 192, 3, 2, 0
    yield _halved(768, 17)._replace(alone=True)
    for channels in (1280, 2048):
        mean = [_mean(filters, 8) for filters in (320, 384, 192) if channels == 2048]
        yield channels, 8, 320, 1, 1, 0
        yield from mean[:1]
        for before in (((384, 1),), ((448, 1), (384, 3))):
            yield from _chain(channels, 8, *before)
            for kernel in ((1, 3), (3, 1)):
                yield 384, 8, 384, kernel, 1, _same(kernel)
                yield from mean[1:2]
        yield _averaged(channels, 8)
        yield channels, 8, 192, 1, 1, 0
        yield from mean[2:]
    yield from _connected(2048, 1000)


def _averaged(channels: int, size: int) -> Between:
    """A pool that keeps the size, beside other layers on the same map."""
    return Between("average", channels, size, 3, 1, 1, alone=True)


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


NETS: dict[str, Callable[[], Iterator[Row | Between]]] = {
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
    rows = NETS[choice("net", net, (*NETS,))]()
    problems = (_problem(row) for row in rows if not isinstance(row, Between))
    return tuple(one for one in problems if connected or max(one.size) > 1)


class NetLayer(NamedTuple):
    """A convolution and what is fused behind it; without one, a phase of its own."""

    convolution: Problem | None
    others: tuple[OtherLayer, ...]


@lru_cache(maxsize=16)
def all_layers(net: str) -> tuple[NetLayer, ...]:
    """Return a net of `NETS` with its pools and sums, but without its fully connected layers.

    >>> [len(one.others) for one in all_layers("alexnet")]
    [1, 1, 0, 0, 1]
    """
    from winogen.hardware.others import OtherLayer

    found: list[NetLayer] = []
    for row in NETS[choice("net", net, (*NETS,))]():
        if not isinstance(row, Between):
            found.append(NetLayer(_problem(row), ()))
            continue
        shape = (1, row.channels, row.size, row.size)
        if row.kind == "sum":
            other = OtherLayer.of(row.kind, shape)
        else:
            window: dict[str, Any] = {"stride": row.stride, "padding": row.padding}
            other = OtherLayer.of(row.kind, shape, row.kernel, **window)
        if row.alone:
            found.append(NetLayer(None, (other,)))
        else:
            found[-1] = found[-1]._replace(others=(*found[-1].others, other))
    return tuple(one for one in found if one.convolution is None or max(one.convolution.size) > 1)


def _problem(row: Row) -> Problem:
    from winogen.conv.problem import Layer

    channels, size, filters, kernel, stride, padding = row
    taps = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    layer = Layer.of((filters, channels, *taps), "float32", stride=stride, padding=padding)
    return layer.problem((1, channels, size, size))
