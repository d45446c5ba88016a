"""The operators keep the promises that torch's tools rely on, and gradients are right."""

import pytest
import torch
from torch.nn import functional as F

import winogen.torch

FORMATS = (torch.contiguous_format, torch.channels_last)
DTYPES = (torch.float32, torch.float64)
conv2d = torch.ops.winogen.conv2d.default


def tensors(shape=(2, 4, 7, 6), filters=6, groups=1, dtype=torch.float64, grad=False):
    x = torch.randn(shape, dtype=dtype, requires_grad=grad)
    w = torch.randn(filters, shape[1] // groups, 3, 3, dtype=dtype, requires_grad=grad)
    return x, w, torch.randn(filters, dtype=dtype, requires_grad=grad)


def close(one, other):
    scale = other.abs().max().clamp(min=1)
    bound = 1e-5 if other.dtype == torch.float32 else 1e-12
    return one.shape == other.shape and bool(((one - other).abs() <= bound * scale).all())


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_operator_computes_what_torch_does_in_the_same_memory_format(dtype, memory_format):
    x, w, b = tensors((2, 8, 14, 13), 8, dtype=dtype)
    x = x.to(memory_format=memory_format)
    y = conv2d(x, w, b, [1, 1], [1, 2], activation="relu")
    expected = F.relu(F.conv2d(x, w, b, padding=(1, 2)))
    assert close(y, expected)
    assert y.is_contiguous(memory_format=memory_format)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("grad", (False, True))
@pytest.mark.parametrize(
    "arguments",
    (
        {},
        {"padding": [1, 2], "activation": "relu"},
        {"stride": [2, 1], "padding": [1]},
        {"dilation": [2, 1], "padding": [0, 1, 2, 1]},
        {"groups": 2, "activation": "leaky_relu", "parameters": [0.1]},
        {"padding": [1, 1], "padding_mode": "reflect"},
    ),
    ids=str,
)
def test_opcheck(arguments, grad, memory_format):
    groups = arguments.get("groups", 1)
    x, w, b = tensors(groups=groups, grad=grad)
    with torch.no_grad():
        x = x.to(memory_format=memory_format)
    torch.library.opcheck(conv2d, (x.requires_grad_(grad), w, b), arguments)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    "options",
    (
        {"padding": 1},
        {"padding": (1, 2), "groups": 2, "activation": "relu"},
        {"stride": 2, "padding": 1},
        {"stride": (2, 1), "padding": ((0, 1), (1, 0))},
        {"padding": 3},
        {"padding": ((0, 2), (1, 0)), "dilation": (2, 1)},
        {"padding": "same", "padding_mode": "reflect"},
        {"padding": 2, "padding_mode": "circular"},
        {"padding": (1, 2), "padding_mode": "replicate", "activation": ("leaky_relu", 0.1)},
    ),
    ids=str,
)
def test_gradcheck(options, memory_format):
    x, w, b = tensors((2, 4, 6, 5), 4, options.get("groups", 1), grad=True)
    x = x.detach().to(memory_format=memory_format).requires_grad_()

    def function(x, w, b):
        return winogen.torch.conv2d(x, w, b, **options)

    assert torch.autograd.gradcheck(function, (x, w, b), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, w, b), fast_mode=True)
