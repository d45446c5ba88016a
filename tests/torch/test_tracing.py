"""Whoever looks at a call from outside sees an operator, never the planner or baked-in numbers.

Whoever writes it down for others sees torch's own operators.
"""

import functools
import io
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import winogen.torch
from winogen.errors import Unsupported
from winogen.torch import tracing
from winogen.torch.calling import Calls
from winogen.torch.dispatch import call

needs_is_exporting = pytest.mark.skipif(
    not hasattr(torch.compiler, "is_exporting"), reason="older torch does not tell who exports"
)


@pytest.fixture
def net():
    """A fresh one, that has planned and packed nothing: convolutions alone, twice, and fused."""
    shared = winogen.torch.Conv2d(4, 4, 3, padding=1, activation="relu")
    last = winogen.torch.Conv2d(4, 2, 3, padding="same", padding_mode="circular")
    return nn.Sequential(shared, shared, last)


def expected(net, x):
    shared, _, last = net
    for _ in range(2):
        x = F.relu(F.conv2d(x, shared.weight, shared.bias, padding=1))
    return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), last.weight, last.bias)


def agrees(function, net, *shape):
    x = torch.randn(shape)
    with torch.no_grad():
        return torch.allclose(function(x), expected(net, x), atol=1e-5)


@pytest.mark.parametrize(
    ("backend", "mode"),
    (
        ("eager", torch.no_grad),
        ("aot_eager", torch.no_grad),
        ("aot_eager", torch.inference_mode),
        ("aot_eager", torch.enable_grad),
        ("inductor", torch.enable_grad),
    ),
)
def test_dynamo_meets_a_fresh_layer(net, backend, mode):
    compiled = torch.compile(net, fullgraph=True, backend=backend)
    with mode():
        x = torch.randn(2, 4, 8, 8)
        y = compiled(x)
        torch.testing.assert_close(y, expected(net, x))
        if mode is torch.enable_grad:
            y.square().sum().backward()
            ours = [p.grad for p in net.parameters()]
            theirs = torch.autograd.grad(expected(net, x).square().sum(), [*net.parameters()])
            for one, other in zip(ours, theirs):
                torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last))
def test_compiled_with_sizes_that_vary(net, memory_format):
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in (8, 9, 12):
        x = torch.randn(2, 4, size, 8).to(memory_format=memory_format)
        y = compiled(x)
        torch.testing.assert_close(y, expected(net, x))
        assert y.stride() == net(x).stride()


def test_the_graph_has_one_node_for_each_call(net):
    seen = []

    def backend(module, inputs):
        seen.extend(str(node.target) for node in module.graph.nodes)
        return module

    torch.compile(net, fullgraph=True, backend=backend)(torch.randn(1, 4, 8, 8))
    assert seen.count("winogen.convolution.default") == 3
    assert not any("relu" in name or "aten" in name for name in seen)


def test_options_and_functions_compile():
    x, w = torch.randn(1, 4, 8, 8), torch.randn(6, 2, 3, 3)

    def function(x, w):
        return winogen.torch.conv2d(
            x, w, None, (1, 1), ((1, 0), (0, 2)), groups=2, tile=(2, 4), activation=("clip", -1, 1)
        )

    y = torch.compile(function, fullgraph=True, backend="aot_eager")(x, w)
    torch.testing.assert_close(y, function(x, w))


def targets(graph):
    return {str(node.target) for node in graph.nodes if node.op == "call_function"}


@needs_is_exporting
@pytest.mark.parametrize("strict", (False, True))
def test_export(net, strict):
    x = torch.randn(2, 4, 8, 8)
    sizes = {0: torch.export.Dim("n", max=9), 2: torch.export.Dim("h", min=4, max=64)}
    program = torch.export.export(net, (x,), dynamic_shapes=({**sizes},), strict=strict)
    assert not any("winogen" in name for name in targets(program.graph))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    assert agrees(loaded, net, 3, 4, 20, 8)
    with torch.no_grad():
        loaded.get_parameter("0.weight").mul_(2)
        net[0].weight.mul_(2)
    assert agrees(loaded, net, 2, 4, 9, 8)


