"""The public functions: `conv2d` for one call, `Conv2d` for many with the same weights.

Their twins for one and three axes say what differs.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from winogen.conv.convolution import Convolution, convolve
from winogen.conv.options import Options
from winogen.conv.streaming import Streamed
from winogen.typing import (
    Activation,
    Algorithm,
    Array,
    Border,
    Edge,
    FilterType,
    IntOrInts,
    Layout1d,
    Layout2d,
    Layout3d,
    Moduli,
    NDArray,
    Order,
    Padding,
    PaddingMode,
    Points,
    ProductType,
    Real,
    Tile,
)


def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    # parameters: stride ... activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    layout: Layout2d = "NCHW",
    activation: Activation | None = None,
    # end
    add: Array | None = None,
    add_after: Array | None = None,
    # parameters: algorithm ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Points | None = None,
    moduli: Moduli | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    filter_dtype: FilterType | None = None,
    product_dtype: ProductType | None = None,
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return activation(convolution + bias + ``add``) + ``add_after``, of images and filters.

    The convolution is a cross-correlation, as in `torch.nn.functional.conv2d`. The arguments up to
    ``groups`` are the same. `Conv2d` is the same for many calls with the same weights, which it
    packs only once.

    Arrays
    ------
    input
        (N, C, H, W); (C, H, W), one image; or (H, W), one image of one channel. With
        ``layout="NHWC"`` the channels come last. float32, float64, float16 or bfloat16 (of
        `ml_dtypes`), in native byte order, with any strides. Whatever numpy can view is accepted,
        as a torch tensor on the CPU; lists are not.
    weight
        (M, C/groups, KH, KW) in either layout, dtype as ``input``. With 16-bit images, whose sums
        are in float32 and rounded once, weights may be float32, too.
    bias
        None or (M,), dtype as ``weight``, or float32 with 16-bit weights.
    add, add_after
        None, or arrays with the shape and dtype of the result, added before and after the
        activation.
    out
        None, or an array for the result: C-contiguous, or a slice of the channels of such an array.
        It shares no memory with other arguments.

    ``input``, ``add`` and ``add_after`` are never written to. Slices of the channels of
    C-contiguous arrays are read where they lie, other views are copied.

    What is computed
    ----------------
    stride
        Pixels from one output to the next: a positive int, or (height, width).
    padding
        Pixels that are added around the image: a non-negative int for every side, (height, width),
        or ((top, bottom), (left, right)). "valid" adds none. "same" makes outputs as large as the
        input, and needs stride 1. "causal", along one axis, adds all that a filter reaches over
        before the signal, so that no output sees what comes after it.
    dilation
        Pixels from one tap of a filter to the next: a positive int, or (height, width).
    groups
        Groups of channels: a filter sees the channels of its own group only. Divides C and M.
    padding_mode
        What the added pixels are: "zeros"; "reflect", a mirror image without the edge itself (needs
        less padding than pixels); "replicate", the nearest pixel; "circular", the opposite side
        (needs at most as much padding as pixels).
    layout
        Order of the axes of ``input``, of the result, and of what is added: "NCHW" or "NHWC".
    activation
        None, or a function of every sum y of products, bias and ``add``. NaN stays NaN.

            "relu": max(y, 0)
            ("leaky_relu", slope): y where y >= 0, else slope * y
            ("prelu", slopes): y where y >= 0, else slope * y, a slope for each filter
            ("clip", lo, hi): y, but at least lo and at most hi
            "relu6": max(y, 0), but at most 6
            "hardswish": y * min(max(y + 3, 0), 6) / 6
            "silu": y / (1 + exp(-y))
            "gelu": y * Phi(y), Phi of normal data
            ("gelu", "tanh"): y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 * y^3)))
            "sigmoid": 1 / (1 + exp(-y))
            "tanh": (exp(y) - exp(-y)) / (exp(y) + exp(-y))
            "softplus": log(1 + exp(y))
            "hard_sigmoid" or ("hard_sigmoid", alpha, beta) (alpha 1/6, beta 1/2 by default):
                alpha * y + beta, but at least 0 and at most 1
            "mish": y * tanh(log(1 + exp(y)))
            "elu" or ("elu", alpha) (alpha 1 by default): y where y >= 0, else alpha * (exp(y) -
                1)

    How it is computed
    ------------------
    algorithm
        "auto" takes the way with the least predicted time. "direct", "im2col" and "loops" multiply
        everything. "winograd2d", "winograd1d" and "mcmr" are Winograd's, with a stride of up to 4
        or a dilation along an axis. "fft" is for large kernels: Fourier transforms of tiles, in C
        where each filter sees one channel, else by numpy. All but the first three mix the values of
        a tile, so an infinity or NaN in the input may make neighbours NaN. See docs/conv2d.md and
        docs/large-kernels.md.
    tile
        Outputs of a Winograd tile: None for the planner's choice, m, or (m_h, m_w). An int is meant
        for the axes along which the filter is longer than 1. With "auto" a tile asks for "mcmr".
    points
        Interpolation points instead of the default ones: "0,1,-1,inf", a sequence of exact numbers,
        or a pair (height, width) of these. A tile of m outputs and r taps has m + r - 1 points.
    moduli
        Coprime polynomials instead of points, as `winogen.winograd` takes them: "x,x-1,x^2+1,inf",
        a sequence, or a pair (height, width) of these. Their degrees, 1 for "inf", add up to m + r
        - 1. A modulus of degree 2 costs one multiplication more than two points, and may be more
        accurate.
    order
        How transforms add: None or "program" for the shortest programs; "huffman" (smallest partial
        sums first), "pairwise" or "naive" for every row of a matrix on its own.
    edge
        Winograd tiles that do not fit: "discard" computes them whole and drops what is too much,
        "direct" leaves their outputs to direct convolution.
    border
        Winograd tiles at the border: "unswitch" has code of its own for tiles inside, "buffer"
        copies tiles with their padding, "indirect" reads through pointers. Neither changes what is
        computed.
    filter_dtype
        What packed filters are stored in, to read fewer bytes: "float16", "bfloat16", "flyte24",
        "flyte16" or "flyte8" (the first bytes of a float32). None is the type of the arrays, or the
        planner's choice within a given ``tolerance``. Numbers are widened before they are
        multiplied. A type without a ``tolerance`` allows ten times its own least error: see
        docs/numbers.md.
    product_dtype
        What is multiplied: None, "int16", "int8", "float16" or "bfloat16", as for ``filter_dtype``.
        "int16": transforms in float32, scaled and rounded to integers, whose products are summed
        exactly by chunks of channels. "int8": the same of bytes, by "mcmr" only; fast on CPUs that
        multiply bytes, with AVX512-VNNI, AVX-VNNI or dot products of 64-bit ARM. "float16": scaled
        and rounded numbers in sums of 24 products, by direct convolution or "mcmr", whose
        transforms are in float32; on CPUs with AVX512-FP16 or FP16 of 64-bit ARM only, Unsupported
        on others. "bfloat16": direct convolution of rounded numbers in sums of float32; fast on
        AMD's CPUs with AVX512-BF16.

    Limits
    ------
    threads
        A positive int, or None for OMP_NUM_THREADS or else all CPUs of this process. The result
        does not depend on it.
    workspace_limit
        The most bytes of scratch memory of a call, or None. Less memory may take more time.
        InvalidValue where the algorithm needs more, with the number.
    tolerance
        The largest error of the result, max |y - exact| / max |exact|, as measured on normally
        distributed data. The fastest way within it runs. The rounding of 16-bit results counts.
        Data with outliers may see larger errors: see docs/accuracy.md.

        None is 1e-5, for float16 arrays 1.13 * 2^-11, for bfloat16 arrays 1.13 * 2^-8. Then the
        fastest way with the accuracy of direct convolution runs, if it takes at most 18 % longer
        than the fastest of all. Filters and products become narrow only within a given tolerance.

    Returns
    -------
    (N, M, OH, OW), or (N, OH, OW, M) with ``layout="NHWC"``, without N if ``input`` has none. The
    axis of the filters is always there. It is ``out`` if that is given.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work; also TypeError and ValueError.
    Unsupported
        For an algorithm that does not apply; also ValueError.
    BuildError
        When no kernel can be compiled.
    OutOfMemory
        When an array or the workspace cannot be allocated; also MemoryError.

    >>> import numpy as np
    >>> from winogen import conv2d
    >>> image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> box = np.ones((1, 1, 3, 3), np.float32)
    >>> conv2d(image, box, algorithm="direct")[0, 0].tolist()
    [[45.0, 54.0], [81.0, 90.0]]
    """
    asked = Options(
        # arguments: stride ... tolerance
        stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
        points, moduli, order, edge, border, filter_dtype, product_dtype, threads, workspace_limit,
        tolerance,
        # end
    )  # fmt: skip
    return convolve(2, input, weight, bias, asked, add, add_after, out)


