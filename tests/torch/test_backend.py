"""`torch.compile(model, backend="winogen")`: right with changing weights, gradients and shapes."""

import copy
import operator
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from graph import torch_nets as nets  # noqa: E402
from torch import nn  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from winogen.errors import CompilerNotFound, OutOfMemory  # noqa: E402
from winogen.graph.promise import OutputPromise  # noqa: E402
from winogen.torch.backend import _Backend, winogen  # noqa: E402
from winogen.torch.promising import UnseenInputs  # noqa: E402
from winogen.torch.segment_op import SegmentModule  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


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


def test_weights_that_always_change_are_inputs(x, backends):
    compiled = torch.compile(F.conv2d, backend=winogen)
    with torch.no_grad():
        for _ in range(3):  # now and then is fine
            weight = torch.randn(8, 3, 3, 3)
            for _ in range(2):
                same(compiled(x, weight), F.conv2d(x, weight))
        assert backends[0].compiled is not None
        for _ in range(6):
            weight = torch.randn(8, 3, 3, 3)
            same(compiled(x, weight), F.conv2d(x, weight))
    assert backends[0].given_up and backends[0].compiled is None


class Conditioned(nn.Module):
    """Its inputs are added and multiplied as weights could be, and change at every call."""

    def __init__(self):
        super().__init__()
        self.a, self.scale = nets.conv(3), nn.Parameter(torch.rand(1, nets.C, 1, 1))

    def forward(self, x, gate):
        return self.a(x) * self.scale * gate.view(1, -1, 1, 1) * gate + gate


def test_inputs_are_no_weights(x, backends):
    model = Conditioned().eval()
    compiled = torch.compile(model, backend=winogen)
    with torch.no_grad():
        for _ in range(2):
            x, gate = torch.randn_like(x), torch.rand(1, nets.C, 1, 1)
            same(compiled(x, gate), model(x, gate))
    (only,) = backends
    assert only.compiled is not None and not only.wasted
    assert sorted(len(stamp.tensor.shape) for stamp in only.stamps.values()) in ([1, 4, 4], [4, 4])


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


def add_to_buffer(model, y):
    model.ema.mul_(0.5).add_(y)
    return model.ema * 1


def assign_buffer(model, y):
    model.ema += y
    return model.ema * 2


def copy_to_buffer(model, y):
    model.ema.copy_(y)
    return y - model.ema / 2


def clamp_buffer(model, y):
    model.ema.sub_(y).clamp_(min=-0.5)
    return model.ema + y


def relu_buffer(model, y):
    model.ema.sub_(y)
    torch.relu_(model.ema)
    return y + F.relu(model.ema, inplace=True)


def view_of_buffer(model, y):
    model.ema[:, :1].add_(y[:, :1])
    return y + model.ema


def item_of_buffer(model, y):
    model.ema[:, 1:] = y[:, 1:]
    return y + model.ema


def data_of_buffer(model, y):
    model.ema.data.add_(y)
    return y + model.ema


def out_buffer(model, y):
    torch.add(y, 1, out=model.ema)
    return y + model.ema


def data_of_weight(model, y):
    model.conv.weight.data.mul_(0.5)
    return y + model.conv.weight.sum()


EFFECTS = (
    add_to_buffer,
    assign_buffer,
    copy_to_buffer,
    clamp_buffer,
    relu_buffer,
    view_of_buffer,
    item_of_buffer,
    data_of_buffer,
    out_buffer,
    data_of_weight,
)


class Effect(nn.Module):
    """A convolution, and a buffer that a function changes."""

    def __init__(self, function):
        super().__init__()
        self.conv, self.function = nets.conv(3, 3), function
        self.register_buffer("ema", torch.zeros(1, 3, 12, 10))

    def forward(self, x):
        return self.function(self, self.conv(x))


@pytest.mark.parametrize("mode", (torch.no_grad, torch.inference_mode, torch.enable_grad))
@pytest.mark.parametrize("function", EFFECTS)
def test_buffers_that_a_model_changes(function, mode, x):
    if mode is torch.enable_grad and function is out_buffer:
        pytest.skip("torch refuses it")
    ours = Effect(function).eval()
    theirs = copy.deepcopy(ours)
    if mode is torch.enable_grad:
        ours.requires_grad_(False), theirs.requires_grad_(False)
    compiled = torch.compile(ours, backend=winogen)
    with mode():
        for _ in range(3):
            same(compiled(x), theirs(x))
            for one, other in zip(ours.state_dict().values(), theirs.state_dict().values()):
                assert torch.allclose(one, other, atol=1e-5)
        for model in (ours, theirs):
            model.ema.add_(1)
        same(compiled(x), theirs(x))


