"""The public functions of transposed layers: `conv_transpose2d` for one call, `ConvTranspose2d` for
many, and their twins for one and three axes.
"""

from __future__ import annotations

from typing import SupportsIndex

from winogen.conv.options import Options
from winogen.conv.transposed import TransposedConvolution
from winogen.typing import (
    Activation,
    Algorithm,
    Array,
    Border,
    Ends,
    FilterType,
    IntOrInts,
    Layout1d,
    Layout2d,
    Layout3d,
    Moduli,
    NDArray,
    Order,
    Points,
    ProductType,
    Real,
    Tile,
)


def conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | Ends = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters: layout activation
    layout: Layout2d = "NCHW",
    activation: Activation | None = None,
    # end
    add: Array | None = None,
    add_after: Array | None = None,
    # parameters: algorithm tile points moduli order border filter_dtype ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Points | None = None,
    moduli: Moduli | None = None,
    order: Order | None = None,
    border: Border = "unswitch",
    filter_dtype: FilterType | None = None,
    product_dtype: ProductType | None = None,
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return activation(transposed convolution + bias + ``add``) + ``add_after``.

    Every input adds a filter, times itself, to the output, `stride` pixels from where its neighbour
    does. Arguments up to ``dilation`` are those of `torch.nn.functional.conv_transpose2d`, all
    others mean what they mean in `conv2d`.

    input
        (N, C, H, W); (C, H, W), one image; or (H, W), one image of one channel. With
        ``layout="NHWC"`` the channels come last.
    weight
        (C, M/groups, KH, KW) in either layout.
    bias
        None or (M,).
    stride
        Pixels of the output from one input to the next: a positive int, or (height, width).
    padding
        Pixels of the output that are left out at every side: a non-negative int, (height, width),
        or ((top, bottom), (left, right)).
    output_padding
        Pixels that the output has more at the bottom and on the right, less than stride or
        dilation: a non-negative int, or (height, width).
    algorithm
        "auto", "mcmr", "direct" or "im2col". An output sees every stride-th tap. So the outputs of
        one phase are an ordinary convolution of stride 1, which "mcmr" computes by tiles for all
        phases at once; ``tile`` counts outputs of one phase. It needs a stride of at most 4,
        dilation 1 and a filter longer than the stride.
    product_dtype
        None, "float16" or "bfloat16".

    Returns
    -------
    (N, M, OH, OW), or (N, OH, OW, M) with ``layout="NHWC"``, where OH = (H - 1) * stride - 2 *
    padding + dilation * (KH - 1) + output_padding + 1. It is ``out`` if that is given.

    Raises what `conv2d` raises.

    >>> import numpy as np
    >>> from winogen import conv_transpose2d
    >>> image, box = np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 3, 3), np.float32)
    >>> conv_transpose2d(image, box, stride=2)[0, 0].astype(int).tolist()[1:3]
    [[1, 1, 2, 1, 1], [2, 2, 4, 2, 2]]
    """
    made = ConvTranspose2d(
        weight, bias, stride, padding, output_padding, groups, dilation, layout=layout,
        activation=activation,
        algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order, border=border,
        filter_dtype=filter_dtype, product_dtype=product_dtype, threads=threads,
        workspace_limit=workspace_limit, tolerance=tolerance,
    )  # fmt: skip
    return made.once(input, out, add, add_after, {"weight": weight, "bias": bias})


class ConvTranspose2d(TransposedConvolution):
    """A transposed convolution with fixed weights and options: see `conv_transpose2d` and
    `Conv2d`.

    A call may name the size of its output, as in torch: ``layer(input, output_size)``.

    >>> import numpy as np, winogen
    >>> layer = winogen.ConvTranspose2d(np.ones((3, 8, 4, 4), np.float32), stride=2, padding=1)
    >>> layer(np.ones((1, 3, 5, 5), np.float32)).shape
    (1, 8, 10, 10)
    >>> layer(np.ones((1, 3, 5, 5), np.float32), (11, 10)).shape
    (1, 8, 11, 10)
    """

    rank = 2

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        stride: IntOrInts = 1,
        padding: IntOrInts | Ends = 0,
        output_padding: IntOrInts = 0,
        groups: SupportsIndex = 1,
        dilation: IntOrInts = 1,
        *,
        # parameters: layout activation algorithm tile points
        layout: Layout2d = "NCHW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        # end
        # parameters: moduli order border filter_dtype ... tolerance
        moduli: Moduli | None = None,
        order: Order | None = None,
        border: Border = "unswitch",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        asked = Options(
            stride, padding, dilation, groups, layout=layout, activation=activation,
            algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order,
            border=border, filter_dtype=filter_dtype, product_dtype=product_dtype, threads=threads,
            workspace_limit=workspace_limit, tolerance=tolerance,
        )  # fmt: skip
        super().__init__(weight, bias, asked, output_padding)


def conv_transpose1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | Ends = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters of 1: layout activation
    layout: Layout1d = "NCW",
    activation: Activation | None = None,
    # end
    add: Array | None = None,
    add_after: Array | None = None,
    # parameters: algorithm tile points moduli order border filter_dtype ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Points | None = None,
    moduli: Moduli | None = None,
    order: Order | None = None,
    border: Border = "unswitch",
    filter_dtype: FilterType | None = None,
    product_dtype: ProductType | None = None,
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return activation(transposed convolution + bias + ``add``) + ``add_after``, of signals.

    This is `conv_transpose2d` with one axis, which explains all arguments and errors. ``input`` is
    (N, C, W), ``weight`` (C, M/groups, KW), the result (N, M, OW). With
    ``layout="NWC"`` the channels come last. N may be missing.

    >>> import numpy as np
    >>> from winogen import conv_transpose1d
    >>> signal, taps = np.ones(3, np.float32), np.ones((1, 1, 3), np.float32)
    >>> conv_transpose1d(signal, taps, stride=2)[0].tolist()
    [1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0]
    """
    made = ConvTranspose1d(
        weight, bias, stride, padding, output_padding, groups, dilation, layout=layout,
        activation=activation,
        algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order, border=border,
        filter_dtype=filter_dtype, product_dtype=product_dtype, threads=threads,
        workspace_limit=workspace_limit, tolerance=tolerance,
    )  # fmt: skip
    return made.once(input, out, add, add_after, {"weight": weight, "bias": bias})


