"""`torch.compile(model, backend="winogen")`: right with changing weights, gradients and shapes."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from graph import torch_nets as nets  # noqa: E402
from torch import nn  # noqa: E402

from winogen.torch import deciding  # noqa: E402
from winogen.torch.backend import _Backend, winogen  # noqa: E402


@pytest.fixture(autouse=True)
def never_torch(monkeypatch):
    monkeypatch.setattr(deciding, "_torch_is_faster", lambda ours, theirs: False)
    monkeypatch.setattr(deciding, "_BUDGET", 0.0)


@pytest.fixture
def x():
    return torch.randn(1, 3, 12, 10)


@pytest.fixture
def backends(monkeypatch):
    """Every backend that is made."""
    made = []

    class Noted(_Backend):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr("winogen.torch.backend._Backend", Noted)
    return made


def same(ours, theirs):
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@pytest.mark.parametrize("net", [nets.Residual, nets.Dense, nets.RRDB, nets.Mobile])
def test_captured_nets(net, x, backends):
    model = nets.normalized(net())
    compiled = torch.compile(model, backend=winogen, fullgraph=True)
    with torch.inference_mode():
        same(compiled(x), model(x))
    (only,) = backends
    assert only.compiled is not None
    assert not any(node.target is torch.conv2d for node in only.compiled.graph.nodes)


def test_weights_may_change(x, backends):
    model = nets.normalized(nets.Shared())
    compiled = torch.compile(model, backend=winogen)
    with torch.no_grad():
        same(compiled(x), model(x))
        first = backends[0].compiled
        compiled(x)
        assert backends[0].compiled is first  # as long as nothing changed
        model.conv.weight.mul_(-2)
        same(compiled(x), model(x))
        model.norms[0].running_mean.add_(1)
        same(compiled(x), model(x))
        model.stem.weight.data = torch.randn_like(model.stem.weight)
        same(compiled(x), model(x))


def test_gradients_are_those_of_torch(x):
    model = nets.normalized(nets.Shared())
    compiled = torch.compile(model, backend=winogen)
    compiled(x).sum().backward()
    ours = model.conv.weight.grad.clone()
    model.zero_grad()
    model(x).sum().backward()
    assert torch.equal(ours, model.conv.weight.grad)


def test_training_mode_keeps_its_statistics(x):
    model = nets.Shared().train()
    twin = nets.Shared().train()
    twin.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend=winogen)
    with torch.no_grad():
        same(compiled(x), twin(x))
    assert torch.equal(model.norms[0].running_mean, twin.norms[0].running_mean)


def test_other_shapes_and_symbolic_ones(x):
    model = nets.normalized(nets.Shared())
    compiled = torch.compile(model, backend=winogen, dynamic=True)
    with torch.no_grad():
        for shape in ((1, 3, 12, 10), (2, 3, 9, 11), (3, 3, 8, 8)):
            x = torch.randn(shape)
            same(compiled(x), model(x))


def test_residuals_are_no_weights(x, backends):
    """What is only ever added is compared with nothing, and compiles nothing anew."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nets.conv(3, 3)

        def forward(self, x, y):
            return self.conv(x) + y

    model = Two().eval()
    compiled = torch.compile(model, backend=winogen)
    with torch.no_grad():
        first = None
        for _ in range(3):
            x, y = torch.randn(2, 1, 3, 12, 10)
            same(compiled(x, y), model(x, y))
            first = first or backends[0].compiled
            assert backends[0].compiled is first


def test_the_backend_is_registered():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    _, _, entry = text.partition("[project.entry-points.torch_dynamo_backends]\n")
    assert entry.startswith('winogen = "winogen.torch.backend:winogen"\n')