def test_jit_trace(net):
    traced = torch.jit.trace(net, torch.randn(2, 4, 8, 8))
    assert "winogen::" not in str(traced.inlined_graph)
    assert agrees(traced, net, 2, 4, 8, 8) and agrees(traced, net, 1, 4, 9, 11)
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    buffer.seek(0)
    assert agrees(torch.jit.load(buffer), net, 1, 4, 9, 11)


@needs_is_exporting
def test_what_is_saved_is_loaded_without_the_package(net, tmp_path):
    x = torch.randn(2, 4, 8, 8)
    for activation in ("gelu", ("prelu", torch.rand(2)), ("clip", -1, 1), ("leaky_relu", 0.1)):
        net.append(winogen.torch.Conv2d(2, 2, 3, padding=((0, 2), (1, 1)), activation=activation))
    torch.save((x, net(x)), tmp_path / "tensors.pt")
    torch.jit.save(torch.jit.trace(net, x), tmp_path / "traced.pt")
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "program.pt2")
    code = f"""
import sys, torch
folder = {str(tmp_path)!r}
x, y = torch.load(folder + "/tensors.pt")
for net in (
    torch.jit.load(folder + "/traced.pt"), torch.export.load(folder + "/program.pt2").module()
):
    torch.testing.assert_close(net(x), y, rtol=1e-4, atol=1e-4)
assert "winogen" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_jit_script():
    plain = nn.Sequential(winogen.torch.Conv2d(4, 4, 3), nn.ReLU())
    x = torch.randn(1, 4, 8, 8)
    torch.testing.assert_close(torch.jit.script(plain)(x), plain(x))
    with pytest.raises(Unsupported, match="torch.jit.script: got .* allowed: one without"):
        torch.jit.script(nn.Sequential(winogen.torch.Conv2d(4, 4, 3, activation="relu")))


@pytest.mark.parametrize("dynamo", (True, False))
def test_onnx_export_has_plain_convolutions(net, dynamo, tmp_path):
    onnx = pytest.importorskip("onnx")
    if dynamo:
        pytest.importorskip("onnxscript")
    reference = pytest.importorskip("onnx.reference")
    path, x = str(tmp_path / "net.onnx"), torch.randn(1, 4, 6, 6)
    torch.onnx.export(net, (x,), path, dynamo=dynamo)
    model = onnx.load(path)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Conv") == 3 and {node.domain for node in model.graph.node} == {""}
    other = torch.randn(1, 4, 6, 6)
    (y,) = reference.ReferenceEvaluator(model).run(None, {model.graph.input[0].name: other.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(y), expected(net, other), atol=1e-5, rtol=1e-4)


def test_symbolic_traces_have_one_node_for_each_call(net):
    traced = torch.fx.symbolic_trace(net)
    assert [node.target for node in traced.graph.nodes].count(call) == 3
    assert agrees(traced, net, 1, 4, 8, 8)
    from torch.fx.experimental.proxy_tensor import make_fx

    assert make_fx(net)(torch.randn(1, 4, 8, 8)).code.count("winogen.convolution.default") == 3


def test_the_profiler_sees_it(net):
    with torch.no_grad(), torch.profiler.profile() as profile:
        net(torch.randn(1, 4, 8, 8))
    assert "winogen::convolution" in str(profile.key_averages())


def test_transforms_are_left_to_torch():
    conv = winogen.torch.Conv2d(4, 4, 3, activation="relu")
    x, t = torch.randn(2, 1, 4, 8, 8), torch.randn(2, 1, 4, 8, 8)

    def plain(x):
        return F.relu(F.conv2d(x, conv.weight, conv.bias))

    torch.testing.assert_close(torch.vmap(conv)(x), torch.vmap(plain)(x))
    for one, other in zip(
        torch.func.jvp(conv, (x[0],), (t[0],)), torch.func.jvp(plain, (x[0],), (t[0],))
    ):
        torch.testing.assert_close(one, other)
    gradient = torch.func.grad(lambda x: conv(x).sum())(x[0])
    torch.testing.assert_close(gradient, torch.func.grad(lambda x: plain(x).sum())(x[0]))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x[0], t[0])
        tangent = torch.autograd.forward_ad.unpack_dual(conv(dual)).tangent
        expected = torch.autograd.forward_ad.unpack_dual(plain(dual)).tangent
        torch.testing.assert_close(tangent, expected)
        with pytest.raises(Unsupported, match="forward-mode"):
            torch.ops.winogen.convolution(dual, conv.weight)


def test_tensors_without_memory():
    from torch._subclasses import FakeTensorMode

    conv, x = winogen.torch.Conv2d(4, 4, 3), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        conv(x)
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fake = mode.from_tensor(x)
        y = conv(fake)  # outside of the mode
        assert type(y) is type(fake) and y.shape == (1, 4, 6, 6)


def test_views_that_negate():
    conv, x = winogen.torch.Conv2d(4, 4, 3), torch.randn(1, 4, 8, 8)
    with torch.inference_mode():
        torch.testing.assert_close(conv(torch._neg_view(x)), conv(-x))


def test_a_trace_that_takes_too_long_is_given_up(monkeypatch):
    """And the sizes of the example are traced, which takes no time."""
    export, asked = torch.export.export, []

    def endless(*args, dynamic_shapes=None, **options):
        asked.append(dynamic_shapes)
        while dynamic_shapes is not None:
            try:
                sum(range(1000))
            except Exception:  # as libraries do
                continue
        return export(*args, **options)

    monkeypatch.setattr(torch.export, "export", endless)
    monkeypatch.setattr(tracing, "_LONGEST", 0.1)
    x = torch.randn(1, 3, 8, 8)
    model = nn.Conv2d(3, 4, 3).eval().requires_grad_(False)
    trace = tracing._by_export(model, Calls(model, (x,), {}))
    assert len(asked) == 2 and asked[1] is None
    assert trace.guard.holds([x]) and not trace.guard.holds([torch.randn(1, 3, 9, 8)])


class Mixed(nn.Module):
    """Values of several types and shapes, a buffer that is written to, and a layer of ours."""

    def __init__(self):
        super().__init__()
        self.ours = winogen.torch.Conv2d(3, 4, 3, padding=1, activation="relu")
        self.conv = nn.Conv2d(4, 6, 3, stride=2)
        self.norm = nn.BatchNorm2d(6)

    def forward(self, x):
        y = self.norm(self.conv(self.ours(x)))
        y += 1
        low, high = y.chunk(2, 1)
        largest = y.flatten(2).max(-1)
        return torch.cat([low, high], 2), largest.values.double(), largest.indices, y > 0


class Chosen(nn.Module):
    """How many numbers there are follows from what they are."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        y = self.conv(x)
        return y[y > 0].reshape(1, -1)


