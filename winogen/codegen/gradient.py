"""What the template of gradients of weights knows of a kernel, and the transforms that it uses.

The gradient of the weights of F(m, r) is F(r, m) with the matrices at hand, see
`BilinearAlgorithm.exchange`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from winogen.codegen.context import (
    RealKernelContext,
    TransformContext,
    distinct,
    framed,
    title_of,
    tuned,
    view,
)
from winogen.codegen.transform import Transform
from winogen.codegen.transforms import from_algorithm
from winogen.kernels.weight_gradient import FINISHED, USES, GradientSpec
from winogen.program.kinds import KINDS

TITLE = "Gradient of the weights of a convolution by Winograd's algorithms"


@lru_cache(maxsize=256)
def gradient_of(transform: Transform) -> Transform:
    """Return F(r, m) for the gradient of the weights of F(m, r): proven, shortened and rendered.

    All scales stay where ``transform`` has them. It has moved what it could into G, and G^T is
    applied once, to sums over all tiles.

    >>> from winogen.codegen.transforms import load
    >>> t = gradient_of(load(2, 3))
    >>> t.name, t.m, t.r, t.bt == load(2, 3).bt, t.instructions
    ('f2_3_gradient', 3, 2, True, (4, 2, 4))
    """
    from winogen.algebra import BilinearAlgorithm

    data = {"m": transform.m, "r": transform.r, "points": transform.points}
    data |= {"AT": transform.at, "G": transform.g, "BT": transform.bt}
    if transform.moduli:
        data["moduli"] = transform.moduli
    algorithm = BilinearAlgorithm.from_dict(data).exchange()
    return from_algorithm(
        algorithm,
        f"{transform.name}_gradient",
        source=f"F({transform.m}, {transform.r}) with filter and outputs exchanged; "
        + transform.source,
        command=f"winogen.codegen.gradient.gradient_of({transform.name})",
        scale=False,
    )


@dataclass(frozen=True, kw_only=True)
class GradientContext(RealKernelContext, templates=("weight_gradient.c.j2",)):
    """What the template of gradients of weights knows of a kernel."""

    finished: int  # filters whose sums over all tiles are transformed together
    H: TransformContext | None
    W: TransformContext | None
    transforms: Sequence[TransformContext]  # along height and width, each once


def text(
    spec: GradientSpec, prefix: str, call: Mapping[str, Any] | None, alone: bool = False
) -> str:
    """Return the C of a kernel, see `winogen.codegen.render.render`."""
    height, width = (view(gradient_of(t), *KINDS) for t in spec.transforms)
    return GradientContext(
        **framed(
            spec,
            prefix,
            call,
            narrow=spec.precision.narrow,
            flushes=spec.target.flushes,
            alone=alone,
        ),
        **tuned(spec, USES),
        title=title_of(TITLE, spec, height, width),
        finished=FINISHED,
        layout=spec.layout,
        row_step="1",
        packed_sums=True,
        panels_inside=False,
        H=height,
        W=width,
        transforms=distinct(height, width),
    ).render()
