"""Transposed layers of tensors: torch's own samples, gradients, operators, modules."""

import pytest

torch = pytest.importorskip("torch")

import winogen.torch  # noqa: E402
from winogen.errors import InvalidValue, Unsupported  # noqa: E402
from winogen.torch import transposed  # noqa: E402

F = torch.nn.functional
RANKS = pytest.mark.parametrize("rank", [1, 2, 3])
methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")


def ours(rank):
    return getattr(winogen.torch, f"conv_transpose{rank}d")


def check(y, expected):
    """Within the error that is promised: over the largest value, not the value itself."""
    assert y.dtype == expected.dtype
    bound = 2e-5 if y.dtype == torch.float32 else 1e-13
    scale = expected.detach().abs().max().item() if expected.numel() else 0
    torch.testing.assert_close(y, expected, atol=bound * scale, rtol=0)


@RANKS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torchs_samples_forward_and_backward(rank, dtype):
    name = f"nn.functional.conv_transpose{rank}d"
    info = next(one for one in methods.op_db if one.name == name)
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=True))
    assert len(samples) > 4
    for sample in samples:
        x, (w, *others) = sample.input, sample.args
        leaves = [t for t in (x, w, *others) if isinstance(t, torch.Tensor) and t.requires_grad]
        y = ours(rank)(x, w, *others, **sample.kwargs, algorithm="direct")
        expected = getattr(F, f"conv_transpose{rank}d")(x, w, *others, **sample.kwargs)
        check(y, expected)
        g = torch.randn_like(y)
        for one, other in zip(
            torch.autograd.grad(y, leaves, g), torch.autograd.grad(expected, leaves, g)
        ):
            check(one, other)


@pytest.mark.parametrize("last", [False, True])
def test_the_way_of_choice_is_torchs_too(last):
    torch.manual_seed(0)
    x, w = torch.randn(1, 16, 13, 9), torch.randn(16, 16, 4, 4)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    y = winogen.torch.conv_transpose2d(x, w, stride=2, padding=1, algorithm="mcmr")
    check(y, F.conv_transpose2d(x, w, stride=2, padding=1))
    assert y.is_contiguous(memory_format=torch.channels_last) == last


@RANKS
def test_gradients(rank):
    torch.manual_seed(0)
    x = torch.randn(1, 2, *(3, 2, 3)[-rank:], dtype=torch.float64).requires_grad_()
    w = torch.randn(2, 1, *[3] * rank, dtype=torch.float64).requires_grad_()
    b = torch.randn(2, dtype=torch.float64).requires_grad_()
    options = {"stride": 2, "padding": 1, "output_padding": 1, "activation": "silu", "groups": 2}
    function = lambda *tensors: ours(rank)(*tensors, **options, algorithm="direct")
    assert torch.autograd.gradcheck(function, (x, w, b))
    assert torch.autograd.gradgradcheck(function, (x, w, b))


@RANKS
def test_the_operator_keeps_torchs_rules(rank):
    x = torch.randn(1, 2, *(3, 4, 5)[-rank:], dtype=torch.float64).requires_grad_()
    w = torch.randn(2, 3, *[2] * rank, dtype=torch.float64).requires_grad_()
    b = torch.randn(3, dtype=torch.float64)
    one, two = [1] * rank, [2] * rank
    how = ("direct", [], None, None)
    samples = [(x, w, b, two, one, one, one, 1, *how)]
    if rank > 1:
        form = {2: torch.channels_last, 3: torch.channels_last_3d}[rank]
        last = x.detach().contiguous(memory_format=form)
        samples.append((last, w.detach(), None, two, one, one, one, 1, *how))
    for sample in samples:
        torch.library.opcheck(torch.ops.winogen.transposed_convolution.default, sample)


@RANKS
def test_modules_load_compile_and_notice_changes(rank):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, f"ConvTranspose{rank}d")(3, 8, 3, stride=2, padding=1)
    module = getattr(winogen.torch, f"ConvTranspose{rank}d")
    layer = module(3, 8, 3, stride=2, padding=1, activation="relu", algorithm="direct")
    layer.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, *(3, 5, 4)[-rank:])
    size = [2 * n for n in x.shape[2:]]
    with torch.no_grad():
        check(layer(x), theirs(x).relu())
        check(layer(x, size), theirs(x, size).relu())
        check(layer(x[0]), theirs(x[0]).relu())
        for one in (theirs, layer):
            one.weight.mul_(2)
            one.bias.add_(1)
        check(layer(x), theirs(x).relu())
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), layer(x))


def test_weights_are_packed_once(monkeypatch):
    made, plain = [], dict(transposed.TRANSPOSED)
    monkeypatch.setitem(
        transposed.TRANSPOSED, 2, lambda *given, **how: made.append(1) or plain[2](*given, **how)
    )
    layer, x = winogen.torch.ConvTranspose2d(2, 4, 3, algorithm="direct"), torch.randn(1, 2, 5, 5)
    for _ in range(3):
        layer(x).sum().backward()
    assert len(made) == 1
    layer.weight.data.mul_(2)  # uncounted
    check(layer(x), F.conv_transpose2d(x, layer.weight, layer.bias))
    assert len(made) == 2


def test_what_is_refused_and_what_torch_computes():
    x, w = torch.randn(1, 2, 5, 5), torch.randn(2, 3, 3, 3)
    with pytest.raises(Unsupported, match="winograd2d"):
        winogen.torch.conv_transpose2d(x, w, algorithm="winograd2d")
    with pytest.raises(InvalidValue, match="stride"):
        winogen.torch.conv_transpose2d(x, w, stride=0)
    with pytest.raises(InvalidValue, match="output_padding"):
        winogen.torch.conv_transpose2d(x, w, stride=2, output_padding=2)
    half = winogen.torch.conv_transpose2d(x.bfloat16(), w.bfloat16(), stride=2)
    assert half.dtype is torch.bfloat16