INPUTS = {
    "add_": lambda x: x.add_(1),
    "mul_": lambda x: x.mul_(2),
    "clamp_": lambda x: x.clamp_(0, 1),
    "relu_": lambda x: x.relu_(),
    "torch.relu_": torch.relu_,
    "F.relu": lambda x: F.relu(x, inplace=True),
    "nn.ReLU": nn.ReLU(inplace=True),
    "nn.SiLU": nn.SiLU(inplace=True),
    "+=": lambda x: operator.iadd(x, 1),
    "/=": lambda x: operator.itruediv(x, 2),
    "copy_": lambda x: x.copy_(x.flip(2)),
    "view": lambda x: x[:, :2].mul_(2),
    "flat": lambda x: x.view(-1).sub_(1),
    "data": lambda x: x.data.add_(1),
    "item": lambda x: operator.setitem(x, (slice(None), 0), 1.0),
    "out": lambda x: torch.mul(x, 2, out=x),
}


@pytest.mark.parametrize("when", ("before", "after"))
@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_a_function_changes(name, when, x):
    conv, change = nets.conv(3, 3), INPUTS[name]

    def function(x):
        if when == "before":
            change(x)
            return conv(x)
        y = conv(x)
        change(x)
        return y

    compiled = torch.compile(function, backend=winogen)
    with torch.no_grad():
        for _ in range(2):
            ours, theirs = x.clone(), x.clone()
            same(compiled(ours), function(theirs))
            assert torch.equal(ours, theirs) and not torch.equal(ours, x)


def test_changes_of_the_model_s_own_values_compile(x, backends):
    """And the captured graph stays as it was, for calls with gradients."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nets.conv(3, 3), nets.conv(3, 3)

        def forward(self, x):
            y = self.first(x)
            F.relu(y, inplace=True)
            y.mul_(-1)
            return F.relu(self.second(y), inplace=True)

    model = Own()
    compiled = torch.compile(model, backend=winogen)
    compiled_module = None
    for grad in (False, True, False, True):
        with torch.set_grad_enabled(grad):
            same(compiled(x), model(x))
        for one in backends:
            compiled_module = compiled_module or one.compiled
            same(one.module(*one_inputs(one, model, x))[0], model(x))
        with torch.no_grad():
            model.first.weight.mul_(1.5)


def one_inputs(backend, model, x):
    """The arguments of a captured graph, told by their shapes and order."""
    weights = iter((model.first.weight, model.first.bias, model.second.weight, model.second.bias))
    return [x if "x" in name else next(weights) for name in backend.names]


def test_regions_run_as_captured(x):
    conv = nets.conv(3, 3)

    def autocast(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return conv(x), conv(x).dtype

    def gradients(x):
        with torch.enable_grad():
            return conv(x)

    def tangents(x):
        return torch.func.jvp(conv, (x,), (torch.ones_like(x),))[1]

    def branch(x):
        return torch.cond(x.sum() > 0, conv, lambda z: conv(z) * 2, (x,))

    with torch.no_grad():
        y, dtype = torch.compile(autocast, backend=winogen)(x)
        assert y.dtype == dtype == torch.bfloat16
        assert torch.compile(gradients, backend=winogen)(x).requires_grad
        same(torch.compile(tangents, backend=winogen)(x), tangents(x))
        same(torch.compile(branch, backend=winogen)(x), branch(x))


def test_a_compiled_function_under_transforms_and_autocast(x):
    conv = nets.conv(3, 3)
    compiled = torch.compile(conv, backend=winogen)
    ones = torch.ones_like(x)
    with torch.no_grad():
        same(compiled(x), conv(x))
        for _ in range(2):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert compiled(x).dtype == torch.bfloat16
        for one, other in zip(
            torch.func.jvp(compiled, (x,), (ones,)), torch.func.jvp(conv, (x,), (ones,))
        ):
            same(one, other)
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, ones))).tangent
            same(tangent, forward_ad.unpack_dual(conv(forward_ad.make_dual(x, ones))).tangent)
        same(torch.vmap(compiled)(x[None]), conv(x)[None])
    same(
        torch.func.grad(lambda x: compiled(x).sum())(x), torch.func.grad(lambda x: conv(x).sum())(x)
    )


def test_structures_and_types(x, backends):
    one, two = nets.conv(3, 3), nets.conv(3, 3).double()

    def function(x, numbers, scale=2.0):
        y = one(x)
        half = y.half()
        return {"y": y, "again": [y, (x, None, 3)], "half": half, "sum": y * numbers["k"] * scale}

    compiled = torch.compile(function, backend=winogen)
    with torch.no_grad():
        for scale in (2.0, 3.0):
            ours = compiled(x, {"k": 2}, scale=scale)
            theirs = function(x, {"k": 2}, scale=scale)
            assert list(ours) == list(theirs)
            same(ours["y"], theirs["y"])
            assert ours["again"][0] is ours["y"] and ours["again"][1][1:] == (None, 3)
            assert ours["again"][1][0] is x and ours["half"].dtype == torch.float16
            same(ours["sum"], theirs["sum"])
        mixed = torch.compile(lambda x: two(one(x).double()), backend=winogen)
        same(mixed(x), two(one(x).double()))


@pytest.mark.parametrize("where", ("compiled", "decide"))
def test_what_winogen_cannot_compile_runs_as_captured(x, where, monkeypatch):
    conv = nets.conv(3, 3)

    def broken(*arguments, **options):
        if where == "decide":
            raise CompilerNotFound("no C compiler")

        def fails(*inputs):
            raise OutOfMemory("output: could not allocate 7 bytes")

        return fails, None

    monkeypatch.setattr("winogen.torch.backend.measured", broken)
    compiled = torch.compile(conv, backend=winogen)
    with torch.no_grad():
        with pytest.warns(RuntimeWarning, match="winogen leaves a graph to torch: "):
            same(compiled(x), conv(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same(compiled(x), conv(x))


def test_errors_after_a_change_are_raised(x, monkeypatch):
    """A statistic must not be updated twice."""
    model = nn.Sequential(nets.conv(3, 3), nn.BatchNorm2d(3, momentum=0.5)).train()
    model[1].num_batches_tracked = None

    def broken(reading):
        def fails(*inputs):
            model[1].running_mean.add_(1)
            raise OutOfMemory("output: could not allocate 7 bytes")

        return fails, None

    monkeypatch.setattr("winogen.torch.backend.measured", broken)
    monkeypatch.setattr("winogen.torch.backend.unproven", lambda *parts: {})
    with torch.no_grad(), pytest.raises(OutOfMemory):
        torch.compile(model, backend=winogen)(x)
    assert torch.equal(model[1].running_mean, torch.ones(3))


def test_the_backend_is_registered():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    _, _, entry = text.partition("[project.entry-points.torch_dynamo_backends]\n")
    assert entry.startswith('winogen = "winogen.torch.backend:winogen"\n')


def test_a_segment_that_differs_is_left_to_torch(x, monkeypatch):
    """And comparing draws no random numbers of the user's."""
    from winogen.torch import proving

    model = nn.Sequential(nets.conv(3, 3), nn.ReLU()).eval()
    monkeypatch.setattr(proving, "distance", lambda *tensors: 1.0)
    before = torch.get_rng_state()
    with torch.no_grad():
        compiled = torch.compile(model, backend=winogen)
        assert torch.equal(compiled(x), model(x))
    assert torch.equal(torch.get_rng_state(), before)


