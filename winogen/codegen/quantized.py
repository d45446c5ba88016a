"""What the templates of convolutions of 8-bit integers know of a kernel."""

from __future__ import annotations

from typing import Any

from winogen.codegen.functions import FUNCTIONS
from winogen.kernels.quantized import VECTORS, QuantizedSpec

_TITLES = {
    "direct": "Direct convolution of 8-bit integers, register-blocked, filters in the lanes",
    "depthwise": "Depthwise convolution of 8-bit integers",
    "im2col": "Convolution of 8-bit integers, patches of kernel rows times filters (im2col)",
}


def context(spec: QuantizedSpec) -> dict[str, Any]:
    """Return what the templates of a kernel know."""
    depthwise = spec.algorithm == "depthwise"
    outputs = "int32 sums" if spec.sums else "bytes by way of float32" if spec.in_reals else "bytes"
    return {
        "template": f"quantized{'_depthwise' if depthwise else ''}.c.j2",
        "title": [
            f"{_TITLES[spec.algorithm]}: {spec.layout},",
            f"{outputs}, {spec.target.name}, {spec.dot.what}.",
        ],
        "tuning_of": spec.target.name,
        "flushes": False,
        "narrow": False,
        "layout": spec.layout,
        "im2col": spec.algorithm == "im2col",
        "sums": spec.sums,
        "in_reals": spec.in_reals,
        "functions": FUNCTIONS["float"],
        "lanes": spec.lanes,
        "block_sizes": [1 << i for i in range(spec.lanes.bit_length() - 1)],
        "rows": spec.rows,
        "vectors": VECTORS,
        "dot": spec.dot.name,
        "x86": spec.target.family == "x86",
        "arm": spec.target.family == "arm",
        "wasm": spec.target.family == "wasm",
        "depthwise": depthwise,
        "what": spec.dot.what,
        "deep": spec.dot.deep,
        "together": spec.dot.together,
    }
