"""Convolution kernels: a `KernelSpec` says which, `render` writes its C.

A kernel takes all sizes at run time, so one compiled kernel serves every layer of its kind. The text
comes from the Jinja2 templates in ``csrc/``, one for each algorithm plus the parts that they share.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.codegen.targets import Target
from winogen.codegen.templates import environment
from winogen.codegen.transforms import Transform

# algorithm -> (template, what the first line of the C says)
ALGORITHMS = {
    "direct": ("direct.c.j2", "Direct convolution, register-blocked"),
    "im2col": ("direct.c.j2", "Convolution as patch matrix times filters (im2col + GEMM)"),
    "winograd2d": ("winograd2d.c.j2", "2D Winograd convolution, tile by tile"),
    "winograd1d": ("regions.c.j2", "2D convolution as a sum of 1D Winograd convolutions"),
    "mcmr": ("regions.c.j2", "Multi-channel multi-region (batched GEMM) Winograd convolution"),
}
WINOGRAD = ("winograd2d", "winograd1d", "mcmr")
BORDERS = ("unswitch", "buffer", "indirect")


@dataclass(frozen=True)
class KernelSpec:
    """One kind of kernel: everything that is fixed when its C is written.

    ``transform_h`` and ``transform_w`` are the 1D algorithms along the height and the width (None
    for direct and im2col; winograd1d needs F(1, 1) along the height). ``border`` says how tiles that
    touch the padding are made: "unswitch" (code by border class), "buffer" (padding is copied into a
    tile buffer), "indirect" (a table of pointers with a shared zero vector).
    ``register_rows`` x ``register_vectors`` accumulators make the GEMM's register block.
    """

    algorithm: str
    dtype: str  # "float32" | "float64"
    layout: str  # "NCHW" | "NHWC"
    target: Target
    transform_h: Transform | None = None
    transform_w: Transform | None = None
    border: str = "unswitch"
    register_rows: int = 0  # 0: `register_block` of the target
    register_vectors: int = 0
    profile: bool = False  # export `<prefix>_profile`, seconds per stage (one thread)


def register_block(target: Target) -> tuple[int, int]:
    """Return (rows, vectors) of the GEMM accumulator: all registers but those for one step's operands.

    >>> from winogen.codegen.targets import TARGETS
    >>> register_block(TARGETS["avx512"]), register_block(TARGETS["avx2"])
    ((14, 2), (6, 2))
    """
    return (14, 2) if target.registers >= 32 else (6, 2)


def cdef(dtype: str, prefix: str = "winogen", profile: bool = False) -> str:
    """Return the C declarations of a kernel library for cffi."""
    real = _REAL[dtype]
    fields = ", ".join(FIELDS)
    return f"""
typedef struct {{ int64_t {fields}; }} winogen_conv;
size_t {prefix}_packed_bytes(const winogen_conv *p);
void {prefix}_pack(const winogen_conv *p, const {real} *weight, {real} *packed, int threads);
size_t {prefix}_workspace_bytes(const winogen_conv *p, int threads);
void {prefix}_run(const winogen_conv *p, const {real} *input, const {real} *packed, const {real} *bias,
                  {real} *output, void *workspace, int threads);
{f"extern double {prefix}_profile[4];" if profile else ""}
"""


# Terms (for the Winograd algorithms: channels) that are summed in one chain before their sum is added
# to what came before. Half the length is about 0.7 of the error, and 3 to 6 % of the speed.
DEPTH = {"direct": 256, "im2col": 256, "winograd1d": 32, "mcmr": 32, "winograd2d": 16}
BAND = 8  # blocks of filters that one position goes through before the next
FEW = 8  # channels up to which winograd2d fills the lanes with tiles, in NHWC then with filters
TILES = 2  # tiles in the register block of winograd2d with filters in the lanes
# Bytes of outputs from which that stores past the caches: storing and then reading them took as long
# either way on 32 MiB of last cache, storing alone three quarters of the time.
PAST_CACHES = 10 << 20
_NARROW = {"NCHW": "pixel_lanes", "NHWC": "group_lanes"}
_REAL = {"float32": "float", "float64": "double"}
# The struct winogen_conv of csrc/problem.h.j2, in order.
FIELDS = (
    *("batch", "groups", "channels", "filters", "height", "width", "out_height", "out_width"),
    *("kernel_height", "kernel_width", "stride_h", "stride_w", "dilation_h", "dilation_w"),
    *("pad_top", "pad_left", "padding_mode", "row_begin", "row_end", "col_begin", "col_end"),
    *("relu", "block_rows", "block_cols", "split"),
)


def render(spec: KernelSpec, prefix: str = "winogen") -> str:
    """Return the C of a kernel: self-contained, its four functions named ``prefix``_…

    >>> from winogen.codegen.targets import TARGETS
    >>> text = render(KernelSpec("direct", "float32", "NCHW", TARGETS["generic"]), "layer")
    >>> "size_t layer_workspace_bytes(const winogen_conv *p, int threads)" in text
    True
    """
    template, title = ALGORITHMS[spec.algorithm]
    rows, vectors = register_block(spec.target)
    lanes = spec.target.lanes(spec.dtype)
    height, width = _view(spec.transform_h), _view(spec.transform_w)
    return (
        environment()
        .get_template(template)
        .render(
            algorithm=spec.algorithm,
            title=title + (f": {height['title']} x {width['title']}" if height else ""),
            prefix=prefix,
            layout=spec.layout,
            border=spec.border,
            block_unit="tiles" if height else "output pixels",
            real=_REAL[spec.dtype],
            integer={"float32": "int32_t", "float64": "int64_t"}[spec.dtype],
            vector_bytes=spec.target.vector_bytes,
            lanes=lanes,
            block_sizes=[1 << i for i in range(lanes.bit_length() - 1)],
            masked={"float32": "ps", "float64": "pd"}[spec.dtype]
            if spec.target.name == "avx512"
            else "",
            register={"float32": "__m512", "float64": "__m512d"}[spec.dtype],
            profile=spec.profile,
            prefetch=8192 // spec.target.vector_bytes * lanes,
            rows=spec.register_rows or rows,
            vectors=spec.register_vectors or vectors,
            # Tiles keep the LANES channels of a row together; a strip in NCHW keeps the pixels together.
            # The second way of direct convolution, for groups too narrow to fill the lanes with filters.
            narrow=_NARROW[spec.layout] if spec.algorithm == "direct" else "",
            pixel_rows=spec.register_rows or rows,
            row_step=1 if spec.layout == "NCHW" and not height else lanes,
            H=height,
            W=width,
            P=height["products"] * width["products"] if height else 0,
            transforms=_distinct(height, width),
            depth=DEPTH[spec.algorithm],
            band=BAND,
            few=FEW,
            tiles=TILES,
            past_caches=PAST_CACHES,
            # Zipping the halves of 2^k rows k times interleaves them.
            interleavings=range(width["m"].bit_length() - 1) if width else (),
        )
    )


def _view(transform: Transform | None) -> dict | None:
    if transform is None:
        return None
    what = f"on {{{', '.join(transform.points)}}}"
    if transform.moduli:
        what = f"modulo {{{', '.join(transform.moduli)}}}"
    return {
        "title": f"F({transform.m}, {transform.r}) {what}",
        "function": f"winogen_{transform.name}",
        "g": [[repr(float(x)) for x in row] for row in transform.g],
        **{key: getattr(transform, key) for key in ("m", "r", "n", "products", "header")},
    }


def _distinct(height, width) -> list:
    if height is None:
        return []
    return [height] if height["function"] == width["function"] else [height, width]