class Conv2d(Convolution):
    """A convolution with fixed weights and options, which packs the weights only once.

    Arguments and errors are the same as for `conv2d`, which explains them. Weight and bias are
    copied: later changes of the caller's arrays have no effect. One object may be called from
    several threads at once.

    >>> import numpy as np, winogen
    >>> conv = winogen.Conv2d(np.ones((2, 3, 3, 3), np.float32), padding="same")
    >>> conv(np.ones((1, 3, 5, 5), np.float32))[0, 0, 0].tolist()
    [12.0, 18.0, 18.0, 18.0, 12.0]
    >>> print(conv.plan((1, 3, 5, 5)).output_shape)
    (1, 2, 5, 5)
    """

    rank = 2

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        # parameters: stride ... tolerance
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        groups: SupportsIndex = 1,
        *,
        padding_mode: PaddingMode = "zeros",
        layout: Layout2d = "NCHW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        moduli: Moduli | None = None,
        order: Order | None = None,
        edge: Edge = "discard",
        border: Border = "unswitch",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        asked = Options(
            # arguments: stride ... tolerance
            stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
            points, moduli, order, edge, border, filter_dtype, product_dtype, threads,
            workspace_limit, tolerance,
            # end
        )  # fmt: skip
        super().__init__(weight, bias, asked)


