"""Layers of low rank in PyTorch, in ONNX, and as C by way of it: the same numbers."""

import numpy as np
import pytest

from winogen.errors import Unsupported
from winogen.lowrank import LowRank

SLOPES = np.linspace(-0.5, 0.5, 6).astype(np.float32)
ACTIVATIONS = [
    None, "relu", "relu6", ("leaky_relu", 0.2), ("prelu", SLOPES), ("clip", -0.5, 1.0), "silu",
    "hardswish", "gelu", ("gelu", "tanh"), "mish", "softplus", ("elu", 0.7), "hard_sigmoid",
]  # fmt: skip
LAYERS = {
    "strided": {"stride": (2, 1), "padding": 1},
    "dilated groups": {"dilation": 2, "padding": ((1, 2), (0, 1)), "groups": 2},
    "reflected": {"padding": 1, "padding_mode": "reflect"},
    "uneven": {"padding": ((2, 1), (0, 2)), "padding_mode": "replicate"},
    "circular": {"padding": 2, "padding_mode": "circular"},
}


def made(activation=None, **options):
    generator = np.random.default_rng(0)
    w = generator.standard_normal((6, 4 // options.get("groups", 1), 3, 3)).astype(np.float32)
    bias = generator.standard_normal(6).astype(np.float32)
    x = generator.standard_normal((2, 4, 9, 10)).astype(np.float32)
    layer = LowRank.from_conv(
        w, bias, compression=1.5, activation=activation, algorithm="direct", **options
    )
    return layer, x


def assert_alike(y, exact):
    assert y.shape == exact.shape
    assert np.abs(y - exact).max() < 2e-5 * np.abs(exact).max()


def by_torch(layer, x):
    torch = pytest.importorskip("torch.nn") and pytest.importorskip("torch")
    module = layer.to_torch()
    assert isinstance(module, torch.nn.Sequential)
    with torch.no_grad():
        return module(torch.from_numpy(x)).numpy()


def by_onnx(layer, x):
    pytest.importorskip("onnx.helper")
    ort = pytest.importorskip("onnxruntime")
    model = layer.to_onnx()
    assert {entry.domain for entry in model.opset_import} == {""}
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("by", [by_torch, by_onnx])
@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_layers_elsewhere(options, by):
    layer, x = made("relu", **options)
    assert_alike(by(layer, x), layer(x))


@pytest.mark.parametrize("by", [by_torch, by_onnx])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_elsewhere(activation, by):
    layer, x = made(activation, padding=1)
    assert_alike(by(layer, x), layer(x))


def test_what_torch_lacks():
    pytest.importorskip("torch.nn")
    layer, x = made(("hard_sigmoid", 0.2, 0.5))
    with pytest.raises(Unsupported, match="to_torch: got activation hard_sigmoid"):
        layer.to_torch()
    assert_alike(by_onnx(layer, x), layer(x))


def test_copies_train_apart():
    torch = pytest.importorskip("torch.nn") and pytest.importorskip("torch")
    layer, x = made("relu", padding=1)
    before, module = layer(x), layer.to_torch()
    loss = module(torch.from_numpy(x)).square().mean()
    loss.backward()
    with torch.no_grad():
        for number in module.parameters():
            number -= number.grad
    np.testing.assert_array_equal(layer(x), before)


def test_as_c():
    """One network of both stages, by the reader of ONNX models."""
    pytest.importorskip("onnx.helper")
    from winogen.network import generate

    layer, x = made("relu", padding=1)
    files = generate(layer.to_onnx(), input_shapes={"x": x.shape}, name="separated", isa="generic")
    assert {"separated.c", "separated.h", "separated_00.c", "separated_01.c"} <= set(files.contents)
