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
    # To begin writing the filters of one pixel, whose place is far from that of the pixel before.
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
    # Per tap and vector of a depthwise layer.
    depthwise: float = 1.05
    # How much longer columns of few products take than their multiply-adds: each ends in a
    # transform.
    delays: float = 1.5
    # What other data pass by between two uses needs this many times its size to stay in a cache.
    displaced: float = 2

    def call(self, chains: int) -> float:
        """Cycles to enter and leave the micro-kernel."""
        return self.call_of_two if chains > 1 else self.call_of_one

    def sum(self, chains: int) -> float:
        """Cycles per sum that the micro-kernel loads, adds and stores."""
        return self.sum_of_two if chains > 1 else self.sum_of_one