def conv1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    # parameters of 1: stride ... activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    layout: Layout1d = "NCW",
    activation: Activation | None = None,
    # end
    add: Array | None = None,
    add_after: Array | None = None,
    # parameters of 1: algorithm ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Points | None = None,
    moduli: Moduli | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    filter_dtype: FilterType | None = None,
    product_dtype: ProductType | None = None,
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return activation(convolution + bias + ``add``) + ``add_after``, of signals and filters.

    This is `conv2d` with one axis, which explains all arguments and errors. ``input`` is (N, C, W);
    (C, W), one signal; or (W,), one signal of one channel. With ``layout="NWC"`` the channels come
    last. ``weight`` is (M, C/groups, KW), the result (N, M, OW) or (N, OW, M). What `conv2d` takes
    as (height, width) is a number here, or a tuple of one. ``padding`` may be ((left, right),).

    "winograd2d" and "winograd1d" are algorithms of two axes. Winograd's in one is "mcmr".

    >>> import numpy as np
    >>> from winogen import conv1d
    >>> signal = np.arange(6, dtype=np.float32)
    >>> conv1d(signal, np.ones((1, 1, 3), np.float32), padding="same")[0].tolist()
    [1.0, 3.0, 6.0, 9.0, 12.0, 9.0]
    """
    asked = Options(
        # arguments: stride ... tolerance
        stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
        points, moduli, order, edge, border, filter_dtype, product_dtype, threads, workspace_limit,
        tolerance,
        # end
    )  # fmt: skip
    return convolve(1, input, weight, bias, asked, add, add_after, out)


class Conv1d(Streamed):
    """A convolution of one axis with fixed weights and options: see `conv1d` and `Conv2d`.

    >>> import numpy as np, winogen
    >>> conv = winogen.Conv1d(np.ones((2, 3, 3), np.float32), padding="same")
    >>> conv(np.ones((1, 3, 5), np.float32))[0, 0].tolist()
    [6.0, 9.0, 9.0, 9.0, 6.0]
    """

    rank = 1

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        # parameters of 1: stride ... tolerance
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        groups: SupportsIndex = 1,
        *,
        padding_mode: PaddingMode = "zeros",
        layout: Layout1d = "NCW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        moduli: Moduli | None = None,
        order: Order | None = None,
        edge: Edge = "discard",
        border: Border = "unswitch",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        asked = Options(
            # arguments: stride ... tolerance
            stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
            points, moduli, order, edge, border, filter_dtype, product_dtype, threads,
            workspace_limit, tolerance,
            # end
        )  # fmt: skip
        super().__init__(weight, bias, asked)


def conv3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    # parameters of 3: stride ... activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    layout: Layout3d = "NCDHW",
    activation: Activation | None = None,
    # end
    add: Array | None = None,
    add_after: Array | None = None,
    # parameters of 3: algorithm ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Points | None = None,
    moduli: Moduli | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    filter_dtype: FilterType | None = None,
    product_dtype: ProductType | None = None,
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return activation(convolution + bias + ``add``) + ``add_after``, of volumes and filters.

    This is `conv2d` with three axes, which explains all arguments and errors. ``input`` is (N, C,
    D, H, W); (C, D, H, W), one volume; or (D, H, W), one volume of one channel. With
    ``layout="NDHWC"`` the channels come last. ``weight`` is (M, C/groups, KD, KH, KW), the result
    (N, M, OD, OH, OW) or (N, OD, OH, OW, M). What `conv2d` takes as (height, width) is (depth,
    height, width) here, and ``padding`` may be ((front, back), (top, bottom), (left, right)).

    "winograd2d" and "winograd1d" are algorithms of two axes. Winograd's in three is "mcmr": it
    transforms planes and sums over the taps along the depth, so that a tile is (1, m_h, m_w), and
    stride and dilation along the depth are free.

    >>> import numpy as np
    >>> from winogen import conv3d
    >>> volume, box = np.ones((4, 4, 4), np.float32), np.ones((1, 1, 3, 3, 3), np.float32)
    >>> conv3d(volume, box, padding="same")[0, 0].tolist()[0]
    [8.0, 12.0, 12.0, 8.0]
    """
    asked = Options(
        # arguments: stride ... tolerance
        stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
        points, moduli, order, edge, border, filter_dtype, product_dtype, threads, workspace_limit,
        tolerance,
        # end
    )  # fmt: skip
    return convolve(3, input, weight, bias, asked, add, add_after, out)


class Conv3d(Convolution):
    """A convolution of three axes with fixed weights and options: see `conv3d` and `Conv2d`.

    >>> import numpy as np, winogen
    >>> conv = winogen.Conv3d(np.ones((2, 3, 1, 3, 3), np.float32))
    >>> print(conv.plan((1, 3, 4, 5, 5)).output_shape)
    (1, 2, 4, 3, 3)
    """

    rank = 3

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        # parameters of 3: stride ... tolerance
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        groups: SupportsIndex = 1,
        *,
        padding_mode: PaddingMode = "zeros",
        layout: Layout3d = "NCDHW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        moduli: Moduli | None = None,
        order: Order | None = None,
        edge: Edge = "discard",
        border: Border = "unswitch",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        asked = Options(
            # arguments: stride ... tolerance
            stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
            points, moduli, order, edge, border, filter_dtype, product_dtype, threads,
            workspace_limit, tolerance,
            # end
        )  # fmt: skip
        super().__init__(weight, bias, asked)


CONVOLUTIONS: dict[int, Any] = {made.rank: made for made in (Conv1d, Conv2d, Conv3d)}
