"""Layers of one to three axes and transposed ones: torch's samples, gradients, operators, modules.

The operator and the base of the modules are the same for all.
"""

import copy
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import winogen.errors  # noqa: E402
import winogen.torch  # noqa: E402
from winogen.errors import InvalidType, InvalidValue, Unsupported  # noqa: E402
from winogen.torch import packing  # noqa: E402

F, nn = torch.nn.functional, torch.nn
KINDS = pytest.mark.parametrize(
    "rank, transposed", [(rank, turned) for rank in (1, 2, 3) for turned in (False, True)]
)
FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}
methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")
operator = torch.ops.winogen.convolution.default


def name(rank, transposed):
    return f"conv_transpose{rank}d" if transposed else f"conv{rank}d"


def function(rank, transposed):
    return getattr(winogen.torch, name(rank, transposed))


def torchs(rank, transposed):
    return getattr(F, name(rank, transposed))


def module(home, rank, transposed):
    return getattr(home, f"ConvTranspose{rank}d" if transposed else f"Conv{rank}d")


def some(rank, *before, size=(4, 5, 7), **options):
    return torch.randn(*before, *size[-rank:], **{"dtype": torch.float64, **options})


def check(y, expected):
    """Within the error that is promised: over the largest value, not the value itself."""
    assert y.dtype == expected.dtype and y.shape == expected.shape
    bound = 2e-5 if y.dtype == torch.float32 else 1e-12
    scale = expected.detach().abs().max().item() if expected.numel() else 0
    torch.testing.assert_close(y, expected, atol=bound * scale, rtol=0)


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torchs_samples_forward_and_backward(rank, transposed, dtype):
    wanted = f"nn.functional.{name(rank, transposed)}"
    info = next(one for one in methods.op_db if one.name == wanted)
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=True))
    assert len(samples) > 4
    for sample in samples:
        x, (w, *others) = sample.input, sample.args
        leaves = [t for t in (x, w, *others) if isinstance(t, torch.Tensor) and t.requires_grad]
        y = function(rank, transposed)(x, w, *others, **sample.kwargs, algorithm="direct")
        expected = torchs(rank, transposed)(x, w, *others, **sample.kwargs)
        check(y, expected)
        g = torch.randn_like(y)
        for one, other in zip(
            torch.autograd.grad(y, leaves, g), torch.autograd.grad(expected, leaves, g)
        ):
            check(one, other)


@KINDS
def test_gradients_of_any_order(rank, transposed):
    x = some(rank, 1, 2, size=(3, 2, 3)).requires_grad_()
    w = torch.randn(2, 2, *[2] * rank, dtype=torch.float64).requires_grad_()
    b = torch.randn(2, dtype=torch.float64).requires_grad_()
    cases = [
        {"stride": 2, "padding": 1, "activation": "silu"},
        {"padding": ((1, 0),) * rank, "activation": "relu"},
        {"dilation": 2, "padding": 1},
    ]
    if transposed:
        cases[0]["output_padding"] = 1
        cases[2]["output_padding"] = 1  # of stride 1, where the padding has more rows than that
        cases.append({"dilation": 3, "output_padding": 2})  # rows that see no input
    else:
        cases.append({"padding": 1, "padding_mode": "circular"})
        cases.append({"padding": 3})  # more than the kernel reaches over
    for options in cases:
        call = lambda *tensors: function(rank, transposed)(*tensors, **options)  # noqa: B023
        assert torch.autograd.gradcheck(call, (x, w, b))
        assert torch.autograd.gradgradcheck(call, (x, w, b), fast_mode=True)


