"""The C of the kernels for gradients of weights, and the transforms that they use.

The gradient of the weights of F(m, r) is F(r, m) with the matrices at hand, see
`BilinearAlgorithm.exchange`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache

from winogen.codegen.render import (
    GENERATED,
    numbers_and_vectors,
    prefetches,
    renderer_digest,
    title_of,
    tuning_lines,
    view,
)
from winogen.codegen.templates import environment
from winogen.codegen.transforms import Transform, from_algorithm
from winogen.kernels.weight_gradient import FINISHED, USES, GradientSpec, declaration

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


def render_gradient(spec: GradientSpec, prefix: str = "winogen") -> str:
    """Return the C of a kernel: self-contained, its functions named ``prefix``_…"""
    tuning = spec.tuning
    height, width = (view(gradient_of(t)) for t in (spec.transform_h, spec.transform_w))
    assert height is not None and width is not None
    same = height["function"] == width["function"]
    text = (
        environment()
        .get_template("weight_gradient.c.j2")
        .render(
            generated=GENERATED,
            title=title_of(TITLE, spec, height, width),
            struct=declaration(),
            tuning=tuning_lines(tuning, USES),
            tuning_of=f"{spec.target.name}, {tuning.provenance}",
            prefix=prefix,
            finished=FINISHED,
            layout=spec.layout,
            profile=False,
            **numbers_and_vectors(spec.precision, spec.target),
            rows=tuning.rows,
            vectors=tuning.vectors,
            chains=tuning.chains,
            prefetch=prefetches(tuning, spec.precision.real.itemsize),
            halves=0,
            row_step="1",
            packed_sums=True,
            H=height,
            W=width,
            transforms=[height] if same else [height, width],
        )
    )
    return str(text)


def gradient_cdef(spec: GradientSpec, prefix: str = "winogen") -> str:
    """Return the C declarations of a kernel library for cffi."""
    return f"""
{declaration()}
typedef struct {{
    const winogen_conv *p;
    const void *input, *grad_output;
    void *grad_weight, *workspace;
}} {prefix}_call;
void {prefix}_run_some(const {prefix}_call *c, int64_t first, int64_t last, int threads);
void {prefix}_run(const {prefix}_call *c, int threads);
"""


def gradient_recipe(spec: GradientSpec) -> str:
    """Return a digest of all that the text of a kernel is made of, for those who keep texts."""
    plain = replace(spec, transform_h=spec.transform_h.header, transform_w=spec.transform_w.header)
    return hashlib.sha256(repr(("gradient", renderer_digest(), plain)).encode()).hexdigest()[:32]
