"""Random small nets of volumes, of every layer that optimize reads."""

import random

import torch
from torch import nn

_ACTIVE = (nn.ReLU, nn.SiLU, nn.GELU, nn.Hardswish, nn.Sigmoid, nn.PReLU)
_PADS = (nn.ReplicationPad3d, nn.ReflectionPad3d)
_KINDS = "conv conv conv transposed norm active max mean enlarged pad instance groups".split()


def net_of(seed):
    """A net and its input; layers that the input is too small for are left out."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.randn(
        rng.choice((1, 2)), rng.choice((2, 4, 8)), *(rng.choice((4, 5, 8)) for _ in "dhw")
    )
    y, layers = x, [_layer(rng, "conv", x.shape[1])]
    y = layers[0](y)
    for kind in rng.choices(_KINDS, k=5):
        layer = _layer(rng, kind, y.shape[1]).eval()
        try:
            made = layer(y)
        except (RuntimeError, ValueError):
            continue
        if 0 < made.numel() < 50_000 and made.std() > 1e-3:
            layers, y = [*layers, layer], made
    return nn.Sequential(*layers).eval(), x


def _layer(rng, kind, channels):
    def each(*options):
        return tuple(rng.choice(options) for _ in "dhw")

    filters = rng.choice((2, 4, 6))
    if kind == "conv":
        mode, groups = rng.choice(("zeros", "replicate", "circular")), rng.choice((1, 2))
        options = {"stride": each(1, 1, 2), "dilation": each(1, 1, 2), "groups": groups}
        return nn.Conv3d(channels, filters, each(1, 2, 3), padding=1, padding_mode=mode, **options)
    if kind == "transposed":
        options = {"stride": each(1, 2), "padding": each(0, 1), "dilation": each(1, 1, 2)}
        options["groups"] = rng.choice((1, 2))
        return nn.ConvTranspose3d(channels, filters, each(1, 2, 3), **options)
    if kind == "norm":
        norm = nn.BatchNorm3d(channels)
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
        return norm
    if kind == "active":
        return rng.choice(_ACTIVE)()
    if kind == "max":
        return nn.MaxPool3d(each(1, 2, 3), each(1, 2), ceil_mode=rng.random() < 0.5)
    if kind == "mean":
        return nn.AvgPool3d(each(2, 3), each(1, 2), 1, count_include_pad=rng.random() < 0.5)
    if kind == "enlarged":
        return nn.Upsample(scale_factor=each(1, 2))
    if kind == "pad":
        return rng.choice(_PADS)(1)
    return nn.InstanceNorm3d(channels) if kind == "instance" else nn.GroupNorm(2, channels)