@KINDS
def test_gradients_are_by_kernels(rank, transposed, monkeypatch):
    """Of layers of stride 1; those of the weights of volumes are torch's."""
    count = 192 if rank == 1 else 16  # from which it pays
    x = some(rank, 1, count, size=(2, 3, 4)).requires_grad_()
    w = torch.randn(count, count, *[3] * rank, dtype=torch.float64).requires_grad_()
    if rank == 3:
        w.requires_grad_(False)

    def by_torch(*given):
        raise AssertionError("left to torch")

    monkeypatch.setattr("winogen.torch.gradients._by_torch", by_torch)
    y = function(rank, transposed)(x, w, padding=1)
    y.square().sum().backward()
    leaves = [x] if rank == 3 else [x, w]
    theirs = torchs(rank, transposed)(x, w, padding=1).square().sum()
    for one, other in zip(leaves, torch.autograd.grad(theirs, leaves)):
        check(one.grad, other)


@KINDS
def test_the_operator_keeps_torchs_rules(rank, transposed):
    x, w = some(rank, 1, 2), torch.randn(2, 3, *[2] * rank, dtype=torch.float64)
    if not transposed:
        w = w.transpose(0, 1).contiguous()
    b, add = torch.randn(3, dtype=torch.float64), None
    options = {"stride": [2], "padding": [0, 1] * rank, "algorithm": "direct", "threads": 1}
    if transposed:
        options |= {"transposed": True, "output_padding": [1]}
    plain = (x.clone().requires_grad_(), w.clone().requires_grad_(), b)
    torch.library.opcheck(operator, plain, options)
    add = torch.randn_like(operator(x, w, b, **options))
    given = {**options, "activation": "silu", "add": add, "add_after": add.requires_grad_()}
    torch.library.opcheck(operator, plain, given)
    if rank > 1:
        last = x.contiguous(memory_format=FORMATS[rank])
        torch.library.opcheck(operator, (last, w), options)


@KINDS
def test_the_out_operator(rank, transposed):
    x, w = some(rank, 2, 4), torch.randn(4, 4, *[3] * rank, dtype=torch.float64)
    y = torchs(rank, transposed)(x, w, padding=1).relu()
    whole = torch.full((2, 12, *y.shape[2:]), 7.0, dtype=torch.float64)
    out = torch.ops.winogen.convolution_out
    out(x, w, None, padding=[1], activation="relu", transposed=transposed, out=whole[:, 4:8])
    check(whole[:, 4:8], y)
    assert bool((whole[:, :4] == 7).all() and (whole[:, 8:] == 7).all())


@KINDS
def test_modules_load_compile_and_notice_changes(rank, transposed):
    options = {"stride": 2, "padding": 1} if transposed else {"padding": 1}
    theirs = module(nn, rank, transposed)(3, 8, 3, **options)
    ours = module(winogen.torch, rank, transposed)(3, 8, 3, activation="relu", **options)
    ours.load_state_dict(theirs.state_dict())
    x = some(rank, 2, 3, dtype=torch.float32)
    with torch.no_grad():
        check(ours(x), theirs(x).relu())
        check(ours(x[0]), theirs(x[0]).relu())
        add = torch.randn_like(theirs(x))
        check(ours(x, add=add, add_after=add), (theirs(x) + add).relu() + add)
        check(ours(x[0], add=add[0]), (theirs(x[0]) + add[0]).relu())
        if transposed:
            size = [2 * n for n in x.shape[2:]]
            check(ours(x, size), theirs(x, size).relu())
        for one in (theirs, ours):
            one.weight.mul_(2)
            one.bias.add_(1)
        check(ours(x), theirs(x).relu())
        twin = copy.deepcopy(ours)
        frozen = ours.requires_grad_(False)
        for _ in range(2):
            check(frozen(x), theirs(x).relu())
            frozen.weight.mul_(0.5)
            theirs.weight.mul_(0.5)
    compiled = torch.compile(twin, backend="aot_eager", fullgraph=True)
    y, z = compiled(x), twin(x)
    torch.testing.assert_close(y, z)
    parameters = [*twin.parameters()]
    for one, other in zip(
        torch.autograd.grad(y.square().sum(), parameters),
        torch.autograd.grad(z.square().sum(), parameters),
    ):
        check(one, other)


