"""The layers: torch's convolutions of all axes, and transposed ones, by winogen's kernels."""

from __future__ import annotations

from torch import nn

from winogen.torch.base import OrdinaryModule, TransposedModule


class Conv2d(OrdinaryModule, nn.Conv2d):
    """An `nn.Conv2d` that computes with winogen's kernels.

    It has the parameters and the ``state_dict`` of `nn.Conv2d`, so either loads what the other
    saved (but for the slopes of "prelu"). Weights are packed on first use and kept outside of the
    module; changes by optimizers, `load_state_dict` and other operations of torch are noticed.
    Other devices and dtypes than CPU and float32 or float64, and autocast, are left to torch.

    Parameters
    ----------
    in_channels, ..., dtype
        Those of `nn.Conv2d`.
    activation
        As `winogen.conv2d` takes it. The slopes of ("prelu", slopes), a tensor (M,) or (1,), are
        kept as `slopes`: as a parameter if they are one, else as a buffer.
    algorithm, ..., tolerance
        As `winogen.torch.conv2d` takes them.

    Raises
    ------
    InvalidType, InvalidValue, Unsupported
        For an argument that is not allowed, when the layer is made. What depends on the size of an
        input, the first call raises.

    The forward pass takes ``add`` and ``add_after``, too, with the shape of the result, and returns
    activation(convolution + bias + add) + add_after.

    >>> import torch, winogen.torch
    >>> conv = winogen.torch.Conv2d(3, 8, 3, padding=1, activation="relu")
    >>> conv(torch.randn(1, 3, 32, 32)).shape
    torch.Size([1, 8, 32, 32])
    >>> conv.load_state_dict(torch.nn.Conv2d(3, 8, 3).state_dict())
    <All keys matched successfully>
    """

    _plain = nn.Conv2d


class Conv1d(OrdinaryModule, nn.Conv1d):
    """An `nn.Conv1d` that computes with winogen's kernels; all else is as for `Conv2d`.

    >>> import torch, winogen.torch
    >>> winogen.torch.Conv1d(3, 8, 3, padding=1, activation="relu")(torch.randn(2, 3, 50)).shape
    torch.Size([2, 8, 50])
    """

    _plain = nn.Conv1d


class Conv3d(OrdinaryModule, nn.Conv3d):
    """An `nn.Conv3d` that computes with winogen's kernels; all else is as for `Conv2d`.

    >>> import torch, winogen.torch
    >>> winogen.torch.Conv3d(3, 8, (1, 3, 3))(torch.randn(2, 3, 4, 9, 9)).shape
    torch.Size([2, 8, 4, 7, 7])
    """

    _plain = nn.Conv3d


class ConvTranspose2d(TransposedModule, nn.ConvTranspose2d):
    """An `nn.ConvTranspose2d` that computes with winogen's kernels; see `conv_transpose2d`.

    Parameters up to ``dtype`` are those of `nn.ConvTranspose2d`; all else is as for `Conv2d`, which
    has ``edge`` besides. A call may name the size of its output, as in torch:
    ``layer(input, output_size, add=..., add_after=...)``.

    >>> import torch, winogen.torch
    >>> layer = winogen.torch.ConvTranspose2d(3, 8, 4, stride=2, padding=1, activation="relu")
    >>> layer(torch.randn(1, 3, 5, 5)).shape, layer(torch.randn(1, 3, 5, 5), (11, 10)).shape
    (torch.Size([1, 8, 10, 10]), torch.Size([1, 8, 11, 10]))
    """

    _plain = nn.ConvTranspose2d


class ConvTranspose1d(TransposedModule, nn.ConvTranspose1d):
    """An `nn.ConvTranspose1d` that computes with winogen's kernels; see `ConvTranspose2d`."""

    _plain = nn.ConvTranspose1d


class ConvTranspose3d(TransposedModule, nn.ConvTranspose3d):
    """An `nn.ConvTranspose3d` that computes with winogen's kernels; see `ConvTranspose2d`."""

    _plain = nn.ConvTranspose3d
