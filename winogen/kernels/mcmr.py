"""Multi-channel multi-region (batched GEMM) Winograd.

Of volumes the planes are transformed, each once per block, and products sum over the taps along the
depth.
"""

from __future__ import annotations

from typing import Any

from winogen.kernels.regions_family import Regions
from winogen.kernels.work import Work


class Mcmr(Regions):
    """All tiles of a block are the rows of one product per position."""

    name = "mcmr"
    algorithm = "mcmr"
    template = "mcmr.c.j2"
    ranks: tuple[int, ...] = (1, 2, 3)
    phases = ("all",)
    joins = True
    title = "Multi-channel multi-region (batched GEMM) Winograd convolution"

    def taps_of(self, work: Work) -> int:
        return work.deep_taps

    def images_read(self, work: Work) -> Any:
        return work.deep.planes(work.images) if work.deep else work.images

    def rows_of_products(self, work: Work) -> tuple[Any, Any]:
        tiles = work.block[0] * work.block[1]
        return (tiles, work.images) if work.deep else (work.images * tiles, 1)
