"""Direct convolution of few filters in NHWC: channels, or channels of some filters, in the lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family
from winogen.kernels.geometry import STRIP_FIELDS, strip_pitches, strip_size
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning

_RUN = 2  # vectors' worth of pixels whose sums exist at a time: RUN of the template
_MEASURED = "measured on Intel Xeon (Emerald Rapids), 2026-11"
# Cycles to add up the lanes of a vector: two shuffles and an addition.
_ADDED = 2.5
# What it may take, of the cycles with filters in the lanes, to be worth it.
_WORTH = 0.85


class FewFilters(Variant):
    """Register blocks of output pixels x vectors of filters; lanes are added at the end."""

    name = "few_filters"
    algorithm = "direct"
    template = "few_filters.c.j2"
    title = "Direct convolution of few filters, channels in the lanes"
    uses = ("rows", "vectors")
    buffers_used = {
        "strip": "padded input below a block",
        "sum": "sums of a run of pixels",
        "bias": "what sums begin with",
        "tap": "where the taps begin",
    }
    fields_used = STRIP_FIELDS

    def applies(self, work: Work) -> bool:
        if work.layout != "NHWC" or work.filters > work.lanes or work.channels == 1:
            return False
        usual = blocks(work.filters, work.lanes) * work.channels * work.taps / 2
        return _cycles(work, together(work)) <= _WORTH * usual

    def fixed(self, work: Work) -> dict[str, int]:
        return {"together": together(work)}

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        wide = target.registers >= 32
        return Tuning(_MEASURED, rows=24 if wide else 12, vectors=4 if wide else 3)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar=False)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size = work.lanes, work.itemsize
        strip = blocks(work.channels, lanes) * self.fields(work)["strip_plane"]
        vectors = filter_vectors(work)
        run = np.minimum(work.block[1], _RUN * lanes)
        return {
            # Of the last channels and of the last sums, whole vectors are read.
            "strip": Buffer((strip + lanes) * size),
            "sum": Buffer((run * vectors + together(work)) * lanes * size),
            "bias": Buffer(vectors * lanes * size),
            "tap": Buffer(work.taps * 8),
        }

    def packed_numbers(self, work: Work) -> int:
        steps = blocks(work.channels, together(work)) * work.taps
        return work.groups * filter_vectors(work) * steps * work.lanes

    def depth(self, work: Work) -> int:
        # A lane sums some of the channels only.
        terms = work.taps * work.lanes // together(work)
        return work.lanes * max(1, work.tuning.depth // terms)

    def lanes_used(self, work: Work) -> float:
        """Return the part of the lanes that multiply a filter by a channel."""
        steps = blocks(work.channels, together(work))
        return work.filters * work.channels / (filter_vectors(work) * steps * work.lanes)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, (rows, cols) = machine.costs, work.block
        share, _ = cost.busiest(work)
        input_, _ = pixels_family.fill(work, machine, work.padded_channels)
        vectors = filter_vectors(work)
        width = blocks(vectors, blocks(vectors, work.tuning.vectors))
        high = np.minimum(cols, work.tuning.rows // width)
        step = np.maximum(high * width / 2, (high + width) / costs.loads)
        step = np.maximum(step, costs.latency)
        steps = blocks(work.channels, together(work)) * work.taps
        panel = steps * step + costs.call(1) + high * width * (costs.sum(1) + _ADDED)
        arithmetic = rows * blocks(cols, high) * blocks(vectors, width) * panel
        product = share * pixels_family.multiply(work, machine, arithmetic)
        stores = share * pixels_family.block_written(work, machine, False)
        return pixels_family.stored_meanwhile(machine, share * input_, product, stores)


def filter_vectors(work: Work) -> int:
    """Vectors of the filters of a group: each is some filters times some channels."""
    return blocks(work.filters * together(work), work.lanes)


def together(work: Work) -> int:
    """Return how many channels a filter has in a vector: what takes the fewest cycles."""
    sizes = [1 << power for power in range(1, work.lanes.bit_length())]
    return min(reversed(sizes), key=lambda size: _cycles(work, size))


def _cycles(work: Work, size: int) -> float:
    """Cycles of an output pixel with ``size`` channels of a filter in a vector."""
    vectors = blocks(work.filters * size, work.lanes)
    steps = blocks(work.channels, size) * work.taps
    # Each pixel is loaded for every step; filters for many pixels.
    step = max(vectors / 2, 0.5 + vectors / 16)
    return steps * step + _ADDED * vectors
