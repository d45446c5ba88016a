"""Tensors of one and three axes: torch's results, gradients, operators, compiled calls."""

import pytest

torch = pytest.importorskip("torch")

import winogen.torch  # noqa: E402
from winogen.errors import InvalidValue, Unsupported  # noqa: E402
from winogen.torch import axes  # noqa: E402

F = torch.nn.functional
OURS = {1: winogen.torch.conv1d, 3: winogen.torch.conv3d}
MODULES = {1: winogen.torch.Conv1d, 3: winogen.torch.Conv3d}
RANKS = pytest.mark.parametrize("rank", [1, 3])


def some(rank, *before, dtype=torch.float64, size=(4, 5, 7)):
    return torch.randn(*before, *size[-rank:], dtype=dtype)


@RANKS
def test_as_torch(rank):
    torch.manual_seed(0)
    x, w = some(rank, 2, 6), torch.randn(8, 3, *[3] * rank, dtype=torch.float64)
    b = torch.randn(8, dtype=torch.float64)
    for options in (
        {"padding": 1},
        {"stride": 2, "padding": (2, 1, 0)[-rank:]},
        {"padding": "same", "dilation": 2},
    ):
        for data in (x, x[0]):
            y = OURS[rank](data, w, b, groups=2, **options)
            expected = getattr(F, f"conv{rank}d")(data, w, b, groups=2, **options)
            torch.testing.assert_close(y, expected)


@RANKS
def test_gradients(rank):
    torch.manual_seed(0)
    x = some(rank, 1, 2, size=(3, 3, 4)).requires_grad_()
    w = torch.randn(2, 2, *[2] * rank, dtype=torch.float64).requires_grad_()
    b = torch.randn(2, dtype=torch.float64).requires_grad_()
    for options in (
        {"stride": 2, "padding": 1},
        {"padding": ((1, 0),) * rank, "activation": "silu"},
        {"padding": 1, "padding_mode": "circular"},
    ):
        function = lambda *tensors: OURS[rank](*tensors, **options)  # noqa: B023
        assert torch.autograd.gradcheck(function, (x, w, b))
        assert torch.autograd.gradgradcheck(function, (x, w, b))


@RANKS
def test_the_operator_keeps_torchs_rules(rank):
    x, w = some(rank, 1, 2).requires_grad_(), torch.randn(3, 2, *[2] * rank, dtype=torch.float64)
    one = [1] * rank
    samples = [(x, w.requires_grad_(), torch.randn(3, dtype=torch.float64), one, one, one, 1,
                "auto", [], None, None)]  # fmt: skip
    if rank == 3:
        last = x.detach().contiguous(memory_format=torch.channels_last_3d)
        samples.append((last, w.detach(), None, [2, 1, 1], one, one, 1, "direct", [], 1, None))
    for sample in samples:
        torch.library.opcheck(torch.ops.winogen.convolution.default, sample)


@RANKS
def test_modules_load_compile_and_notice_changes(rank):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, f"Conv{rank}d")(3, 8, 3, padding=1)
    ours = MODULES[rank](3, 8, 3, padding=1, activation="relu")
    ours.load_state_dict(theirs.state_dict())
    x = some(rank, 2, 3, dtype=torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x).relu(), rtol=1e-4, atol=1e-5)
        for module in (theirs, ours):
            module.weight.mul_(2)
            module.bias.add_(1)
        torch.testing.assert_close(ours(x), theirs(x).relu(), rtol=1e-4, atol=1e-5)
        frozen = ours.requires_grad_(False)
        for _ in range(2):
            torch.testing.assert_close(frozen(x), theirs(x).relu(), rtol=1e-4, atol=1e-5)
            frozen.weight.mul_(0.5)
            theirs.weight.mul_(0.5)
        compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), ours(x))


@RANKS
def test_weights_are_packed_once(rank, monkeypatch):
    made = []
    plain = dict(axes.CONVOLUTIONS)
    monkeypatch.setitem(
        axes.CONVOLUTIONS, rank, lambda *given, **how: made.append(1) or plain[rank](*given, **how)
    )
    layer = MODULES[rank](2, 4, 3)
    x = some(rank, 1, 2, dtype=torch.float32)
    for _ in range(3):
        with torch.no_grad():
            layer(x)
        layer(x).sum().backward()
    assert len(made) == 1
    layer.weight.data.mul_(2)  # uncounted
    y = layer(x)
    expected = getattr(F, f"conv{rank}d")(x, layer.weight, layer.bias)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    assert len(made) == 2


def test_volumes_stay_channels_last():
    x = some(3, 2, 16, dtype=torch.float32).contiguous(memory_format=torch.channels_last_3d)
    w = torch.randn(8, 16, 3, 3, 3)
    y = winogen.torch.conv3d(x, w, padding=1)
    assert y.is_contiguous(memory_format=torch.channels_last_3d)
    torch.testing.assert_close(y, F.conv3d(x, w, padding=1), rtol=1e-3, atol=1e-3)


@RANKS
def test_what_is_refused_and_what_torch_computes(rank):
    x, w = some(rank, 1, 2), torch.randn(3, 2, *[3] * rank, dtype=torch.float64)
    with pytest.raises(Unsupported, match="winograd2d"):
        OURS[rank](x, w, algorithm="winograd2d")
    with pytest.raises(InvalidValue, match="stride"):
        OURS[rank](x, w, stride=0)
    half = OURS[rank](x.bfloat16(), w.bfloat16())
    assert half.dtype is torch.bfloat16
