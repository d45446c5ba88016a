"""The operators keep the promises that torch's tools rely on, and gradients are right."""

import pytest
import torch
from torch.nn import functional as F

import winogen.torch
from winogen.errors import CompilerNotFound

FORMATS = (torch.contiguous_format, torch.channels_last)
DTYPES = (torch.float32, torch.float64)
conv2d = torch.ops.winogen.convolution.default
weight_gradient = torch.ops.winogen.convolution_weight_gradient.default


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


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("options", "kernel"),
    (
        ({"padding": 1}, (3, 3)),
        ({"padding": ((0, 2), (1, 1)), "activation": "relu"}, (3, 3)),
        ({"padding": 2, "groups": 2}, (3, 5)),
        ({"padding": 1, "padding_mode": "circular"}, (3, 3)),
    ),
    ids=str,
)
def test_gradients_of_many_channels_are_by_kernels(options, kernel, memory_format, monkeypatch):
    groups = options.get("groups", 1)
    x = torch.randn(1, 16 * groups, 7, 8, dtype=torch.float64).to(memory_format=memory_format)
    x.requires_grad_()
    w = torch.randn(16 * groups, 16, *kernel, dtype=torch.float64, requires_grad=True)

    def function(x, w):
        return winogen.torch.conv2d(x, w, **options)

    def by_torch(*given):
        raise AssertionError("left to torch")

    monkeypatch.setattr("winogen.torch.gradients._by_torch", by_torch)
    assert torch.autograd.gradcheck(function, (x, w), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, w), fast_mode=True)


def test_gradients_in_mixed_memory_formats():
    x = torch.randn(2, 16, 7, 8, dtype=torch.float64)
    w = torch.randn(16, 16, 3, 3, dtype=torch.float64)
    g = torch.randn(2, 16, 5, 6, dtype=torch.float64)
    arguments = ([1, 1], [0, 0, 0, 0], [1, 1], 1)
    of_input = torch.nn.grad.conv2d_input(x.shape, w, g)
    of_weight = torch.nn.grad.conv2d_weight(x, w.shape, g)
    whole = torch.randn(2, 48, 7, 8, dtype=torch.float64)
    whole[:, 16:32] = x
    for first in (*FORMATS, None):
        image = whole[:, 16:32] if first is None else x.to(memory_format=first)
        for second in FORMATS:
            other = g.to(memory_format=second)
            ours = weight_gradient(image, other, [3, 3], *arguments)
            assert close(ours, of_weight)
            ours = conv2d(other, w, None, *arguments, transposed=True)
            assert close(ours, of_input) and ours.is_contiguous(memory_format=second)
    expanded = torch.ones((), dtype=torch.float64).expand(g.shape)
    ours = weight_gradient(x, expanded, [3, 3], *arguments)
    assert close(ours, torch.nn.grad.conv2d_weight(x, w.shape, expanded.contiguous()))


def test_torch_computes_a_gradient_of_weights_that_no_kernel_at_hand_does(monkeypatch):
    def missing(*arguments, **options):
        raise CompilerNotFound("no kernel, and no compiler")

    x, y = torch.randn(1, 16, 8, 8), torch.randn(1, 16, 6, 6)
    monkeypatch.setattr("winogen.conv.gradients.weight_gradient", missing)
    ours = weight_gradient(x, y, [3, 3], [1, 1], [0, 0, 0, 0], [1, 1], 1)
    assert close(ours, torch.nn.grad.conv2d_weight(x, (16, 16, 3, 3), y))


@pytest.mark.parametrize("stride", (1, 2))
def test_opcheck_of_the_gradient_of_weights(stride):
    x = torch.randn(2, 16, 9, 9, requires_grad=True)
    size = (9 - 3) // stride + 1
    g = torch.randn(2, 16, size, size, requires_grad=True)
    arguments = ([stride, stride], [0, 0, 0, 0], [1, 1], 1)
    torch.library.opcheck(weight_gradient, (x, g, [3, 3], *arguments))
