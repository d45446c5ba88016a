"""2D convolution as a sum of 1D Winograd convolutions, one per row of the kernel."""

from __future__ import annotations

from typing import Any

from winogen.kernels.regions_family import Regions
from winogen.kernels.work import Work


class Winograd1d(Regions):
    """The height stays as it is, F(1, 1); the kernel's rows are the taps of the product."""

    name = "winograd1d"
    algorithm = "winograd1d"
    template = "winograd1d.c.j2"
    ranks = (2,)
    title = "2D convolution as a sum of 1D Winograd convolutions"
    along = (False, True)

    def taps_of(self, work: Work) -> int:
        return work.kernel[0]

    def lines(self, work: Work) -> Any:
        return (work.block[0] - 1) * work.stride[0] + work.kernel[0]

    def input_size(self, work: Work) -> tuple[Any, Any]:
        _, w = work.transforms
        return self.lines(work), (work.block[1] - 1) * w.step + w.n

    def rows_of_products(self, work: Work) -> tuple[Any, Any]:
        return work.block[1], work.images * work.block[0]
