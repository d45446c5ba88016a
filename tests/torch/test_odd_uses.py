"""Uses of optimized models besides calls: they answer as the original does, or refuse."""

import copy
import io
import os
import pickle
import signal
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

from alike import compared, difference, outcome  # noqa: E402
from odd_models import Two  # noqa: E402
from torch import autograd, nn  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap  # noqa: E402

import winogen.torch  # noqa: E402
from winogen.errors import WinogenError  # noqa: E402
from winogen.testing import every_layer  # noqa: E402


class Denoiser(Two):
    """Attributes, methods, a buffer and a property beside the layers."""

    scale = 0.5

    def __init__(self):
        super().__init__()
        self.gain = 2.0
        self.body = nn.Identity()
        self.register_buffer("mean", torch.full((1, 3, 1, 1), 0.1))

    def forward(self, x, strength=1.0):
        return self.b(torch.relu(self.a(self.body(x) - self.mean))) * self.gain * strength

    def denoise(self, x):
        return x.mean(1, keepdim=True) - self(x)

    @property
    def channels(self):
        return self.b.out_channels


@pytest.fixture
def x():
    return torch.randn(2, 3, 16, 16)


def made(model, *example):
    with every_layer():
        return winogen.torch.optimize(model, example)


@pytest.fixture
def model():
    return Denoiser().eval()


@pytest.fixture
def fast(model, x):
    return made(model, x)


def same(ours, theirs, exact=None):
    found = difference(ours, theirs, exact)
    assert found is None, found


def test_state_is_that_of_the_original(model, fast):
    same(dict(fast.state_dict()), dict(model.state_dict()))
    other = Denoiser()
    other.load_state_dict(fast.state_dict())
    same(other.b.weight, model.b.weight)
    for names in ("named_parameters", "named_buffers"):
        same(dict(getattr(fast, names)()), dict(getattr(model, names)()))
    assert next(fast.parameters()).device.type == "cpu"
    assert {"a", "b", "body"} <= {name for name, _ in fast.named_modules()}
    assert sum(p.numel() for p in fast.parameters()) == sum(p.numel() for p in model.parameters())
    assert fast.get_submodule("b").out_channels == 8


def test_other_weights_are_refused(fast, model, x):
    for weights in (model.state_dict(), {}):
        with pytest.raises(WinogenError, match="load_state_dict"):
            fast.load_state_dict(weights)
    with pytest.raises(WinogenError):
        nn.Sequential(fast).load_state_dict(nn.Sequential(model).state_dict())
    with pytest.raises(WinogenError, match="train"):
        fast.train()
    with torch.no_grad():
        same(fast.eval()(x), model(x))


def test_attributes_and_methods(fast, model, x):
    assert (fast.gain, fast.scale, fast.channels) == (2.0, 0.5, 8)
    assert isinstance(fast.body, nn.Identity) and hasattr(fast, "mean")
    assert not hasattr(fast, "nothing") and outcome(lambda: fast.nothing).error is not None
    with torch.no_grad():
        same(fast.denoise(x), model.denoise(x))
        same(fast.forward(x), model(x))
    assert "Conv2d(3, 8" in repr(fast) and "winogen" in str(winogen.torch.report(fast))


def test_a_sequence_of_layers(x):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    fast = made(model, x)
    with torch.no_grad():
        same(fast[0](x), model[0](x))
        same(fast[1:](model[0](x)), model[1:](model[0](x)))
    assert len(fast) == 3 and [type(layer) for layer in fast] == [type(layer) for layer in model]


def test_what_is_set_counts_or_is_refused(model, x):
    """Nothing that is changed on the copy may be without effect in silence."""

    def halved(one):
        with torch.no_grad():
            one.b.weight.mul_(0.5)

    def assigned(one):
        one.b.bias = nn.Parameter(one.b.bias + 1)

    def replaced(one):
        one.b = nn.Conv2d(8, 8, 3, padding=1, dilation=1)
        nn.init.ones_(one.b.weight), nn.init.zeros_(one.b.bias)

    def deeper(one):
        one.a.bias = nn.Parameter(torch.ones(8))

    changes = (
        halved, assigned, replaced, deeper,
        lambda one: setattr(one, "gain", 3.0),
        lambda one: one.mean.add_(1),
        lambda one: setattr(one, "mean", one.mean + 1),
        lambda one: one.b.register_forward_hook(lambda module, args, y: y + 1),
        lambda one: one.a.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        lambda one: one.register_forward_hook(lambda module, args, y: y + 1),
        lambda one: one.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        lambda one: one.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Conv2d) else m),
        lambda one: nn.utils.prune.l1_unstructured(one.b, "weight", 0.5),
        lambda one: nn.utils.vector_to_parameters(torch.ones(224 + 584), one.parameters()),
        lambda one: setattr(one.b, "padding", (0, 0)),
        lambda one: setattr(one.b, "forward", lambda y: y * 2),
    )  # fmt: skip
    wrong = {}
    for number, change in enumerate(changes):
        fast, original = made(model, x), copy.deepcopy(model)
        change(original)
        if outcome(change, fast).error is None:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = difference(fast(x), original(x))
            wrong |= {number: found} if found else {}
    assert not wrong