@KINDS
def test_compiled_with_sizes_that_vary(rank, transposed):
    options = {"stride": 2, "padding": 1}
    layer = module(winogen.torch, rank, transposed)(2, 4, 3, activation="silu", **options)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for width in (7, 8, 9):
        x = some(rank, 2, 2, size=(3, 4, width), dtype=torch.float32).requires_grad_()
        y, z = compiled(x), layer(x)
        check(y, z)
        check(*(torch.autograd.grad(one.sum(), x)[0] for one in (y, z)))


@KINDS
def test_weights_are_packed_once_for_each_use(rank, transposed, monkeypatch):
    made = []
    table = packing.TRANSPOSED if transposed else packing.CONVOLUTIONS
    plain = dict(table)
    monkeypatch.setitem(table, rank, lambda *a, **how: made.append(1) or plain[rank](*a, **how))
    layer = module(winogen.torch, rank, transposed)(2, 4, 3, stride=2)
    x = some(rank, 1, 2, dtype=torch.float32)
    with torch.no_grad():
        for _ in range(3):
            layer(x)
    assert len(made) == 1
    for _ in range(3):
        layer(x).sum().backward()
    assert len(made) == 2  # for training once more, with a copy to compare
    layer.weight.data.mul_(2)  # uncounted
    expected = torchs(rank, transposed)(x, layer.weight, layer.bias, 2)
    check(layer(x), expected)
    assert len(made) == 3


def test_a_transposed_layer_of_stride_1_is_an_ordinary_one(monkeypatch):
    """Whose kernels are more, those of depthwise layers among them."""
    seen, plain = [], packing.CONVOLUTIONS[2]
    monkeypatch.setitem(
        packing.CONVOLUTIONS, 2, lambda w, *a, **how: seen.append(w.shape) or plain(w, *a, **how)
    )
    x, w = torch.randn(1, 8, 9, 9), torch.randn(8, 1, 3, 3)
    check(
        winogen.torch.conv_transpose2d(x, w, groups=8, padding=1),
        F.conv_transpose2d(x, w, groups=8, padding=1),
    )
    assert seen == [(8, 1, 3, 3)]
    winogen.torch.conv_transpose2d(x, w, groups=8, padding=3)  # leaves outputs out
    assert len(seen) == 1


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_channels_last_stays(rank, transposed):
    x = some(rank, 2, 16, dtype=torch.float32).contiguous(memory_format=FORMATS[rank])
    w = torch.randn(16, 8, *[3] * rank)
    if not transposed:
        w = w.transpose(0, 1).contiguous()
    x.requires_grad_()
    for algorithm in ("direct", "mcmr"):
        y = function(rank, transposed)(x, w, padding=1, stride=1, algorithm=algorithm)
        assert y.is_contiguous(memory_format=FORMATS[rank])
        check(y, torchs(rank, transposed)(x, w, padding=1))
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert grad.is_contiguous(memory_format=FORMATS[rank])


@KINDS
def test_what_torch_computes(rank, transposed):
    """Other types, autocast, transforms, exports: values and types are torch's."""
    layer = module(winogen.torch, rank, transposed)(2, 3, 3, activation="silu", padding=1)
    x, t = some(rank, 1, 2, dtype=torch.float32), some(rank, 1, 2, dtype=torch.float32)

    def plain(x, layer=layer):
        return F.silu(torchs(rank, transposed)(x, layer.weight, layer.bias, padding=1))

    for dtype in (torch.bfloat16, torch.float16):
        other = copy.deepcopy(layer).to(dtype)
        assert torch.equal(other(x.to(dtype)), plain(x.to(dtype), other))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert layer.to("meta")(x.to("meta")).shape == plain(x.to("meta"), layer).shape
    layer = module(winogen.torch, rank, transposed)(2, 3, 3, activation="silu", padding=1)
    torch.testing.assert_close(
        torch.vmap(layer)(x[None]), torch.vmap(lambda x: plain(x, layer))(x[None])
    )
    for one, other in zip(
        torch.func.jvp(layer, (x,), (t,)), torch.func.jvp(lambda x: plain(x, layer), (x,), (t,))
    ):
        torch.testing.assert_close(one, other)
    gradient = torch.func.grad(lambda x: layer(x).sum())(x)
    torch.testing.assert_close(gradient, torch.func.grad(lambda x: plain(x, layer).sum())(x))
    traced = torch.jit.trace(layer, x)
    assert "winogen::" not in str(traced.inlined_graph)
    torch.testing.assert_close(traced(t), plain(t, layer))


