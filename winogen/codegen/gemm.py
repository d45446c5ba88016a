"""What the template of products of matrices knows of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from winogen.codegen.context import RealKernelContext, framed, tuned
from winogen.kernels.gemm import USES, GemmSpec

TITLE = "Product of matrices, blocked for caches and registers"


@dataclass(frozen=True, kw_only=True)
class ProductContext(RealKernelContext, templates=("gemm.c.j2",)):
    """What the template of products of matrices knows of a kernel."""

    fetches_a: bool  # whether a is fetched ahead while it is packed


def text(spec: GemmSpec, prefix: str, call: Mapping[str, Any] | None, alone: bool = False) -> str:
    """Return the C of a kernel, see `winogen.codegen.render.render`."""
    known = tuned(spec, USES)
    fetched = known.pop("prefetch")
    # Packed rows of a are at hand, what streams is a itself, while it is packed; and panels of a
    # are too short for the next panel of b to be fetched meanwhile.
    operands = "`b`" if fetched.B else ""
    precision, target = spec.precision, spec.target
    return ProductContext(
        **framed(spec, prefix, call, narrow=precision.narrow, flushes=target.flushes, alone=alone),
        **known,
        title=[f"{TITLE}: {precision.arrays}, {target.name}."],
        layout="NHWC",  # their columns lie side by side, as channels do
        fetches_a=fetched.A,
        prefetch=replace(fetched, A=False, next=False, operands=operands),
        row_step="LANES",
        packed_sums=False,
        panels_inside=False,
        single_tap=True,
        matrices=True,
    ).render()
