"""Optimized models compute what torch computes, or refuse: every kind of net, every use of it."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from graph import torch_nets as nets  # noqa: E402
from optimized import inside, made, same, segments  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from winogen.errors import InvalidType, InvalidValue, Unsupported, WinogenError  # noqa: E402
from winogen.graph import Conv, GlobalAverage, ceilings  # noqa: E402
from winogen.torch import optimize, report  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


@pytest.mark.parametrize("net", nets.ALL, ids=lambda net: net.__name__)
def test_every_kind_of_net(net, x):
    model = made(net)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
        other = torch.randn(2, 3, 14, 8)  # shapes and an order that it was not made for
        same(ours(other), model(other))
        same(ours(other.contiguous(memory_format=torch.channels_last)), model(other))
    assert segments(ours) and not any(type(m) is nn.Conv2d for m in inside(ours).modules())
    if net in (nets.Dense, nets.Inception, nets.Squeezed, nets.Shuffled):
        (segment,) = segments(ours)
        assert [type(node.target) for node in inside(ours).graph.nodes].count(str) == 3 and segment
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    table = report(ours)
    assert table.errors.ours < 1e-5 and table.packed_bytes <= 3 * table.weight_bytes
    small, usual, large = table.budgets
    assert small.packed_bytes <= usual.packed_bytes <= 3 * table.weight_bytes
    assert table.packed_bytes <= usual.packed_bytes <= large.packed_bytes
    assert min(one.predicted for one in table.budgets) > 0
    assert f"bytes at {large.times_weights} x" in str(table)
    for row in table.rows:
        assert row.name in str(table) and row.predicted and row.measured and row.torch


def test_what_is_fused(x):
    """One segment: five convolutions, the pooling and the linear layer, nothing else."""
    ours = optimize(made(nets.Residual), x)
    (only,) = segments(ours)
    kinds = [type(node.op) for node in only.segment.graph.nodes]
    assert kinds == [Conv] * 5 + [GlobalAverage, Conv]
    assert [m for m in inside(ours).modules() if isinstance(m, (nn.BatchNorm2d, nn.ReLU))] == []
    first, *_ = segments(optimize(made(nets.Shared), x))
    assert len(first.segment.graph.nodes) == 3


def test_float64_and_larger_batches():
    model, x = made(nets.Residual).double(), torch.randn(3, 3, 12, 10, dtype=torch.float64)
    with torch.no_grad():
        same(optimize(model, x)(x), model(x), 1e-12)


def test_zero_batch(x):
    model = made(nets.Mobile)
    ours = optimize(model, x)
    assert ours(x[:0]).shape == model(x[:0]).shape


def test_later_changes_of_the_weights_have_no_effect(x):
    model = made(nets.Shared)
    ours = optimize(model, x)
    before = ours(x)
    with torch.no_grad():
        model.conv.weight.mul_(2)
    assert torch.equal(ours(x), before)


def test_copies_and_pickles(x):
    ours = optimize(made(nets.UNet), x)
    wanted = ours(x)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    for again in (
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(file, weights_only=False),
    ):
        assert torch.equal(again(x), wanted)
        assert str(report(again)) == str(report(ours))
        numbers = {module.number for module in (*segments(ours), *segments(again))}
        assert len(numbers) == 2 * len(segments(ours))


def test_a_file_of_another_version_is_refused(x, monkeypatch):
    from winogen.graph import ir

    ours = optimize(made(nets.Shared), x)
    with monkeypatch.context() as patch:
        patch.setattr(ir, "FORMAT", 99)
        text = pickle.dumps(ours)
    with pytest.raises(InvalidValue, match="optimize the model again"):
        pickle.loads(text)


def test_training_is_refused_and_gradients_are_right(x):
    model = made(nets.Residual)
    ours = optimize(model, x)
    assert ours.eval() is ours
    with pytest.raises(InvalidValue, match="Train the original"):
        ours.train()
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours(mine).sum().backward()
    model(theirs).sum().backward()
    same(mine.grad, theirs.grad, 1e-4)
    assert not any(parameter.requires_grad for parameter in ours.parameters())


def test_other_types_and_devices_are_refused(x):
    ours = optimize(made(nets.Mobile), x)
    for change in (ours.double, ours.half, lambda: ours.to("meta")):
        with pytest.raises(Unsupported, match="Convert the original"):
            change()
    assert ours.to(torch.float32) is ours and ours.to("cpu") is ours
    with pytest.raises(RuntimeError, match="Double"):  # as the model itself says it
        ours(x.double())


def test_autocast_is_left_to_the_copy_with_one_warning(x):
    model = made(nets.Mobile)
    ours = optimize(model, x)
    with (
        torch.inference_mode(),
        torch.autocast("cpu", torch.bfloat16),
        pytest.warns(UserWarning, match="and not faster: a call under autocast") as warned,
    ):
        assert torch.equal(ours(x), model(x)) and ours(x).dtype == torch.bfloat16
    assert len(warned) == 1
    with torch.inference_mode():
        same(ours(x), model(x))


def test_a_trace_computes_on_new_inputs(x):
    model = made(nets.Shared)
    ours = optimize(model, x)
    with torch.no_grad():
        trace = torch.jit.trace(ours, x)
        other = torch.randn_like(x)
        same(trace(other), model(other))
    with pytest.raises(InvalidValue, match="still exists"):  # as in another process
        torch.ops.winogen.segment([x], 12345)


def test_the_operator_keeps_to_its_schema(x):
    (only,) = segments(optimize(made(nets.Shared), x))
    torch.library.opcheck(torch.ops.winogen.segment.default, ([x], only.number))


def test_compiled_by_dynamo(x):
    model = made(nets.UNet)
    ours = torch.compile(optimize(model, x), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        same(ours(x), model(x))


def test_named_and_typed_layers_stay_with_torch(x):
    model = made(nets.Residual)
    by_name = optimize(model, x, exclude=["conv1", "down"])
    inner = dict(inside(by_name).named_modules())
    assert type(inner["conv1"]) is nn.Conv2d and type(inner["down.0"]) is nn.Conv2d
    assert "conv2" not in inner
    by_type = optimize(model, x, exclude=[nn.Conv2d, nn.Linear])
    assert segments(by_type) == []
    assert {row.why for row in report(by_type).rows} == {"excluded"}
    assert {row.name for row in report(by_name).rows if row.why == "excluded"} == {
        "conv1",
        "down.0",
    }
    with torch.no_grad():
        same(by_name(x), model(x))
        same(by_type(x), model(x))


def test_memory_limit(x):
    model = made(nets.Residual)
    free = optimize(model, x, memory_limit=1 << 30)
    bytes_of = sum(m.segment.packed_bytes for m in segments(free))
    limit = int(0.7 * report(free).packed_bytes)
    tight = optimize(model, x, memory_limit=limit)
    assert report(tight).packed_bytes <= limit < report(free).packed_bytes
    assert sum(m.segment.packed_bytes for m in segments(tight)) < bytes_of
    assert "smaller filters" in str(report(tight))
    with torch.no_grad():
        same(tight(x), model(x))
    with pytest.raises(InvalidValue, match="memory_limit: got 10"):
        optimize(model, x, memory_limit=10)
    least = optimize(model, x, memory_limit=0)
    weights = report(least).weight_bytes
    assert weights <= report(least).packed_bytes <= min(2 * weights, report(tight).packed_bytes)
    with torch.no_grad():
        same(least(x), model(x))
        other = torch.randn(2, 3, 14, 18)
        same(least(other), model(other))
    assert all(len(module.segment._bound) == 2 for module in segments(least))


def test_tolerance(x):
    model = made(nets.Residual)
    coarse, fine = (optimize(model, x, tolerance=t) for t in (1e-3, 1e-6))
    assert max(row.error for row in report(fine).rows) < 1e-6
    assert max(row.error for row in report(coarse).rows) >= max(
        row.error for row in report(fine).rows
    )


@pytest.mark.parametrize("least", (0.0, 1e9))
def test_layers_are_computed_more_carefully_until_the_output_is_accurate(x, monkeypatch, least):
    """As long as the error is too large, by a factor that nothing reaches, if that gains enough."""
    model = made(nets.Residual)
    usual = max(row.error for row in report(optimize(model, x)).rows)
    monkeypatch.setattr(ceilings, "USUAL", 0.0)
    monkeypatch.setattr(ceilings, "ENOUGH", 0.0)
    monkeypatch.setattr(ceilings, "_WORTH_IT", least)
    monkeypatch.setattr(ceilings, "CEILINGS", (None, 1.0, usual * 0.99))
    careful = optimize(model, x)
    most = max(row.error for row in report(careful).rows)
    assert most == usual if least else most < usual
    with torch.no_grad():
        same(careful(x), model(x))


class InPlace(nn.Module):
    """A sum is cut off in place: what reads it later must see that."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nets.conv(3), nets.conv()

    def forward(self, x):
        y = self.a(x)
        z = F.relu(y, inplace=True)
        y2 = self.b(y)  # of what is cut off
        z.mul_(2)
        return y2 + z + y