@KINDS
def test_what_is_refused(rank, transposed):
    call = function(rank, transposed)
    x, w = some(rank, 1, 2), torch.randn(2, 2, *[3] * rank, dtype=torch.float64)
    wrong = [
        ({"stride": 0}, InvalidValue, "stride: got 0; allowed"),
        ({"groups": 3}, InvalidValue, "groups: got 3"),
        ({"algorithm": "ntt"}, InvalidValue, "algorithm: got 'ntt'; allowed"),
        ({"tolerance": -1}, InvalidValue, "tolerance: got -1"),
        ({"activation": "sine"}, InvalidValue, "activation: got 'sine'; allowed"),
        ({"add": x[:, :1]}, InvalidValue, "add: got shape"),
        ({"bias": w.flatten()[:5]}, InvalidValue, "bias: got shape"),
        ({"activation": ("prelu", w.flatten()[:5])}, InvalidValue, "slopes of shape"),
        ({"points": 3}, InvalidType, "points: got 3"),
    ]
    if rank != 2 or transposed:
        wrong.append(({"algorithm": "winograd2d"}, Unsupported, 'algorithm: got "winograd2d"'))
    if transposed:
        wrong += [
            ({"output_padding": 1}, InvalidValue, "output_padding: got .* allowed: less than"),
            ({"padding": "same"}, InvalidValue, "padding: got 'same'; allowed: numbers, with a tr"),
            ({"padding": 9}, InvalidValue, "padding: got .* leaves an output"),
            ({"algorithm": "fft"}, Unsupported, 'algorithm: got "fft" for a transposed layer'),
        ]
    else:
        wrong.append(({"padding_mode": "mirror"}, InvalidValue, "padding_mode: got 'mirror'"))
        wrong.append(({"dilation": 9}, InvalidValue, "weight: got a kernel reaching over 19"))
    for options, kind, message in wrong:
        # Where gradients are needed, slopes are torch's.
        for grad in (False,) if "slopes" in message else (False, True):
            with pytest.raises(kind, match=message), torch.set_grad_enabled(grad):
                call(x.requires_grad_(grad), w, **options)
    with pytest.raises(InvalidValue, match=f"weight: got shape .*; allowed: {rank + 2} axes"):
        call(x, w[0])
    with pytest.raises(InvalidValue, match=f"input: got shape .*; allowed: {rank + 2} axes"):
        call(x[0, 0], w)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_transposed_layers_lack_is_told(rank):
    x, w = some(rank, 1, 2), torch.randn(2, 2, *[3] * rank, dtype=torch.float64)
    made, plain = (module(home, rank, True) for home in (winogen.torch, nn))
    with pytest.raises(InvalidValue, match='edge: got "direct"; .* with a transposed layer'):
        made.from_module(plain(2, 2, 3), edge="direct")
    with pytest.raises(InvalidValue, match='edge: got "direct"; .* with a transposed layer'):
        operator(x, w, edge="direct", transposed=True)
    with pytest.raises(InvalidValue, match='padding_mode: got "reflect"; .* a transposed layer'):
        operator(x, w, padding=[1], padding_mode="reflect", transposed=True)
    with pytest.raises(InvalidValue, match="output_padding: got .*; allowed: 0, unless transposed"):
        operator(x, w, output_padding=[1])
    with pytest.raises(TypeError, match="edge"):
        function(rank, True)(x, w, edge="discard")