@functools.lru_cache(maxsize=1)
def line(count):
    return torch.linspace(-1, 1, count)


@torch.fx.wrap
def kept(x):
    return line(x.shape[-1])


class Keeping(nn.Module):
    """A function of the user's remembers what it made."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        y = self.conv(x)
        return y + kept(y)


def test_functions_and_hooks_of_users_see_no_tensors_without_numbers():
    hooked, seen = Mixed().eval(), []
    hooked.conv.register_forward_hook(lambda layer, inputs, output: seen.append(output))
    for model in (Keeping().eval(), hooked):
        line.cache_clear()
        with torch.no_grad():
            tracing.by_fx(model, Calls(model, (torch.randn(1, 3, 8, 8),), {}), True)
    assert type(line(6)) is torch.Tensor and seen and {type(x) for x in seen} == {torch.Tensor}


@pytest.mark.parametrize("model", [Mixed, Chosen])
@pytest.mark.parametrize("way", ["by_fx", "_by_export"])
def test_sizes_are_noted_without_a_run_where_it_takes_long(model, way, monkeypatch):
    ran = []
    real = tracing._Noting.run
    monkeypatch.setattr(tracing._Noting, "run", lambda self, *x: ran.append(x) or real(self, *x))
    own = model().eval()
    calls = Calls(own, (torch.randn(2, 3, 11, 12),), {})
    with torch.no_grad():
        traces = [getattr(tracing, way)(own, calls, is_long) for is_long in (False, True)]
    noted = [
        [(n.name, n.meta.get("tensor_meta")) for n in trace.module.graph.nodes] for trace in traces
    ]
    assert noted[0] == noted[1] and sum(meta is not None for _, meta in noted[0]) > 3
    # Numbers exist in the first run, and in another one only where sizes depend on them.
    fakes = [isinstance(x, torch._subclasses.FakeTensor) for (x,) in ran]
    assert fakes == ([False, True] if model is Mixed else [False, True, False])