class SeenByView(nn.Module):
    """A view of the map sees the change in place."""

    def __init__(self):
        super().__init__()
        self.a = nets.conv(3)

    def forward(self, x):
        y = self.a(x)
        view = y[:, :4]
        y.relu_()
        return view


class Assigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nets.conv(3), nets.conv()

    def forward(self, x):
        y = self.a(x)
        y[:, 0] = 0
        return self.b(y)


class Branching(nn.Module):
    """Control flow on numbers, and a list of modules of unknown length: nothing can trace it."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nets.conv(3), nets.conv()

    def forward(self, x):
        y = self.a(x)
        for _ in range(1 + int(float(y.sum()) > 1e9)):
            y = self.b(y)
        return y


class Viewed(nn.Module):
    """`view` of a map is no view when the channels lie last."""

    def __init__(self):
        super().__init__()
        self.a = nets.conv(3)

    def forward(self, x):
        y = self.a(x)
        return y.view(y.size(0), -1)


@pytest.mark.parametrize("net", [InPlace, SeenByView, Assigned, Branching, Viewed])
def test_models_that_are_hard_to_trace_are_right(net, x):
    model = net().eval()
    ours = optimize(model, x)
    with torch.no_grad():
        same(ours(x.clone()), model(x.clone()))
    assert ("replaced" in str(report(ours))) == (net is Branching)
    assert ("traced by torch.export" in str(report(ours))) == (net in (SeenByView, Assigned))
    again = pickle.loads(pickle.dumps(ours))
    with torch.no_grad():
        assert torch.equal(again(x.clone()), ours(x.clone()))


def test_replaced_modules_may_be_shared_or_excluded(x):
    class Shared(Branching):
        def __init__(self):
            super().__init__()
            self.c = self.b

        def forward(self, x):
            return self.c(super().forward(x))

    model = Shared().eval()
    ours = optimize(model, x, exclude=["a"])
    assert type(inside(ours).a) is nn.Conv2d and inside(ours).b is inside(ours).c
    assert type(inside(ours).b) is not nn.Conv2d
    with torch.no_grad():
        same(ours(x), model(x))


def test_hooks_and_subclasses_are_left_alone(x):
    class Doubled(nn.Conv2d):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(nets.conv(3), Doubled(nets.C, nets.C, 3), nets.conv()).eval()
    model[2].register_forward_hook(lambda module, args, output: output + 1)
    ours = optimize(model, x)
    with torch.no_grad():
        same(ours(x), model(x))


def test_a_model_without_convolutions_is_itself(x):
    model = nn.Sequential(nn.Flatten(), nn.Linear(360, 2)).eval()
    ours = optimize(model, x)
    assert torch.equal(ours(x), model(x)) and report(ours).rows == ()


def test_arguments_are_checked_before_any_work(x):
    model = made(nets.Shared)
    cases = (
        ((torch.relu, x), {}, "model"),
        ((model, [[1.0]]), {}, None),
        ((model, 3), {}, "example_inputs"),
        ((model.half(), x), {}, "float"),
    )
    for arguments, options, words in cases[:1] + cases[2:3]:
        with pytest.raises(InvalidType, match=words):
            optimize(*arguments, **options)
    with pytest.raises(InvalidType, match="model.float"):
        optimize(made(nets.Shared).half(), x)
    model = made(nets.Shared)
    for options in (
        {"tolerance": -1},
        {"threads": 0},
        {"memory_limit": -5},
        {"exclude": "conv"},
        {"exclude": ["nothing"]},
        {"exclude": [3]},
    ):
        with pytest.raises(WinogenError, match=next(iter(options))):
            optimize(model, x, **options)
    with pytest.raises(InvalidValue, match="optimized"):
        optimize(optimize(model, x), x)
    with pytest.raises(InvalidType, match="optimize returned"):
        report(model)
    with pytest.raises(
        InvalidType, match=r"example_inputs: got \(1, 3, 64, 64\); allowed: a tensor"
    ):
        optimize(model, (1, 3, 64, 64))
    with pytest.raises(InvalidValue, match="model: got lazy layers"):
        optimize(nn.Sequential(nn.LazyConv2d(4, 3)), x)