def test_every_function_and_module_has_every_option():
    from inspect import signature

    lacking = {"padding_mode", "edge"}
    for rank in (1, 3):
        for transposed in (False, True):
            own = signature(function(rank, transposed)).parameters
            for usual in (signature(winogen.torch.conv2d).parameters,):
                assert usual.keys() - own.keys() == (lacking if transposed else set())
    usual = signature(winogen.torch.Conv2d).parameters.keys()
    for rank in (1, 2, 3):
        assert signature(module(winogen.torch, rank, False)).parameters.keys() == usual
        own = signature(module(winogen.torch, rank, True)).parameters.keys()
        assert own - usual == {"output_padding"} and usual - own == {"edge"}


PAGE = Path(__file__).parents[2] / "docs" / "shapes.md"
TABLE = re.search("<!-- options: begin -->\n(.*)\n<!-- options: end -->", PAGE.read_text(), re.S)


def rows():
    """The lines of the page's table: an option, and what it says for each function."""
    head, _, *lines = ([cell.strip(" `") for cell in line.strip("|").split("|")]
                       for line in TABLE[1].split("\n"))  # fmt: skip
    return [(option, dict(zip(head[1:], cells))) for option, *cells in lines]


@pytest.mark.parametrize("option, said", rows(), ids=lambda one: one if type(one) is str else "")
def test_options_are_as_the_page_says(option, said):
    assert len(said) == 6 and {*said.values()} <= {"yes", "refused"}
    for called, word in said.items():
        rank, transposed = int(called[-2]), "transpose" in called
        groups = 2 if "groups" in option else 1
        x = some(rank, 1, 4, size=(5, 6, 7), dtype=torch.float32)
        w = torch.randn(4, 4 // groups, *[3] * rank)
        ends = {"padding": ((1, 0),) * rank} if "ends" in option else {"padding": 1}
        if "dilation" in option:
            ends["dilation"] = 2
        plain = {**ends, "groups": groups}
        expected = torchs(rank, transposed)(
            x if not isinstance(plain["padding"], tuple) or transposed
            else F.pad(x, (1, 0) * rank), w, None,
            **{**plain, "padding": 0 if "ends" in option else 1},
        )  # fmt: skip
        if transposed and "ends" in option:
            expected = expected[(..., *[slice(1, None)] * rank)]
        names = {"y": torch.randn_like(expected), "slopes": torch.rand(4), "ends": ends["padding"]}
        options = {**ends, **eval(f"dict({option})", names)}
        if word == "refused":
            with pytest.raises((TypeError, winogen.errors.WinogenError)):
                function(rank, transposed)(x, w, None, **options)
            continue
        y = function(rank, transposed)(x, w, None, **options)
        if "reflect" in option:
            padded = F.pad(x, (1, 1) * rank, mode="reflect")
            expected = torchs(rank, transposed)(padded, w)
        expected = expected + options.get("add", 0)
        if "prelu" in option:
            expected = F.prelu(expected, names["slopes"])
        expected = expected + options.get("add_after", 0)
        scale = float(expected.abs().max())
        torch.testing.assert_close(y, expected, rtol=0, atol=scale * options.get("tolerance", 2e-5))


def test_causal_padding_is_all_before():
    x, before = torch.randn(2, 3, 20), torch.nn.ConstantPad1d((8, 0), 0.0)
    layer = winogen.torch.Conv1d(3, 5, 3, padding="causal", dilation=4)
    expected = F.conv1d(before(x), layer.weight, layer.bias, dilation=4)
    torch.testing.assert_close(layer(x), expected)
    made = winogen.torch.conv1d(x, layer.weight, layer.bias, padding="causal", dilation=4)
    torch.testing.assert_close(made, expected)
    with pytest.raises(InvalidValue, match="padding: got 'causal'; allowed"):
        winogen.torch.Conv2d(3, 5, 3, padding="causal")