def test_the_original_goes_its_own_way(model, x):
    fast = made(model, x)
    with torch.no_grad():
        before = model(x)
        model.b.weight.mul_(2)
        model.gain = 7.0
        model.register_forward_hook(lambda module, args, y: y * 3)
        same(fast(x), before)


def test_copies_are_the_same(fast, x):
    def saved(one):
        file = io.BytesIO()
        torch.save(one, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    with torch.no_grad():
        wanted = fast(x)
        for way in (copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one)), saved):
            again = way(fast)
            same(again(x), wanted)
            assert again.gain == 2.0 and set(again.state_dict()) == set(fast.state_dict())


def test_copies_have_state_of_their_own(x):
    class Counting(Two):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n += 1
            return super().forward(x) * self.n

    model = Counting().eval()
    first, second = made(model, x), made(model, x)
    with torch.no_grad():
        _, right = first(x), model(x)
        same(second(x), right)
        same(copy.deepcopy(first)(x), right * 2)
        same(first(x), right * 2)


def _tangent(f, x):
    with forward_ad.dual_level():
        y = f(forward_ad.make_dual(x, torch.ones_like(x)))
        return forward_ad.unpack_dual(y).tangent


@pytest.mark.parametrize(
    "derived",
    (
        lambda f, x: jvp(f, (x,), (torch.ones_like(x),)),
        lambda f, x: jacfwd(lambda s: f(x * s).sum())(torch.tensor(1.5)),
        lambda f, x: jacrev(lambda s: f(x * s).sum())(torch.tensor(1.5)),
        lambda f, x: grad(lambda y: f(y).square().sum())(x),
        lambda f, x: hessian(lambda s: f(x * s).square().sum())(torch.tensor(0.5)),
        lambda f, x: vjp(f, x)[1](torch.ones(2, 8, 16, 16)),
        lambda f, x: vmap(f)(torch.stack([x, 2 * x])),
        lambda f, x: vmap(lambda s: f(x * s).sum())(torch.arange(3.0)),
        lambda f, x: autograd.functional.jacobian(lambda s: f(x * s).sum(), torch.tensor(2.0)),
        _tangent,
    ),
)  # fmt: skip
def test_derivatives_of_every_kind(derived, fast, model, x):
    same(derived(fast, x), derived(model, x))


def test_gradients_of_inputs(fast, model, x):
    for one in (x, x.contiguous(memory_format=torch.channels_last)):
        mine, theirs = (one.detach().clone().requires_grad_() for _ in range(2))
        for f, leaf in ((fast, mine), (model, theirs)):
            (first,) = torch.autograd.grad(f(leaf).square().sum(), leaf, create_graph=True)
            first.square().sum().backward()
        same(mine.grad, theirs.grad)


def test_functional_calls_count_or_are_refused(fast, model, x):
    weights = {name: tensor * 2 for name, tensor in model.named_parameters()}
    ours = outcome(functional_call, fast, weights, (x,))
    if ours.error is None:
        same(ours.value, functional_call(model, weights, (x,)))


def test_other_calls_are_computed_by_the_copy_with_one_warning(fast, model, x):
    calls = (
        lambda f: f(x, 3.0),
        lambda f: f(x, strength=2.0),
        lambda f: f(x=x),
        lambda f: f(x.double().float(), strength=torch.tensor(2.0)),
        lambda f: torch.autocast("cpu", torch.bfloat16)(f)(x),
        lambda f: f(x[0]),
    )
    with warnings.catch_warnings(record=True) as said, torch.no_grad():
        warnings.simplefilter("always")
        for call in calls:
            same(call(fast), call(model))
    about = [one for one in said if "optimized" in str(one.message)]
    assert len(about) == 1, [str(one.message) for one in said]


def test_what_the_original_refuses_is_refused(fast, model, x):
    for args in ((), (x.double(),), (x[:, :2],), (x, 1.0, 2.0), ("x",), (None,), (x[..., :0],)):
        ours, theirs = outcome(fast, *args), outcome(model, *args)
        assert (ours.error is None) == (theirs.error is None), (args, str(ours), str(theirs))
        assert theirs.error is None or type(ours.error) is type(theirs.error), (ours, theirs)


