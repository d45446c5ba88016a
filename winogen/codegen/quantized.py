"""The C of the kernels that convolve 8-bit integers."""

from __future__ import annotations

import hashlib

from winogen.codegen.render import GENERATED, renderer_digest
from winogen.codegen.templates import environment
from winogen.kernels.quantized import VECTORS, QuantizedSpec, declaration

_TITLES = {
    "direct": "Direct convolution of 8-bit integers, register-blocked, filters in the lanes",
    "depthwise": "Depthwise convolution of 8-bit integers",
    "im2col": "Convolution of 8-bit integers, patches of kernel rows times filters (im2col)",
}


def render_quantized(spec: QuantizedSpec, prefix: str = "winogen") -> str:
    """Return the C of a kernel: self-contained, its functions named ``prefix``_…"""
    depthwise = spec.algorithm == "depthwise"
    outputs = "int32 sums" if spec.sums else "bytes"
    text = (
        environment()
        .get_template(f"quantized{'_depthwise' if depthwise else ''}.c.j2")
        .render(
            generated=GENERATED,
            title=[
                f"{_TITLES[spec.algorithm]}: {spec.layout},",
                f"{outputs}, {spec.target.name}, {spec.dot.what}.",
            ],
            struct=declaration(),
            tuning_of=spec.target.name,
            prefix=prefix,
            profile=False,
            flushes=False,
            narrow=False,
            layout=spec.layout,
            im2col=spec.algorithm == "im2col",
            sums=spec.sums,
            lanes=spec.lanes,
            block_sizes=[1 << i for i in range(spec.lanes.bit_length() - 1)],
            rows=spec.rows,
            vectors=VECTORS,
            dot=spec.dot.name,
            x86=spec.target.name in ("avx512", "avx2", "sse2"),
            arm=spec.target.name == "neon",
            depthwise=depthwise,
            what=spec.dot.what,
            together=spec.dot.together,
        )
    )
    return str(text)


def quantized_cdef(spec: QuantizedSpec, prefix: str = "winogen") -> str:
    """Return the C declarations of a kernel library for cffi."""
    return f"""
{declaration()}
typedef struct {{
    const winogen_conv *p;
    const void *input, *packed;
    void *output, *workspace;
}} {prefix}_call;
size_t {prefix}_packed_bytes(const winogen_conv *p);
void {prefix}_pack(const winogen_conv *p, const void *weight, const void *zero, const void *bias,
                   const void *multiplier, void *packed, int threads);
size_t {prefix}_workspace_bytes(const winogen_conv *p, int threads);
void {prefix}_part(const {prefix}_call *c, int64_t phase, int64_t part, int64_t member);
void {prefix}_run_some(const {prefix}_call *c, int64_t first, int64_t last, int threads);
void {prefix}_run(const {prefix}_call *c, int threads);
"""


def quantized_recipe(spec: QuantizedSpec) -> str:
    """Return a digest of all that the text of a kernel is made of, for those who keep texts."""
    return hashlib.sha256(repr(("quantized", renderer_digest(), spec)).encode()).hexdigest()[:32]
