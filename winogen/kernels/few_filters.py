"""Direct convolution of few filters in NHWC, channels in the lanes: of a filter, or of some."""

from __future__ import annotations

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family
from winogen.kernels.count import Demand, PanelProduct, Stages, of_buffer, panels
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, even, round_up
from winogen.records import Machine, Precision, Target, Tuning, costs_of

_RUN = 2  # vectors' worth of pixels whose sums exist at a time: RUN of the template
_MOST = 12  # pixels at once: MOST of the template
_MEASURED = "measured on Intel Xeon (Emerald Rapids), 2026-11"
_ADDING = 3  # instructions that add up the lanes of a vector
# What it may take, of the cycles with filters in the lanes, to be worth it.
_WORTH = 0.85


class FewFilters(Variant):
    """Register blocks of output pixels x vectors of filters; lanes are added at the end."""

    name = "few_filters"
    algorithm = "direct"
    template = "few_filters.c.j2"
    title = "Direct convolution of few filters, channels in the lanes"
    uses = ("pixels", "vectors")
    buffers_used = {
        "window": "Padded input below a run of pixels.",
        "sum": "Sums of a run of pixels.",
        "bias": "What sums begin with.",
        "tap": "Taps of the image, then of the window.",
    }

    def applies(self, work: Work) -> bool:
        return fills_lanes(work)

    def fixed(self, work: Work) -> dict[str, int]:
        return {"together": together(work)}

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        wide = target.registers >= 32
        return Tuning(_MEASURED, pixels=12 if wide else 6, vectors=4 if wide else 3)

    def registers(self, tuning: Tuning) -> int:
        widths = range(1, tuning.vectors + 1)
        return max((self.pixels_at_once(tuning, width) + 1) * width + 1 for width in widths)

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        return 2 * tuning.pixels >= tuning.vectors

    def pixels_at_once(self, tuning: Tuning, vectors: int) -> int:
        """Return how many pixels meet so many vectors of filters in a register block."""
        return min(_MOST, 2 * tuning.pixels // vectors)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size, size_of = work.lanes, work.itemsize, together(work)
        vectors = filter_vectors(work)
        run = np.minimum(work.block[1], _RUN * lanes)
        cols = (run - 1) * work.stride[1] + (work.kernel[1] - 1) * work.dilation[1] + 1
        return {
            "window": Buffer(work.kernel[0] * cols * round_up(work.channels, size_of) * size),
            # Lanes are added for `together` vectors at a time.
            "sum": Buffer((run * vectors + size_of) * lanes * size),
            "bias": Buffer(vectors * lanes * size),
            "tap": Buffer(2 * work.taps * 8),
        }

    def unit(self, work: Work) -> tuple[int, int, int]:
        return 1, _RUN * work.lanes, work.filters

    def packed_numbers(self, work: Work) -> int:
        steps = blocks(work.channels, together(work)) * work.taps
        return work.groups * filter_vectors(work) * steps * work.lanes

    def depth(self, work: Work) -> int:
        """Taps whose channels are summed before they join the other sums."""
        return max(1, work.tuning.depth // blocks(work.channels, together(work)))

    def lanes_used(self, work: Work) -> float:
        """Return the part of the lanes that multiply a filter by a channel."""
        steps = blocks(work.channels, together(work))
        return work.filters * work.channels / (filter_vectors(work) * steps * work.lanes)

    def count(self, work: Work) -> Stages:
        rows, cols = work.block
        window = self.buffers(work)["window"]
        channels = round_up(work.channels, together(work))
        # What lies in the image is read there.
        copied = self._copied(work) * rows * cols * work.kernel[0] * channels * work.itemsize
        into = Demand(moves=(of_buffer("window", copied, window, writes=True),))
        moves = (
            *pixels_family.moved(work, self.packed_bytes(work), {}),
            of_buffer("window", copied, window),
        )
        product = self.product(work)
        return into, product.demand(pixels_family.multiplications(work), moves), Demand()

    def product(self, work: Work) -> PanelProduct:
        """Count the product of a block."""
        (rows, cols), vectors = work.block, filter_vectors(work)
        width = even(vectors, work.tuning.vectors)
        high = np.minimum(cols, self.pixels_at_once(work.tuning, width))
        depth = blocks(work.channels, together(work)) * work.taps
        return PanelProduct(panels(cols, high, vectors, width), depth, times=rows, ends=_ADDING)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, total = machine.costs, 0.0
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        counted = multiply.product
        for panel in counted.panels:
            sums = panel.sums * (costs.sum(1) + costs.lanes_added)
            step = counted.depth * cost.step(machine, panel)
            total = total + panel.times * (step + costs.call(1) + sums)
        # What lies in the image arrives meanwhile.
        product = cost.roof(
            pixels_family.multiply(work, machine, multiply, counted.times * total),
            pixels_family.fetched(work, machine, multiply),
            costs.streamed,
        )
        input_ = 2 * into.bytes("window", writes=True) / machine.l2_rate
        stores = pixels_family.block_written(work, machine, multiply, False)
        return pixels_family.stored_meanwhile(
            machine, share * input_, share * product, share * stores
        )

    def _copied(self, work: Work) -> float:
        """The copied part of the pixels: the rim, or all."""
        if work.channels % together(work) or work.precision.narrow:
            return 1.0
        kept = 1.0
        for axis in (0, 1):
            rim = blocks((work.kernel[axis] - 1) * work.dilation[axis], work.stride[axis])
            kept *= max(0.0, 1 - rim / work.output_size[axis])
        return 1 - kept


def fills_lanes(work: Work) -> bool:
    """Whether channels fill the lanes so much better than filters that it is worth adding lanes."""
    if work.layout != "NHWC" or work.filters > work.lanes or work.channels == 1:
        return False
    usual = blocks(work.filters, work.lanes) * work.channels * work.taps / 2
    return _cycles(work, together(work)) <= _WORTH * usual


def filter_vectors(work: Work) -> int:
    """Vectors of the filters of a group: each is some filters times some channels."""
    return blocks(work.filters * together(work), work.lanes)


def together(work: Work) -> int:
    """Return how many channels a filter has in a vector: what takes the fewest cycles."""
    sizes = [1 << power for power in range(1, work.lanes.bit_length())]
    return min(reversed(sizes), key=lambda size: _cycles(work, size))


def _cycles(work: Work, size: int) -> float:
    """Cycles of an output pixel with ``size`` channels of a filter in a vector.

    They decide which kernel is compiled, and so do not depend on what was fitted.
    """
    vectors = blocks(work.filters * size, work.lanes)
    steps = blocks(work.channels, size) * work.taps
    # Each pixel is loaded for every step; filters for many pixels.
    step = max(vectors / 2, 0.5 + vectors / 16)
    return steps * step + costs_of(work.target.core).lanes_added * vectors
