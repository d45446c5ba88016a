"""Linear layers, norms and softmax between transposed and flattened values: one node, and right."""

import io

import numpy as np
import onnx
import onnxruntime as ort
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import winogen.onnx  # noqa: E402

from .test_carrying import quick_compiles  # noqa: E402

__all__ = ["quick_compiles"]


class Block(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.LayerNorm(8, eps=1e-6)
        self.wide, self.narrow = nn.Linear(8, 24), nn.Linear(24, 8)
        self.scale, self.last = nn.Parameter(torch.rand(8) if last else torch.rand(8, 1, 1)), last

    def forward(self, x):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.wide(y)))
        if self.last:
            return x + (self.scale * y).permute(0, 3, 1, 2)
        return x + self.scale * y.permute(0, 3, 1, 2)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 12, 3, padding=1), nn.Conv2d(12, 8, 3, padding=1)
        self.norm, self.other = nn.GroupNorm(4, 8), nn.GroupNorm(3, 12)
        self.squeeze = nn.Conv2d(8, 12, 1)
        for one in (self.norm, self.other):
            nn.init.normal_(one.weight)
            nn.init.normal_(one.bias)

    def forward(self, x):
        t = self.squeeze(F.adaptive_avg_pool2d(x, 1))
        y = self.first(F.silu(self.norm(x))) + t
        return x + self.second(F.silu(self.other(y)))


class Ending(nn.Module):
    def __init__(self, flatten):
        super().__init__()
        self.conv, self.flatten = nn.Conv2d(8, 24, 3), flatten
        self.hidden, self.head = nn.Linear(24, 20), nn.Linear(20, 10, bias=False)

    def forward(self, x):
        y = self.flatten(F.relu(self.conv(x)))
        return self.head(F.hardswish(self.hidden(y))).softmax(-1)


class Excited(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.behind = nn.Conv2d(8, 12, 3), nn.Conv2d(12, 8, 1)
        self.less, self.more = nn.Linear(12, 6), nn.Linear(6, 12)

    def forward(self, x):
        x = self.conv(x)
        y = torch.sigmoid(self.more(F.relu(self.less(x.mean((2, 3))))))
        return self.behind(x * y[:, :, None, None])


def pooled(x):
    return F.adaptive_avg_pool2d(x, 1)


MODELS = {
    "convnext": (Block(False), ()),
    "convnext, scale within": (Block(True), ()),
    "diffusers": (Residual(), ()),
    "flatten": (Ending(lambda x: torch.flatten(pooled(x), 1)), ("Squeeze",)),
    "view": (Ending(lambda x: pooled(x).view(x.shape[0], -1)), ("Squeeze",)),
    "mean": (Ending(lambda x: x.mean((2, 3))), ("Squeeze",)),
    "excited": (Excited(), ()),
    "softmax of maps": (nn.Sequential(nn.Conv2d(8, 5, 3), nn.Softmax2d()), ()),
    "instance norm": (nn.Sequential(nn.Conv2d(8, 4, 3), nn.InstanceNorm2d(4), nn.ReLU()), ()),
}


def exported(model, opset):
    file = io.BytesIO()
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    torch.onnx.export(
        model.eval(), (torch.randn(2, 8, 9, 10),), file, input_names=["x"], output_names=["y"],
        dynamic_axes=axes, opset_version=opset, dynamo=False,
    )  # fmt: skip
    return onnx.load_model_from_string(file.getvalue())


@pytest.mark.parametrize("opset", [12, 17])
@pytest.mark.parametrize("name", MODELS)
def test_all_is_one_node_at_every_batch(name, opset, session, planner):
    if (name, opset) == ("softmax of maps", 12):  # that is of another axis, transposed
        return
    torch.manual_seed(1)
    module, others = MODELS[name]
    model = exported(module, opset)
    with winogen.testing.every_layer():
        fast = winogen.onnx.optimize(model)
    ours = [node.op_type for node in fast.graph.node if node.domain == "com.winogen"]
    assert ours == ["Segment"]
    theirs = [node for node in fast.graph.node if node.domain != "com.winogen"]
    assert tuple(n.op_type for n in theirs if n.op_type != "Constant") == others
    started = ort.InferenceSession(model.SerializeToString())
    for planned in (True, False):
        if not planned:
            planner.remove()
        mine = session(fast, threads=2)
        for batch in (1, 2, 3):
            x = np.random.default_rng(batch).standard_normal((batch, 8, 9, 10), np.float32)
            (y,), (wanted,) = mine.run(None, {"x": x}), started.run(None, {"x": x})
            assert y.shape == wanted.shape
            assert np.abs(y - wanted).max() <= 2e-5 * np.abs(wanted).max()


def test_a_node_may_be_called_as_a_value_in_another_form(session):
    model = exported(MODELS["flatten"][0], 17)
    model.graph.node.append(onnx.helper.make_node("Cos", ["x"], ["z"], name="y"))
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, None))
    with winogen.testing.every_layer():
        fast = winogen.onnx.optimize(model)
    x = np.ones((2, 8, 9, 10), np.float32)
    assert any(node.domain == "com.winogen" for node in fast.graph.node)
    assert session(fast).run(None, {"x": x})[0].shape == (2, 10)