class ConvTranspose1d(TransposedConvolution):
    """A transposed convolution with fixed weights and options: see `conv_transpose1d` and
    `Conv2d`.

    A call may name the size of its output, as in torch: ``layer(input, output_size)``.

    >>> import numpy as np, winogen
    >>> layer = winogen.ConvTranspose1d(np.ones((3, 8, 4), np.float32), stride=2, padding=1)
    >>> layer(np.ones((1, 3, 9), np.float32)).shape
    (1, 8, 18)
    """

    rank = 1

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        stride: IntOrInts = 1,
        padding: IntOrInts | Ends = 0,
        output_padding: IntOrInts = 0,
        groups: SupportsIndex = 1,
        dilation: IntOrInts = 1,
        *,
        # parameters of 1: layout activation algorithm tile points
        layout: Layout1d = "NCW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        # end
        # parameters: moduli order border filter_dtype ... tolerance
        moduli: Moduli | None = None,
        order: Order | None = None,
        border: Border = "unswitch",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        asked = Options(
            stride, padding, dilation, groups, layout=layout, activation=activation,
            algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order,
            border=border, filter_dtype=filter_dtype, product_dtype=product_dtype, threads=threads,
            workspace_limit=workspace_limit, tolerance=tolerance,
        )  # fmt: skip
        super().__init__(weight, bias, asked, output_padding)


def conv_transpose3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | Ends = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters of 3: layout activation
    layout: Layout3d = "NCDHW",
    activation: Activation | None = None,
    # end
    add: Array | None = None,
    add_after: Array | None = None,
    # parameters: algorithm tile points moduli order border filter_dtype ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Points | None = None,
    moduli: Moduli | None = None,
    order: Order | None = None,
    border: Border = "unswitch",
    filter_dtype: FilterType | None = None,
    product_dtype: ProductType | None = None,
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return activation(transposed convolution + bias + ``add``) + ``add_after``, of volumes.

    This is `conv_transpose2d` with three axes, which explains all arguments and errors. ``input``
    is (N, C, D, H, W), ``weight`` (C, M/groups, KD, KH, KW), the result (N, M, OD, OH, OW). With
    ``layout="NDHWC"`` the channels come last. N may be missing.

    >>> import numpy as np
    >>> from winogen import conv_transpose3d
    >>> volume, box = np.ones((2, 2, 2), np.float32), np.ones((1, 3, 2, 2, 2), np.float32)
    >>> conv_transpose3d(volume, box, stride=(1, 2, 2)).shape
    (3, 3, 4, 4)
    """
    made = ConvTranspose3d(
        weight, bias, stride, padding, output_padding, groups, dilation, layout=layout,
        activation=activation,
        algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order, border=border,
        filter_dtype=filter_dtype, product_dtype=product_dtype, threads=threads,
        workspace_limit=workspace_limit, tolerance=tolerance,
    )  # fmt: skip
    return made.once(input, out, add, add_after, {"weight": weight, "bias": bias})


class ConvTranspose3d(TransposedConvolution):
    """A transposed convolution with fixed weights and options: see `conv_transpose3d` and
    `Conv2d`.

    A call may name the size of its output, as in torch: ``layer(input, output_size)``.

    >>> import numpy as np, winogen
    >>> layer = winogen.ConvTranspose3d(np.ones((3, 8, 1, 2, 2), np.float32), stride=(1, 2, 2))
    >>> layer(np.ones((1, 3, 4, 5, 5), np.float32)).shape
    (1, 8, 4, 10, 10)
    """

    rank = 3

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        stride: IntOrInts = 1,
        padding: IntOrInts | Ends = 0,
        output_padding: IntOrInts = 0,
        groups: SupportsIndex = 1,
        dilation: IntOrInts = 1,
        *,
        # parameters of 3: layout activation algorithm tile points
        layout: Layout3d = "NCDHW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        # end
        # parameters: moduli order border filter_dtype ... tolerance
        moduli: Moduli | None = None,
        order: Order | None = None,
        border: Border = "unswitch",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        asked = Options(
            stride, padding, dilation, groups, layout=layout, activation=activation,
            algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order,
            border=border, filter_dtype=filter_dtype, product_dtype=product_dtype, threads=threads,
            workspace_limit=workspace_limit, tolerance=tolerance,
        )  # fmt: skip
        super().__init__(weight, bias, asked, output_padding)


# The classes by their axes.
TRANSPOSED: dict[int, type[TransposedConvolution]] = {
    1: ConvTranspose1d,
    2: ConvTranspose2d,
    3: ConvTranspose3d,
}
