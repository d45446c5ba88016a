"""Whole quantized models of PyTorch: one call, copies, files, other sizes, and what goes back."""

import copy
import pickle

import pytest
import torch
from coded import agree
from quantizing import MobileNetV2, ResNet18, UNet, quantized, scaled
from torch import nn

from winogen.graph.ops import (
    QConv,
)
from winogen.tasks.duel import Times
from winogen.torch import codes, optimize, report
from winogen.torch.code_deciding import CodeTrial, modules_of

NETS = {
    "resnet18": (ResNet18, {}, 21),
    "resnet18, sums fused": (ResNet18, {"fuses": True}, 21),
    "mobilenet_v2, int8": (MobileNetV2, {"dtype": torch.int8}, 53),
    "mobilenet_v2, sums fused": (MobileNetV2, {"fuses": True}, 53),
}


@pytest.mark.usefixtures("never_torch")
@pytest.mark.parametrize("net, options, layers", NETS.values(), ids=NETS)
def test_a_net_of_real_size_is_one_call(net, options, layers):
    x = torch.randn(1, 3, 224, 224)
    plain = scaled(net())
    model = quantized(plain, x, **options)
    ours = optimize(model, x, seconds=None)
    told = report(ours)
    assert told.tracer == "its own graph" and told.segments == 1
    assert len(told.rows) == layers
    assert all("_" in row.runs and row.predicted for row in told.rows)
    with torch.no_grad():
        for one in (x, torch.randn_like(x)):
            y, wanted, real = ours(one), model(one), plain(one)
            # As far from the model as rounding to codes is from the net, at most.
            assert (y - wanted).std() <= 1.5 * (wanted - real).std()
            assert (y - real).std() <= 1.2 * (wanted - real).std()


@pytest.mark.usefixtures("never_torch")
def test_a_u_net_of_any_size_is_one_call():
    x, other = torch.randn(2, 3, 16, 24), torch.randn(3, 3, 32, 20)
    model = quantized(scaled(UNet()), x, static=False)
    assert agree(model, x).count(QConv) == 8
    ours = optimize(model, x, seconds=None)
    told = report(ours)
    names = ["first", "second", "deep", "up", "merge", "last", "fine", "head"]
    assert told.segments == 1 and [row.name for row in told.rows] == names
    assert told.rows[3].what == "quantized conv 1x1 32->64, spread 2x2"
    with torch.no_grad():
        for one in (x, other):
            y, wanted = ours(one), model(one)
            assert y.shape == wanted.shape == (len(one), 3, *(2 * n for n in one.shape[2:]))
            assert (y - wanted).abs().max() <= 0.05 * wanted.abs().max()


@pytest.fixture
def small():
    """A model of some layers, with its example."""
    x = torch.randn(2, 3, 20, 20)
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.Sigmoid()
    return quantized(scaled(nn.Sequential(*layers)), x, static=False), x


@pytest.mark.usefixtures("never_torch")
def test_copies_files_and_other_sizes(small):
    model, x = small
    ours = optimize(model, x)
    with torch.no_grad():
        for other in (x, torch.randn(3, 3, 31, 24)):
            y = ours(other)
            torch.testing.assert_close(y, model(other), rtol=0, atol=0.02)
            assert torch.equal(copy.deepcopy(ours)(other), y)
    (module,) = modules_of(ours.winogen_fast.body)  # exported models cannot be pickled
    given = torch.randint(0, 256, (1, 3, 20, 20), dtype=torch.uint8)
    assert torch.equal(pickle.loads(pickle.dumps(module))(given), module(given))


@pytest.mark.usefixtures("never_torch")
def test_a_wrong_layer_goes_back_to_torch(small, monkeypatch):
    """Its codes are off by one everywhere, as a zero point that was lost would have it."""
    model, x = small
    right = codes._CodeReader._convolution

    def wrong(self, node, *rest):
        made = right(self, node, *rest)
        return made.__class__(
            type(made.op)(**{**vars(made.op), "y_zero": made.op.y_zero + 2}),
            made.inputs, made.outputs, made.label,
        )  # fmt: skip

    monkeypatch.setattr(codes._CodeReader, "_convolution", wrong)
    ours = optimize(model, x)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x), rtol=0, atol=0.02)
    body = ours.winogen_model if ours.winogen_fast is None else ours.winogen_fast.body
    made = [node for one in modules_of(body) for node in one.part.layers]
    assert all(node.op.y_scale is None for node in made)  # only numbers of sums


def test_what_torch_computes_faster_stays(small, monkeypatch):
    model, x = small
    monkeypatch.setattr(CodeTrial, "times", lambda self: Times(2.0, 1.0))
    ours = optimize(model, x)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x), rtol=0, atol=1e-6)
    assert not ours.winogen_fast or not modules_of(ours.winogen_fast.body)


@pytest.mark.usefixtures("never_torch")
def test_compiled_and_on_meta_tensors(small):
    model, x = small
    ours = optimize(model, x)
    body = ours.winogen_fast.body
    (module,) = modules_of(body)
    given = torch.zeros(2, 3, 20, 20, dtype=torch.uint8)
    shapes = [y.shape for y in [module(given)]]
    with torch.device("meta"):
        assert [module(torch.zeros(2, 3, 20, 20, dtype=torch.uint8)).shape] == shapes


def test_quantizers_of_torchao(small):
    pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="no torchao")
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    x = torch.randn(1, 3, 64, 64)
    net = scaled(ResNet18(16, 10))
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = pt2e.prepare_pt2e(torch.export.export(net, (x,)).module(), quantizer)
    prepared(x)
    model = pt2e.convert_pt2e(prepared)
    assert agree(model, x).count(QConv) == 21
