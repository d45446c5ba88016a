"""Models as people export them from PyTorch: folders compile without a warning and are right."""

import io
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from winogen.network import generate
from winogen.network.reading import loaded, network

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Upscaler(nn.Module):
    """SRVGGNetCompact of Real-ESRGAN: layers with slopes per channel, and the picture added."""

    def __init__(self, channels=12, layers=2, times=4):
        super().__init__()
        body = [nn.Conv2d(3, channels, 3, 1, 1), nn.PReLU(channels)]
        for _ in range(layers):
            body += [nn.Conv2d(channels, channels, 3, 1, 1), nn.PReLU(channels)]
        body.append(nn.Conv2d(channels, 3 * times * times, 3, 1, 1))
        self.body, self.shuffle, self.times = nn.Sequential(*body), nn.PixelShuffle(times), times

    def forward(self, x):
        larger = F.interpolate(x, scale_factor=self.times, mode="nearest")
        return self.shuffle(self.body(x)) + larger


class UNet(nn.Module):
    """Halves of odd sizes are enlarged to the sizes of what they are joined with."""

    def __init__(self, channels=(8, 16)):
        super().__init__()
        small, large = channels
        self.first, self.second = self.two(3, small), self.two(small, large)
        self.third, self.last = self.two(small + large, small), nn.Conv2d(small, 2, 1)

    @staticmethod
    def two(inputs, filters):
        layers = []
        for count in (inputs, filters):
            layers += [nn.Conv2d(count, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.first(x)
        y = self.second(F.max_pool2d(x, 2))
        y = F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return self.last(self.third(torch.cat([x, y], 1)))


class Attention(nn.Module):
    """A layer, then tokens of its pixels, each of which looks at all others."""

    def __init__(self, channels=8, heads=2):
        super().__init__()
        self.patches = nn.Conv2d(3, channels, 4, 4)
        self.norm, self.heads = nn.LayerNorm(channels), heads
        self.three, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 16), nn.GELU(), nn.Linear(16, 5))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        batch, tokens, channels = x.shape
        three = self.three(self.norm(x)).reshape(batch, tokens, 3, self.heads, -1)
        q, k, v = three.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, channels))
        return self.mlp(x.mean(1))


MODELS = {
    "upscaler": (Upscaler, (1, 3, 9, 14)),
    "u-net": (UNet, (1, 3, 13, 18)),
    "attention": (Attention, (2, 3, 12, 20)),
}


def exported(name):
    """The model of sizes that are open, and the shape of a picture."""
    kind, shape = MODELS[name]
    torch.manual_seed(0)
    file = io.BytesIO()
    axes = {"x": {2: "height", 3: "width"}} if name != "attention" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            kind().eval(), (torch.rand(shape),), file, input_names=["x"], output_names=["y"],
            opset_version=17, dynamo=False, dynamic_axes=axes,
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue()), shape


@pytest.mark.parametrize("name", MODELS)
def test_it_computes_what_pytorch_exported(name, tmp_path, make, ends):
    model, shape = exported(name)
    options = {"algorithm": "direct", "input_shapes": {"x": shape}}
    generate(model, isa="generic", **options).write(tmp_path)
    assert make(tmp_path, "test").count(": right") == 1
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    y = ends(tmp_path, x, wanted.size, make)
    assert np.abs(y - wanted.ravel()).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("isa, weights", [("neon", "object"), ("armv7", "file")])
@pytest.mark.parametrize("name", MODELS)
def test_it_runs_on_other_cpus(name, isa, weights, tmp_path, make):
    model, shape = exported(name)
    options = {"algorithm": "direct", "input_shapes": {"x": shape}}
    generate(model, isa=isa, weights=weights, **options).write(tmp_path)
    assert make(tmp_path, "test", isa=isa).count(": right") == 1


def test_the_picture_is_enlarged_without_tables():
    model, shape = exported("upscaler")
    nodes = network(loaded(model, {"x": shape})).graph.nodes
    assert {"repeat 4x4", "spread 4x4"} <= {str(node.op) for node in nodes}