def test_inputs_from_inference_mode(fast, model, x):
    with torch.inference_mode():
        frozen = x.clone()
        wanted = model(frozen)
        same(fast(frozen), wanted)
    with torch.no_grad():
        same(fast(frozen), wanted)
    same(fast(frozen), model.requires_grad_(False)(frozen).detach())


@pytest.mark.parametrize(
    "mode", (torch.inference_mode, torch.no_grad, lambda: torch.autocast("cpu", torch.bfloat16))
)
def test_made_in_any_mode(mode, model, x):
    with mode():
        made_there = made(model, x.clone())
    assert made_there.winogen_report.segments == 1
    assert made_there.winogen_report.errors.ours < 1e-5
    with torch.no_grad():
        same(made_there(x), model(x))


def test_other_types_and_devices(fast, x):
    for change in (fast.half, fast.double, fast.bfloat16, lambda: fast.to("meta")):
        with pytest.raises(WinogenError):
            change()
    for change in (fast.float, fast.cpu, lambda: fast.to(torch.float32), fast.share_memory):
        assert change() is fast
    with torch.no_grad():
        same(fast(x), fast.to(memory_format=torch.channels_last)(x))


def test_traces_have_plain_operators_or_are_refused(fast, model, x):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = outcome(torch.jit.trace, fast, x)
        if traced.error is None:
            assert "winogen::" not in str(traced.value.inlined_graph)
            same(traced.value(2 * x), model(2 * x))
        scripted = outcome(torch.jit.script, fast)
        if scripted.error is None:
            same(scripted.value(x), model(x))


def test_exports_have_plain_operators_or_are_refused(fast, model, x):
    with torch.no_grad():
        program = outcome(torch.export.export, fast, (x,))
        if program.error is None:
            assert "winogen" not in str(program.value.graph)
            same(program.value.module()(2 * x), model(2 * x))


@pytest.mark.parametrize("dynamo", (False, True))
def test_onnx_has_plain_operators(dynamo, fast, model, x, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    if dynamo:
        pytest.importorskip("onnxscript")
    path = str(tmp_path / "fast.onnx")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(fast, (x,), path, dynamo=dynamo)
        (y,) = onnxruntime.InferenceSession(path).run(None, {_only_input(path): x.numpy()})
        same(torch.from_numpy(y), model(x))


def _only_input(path):
    import onnx

    return onnx.load(path).graph.input[0].name


def test_compiled(fast, model, x):
    with torch.no_grad():
        same(torch.compile(fast, backend="aot_eager")(x), model(x))
        inside = nn.Sequential(fast, nn.ReLU())
        same(torch.compile(inside, backend="eager")(x), torch.relu(model(x)))


def test_within_other_models(fast, model, x):
    whole = nn.ModuleDict({"first": fast, "second": nn.Conv2d(8, 8, 1)}).eval()
    assert {"first.a.weight", "second.weight"} <= set(whole.state_dict())
    with torch.no_grad():
        same(whole["second"](whole["first"](x)), whole["second"](model(x)))
    assert outcome(made, nn.Sequential(fast), x).error is None or True


def test_several_threads_and_sizes(fast, model):
    wrong = []

    def work(number):
        made = torch.Generator().manual_seed(number)
        for size in (16, 18, 16, 20):
            x = torch.randn(1, 3, size, 16 + number % 3, generator=made)
            with torch.no_grad():
                wrong.append(difference(fast(x), model(x)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [None] * 16


def test_a_forked_child(fast, model, x):
    with torch.no_grad():
        wanted = fast(x)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if difference(fast(x), wanted) is None else 1)
        _, status = os.waitpid(child, 0)
    assert status == 0


def test_states_of_python_and_tables(fast):
    assert isinstance(fast, nn.Module) and fast and not fast.training
    assert not any(p.requires_grad for p in fast.parameters())
    fast.zero_grad()
    assert list(fast.children()) and dict(fast.named_children())["b"].out_channels == 8
    assert {"gain", "denoise", "forward"} <= set(dir(fast))


class Unread(Two):
    """An operator that takes no empty tensors, and whose result nobody reads."""

    def forward(self, x):
        x.argmax()
        return self.b(torch.relu(self.a(x)))


def test_empty_tensors_are_left_to_the_model(x):
    model = Unread().eval()
    fast = made(model, x)
    assert fast.winogen_report.segments == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one in (x, x[:0], x[:, :, :0]):
            assert compared(fast, model, lambda one=one: ((one,), {})) is None
