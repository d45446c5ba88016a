"""Convolution kernels: a `KernelSpec` says which, `render` writes its C.

A kernel takes all sizes at run time, so one compiled kernel serves every layer of its kind. The text
comes from the Jinja2 templates in ``csrc/``, one for each algorithm plus the parts that they share.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from winogen import resources
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
REGIONS = ("winograd1d", "mcmr")  # whose GEMM goes over many channels at once
BORDERS = ("unswitch", "buffer", "indirect")


class RegisterBlock(NamedTuple):
    """The accumulators of the GEMM: rows x vectors sums, each in ``chains`` chains of additions."""

    rows: int
    vectors: int
    chains: int


@dataclass(frozen=True)
class KernelSpec:
    """One kind of kernel: everything that is fixed when its C is written.

    ``transform_h`` and ``transform_w`` are the 1D algorithms along the height and the width (None
    for direct and im2col; winograd1d needs F(1, 1) along the height). ``border`` says how tiles that
    touch the padding are made: "unswitch" (code by border class), "buffer" (padding is copied into a
    tile buffer), "indirect" (a table of pointers with a shared zero vector).
    """

    algorithm: str
    dtype: str  # "float32" | "float64"
    layout: str  # "NCHW" | "NHWC"
    target: Target
    transform_h: Transform | None = None
    transform_w: Transform | None = None
    border: str = "unswitch"
    block: RegisterBlock | None = None  # None: `register_block` of the target
    halves: bool = False  # another micro-kernel for up to half a vector of filters (of REGIONS)
    profile: bool = False  # export `<prefix>_profile`, seconds per stage (one thread)


def register_block(target: Target, algorithm: str) -> RegisterBlock:
    """Return the accumulators of the GEMM: all registers but those for one step's operands.

    Where an FMA broadcasts one operand from memory by itself (AVX-512), a second set of registers
    need not save loads: a second chain saves stores, of which regions have many, and rounding.

    >>> from winogen.codegen.targets import TARGETS
    >>> register_block(TARGETS["avx512"], "mcmr"), register_block(TARGETS["avx2"], "mcmr")
    (RegisterBlock(rows=14, vectors=1, chains=2), RegisterBlock(rows=6, vectors=2, chains=1))
    """
    if target.broadcasts and algorithm in REGIONS:
        return RegisterBlock(14, 1, 2)
    return RegisterBlock(14 if target.registers >= 32 else 6, 2, 1)


def plane_rows(target: Target) -> int:
    """Return the filters of the register block of PLANE_VECTORS vectors: a divisor of packed ones."""
    return 8 if target.registers >= 32 and target.vector_bytes >= 64 else 4


def leaves_half(target: Target, algorithm: str, filters: int, lanes: int) -> bool:
    """Whether the last filters of a group fill at most half of the lanes, and this is worth a kernel.

    It is where vectors half as wide are computed twice as fast, as on AVX-512 of 256 bits at a time.

    >>> from winogen.codegen.targets import TARGETS
    >>> [leaves_half(TARGETS["avx512"], "mcmr", filters, 16) for filters in (56, 60, 64)]
    [True, False, False]
    """
    half = 0 < filters % lanes <= lanes // 2
    return half and target.broadcasts and algorithm in REGIONS


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


# Terms (for the Winograd algorithms: channels) that are summed in registers before their sum is added
# to what came before; the chains of a `RegisterBlock` share them.
DEPTH = {"direct": 512, "im2col": 512, "winograd1d": 32, "mcmr": 32, "winograd2d": 16}
MANY_CHANNELS = 128  # beyond which chains twice as long round less
BAND = 16  # vectors of filters that one position goes through before the next
FEW = 8  # channels up to which winograd2d fills the lanes with tiles, in NHWC then with filters
TILES = 2  # tiles in the register block of winograd2d with filters in the lanes
PLANE_VECTORS = 3  # in the register block of direct 1x1 convolution where planes lie
# Bytes of outputs from which that stores past the caches, if calls take turns with three arrays of them:
# storing and then reading takes no longer, storing alone up to 40 % less time. Transformed tiles of
# regions displace smaller ones.
PAST_CACHES = dict.fromkeys(ALGORITHMS, 3 << 20) | dict.fromkeys(REGIONS, 3 << 18)
_NARROW = {"NCHW": "pixel_lanes", "NHWC": "group_lanes"}
_REAL = {"float32": "float", "float64": "double"}
# The struct winogen_conv of csrc/problem.h.j2, in order.
FIELDS = (
    *("batch", "groups", "channels", "filters", "height", "width", "out_height", "out_width"),
    *("kernel_height", "kernel_width", "stride_h", "stride_w", "dilation_h", "dilation_w"),
    *("pad_top", "pad_left", "padding_mode", "row_begin", "row_end", "col_begin", "col_end"),
    *("relu", "block_rows", "block_cols", "block_images", "split"),
)


def summation(algorithm: str, target: Target, channels: int) -> dict[str, int]:
    """Return how a kernel sums the channels of a group, as `measure` and `estimate` take it.

    >>> from winogen.codegen.targets import TARGETS
    >>> summation("mcmr", TARGETS["avx512"], 256), summation("mcmr", TARGETS["avx512"], 64)
    ({'block': 32, 'chains': 2}, {'block': 16, 'chains': 2})
    """
    depth, chains = DEPTH[algorithm], register_block(target, algorithm).chains
    if algorithm in REGIONS and channels <= MANY_CHANNELS:
        depth //= chains
    return {"block": depth, "chains": chains}


def has_few_channels(channels: int, filters: int) -> bool:
    """Whether `winograd2d` fills the lanes with tiles, for these channels and filters of a group.

    >>> has_few_channels(3, 32), has_few_channels(1, 1), has_few_channels(64, 64)
    (True, False, False)
    """
    depthwise = channels == 1 and filters == 1
    return channels <= FEW and not depthwise


def render(spec: KernelSpec, prefix: str = "winogen") -> str:
    """Return the C of a kernel: self-contained, its four functions named ``prefix``_…

    >>> from winogen.codegen.targets import TARGETS
    >>> text = render(KernelSpec("direct", "float32", "NCHW", TARGETS["generic"]), "layer")
    >>> "size_t layer_workspace_bytes(const winogen_conv *p, int threads)" in text
    True
    """
    template, title = ALGORITHMS[spec.algorithm]
    block = spec.block or register_block(spec.target, spec.algorithm)
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
            rows=block.rows,
            vectors=block.vectors,
            chains=block.chains,
            halves=spec.halves,
            # The second way of direct convolution, for groups too narrow to fill the lanes with filters.
            narrow=_NARROW[spec.layout] if spec.algorithm == "direct" else "",
            pixel_rows=block.rows,
            plane_rows=min(plane_rows(spec.target), block.rows),
            plane_vectors=PLANE_VECTORS,
            depth_vectors=4 if block.rows >= 8 else 2,
            # Tiles keep the LANES channels of a row together; a strip in NCHW keeps the pixels together.
            row_step=1 if spec.layout == "NCHW" and not height else lanes,
            # Sums of tiles, and of pixels that are transposed later, lie one behind the other.
            packed_sums=bool(height) or spec.layout == "NCHW",
            H=height,
            W=width,
            P=height["products"] * width["products"] if height else 0,
            transforms=_distinct(height, width),
            depth=DEPTH[spec.algorithm],
            many_channels=MANY_CHANNELS,
            band=BAND,
            few=FEW,
            tiles=TILES,
            past_caches=PAST_CACHES[spec.algorithm],
            # Zipping the halves of 2^k rows k times interleaves them.
            interleavings=range(width["m"].bit_length() - 1) if width else (),
        )
    )


def recipe(spec: KernelSpec) -> str:
    """Return a digest of all that the text of a kernel is made of, for those who keep texts.

    >>> from winogen.codegen.targets import TARGETS
    >>> one, other = (KernelSpec("direct", "float32", "NCHW", TARGETS[t]) for t in ("avx2", "sse2"))
    >>> recipe(one) == recipe(one) != recipe(other)
    True
    """
    transforms = [(t.header, t.texts) for t in (spec.transform_h, spec.transform_w) if t]
    return hashlib.sha256(repr((_renderer(), spec, transforms)).encode()).hexdigest()[:32]


@cache
def _renderer() -> str:
    """A digest of the templates and of the code that fills them in."""
    digest = hashlib.sha256()
    for folder in (resources.folder("csrc"), Path(__file__).parent):
        for path in sorted(folder.glob("*.j2")) + sorted(folder.glob("*.py")):
            digest.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


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
