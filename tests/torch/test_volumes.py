"""optimize and torch.compile: convolutions of three axes inside models."""

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from winogen.graph import Conv, ConvTranspose, MaxPool  # noqa: E402
from winogen.torch import optimize, report  # noqa: E402

from .random_volumes import net_of  # noqa: E402
from .test_optimize import same, segments  # noqa: E402
from .test_signals import graphs, trained  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


class Scan(nn.Module):
    """A small U-Net of volumes, by modules and by functions."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv3d(2, 8, 3, padding="same", bias=False),
            nn.BatchNorm3d(8),
            nn.ReLU(inplace=True),
            nn.Dropout3d(),
        )
        self.pool = nn.MaxPool3d((1, 2, 2))
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 1, 3) / 4)
        self.norm = nn.BatchNorm3d(6)
        self.up = nn.ConvTranspose3d(6, 8, (1, 2, 2), stride=(1, 2, 2))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Conv3d(16, 16, 1), nn.Sigmoid())
        self.pad = nn.ReplicationPad3d((1, 1, 0, 0, 2, 0))
        self.last = nn.Conv3d(16, 3, (3, 1, 3))

    def forward(self, x):
        x = self.first(x)
        y = F.conv3d(F.pad(self.pool(x), (1, 1, 0, 0, 1, 1)), self.weight, groups=2)
        y = torch.cat((self.up(F.leaky_relu(self.norm(y), 0.1)), x), 1)
        y = self.last(self.pad(y * self.gate(y)))
        return y, F.avg_pool3d(y, 2).mean((2, 3, 4), keepdim=True)


class Deep(nn.Module):
    """What is left of other layers of volumes: shapes, sums, softmax, enlarged, transposed."""

    def __init__(self):
        super().__init__()
        self.one = nn.Conv3d(4, 6, 3, padding=1, stride=(2, 1, 2), padding_mode="circular")
        self.two = nn.Conv3d(6, 6, (3, 1, 1), padding=(2, 0, 0), dilation=(2, 1, 1))
        self.norm = nn.GroupNorm(2, 6)
        options = {"padding": 1, "output_padding": (1, 0, 1), "groups": 2}
        self.up = nn.ConvTranspose3d(6, 4, 3, stride=2, **options)
        self.shift = nn.Parameter(torch.randn(1, 6, 1, 1, 1))

    def forward(self, x):
        y = F.silu(self.norm(self.one(x)))
        y = self.two(y) * 2.0 + y + self.shift
        y = F.interpolate(y, scale_factor=(1, 2, 1), mode="nearest")
        return self.up(F.max_pool3d(y, 2, padding=1)).softmax(1)[:, 1:]


def test_volumes_run_as_one_segment():
    torch.manual_seed(0)
    model, x = trained(Scan()), torch.randn(2, 2, 4, 8, 10)
    ours = optimize(model, x)
    for one in (x, torch.randn(1, 2, 5, 6, 8), x.to(memory_format=torch.channels_last_3d)):
        with torch.inference_mode():
            same(ours(one), model(one))
    (graph,) = graphs(ours)
    convs = [node.op for node in graph.nodes if isinstance(node.op, (Conv, ConvTranspose))]
    assert [op.activation for op in convs[:2]] == ["relu", ("leaky_relu", 0.1)]
    assert any(isinstance(node.op, MaxPool) for node in graph.nodes)
    assert "conv 3x3x3 2->8" in str(report(ours))


def test_planes_then_depth():
    """The blocks of R(2+1)D: tiles are reported along all three axes."""
    torch.manual_seed(0)
    planes = nn.Conv3d(32, 32, (1, 3, 3), padding=(0, 1, 1), bias=False)
    depth = nn.Conv3d(32, 32, (3, 1, 1), padding=(1, 0, 0), bias=False)
    model = trained(nn.Sequential(planes, nn.BatchNorm3d(32), nn.ReLU(), depth))
    x = torch.randn(1, 32, 8, 10, 10)
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
    tiles = [row.runs.split()[-1] for row in report(ours).rows]
    assert tiles[0].startswith("1x") and tiles[1].endswith("x1x1")


@pytest.mark.parametrize("exported", [False, True])
def test_other_layers_of_volumes(exported):
    torch.manual_seed(0)
    model, x = trained(Deep()), torch.randn(1, 4, 6, 5, 8)
    ours = optimize(torch.export.export(model, (x,)).module() if exported else model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
    assert len(graphs(ours)) == 1


def test_compiled_with_gradients_by_torch():
    torch.manual_seed(0)
    model, x = trained(Deep()), torch.randn(1, 4, 6, 5, 8)
    compiled = torch.compile(model, backend="winogen")
    ours = optimize(model, x)
    (segment,) = segments(ours)
    with torch.inference_mode():
        same(compiled(x), model(x))
        same(segment(x), segment.plain()(x)[0])
    grads = []
    for one in (ours, model):
        leaf = x.clone().requires_grad_()
        one(leaf).square().sum().backward()
        grads.append(leaf.grad)
    same(*grads)


def test_what_stays():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv3d(2, 4, 3)
            self.sparse = nn.ConvTranspose3d(4, 4, 3, stride=4, dilation=5)
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            y = self.sparse(self.conv(x))
            return torch.cat((y, y), -2), self.linear(y.mean((2, 3, 4))), y.softmax(2)

    model, x = Net().eval(), torch.randn(1, 2, 5, 5, 6)
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
    assert "transposed, with a dilation beside its stride" in str(report(ours))


class Single(nn.Module):
    """A volume without a batch, of four axes as maps have them; shapes stay as they are."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(4, 4, 3, padding=1)
        self.norm = nn.InstanceNorm3d(4)

    def forward(self, x):
        y = F.max_pool3d(self.norm(self.conv(x)), 3, 1, 1)
        return F.conv2d(F.avg_pool3d(y, 3, 1, 1), torch.ones(2, 5, 3, 3))


def test_one_volume_without_a_batch_stays():
    torch.manual_seed(0)
    model, x = Single().eval(), torch.randn(4, 5, 5, 6)
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
    assert [len(graph.nodes) for graph in graphs(ours)] in ([], [1])


@pytest.mark.thorough
def test_random_nets():
    computed = 0
    for seed in range(10):
        model, x = net_of(seed)
        ours = optimize(model, x)
        with torch.inference_mode():
            same(ours(x), model(x))
        computed += bool(segments(ours))
    assert computed > 5
