"""Multi-channel multi-region Winograd convolution whose products are of int16."""

from __future__ import annotations

from winogen.kernels.integers_family import RegionsOfIntegers
from winogen.kernels.mcmr import Mcmr


class McmrInt16(RegionsOfIntegers, Mcmr):
    """All tiles of a block are the rows of one product of integers per position."""

    name = "mcmr_int16"
    ranks = (1, 2)
    joins = False
    title = "Multi-channel multi-region Winograd convolution, products of int16"
