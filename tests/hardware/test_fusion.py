"""The halo of the next layer's transform: what is held is enough, and no row less would be."""

import numpy as np
import pytest

from winogen.errors import Unsupported
from winogen.hardware import Engine
from winogen.hardware.fusion import fused


def overwritten(engine, size, padding, rows):
    """Whether a tile of the next layer finds another row in a ring of so many rows."""
    first = engine.mapping((1, 1, *size), (1, 1, 3, 3), padding=1)
    second = engine.mapping((1, 1, *size), (1, 1, 3, 3), padding=padding)
    fusion, m = fused(first, second), engine.m
    values = np.arange(1, 1 + size[0] * size[1]).reshape(size)
    ring = np.zeros((rows, size[1]), int)
    pending = list(np.ndindex(*(part.tiles for part in second.parts)))
    count = m + engine.r - 1
    for tile in np.ndindex(*(part.tiles for part in first.parts)):
        places = [slice(k * m, min((k + 1) * m, side)) for k, side in zip(tile, size)]
        for row in range(places[0].start, places[0].stop):
            ring[row % rows, places[1]] = values[row, places[1]]
        while pending and fusion.after(*pending[0]) <= tile:
            ahead = pending.pop(0)
            seen = [
                range(max(0, k * m - padding), min(k * m - padding + count, side))
                for k, side in zip(ahead, size)
            ]
            for row in seen[0]:
                if (ring[row % rows, seen[1]] != values[row, seen[1]]).any():
                    return True
    assert not pending
    return False


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize(
    "engine", [Engine(1, 4, 1, 1), Engine(1, 6, 1, 1), Engine(1, 7, 1, 1, m=4), Engine(1, 5, 1, 1)]
)
def test_the_ring_of_rows_is_enough_and_none_too_large(engine, padding):
    for size in ((12, 12), (13, 17), (24, 9)):
        mapping = engine.mapping((1, 1, *size), (1, 1, 3, 3), padding=1)
        second = engine.mapping((1, 1, *size), (1, 1, 3, 3), padding=padding)
        rows = fused(mapping, second).rows
        assert not overwritten(engine, size, padding, rows)
    assert overwritten(engine, (24, 24), padding, rows - 1)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("engine", [Engine(1, 4, 1, 1), Engine(1, 6, 1, 1), Engine(1, 5, 1, 1)])
def test_no_tile_waits_longer_than_for_the_last_output_that_it_sees(engine, padding):
    size = (13, 18)
    first = engine.mapping((1, 1, *size), (1, 1, 3, 3), padding=1)
    second = engine.mapping((1, 1, *size), (1, 1, 3, 3), padding=padding)
    fusion, m = fused(first, second), engine.m
    for tile in np.ndindex(*(part.tiles for part in second.parts)):
        last = [min(k * m - padding + m + 1, side - 1) for k, side in zip(tile, size)]
        assert fusion.after(*tile) == tuple(place // m for place in last)


def test_what_cannot_be_fused_says_why():
    engine = Engine(16, 4, 16, 2)
    layer = engine.mapping((1, 8, 8, 8), (8, 8, 3, 3), padding=1)
    others = {
        "not transformed": engine.mapping((1, 8, 8, 8), (8, 8, 1, 1)),
        "4 pieces": engine.mapping((1, 8, 8, 8), (8, 8, 5, 5)),
        "allowed: the outputs": engine.mapping((1, 8, 9, 8), (8, 8, 3, 3)),
        "the engine of": Engine(8, 4, 8, 1).mapping((1, 8, 8, 8), (8, 8, 3, 3)),
    }
    for message, other in others.items():
        with pytest.raises(Unsupported, match=message):
            fused(layer, other)
    dilated = engine.mapping((1, 8, 8, 8), (8, 8, 3, 3), padding=2, dilation=2)
    with pytest.raises(Unsupported, match="first: got dilation"):
        fused(dilated, layer)
