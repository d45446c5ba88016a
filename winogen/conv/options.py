"""The options of a convolution: the one list of their names, types, defaults and meanings.

`python scripts/signatures.py` writes them into the functions that take them.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, fields
from functools import cache
from typing import SupportsIndex

from winogen.typing import (
    Activation,
    Algorithm,
    Border,
    Edge,
    FilterType,
    IntOrInts,
    Layout,
    Moduli,
    Order,
    Padding,
    PaddingMode,
    Points,
    ProductType,
    Real,
    Tile,
)


@dataclass(frozen=True)
class Options:
    """What `conv2d` takes besides arrays, unchecked.

    `Layer.from_options` reads and checks what is computed, `Request.from_options` how, and within
    which limits.
    """

    # What is computed

    stride: IntOrInts = 1
    """Pixels from one output to the next: a positive int, or (height, width)."""

    padding: Padding = 0
    """Pixels that are added around the image: a non-negative int for every side, (height, width),
    or ((top, bottom), (left, right)). "valid" adds none. "same" makes outputs as large as the
    input, and needs stride 1. "causal", along one axis, adds all that a filter reaches over before
    the signal, so that no output sees what comes after it."""

    dilation: IntOrInts = 1
    """Pixels from one tap of a filter to the next: a positive int, or (height, width)."""

    groups: SupportsIndex = 1
    """Groups of channels: a filter sees the channels of its own group only. Divides C and M."""

    padding_mode: PaddingMode = "zeros"
    """What the added pixels are: "zeros"; "reflect", a mirror image without the edge itself (needs
    less padding than pixels); "replicate", the nearest pixel; "circular", the opposite side (needs
    at most as much padding as pixels)."""

    layout: Layout = "NCHW"
    """Order of the axes of ``input``, of the result, and of what is added: "NCHW" or "NHWC"."""

    activation: Activation | None = None
    """None, or a function of every sum y of products, bias and ``add``. NaN stays NaN.

    {activations}"""

    # How it is computed

    algorithm: Algorithm = "auto"
    """"auto" takes the way with the least predicted time. "direct", "im2col" and "loops" multiply
    everything. "winograd2d", "winograd1d" and "mcmr" are Winograd's, with a stride of up to 4 or a
    dilation along an axis. "fft" is for large kernels: Fourier transforms of tiles, in C where each
    filter sees one channel, else by numpy. All but the first three mix the values of a tile, so an
    infinity or NaN in the input may make neighbours NaN. See docs/conv2d.md and
    docs/large-kernels.md."""

    tile: Tile | None = None
    """Outputs of a Winograd tile: None for the planner's choice, m, or (m_h, m_w). An int is meant
    for the axes along which the filter is longer than 1. With "auto" a tile asks for "mcmr"."""

    points: Points | None = None
    """Interpolation points instead of the default ones: "0,1,-1,inf", a sequence of exact numbers,
    or a pair (height, width) of these. A tile of m outputs and r taps has m + r - 1 points."""

    moduli: Moduli | None = None
    """Coprime polynomials instead of points, as `winogen.winograd` takes them: "x,x-1,x^2+1,inf", a
    sequence, or a pair (height, width) of these. Their degrees, 1 for "inf", add up to m + r - 1.
    A modulus of degree 2 costs one multiplication more than two points, and may be more
    accurate."""

    order: Order | None = None
    """How transforms add: None or "program" for the shortest programs; "huffman" (smallest partial
    sums first), "pairwise" or "naive" for every row of a matrix on its own."""

    edge: Edge = "discard"
    """Winograd tiles that do not fit: "discard" computes them whole and drops what is too much,
    "direct" leaves their outputs to direct convolution."""

    border: Border = "unswitch"
    """Winograd tiles at the border: "unswitch" has code of its own for tiles inside, "buffer"
    copies tiles with their padding, "indirect" reads through pointers. Neither changes what
    is computed."""

    filter_dtype: FilterType | None = None
    """What packed filters are stored in, to read fewer bytes: "float16", "bfloat16", "flyte24",
    "flyte16" or "flyte8" (the first bytes of a float32). None is the type of the arrays, or the
    planner's choice within a given ``tolerance``. Numbers are widened before they are multiplied. A
    type without a ``tolerance`` allows ten times its own least error: see docs/numbers.md."""

    product_dtype: ProductType | None = None
    """What is multiplied: None, "int16", "int8", "float16" or "bfloat16", as for ``filter_dtype``.
    "int16": transforms in float32, scaled and rounded to integers, whose products are summed
    exactly by chunks of channels. "int8": the same of bytes, by "mcmr" only; fast on CPUs that
    multiply bytes, with AVX512-VNNI, AVX-VNNI or dot products of 64-bit ARM. "float16": scaled and
    rounded numbers in sums of 24 products, by direct convolution or "mcmr", whose transforms are in
    float32; on CPUs with AVX512-FP16 or FP16 of 64-bit ARM only, Unsupported on others.
    "bfloat16": direct convolution of rounded numbers in sums of float32; fast on AMD's CPUs with
    AVX512-BF16."""

    # Limits

    threads: SupportsIndex | None = None
    """A positive int, or None for OMP_NUM_THREADS or else all CPUs of this process. The result does
    not depend on it."""

    workspace_limit: SupportsIndex | None = None
    """The most bytes of scratch memory of a call, or None. Less memory may take more time.
    InvalidValue where the algorithm needs more, with the number."""

    tolerance: Real | None = None
    """The largest error of the result, max |y - exact| / max |exact|, as measured on normally
    distributed data. The fastest way within it runs. The rounding of 16-bit results counts. Data
    with outliers may see larger errors: see docs/accuracy.md.

    None is 1e-5, for float16 arrays 1.13 * 2^-11, for bfloat16 arrays 1.13 * 2^-8. Then the fastest
    way with the accuracy of direct convolution runs, if it takes at most 18 % longer than the
    fastest of all. Filters and products become narrow only within a given tolerance."""


NAMES = tuple(field.name for field in fields(Options))


@cache
def meanings() -> dict[str, str]:
    """Return what each option means: the text below its line."""
    (listed,) = ast.parse(inspect.getsource(Options)).body
    assert isinstance(listed, ast.ClassDef)
    texts = [ast.unparse(node) for node in listed.body[1:] if isinstance(node, ast.Expr)]
    return dict(zip(NAMES, map(ast.literal_eval, texts)))
