"""Convolution of tensors: the functions, of one to three axes, and of transposed layers."""

from __future__ import annotations

from typing import Any, SupportsIndex

from torch import Tensor

from winogen.errors import InvalidValue
from winogen.torch.dispatch import call
from winogen.torch.request import LayerOptions, LayerRequest, activation_parts, frozen
from winogen.typing import (
    Activation,
    Algorithm,
    Border,
    Edge,
    Ends,
    IntOrInts,
    Order,
    Padding,
    PaddingMode,
    Real,
    Texts,
    Tile,
)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    # parameters: stride ... padding_mode activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    activation: Activation | None = None,
    # end
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    # parameters: algorithm ... border threads ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Texts | None = None,
    moduli: Texts | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(convolution + bias + ``add``) + ``add_after`` of torch tensors.

    Options are the same as for `winogen.conv2d`, which explains them. Autograd works to any order.

    Tensors
    -------
    input
        (N, C, H, W), or (C, H, W), one image; with any strides. A channels-last input gives a
        channels-last result, without copies.
    weight, bias
        (M, C/groups, KH, KW), and None or (M,).
    add, add_after
        None, or tensors with the shape of the result.

    What torch computes
    -------------------
    Everything on other devices than the CPU, in other dtypes than float32 and float64, and under
    autocast. Where gradients are required, also activations whose derivative cannot be told from
    their output.

    Options that differ
    -------------------
    activation
        The slopes of ("prelu", slopes) are a number, or a tensor (M,) or (1,).
    points, moduli
        Texts, or pairs (height, width) of texts.
    threads
        None for as many as torch uses.

    Returns
    -------
    (N, M, OH, OW), or (M, OH, OW) for one image.

    Raises
    ------
    InvalidType, InvalidValue, Unsupported, BuildError, OutOfMemory
        As `winogen.conv2d`, before any work; where torch computes, what it raises.

    >>> import torch, winogen.torch
    >>> x, w = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)
    >>> winogen.torch.conv2d(x, w, padding=1, activation="relu")[0, 0].tolist()
    [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]
    """
    return _called(
        2, input, weight, bias, add, add_after, stride, padding, dilation, groups, activation,
        LayerOptions(
            # arguments: algorithm ... border workspace_limit tolerance threads
            algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance,
            threads,
            # end
        ),
        padding_mode,
    )  # fmt: skip


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    # parameters: stride ... padding_mode activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    activation: Activation | None = None,
    # end
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    # parameters: algorithm ... border threads ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Texts | None = None,
    moduli: Texts | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(convolution + bias + ``add``) + ``add_after``, of signals.

    ``input`` is (N, C, W), or (C, W), one signal; ``weight`` (M, C/groups, KW). All options are as
    for `conv2d`, with a number, or a tuple of one, where that takes (height, width). The algorithms
    are those of `winogen.conv1d`. Autograd works to any order. Raises what `conv2d` raises.

    >>> import torch, winogen.torch
    >>> winogen.torch.conv1d(torch.ones(1, 4), torch.ones(1, 1, 3), padding=1).tolist()
    [[2.0, 3.0, 3.0, 2.0]]
    """
    return _called(
        1, input, weight, bias, add, add_after, stride, padding, dilation, groups, activation,
        LayerOptions(
            # arguments: algorithm ... border workspace_limit tolerance threads
            algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance,
            threads,
            # end
        ),
        padding_mode,
    )  # fmt: skip


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    # parameters: stride ... padding_mode activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    activation: Activation | None = None,
    # end
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    # parameters: algorithm ... border threads ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Texts | None = None,
    moduli: Texts | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(convolution + bias + ``add``) + ``add_after``, of volumes.

    ``input`` is (N, C, D, H, W), or (C, D, H, W), one volume; ``weight`` (M, C/groups, KD, KH, KW).
    All options are as for `conv2d`, with (depth, height, width) where that takes (height, width).
    The algorithms are those of `winogen.conv3d`. A channels-last input gives a channels-last
    result, without copies. Autograd works to any order. Raises what `conv2d` raises.
    """
    return _called(
        3, input, weight, bias, add, add_after, stride, padding, dilation, groups, activation,
        LayerOptions(
            # arguments: algorithm ... border workspace_limit tolerance threads
            algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance,
            threads,
            # end
        ),
        padding_mode,
    )  # fmt: skip


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | Ends = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters: activation
    activation: Activation | None = None,
    # end
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    # parameters: algorithm ... order border threads ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Texts | None = None,
    moduli: Texts | None = None,
    order: Order | None = None,
    border: Border = "unswitch",
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(transposed convolution + bias + ``add``) + ``add_after``, of images.

    Arguments up to ``dilation`` are those of `torch.nn.functional.conv_transpose2d`; ``padding``
    may be ((top, bottom), (left, right)), too. ``weight`` is (C, M/groups, KH, KW). The others are
    as for `conv2d`, and mean what they mean in `winogen.conv_transpose2d`, which has no
    ``padding_mode`` and ``edge``. Autograd works to any order. Raises what `conv2d` raises.

    >>> import torch, winogen.torch
    >>> weight = torch.ones(3, 8, 4, 4)
    >>> winogen.torch.conv_transpose2d(torch.ones(1, 3, 5, 5), weight, stride=2).shape
    torch.Size([1, 8, 12, 12])
    """
    return _called(
        2, input, weight, bias, add, add_after, stride, padding, dilation, groups, activation,
        LayerOptions(
            # arguments: algorithm ... order
            algorithm, tile, points, moduli, order,
            # end
            border=border, workspace_limit=workspace_limit, tolerance=tolerance, threads=threads,
        ),
        transposed=True, output_padding=frozen(output_padding),
    )  # fmt: skip


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | Ends = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters: activation
    activation: Activation | None = None,
    # end
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    # parameters: algorithm ... order border threads ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Texts | None = None,
    moduli: Texts | None = None,
    order: Order | None = None,
    border: Border = "unswitch",
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(transposed convolution + bias + ``add``) + ``add_after``, of signals.

    ``input`` is (N, C, W), or (C, W); ``weight`` (C, M/groups, KW). All else is as for
    `conv_transpose2d`.
    """
    return _called(
        1, input, weight, bias, add, add_after, stride, padding, dilation, groups, activation,
        LayerOptions(
            # arguments: algorithm ... order
            algorithm, tile, points, moduli, order,
            # end
            border=border, workspace_limit=workspace_limit, tolerance=tolerance, threads=threads,
        ),
        transposed=True, output_padding=frozen(output_padding),
    )  # fmt: skip


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | Ends = 0,
    output_padding: IntOrInts = 0,
    groups: SupportsIndex = 1,
    dilation: IntOrInts = 1,
    *,
    # parameters: activation
    activation: Activation | None = None,
    # end
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    # parameters: algorithm ... order border threads ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Texts | None = None,
    moduli: Texts | None = None,
    order: Order | None = None,
    border: Border = "unswitch",
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(transposed convolution + bias + ``add``) + ``add_after``, of volumes.

    ``input`` is (N, C, D, H, W), or (C, D, H, W); ``weight`` (C, M/groups, KD, KH, KW). All else is
    as for `conv_transpose2d`.
    """
    return _called(
        3, input, weight, bias, add, add_after, stride, padding, dilation, groups, activation,
        LayerOptions(
            # arguments: algorithm ... order
            algorithm, tile, points, moduli, order,
            # end
            border=border, workspace_limit=workspace_limit, tolerance=tolerance, threads=threads,
        ),
        transposed=True, output_padding=frozen(output_padding),
    )  # fmt: skip


def _called(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, add: Tensor | None,
    add_after: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: Any,
    activation: Any, options: LayerOptions, padding_mode: PaddingMode = "zeros", **transposed: Any,
) -> Tensor:  # fmt: skip
    """Call what computes a layer with so many axes."""
    if weight.dim() != rank + 2:
        raise InvalidValue(
            f"weight: got shape {tuple(weight.shape)}; allowed: {rank + 2} axes, of which "
            f"{rank} for the taps"
        )
    name, parameters, slopes = activation_parts(activation)
    request = LayerRequest(
        frozen(stride), frozen(padding), frozen(dilation), frozen(groups), padding_mode, name,
        parameters, LayerOptions(*map(frozen, options)), tuple(weight.shape[2:]), **transposed,
    )  # fmt: skip
    return call(input, weight, bias, slopes, add, add_after, request)
