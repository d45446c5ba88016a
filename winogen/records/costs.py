"""The constants that the model of the kernels counts with, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Cycles of one core per event; the default serves machines that were never fitted.

    ``winogen calibrate`` fits them anew. ``residual`` is the median of |log(predicted /
    measured)| over the calls that they were fitted to.
    """

    provenance: str = "by hand, AMD EPYC (Zen 4, AVX-512), gcc 12, 2026-11"
    residual: float = 0.09
    # The part of the faster of arithmetic and traffic that is not hidden behind the slower: between
    # a stage and its data, and where nothing but outputs stream past.
    shows: float = 0.28
    streamed: float = 0.15
    # To enter and leave the micro-kernel, and per sum that it loads, adds and stores; with two
    # chains per sum both hide behind each other's latency.
    call_of_one: float = 20
    call_of_two: float = 4
    sum_of_one: float = 1.0
    sum_of_two: float = 0.3
    # To begin writing the filters of one pixel, far in memory from the pixel before.
    run: float = 10
    # Per instruction of a transform (additions and multiply-adds may run side by side), per vector
    # that it stores, and per pixel and halving step of a transposition.
    instruction: float = 0.39
    store: float = 0.84
    arrange: float = 0.78
    # That threads wait for each other.
    barrier: float = 1000
    # Latency of an FMA: with fewer accumulators than this times its rate, a step takes this long.
    latency: float = 4
    # A step's loads, two a cycle, besides the FMAs.
    loads: float = 2.8
    # Per tap and vector of a depthwise layer without a micro-kernel of its own.
    depthwise: float = 1.05
    # How much longer columns of few products take than their multiply-adds: each ends in a
    # transform.
    delays: float = 1.5
    # To add up the lanes of a vector of sums: two shuffles and an addition. Measured on an Intel
    # Xeon (Emerald Rapids), 2026-11, like the constants of float16 and of gradients that follow.
    lanes_added: float = 2.5
    # Products of float16: cycles to begin with a tap of a chunk of channels. A finished sum counts
    # as so many sums of float32, since it makes two and each is scaled; an output counts as so many
    # stores, since its sums are read and scaled twice.
    half_tap: float = 6
    half_sum: float = 4
    half_store: float = 3
    # Gradients of the weights: cycles per vector that a transform stores, each far from the last;
    # the time of a product over its multiply-adds at full rate; cycles per byte of finished sums.
    gradient_store: float = 10
    gradient_product: float = 1.25
    gradient_sum: float = 0.3
    # Convolutions of bytes: cycles per vector of words that is brought to where it is multiplied,
    # and for its transposition where channels do not lie side by side; the time of a product over
    # its multiply-adds at full rate, of which an addition behind vpmaddwd is such a part; per tap
    # and vector of a depthwise layer, its filters included; per vector of sums that becomes
    # outputs. Fitted to 128 calls on AMD EPYC (AVX-512 and AVX2, with VNNI and without), gcc 12,
    # 2026-11.
    byte_fill: float = 3
    byte_turn: float = 8.6
    byte_product: float = 1.1
    byte_add: float = 0.06
    byte_depthwise: float = 0.74
    byte_sum: float = 5
    # Of tiles of AMX: throughput and latency of a product of two (TDPBUSD), throughput of a load;
    # assumed. A store counts with the sums that are read at once. These are what makes tiles pay
    # from six words of a sum on, not from four: measured on Intel Xeon (Emerald Rapids), 2026-11.
    tile_product: float = 16
    tile_latency: float = 52
    tile_load: float = 8
    tile_store: float = 64
    # What other data pass by between two uses needs this many times its size to stay in a cache.
    displaced: float = 2
    # The same of filters, from one call to the next.
    filters_displaced: float = 2

    def call(self, chains: int) -> float:
        """Cycles to enter and leave the micro-kernel."""
        return self.call_of_two if chains > 1 else self.call_of_one

    def sum(self, chains: int) -> float:
        """Cycles per sum that the micro-kernel loads, adds and stores."""
        return self.sum_of_two if chains > 1 else self.sum_of_one


# By micro-architecture, as archspec names it; all others count with the default.
COSTS = {
    "skylake_avx512": Costs(
        provenance="fitted to 78 calls on Intel Xeon (Emerald Rapids, AVX-512), gcc 12, 2026-11",
        residual=0.07,
        shows=0.2,
        streamed=0.12,
        call_of_one=26,
        sum_of_one=1.8,
        # Not fitted, but the least: the two units of 512 bits both add and multiply.
        instruction=0.5,
        store=1.6,
        arrange=1.7,
        latency=4.4,
        loads=2,
        depthwise=1.5,
        delays=1.8,
        byte_add=1,  # likewise
    )
}


def costs_of(core: str) -> Costs:
    """Return what a micro-architecture counts with until it is fitted.

    >>> costs_of("skylake_avx512").store > costs_of("").store
    True
    """
    return COSTS.get(core, Costs())
