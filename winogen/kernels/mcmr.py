"""Multi-channel multi-region (batched GEMM) Winograd."""

from __future__ import annotations

from typing import Any

from winogen.kernels.regions_family import Regions
from winogen.kernels.work import Work


class Mcmr(Regions):
    """All tiles of a block are the rows of one product per position."""

    name = "mcmr"
    algorithm = "mcmr"
    template = "mcmr.c.j2"
    title = "Multi-channel multi-region (batched GEMM) Winograd convolution"

    def rows_of_products(self, work: Work) -> tuple[Any, Any]:
        return work.images * work.block[0] * work.block[1], 1