class Branches(nn.Module):
    """One of two convolutions hardly matters at the output; a normalization has buffers."""

    def __init__(self):
        super().__init__()
        self.matters, self.hardly = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.norm, self.last = nn.BatchNorm2d(16), nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x):
        less = 1e-3 * torch.sigmoid(self.hardly(x))
        return self.last(torch.relu(self.norm(self.matters(x))) + less)


def test_an_output_tolerance_is_kept(backends):
    """On inputs that nobody has seen; a layer that hardly matters may be off by more."""
    torch.manual_seed(0)
    model, x = Branches().eval(), torch.randn(1, 16, 24, 24)
    before = torch.get_rng_state()
    compiled = torch.compile(
        model, backend=winogen, options={"output_tolerance": 1e-6}, fullgraph=True
    )
    with torch.no_grad():
        compiled(x)
        assert torch.equal(torch.get_rng_state(), before)
        for _ in range(4):
            x = torch.randn_like(x)
            exact = copy.deepcopy(model).double()(x.double())
            assert (compiled(x).double() - exact).norm() <= 1e-6 * exact.norm()
    (only,) = backends
    (segment,) = [m for m in only.compiled.modules() if isinstance(m, SegmentModule)]
    found = dict(segment.segment.settings().tolerances)
    assert max(found.values()) > 1.2 * min(found.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_tolerance": 1e-12}, r"output_tolerance: got 1e-12; allowed: at least \d"),
        ({"output_tolerance": 2}, "output_tolerance: got 2; allowed: None or a positive number"),
        ({"tolerances": 1}, "options: got 'tolerances'; allowed: output_tolerance"),
    ],
)
def test_options_that_are_refused(x, options, message):
    compiled = torch.compile(nets.conv(3, 3), backend=winogen, options=options)
    with torch.no_grad(), pytest.raises(Exception, match=message):
        compiled(x)


def test_where_no_layers_keep_it_the_graph_runs_as_captured(x, backends, monkeypatch):
    monkeypatch.setattr(UnseenInputs, "promise", lambda *_: OutputPromise(1e-6, 1e-5, 1e-7, 1))
    conv = nets.conv(3, 3)
    compiled = torch.compile(conv, backend=winogen, options={"output_tolerance": 1e-6})
    with torch.no_grad():
        assert torch.equal(compiled(x), conv(x))
    assert backends[0].given_up
