"""What a copy would compute otherwise than the model is found, and stays torch's."""

import ctypes
import sys

import pytest
import torch
from graph import torch_nets as nets
from torch import nn

from winogen.graph import segment
from winogen.graph.compiling import kernels
from winogen.graph.steps import Bound
from winogen.torch import optimize, report, translate
from winogen.torch.cases import distance
from winogen.torch.segment_op import SegmentModule

pytestmark = pytest.mark.usefixtures("never_torch")


class Net(nn.Sequential):
    """Two segments, with what winogen has no kernel for between them."""

    def __init__(self):
        super().__init__(nets.conv(3), nn.LeakyReLU(0.3), nn.Softsign(), nets.conv(), nn.ReLU6())


def kinds(model):
    return [type(module) for module in model.winogen_fast.body.children()]


def test_a_wrong_translation_goes_back_to_torch(x, monkeypatch):
    right = translate._MODULES[nn.ReLU6]
    monkeypatch.setitem(translate._MODULES, nn.LeakyReLU, right)
    model = Net().eval()
    ours = optimize(model, x)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x))
    assert kinds(ours).count(SegmentModule) == 1 and nn.LeakyReLU in kinds(ours)
    (row,) = (row for row in report(ours).rows if row.runs == "torch")
    assert row.name == "0" and "off by" in row.why and "allowed" in row.why


def test_a_wrong_kernel_goes_back_to_torch(x, monkeypatch):
    """It is wrong where the map has as many channels as the picture."""
    run = Bound.run

    def spoiled(self, addresses):
        if self.planned.buffers["input", 0][1] == 3:
            memory = (ctypes.c_float * 3).from_address(addresses[-1])
            run(self, addresses)
            memory[1] += 0.01
        else:
            run(self, addresses)

    monkeypatch.setattr(Bound, "run", spoiled)
    model = Net().eval()
    ours = optimize(model, x)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), model(x))
    assert [row.name for row in report(ours).rows if row.runs == "torch"] == ["0"]


def test_what_is_wrong_at_another_size_is_found(x, monkeypatch):
    right = translate._MODULES[nn.LeakyReLU]

    def wrong(call, module):
        relu = translate._MODULES[nn.ReLU6] if module.negative_slope == 0.3 else right
        return relu(call, module)

    class OfSize(nn.Module):
        """At twelve rows what the wrong translation says, else leaky."""

        def __init__(self):
            super().__init__()
            self.first, self.leaky, self.last = nets.conv(3), nn.LeakyReLU(0.3), nets.conv()

        def forward(self, x):
            y = self.first(x)
            y = self.leaky(y.clamp(0, 6 + 1e9 * (y.shape[2] != 12)))
            return self.last(y)

    monkeypatch.setitem(translate._MODULES, nn.LeakyReLU, wrong)
    model = OfSize().eval()
    ours, other = optimize(model, x), torch.randn(1, 3, 20, 20) * 10
    with torch.no_grad():
        torch.testing.assert_close(ours(other), model(other))


def test_a_whole_that_differs_is_left_alone(x, monkeypatch):
    """Every way is wrong: fusing, and the layers one by one."""
    from winogen.torch import base

    original = base.call
    monkeypatch.setattr(base, "call", lambda *args: 1.01 * original(*args))
    ways = sys.modules["winogen.torch.optimize"]  # the name of the function, too
    monkeypatch.setattr(ways, "traced", lambda *args: iter(["nothing traces it"]))
    model = Net().eval()
    ours = optimize(model, x)
    with torch.no_grad():
        assert torch.equal(ours(x), model(x))
    table = report(ours)
    assert "left alone" in str(table) and {row.runs for row in table.rows} == {"torch"}


class Several(nn.Module):
    """Two results of one tensor, of which the user may change one in place."""

    def __init__(self, second):
        super().__init__()
        self.a, self.b, self.second = nets.conv(3), nets.conv(), second

    def forward(self, x):
        y = self.b(self.a(x))
        return y, self.second(y)


@pytest.mark.parametrize(
    "second, shares",
    (
        (lambda y: y, True),
        (lambda y: y.permute(0, 2, 3, 1), True),
        (lambda y: y[:, :3], True),
        (lambda y: y.permute(0, 2, 3, 1).contiguous(), False),
        (torch.relu, False),
    ),
    ids=("itself", "permuted", "sliced", "copied", "computed"),
)
def test_results_share_memory_as_those_of_the_model(x, second, shares):
    model = Several(second).eval()
    ours = optimize(model, x)
    with torch.no_grad():
        for call in (model, ours):
            y, other = call(x)
            before = other.clone()
            y.fill_(7.0)
            assert torch.equal(other, before) != shares
    assert report(ours).segments


def test_parts_of_a_tensor_share_nothing(x):
    class Parts(nn.Sequential):
        def forward(self, x):
            return super().forward(x).chunk(2, 1)

    ours = optimize(Parts(nets.conv(3), nets.conv()).eval(), torch.cat([x, x]))
    assert report(ours).tracer == "torch.fx"


@pytest.mark.parametrize("norm", (nn.InstanceNorm2d(8), nn.GroupNorm(8, 8), nn.GroupNorm(4, 8)))
@pytest.mark.parametrize("batch", (1, 2))
def test_what_normalizations_refuse_is_refused(norm, batch):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU()).eval()
    ours, single = optimize(model, torch.randn(1, 3, 6, 7)), torch.randn(batch, 3, 3, 3)
    try:
        wanted = model(single)
    except ValueError as problem:
        with pytest.raises(ValueError, match="Expected more than 1") as found:
            ours(single)
        assert str(found.value) == str(problem)
    else:
        # Of a single value less itself, roundings by the square root of epsilon remain.
        torch.testing.assert_close(ours(single), wanted, atol=1e-3, rtol=1e-5)
    assert any(isinstance(m, SegmentModule) for m in ours.winogen_fast.body.modules())


def test_distances():
    nan, inf = float("nan"), float("inf")
    one = torch.tensor([1.0, nan, inf, -4.0])
    assert distance(one.clone(), one) == 0
    assert distance(torch.tensor([1.0, nan, inf, -5.0]), one) == 0.25
    assert distance(torch.tensor([1.0, nan, -inf, -4.0]), one) == inf
    assert distance(torch.tensor([1.0, 0.0, inf, -4.0]), one) == inf
    assert distance(one.double(), one) == distance(one[:3], one) == inf
    assert distance(torch.tensor([1e-9]), torch.tensor([0.0])) == inf


def test_the_proof_needs_no_kernels_of_its_own(monkeypatch):
    """On other sizes it computes by those of the example: nobody waits for others before a call."""
    wanted = []

    def compiling(specs):
        wanted.append(set(specs))
        compile_all(specs)

    compile_all = segment.compile_all
    monkeypatch.setattr(segment, "compile_all", compiling)
    made = optimize(nn.Conv2d(64, 64, 3, padding=1).eval(), torch.randn(1, 64, 7, 7))
    (module,) = (m for m in made.winogen_fast.body.modules() if isinstance(m, SegmentModule))
    own = set(kernels(bound.planned for bound in module.segment._bound.values()))
    assert wanted and all(own >= specs for specs in wanted)
    shapes = [(2, 64, 7, 7), (1, 64, 8, 9)]
    if own >= {spec for shape in shapes for spec in kernels([module.segment.plan([shape])])}:
        pytest.skip("by plans for this machine, one kernel is the fastest for all these sizes")
