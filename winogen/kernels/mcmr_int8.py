"""Multi-channel multi-region Winograd convolution whose products are of int8."""

from __future__ import annotations

from winogen.kernels.integers_family import RegionsOfIntegers
from winogen.kernels.mcmr import Mcmr
from winogen.kernels.work import Work, blocks


class McmrInt8(RegionsOfIntegers, Mcmr):
    """Bytes, four channels to a word: a chunk fills a vector of 64 bytes."""

    name = "mcmr_int8"
    formats = ("int8",)
    word, chunk = 4, 64
    ranks = (1, 2)
    joins = False
    title = "Multi-channel multi-region Winograd convolution, products of int8"

    def rows_beside(self, work: Work) -> int:
        # Sums of products of unsigned bytes begin with what is too much in them.
        return super().rows_beside(work) + self.taps_of(work) * int(
            blocks(work.channels, self.chunk)
        )
