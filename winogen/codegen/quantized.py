"""What the templates of convolutions of 8-bit integers know of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from winogen.codegen.context import Prefetches, ProductKernelContext, framed
from winogen.codegen.functions import FUNCTIONS
from winogen.kernels.quantized import VECTORS, QuantizedSpec
from winogen.records import PRODUCT_FORMATS

_TITLES = {
    "direct": "Direct convolution of 8-bit integers, register-blocked, filters in the lanes",
    "depthwise": "Depthwise convolution of 8-bit integers",
    "im2col": "Convolution of 8-bit integers, patches of kernel rows times filters (im2col)",
}


@dataclass(frozen=True, kw_only=True)
class QuantizedContext(ProductKernelContext, templates=("quantized*.c.j2",)):
    """What the templates of convolutions of bytes know of a kernel."""

    im2col: bool  # whether the strip holds patches
    depthwise: bool
    sums: bool  # whether outputs are sums in int32
    in_reals: bool  # whether sums become float32 before they are bytes
    dot: str  # the dot product of words
    what: str  # that in words
    together: int  # numbers of a word
    family: str  # of targets, whose intrinsics differ


def text(
    spec: QuantizedSpec, prefix: str, call: Mapping[str, Any] | None, alone: bool = False
) -> str:
    """Return the C of a kernel, see `winogen.codegen.render.render`."""
    depthwise = spec.algorithm == "depthwise"
    summing = "paired" if spec.dot.deep > 1 else "whole"
    outputs = "int32 sums" if spec.sums else "bytes by way of float32" if spec.in_reals else "bytes"
    return QuantizedContext(
        **framed(spec, prefix, call, alone=alone),
        title=[
            f"{_TITLES[spec.algorithm]}: {spec.layout},",
            f"{outputs}, {spec.target.name}, {spec.dot.what}.",
        ],
        tuning_of=spec.target.name,
        real="float",
        functions=FUNCTIONS["float"],
        layout=spec.layout,
        lanes=spec.lanes,
        block_sizes=[1 << i for i in range(spec.lanes.bit_length() - 1)],
        rows=spec.rows,
        vectors=VECTORS,
        im2col=spec.algorithm == "im2col",
        depthwise=depthwise,
        sums=spec.sums,
        in_reals=spec.in_reals,
        dot=spec.dot.name,
        what=spec.dot.what,
        together=spec.dot.together,
        integer="int32_t",
        format=replace(PRODUCT_FORMATS["bytes"], summing=summing),
        number="word",
        number_address="word_address",
        filter_address="word_address",
        flags=spec.target.flags,
        isa=spec.target.name,
        vector_bytes=spec.target.vector_bytes,
        prefetch=Prefetches(),
        row_step="LANES",
        packed_sums=True,
        family=spec.target.family,
    ).render(f"quantized{'_depthwise' if depthwise else ''}.c.j2")
