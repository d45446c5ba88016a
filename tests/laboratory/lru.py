"""A cache that forgets what was used longest ago: nests of `winogen_lab.loops.traffic` in it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from winogen_lab.loops.traffic import Bytes, Convolution, Tile


def simulated(layer: Convolution, tile: Tile, cache: int) -> Bytes:
    """Return the bytes that miss a cache of ``cache`` bytes, number by number.

    Channels of one pixel or of one tap of a block of filters move together, which changes nothing:
    they are always used one after the other.
    """
    kept: OrderedDict[tuple, int] = OrderedDict()
    held, missed = 0, {"input": 0, "filter": 0}
    for key, size in _uses(layer, tile):
        if key in kept:
            kept.move_to_end(key)
            continue
        missed[key[0]] += size
        kept[key] = size
        held += size
        while held > cache:
            held -= kept.popitem(last=False)[1]
    return Bytes(missed["input"], missed["filter"])


def _uses(layer: Convolution, tile: Tile) -> Iterator[tuple[tuple, int]]:
    """What the nest reads, in its order: (what, bytes)."""
    height, width = layer.output
    pixel, filters = layer.channels * layer.itemsize, layer.block_filters
    for b in range(layer.images):
        for yy in range(0, height, tile.rows):
            for mm in range(0, layer.filters, tile.filters):
                for y in range(yy, min(yy + tile.rows, height)):
                    for x in range(0, width, layer.block_pixels):
                        right = min(x + layer.block_pixels, width)
                        for m in range(mm, min(mm + tile.filters, layer.filters), filters):
                            count = min(filters, layer.filters - m)
                            for ky in range(layer.kernel[0]):
                                row = y * layer.stride[0] + ky
                                for kx in range(layer.kernel[1]):
                                    yield ("filter", m, ky, kx), count * pixel
                                    for at in range(x, right):
                                        column = at * layer.stride[1] + kx
                                        yield ("input", b, row, column), pixel
