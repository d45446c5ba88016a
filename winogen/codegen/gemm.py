"""The C of the kernels that multiply matrices."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from winogen.codegen.functions import FUNCTIONS
from winogen.codegen.render import (
    GENERATED,
    numbers_and_vectors,
    prefetches,
    renderer_digest,
    tuning_lines,
)
from winogen.codegen.templates import environment
from winogen.kernels.gemm import USES, GemmSpec, declaration
from winogen.records import ACTIVATIONS

TITLE = "Product of matrices, blocked for caches and registers"


def render_gemm(
    spec: GemmSpec, prefix: str = "winogen", activations: Sequence[str] = tuple(ACTIVATIONS)
) -> str:
    """Return the C of a kernel: self-contained, its functions named ``prefix``_…

    It knows the ``activations`` that are named, by default all of them.
    """
    tuning, precision = spec.tuning, spec.precision
    # Packed rows of a are at hand, what streams is a itself, while it is packed; and panels of a
    # are too short for the next panel of b to be fetched meanwhile.
    fetched = prefetches(tuning, precision.real.itemsize)
    operands = "`b`" if fetched["B"] else ""
    prefetch = {**fetched, "A": False, "next": False, "operands": operands}
    text = (
        environment()
        .get_template("kernels/gemm.c.j2")
        .render(
            generated=GENERATED,
            title=[f"{TITLE}: {precision.arrays}, {spec.target.name}."],
            struct=declaration(),
            tuning=tuning_lines(tuning, USES),
            tuning_of=f"{spec.target.name}, {tuning.provenance}",
            prefix=prefix,
            layout="NHWC",  # of outputs: their columns lie side by side, as channels do
            activations=[ACTIVATIONS[name] for name in activations],
            functions=FUNCTIONS[precision.real.c],
            profile=False,
            **numbers_and_vectors(precision, spec.target),
            rows=tuning.rows,
            vectors=tuning.vectors,
            chains=tuning.chains,
            fetches_a=fetched["A"],
            prefetch=prefetch,
            halves=0,
            row_step="LANES",
            packed_sums=False,
        )
    )
    return str(text)


def gemm_cdef(spec: GemmSpec, prefix: str = "winogen") -> str:
    """Return the C declarations of a kernel library for cffi."""
    return f"""
{declaration()}
typedef struct {{
    const winogen_conv *p;
    const void *a, *b, *packed, *bias, *slopes;
    void *output, *workspace;
}} {prefix}_call;
size_t {prefix}_packed_bytes(const winogen_conv *p);
void {prefix}_pack(const winogen_conv *p, const void *b, void *packed, int threads);
size_t {prefix}_workspace_bytes(const winogen_conv *p, int threads);
void {prefix}_run_some(const {prefix}_call *c, int64_t first, int64_t last, int threads);
void {prefix}_run(const {prefix}_call *c, int threads);
"""


def gemm_recipe(spec: GemmSpec) -> str:
    """Return a digest of all that the text of a kernel is made of, for those who keep texts."""
    return hashlib.sha256(repr(("gemm", renderer_digest(), spec)).encode()).hexdigest()[:32]
