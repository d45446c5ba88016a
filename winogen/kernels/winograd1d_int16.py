"""2D convolution as a sum of 1D Winograd convolutions whose products are of int16."""

from __future__ import annotations

from winogen.kernels.integers_family import RegionsOfIntegers
from winogen.kernels.winograd1d import Winograd1d


class Winograd1dInt16(RegionsOfIntegers, Winograd1d):
    """The kernel's rows are the taps of the product; each has steps of its own."""

    name = "winograd1d_int16"
    title = "2D convolution as a sum of 1D Winograd convolutions, products of int16"
