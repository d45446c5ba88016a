"""optimize: convolutions of one axis, and transposed ones, inside models."""

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from winogen.graph import ConvTranspose  # noqa: E402
from winogen.torch import optimize, report  # noqa: E402

from .test_optimize import same, segments  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


class Wave(nn.Module):
    """A net of signals, by modules and by functions."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv1d(3, 8, 5, padding="same"), nn.BatchNorm1d(8), nn.ReLU(inplace=True)
        )
        self.weight = nn.Parameter(torch.randn(8, 4, 3) / 4)
        self.pool = nn.MaxPool1d(2)
        self.up = nn.ConvTranspose1d(8, 8, 4, stride=2, padding=1)
        self.last = nn.Conv1d(16, 5, 1)
        self.mean = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        x = self.first(x)
        y = F.leaky_relu(F.conv1d(F.pad(x, (2, 0)), self.weight, dilation=1, groups=2), 0.1)
        y = F.gelu(self.up(self.pool(y))) + x
        z = self.last(torch.cat((y, x), 1))
        return z, self.head(self.mean(z).flatten(1))


class Wings(nn.Module):
    """A small U-Net whose layers are transposed in every way that is read."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.norm = nn.BatchNorm2d(8)
        self.weight = nn.Parameter(torch.randn(11, 4, 4, 4) / 8)
        self.last = nn.ConvTranspose2d(4, 2, 2, 2, bias=False)

    def forward(self, x):
        y = F.silu(self.norm(self.up(self.down(x))))
        y = F.conv_transpose2d(torch.cat((x, y), 1), self.weight, stride=2, padding=1)
        return self.last(torch.relu(y))


def trained(model):
    """With statistics that are no ones and zeros."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.uniform_(-1, 1)
                module.running_var.uniform_(0.5, 2)
    return model.eval()


def graphs(model):
    return [segment.segment.graph for segment in segments(model)]


def test_signals_run_as_one_segment():
    torch.manual_seed(0)
    model, x = trained(Wave()), torch.randn(2, 3, 40)
    ours = optimize(model, x)
    for one in (x, torch.randn(1, 3, 66)):
        with torch.inference_mode():
            same(ours(one), model(one))
    assert len(graphs(ours)) == 1
    assert len(report(ours).rows) == 5


def test_a_model_of_transposed_layers():
    torch.manual_seed(0)
    model, x = trained(Wings()), torch.randn(2, 3, 16, 20)
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
    (graph,) = graphs(ours)
    layers = [node.op for node in graph.nodes if isinstance(node.op, ConvTranspose)]
    assert [layer.activation for layer in layers] == ["silu", "relu", None]


def test_exported_models_of_both():
    """As aten's operators."""
    for model, x in ((Wave(), torch.randn(2, 3, 40)), (Wings(), torch.randn(1, 3, 8, 8))):
        model = trained(model)
        ours = optimize(torch.export.export(model, (x,)).module(), x)
        with torch.inference_mode():
            same(ours(x), model(x))
        assert len(graphs(ours)) == 1


class Holes(nn.Module):
    """Transposed layers with dilations: without a stride, with one of a common factor, or none."""

    def __init__(self):
        super().__init__()
        self.one = nn.ConvTranspose2d(3, 4, 3, dilation=(3, 2), padding=(2, 1), groups=1)
        self.two = nn.ConvTranspose2d(
            4, 6, (3, 2), (2, 1), (1, 2), (1, 2), groups=2, dilation=(2, 3)
        )
        self.three = nn.ConvTranspose2d(6, 2, 2, stride=2, dilation=3)

    def forward(self, x):
        return self.three(torch.relu(self.two(torch.relu(self.one(x)))))


def test_transposed_layers_with_dilations():
    torch.manual_seed(0)
    model, x = Holes().eval(), torch.randn(2, 3, 6, 7)
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
        same(segments(ours)[0].plain()(x)[0], model(x))
    (graph,) = graphs(ours)
    assert sum(isinstance(node.op, ConvTranspose) for node in graph.nodes) == 3


class Tokens(nn.Module):
    """What reads the last axis of signals, or counts axes from the back, is torch's."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3, padding=1)
        self.linear = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        y = self.linear(self.norm(self.conv(x)))
        y = torch.cat((y, y), -3).softmax(-2)
        return y * torch.arange(6.0) + y.flatten(1)[:, :1, None]


def test_what_means_something_else_of_signals():
    torch.manual_seed(0)
    model, x = Tokens().eval(), torch.randn(2, 4, 6)
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
    assert [len(graph.nodes) for graph in graphs(ours)] == [1]


def test_transposed_layers_that_stay():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.up = nn.ConvTranspose2d(4, 4, 3, stride=2, dilation=6)
            self.sized = nn.ConvTranspose2d(4, 4, 3, stride=2)

        def forward(self, x):
            return self.sized(self.up(self.conv(x)), output_size=(48, 48))

    model, x = Net().eval(), torch.randn(1, 3, 8, 8)
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
    assert "transposed, with a dilation beside its stride" in str(report(ours))
