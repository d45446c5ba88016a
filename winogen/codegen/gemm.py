"""What the template of products of matrices knows of a kernel."""

from __future__ import annotations

from typing import Any

from winogen.codegen.context import tuned
from winogen.kernels.gemm import USES, GemmSpec

TITLE = "Product of matrices, blocked for caches and registers"


def context(spec: GemmSpec) -> dict[str, Any]:
    """Return what the template of a kernel knows."""
    known = tuned(spec, USES)
    fetched = known["prefetch"]
    # Packed rows of a are at hand, what streams is a itself, while it is packed; and panels of a
    # are too short for the next panel of b to be fetched meanwhile.
    operands = "`b`" if fetched["B"] else ""
    return {
        **known,
        "template": "kernels/gemm.c.j2",
        "title": [f"{TITLE}: {spec.precision.arrays}, {spec.target.name}."],
        "layout": "NHWC",  # of outputs: their columns lie side by side, as channels do
        "fetches_a": fetched["A"],
        "prefetch": {**fetched, "A": False, "next": False, "operands": operands},
        "halves": 0,
        "row_step": "LANES",
        "packed_sums": False,
        "panels_inside": False,
    }
