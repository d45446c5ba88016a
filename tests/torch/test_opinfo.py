"""PyTorch's own samples of conv2d: same values, same gradients; wrong arguments raise at once."""

import pytest
import torch
from torch.nn import functional as F

import winogen.torch
from winogen.torch import ops

methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")
OPINFO = next(info for info in methods.op_db if info.name == "nn.functional.conv2d")
DTYPES = (torch.float32, torch.float64)


def samples(dtype, **options):
    return list(OPINFO.sample_inputs("cpu", dtype, **options))


def check(y, expected):
    """Within the error that is promised: over the largest value, not the value itself."""
    assert y.dtype == expected.dtype
    bound = 2e-5 if y.dtype == torch.float32 else 1e-13
    scale = expected.detach().abs().max().item() if expected.numel() else 0
    torch.testing.assert_close(y, expected, atol=bound * scale, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last))
def test_samples_forward_and_backward(dtype, memory_format, monkeypatch):
    calls = []
    run = ops.run
    monkeypatch.setattr(ops, "run", lambda *a, **k: calls.append(1) or run(*a, **k))
    everything = samples(dtype, requires_grad=True)
    assert len(everything) > 10
    for sample in everything:
        x, (w, *others) = sample.input, sample.args
        if x.dim() == 4:
            x = x.detach().to(memory_format=memory_format).requires_grad_()
        leaves = [t for t in (x, w, *others) if isinstance(t, torch.Tensor) and t.requires_grad]
        calls.clear()
        y = winogen.torch.conv2d(x, w, *others, **sample.kwargs)
        assert len(calls) == 1
        expected = F.conv2d(x, w, *others, **sample.kwargs)
        check(y, expected)
        g = torch.randn_like(y)
        ours = torch.autograd.grad(y, leaves, g)
        theirs = torch.autograd.grad(expected, leaves, g)
        for one, other in zip(ours, theirs):
            check(one, other)


def test_other_dtypes_are_torchs():
    for dtype in (torch.bfloat16, torch.float16, torch.complex64, torch.int64):
        for sample in samples(dtype):
            if dtype == torch.complex64 and "padding" in sample.kwargs:
                continue
            expected = F.conv2d(sample.input, *sample.args, **sample.kwargs)
            y = winogen.torch.conv2d(sample.input, *sample.args, **sample.kwargs)
            assert torch.equal(y, expected)


def test_error_inputs_raise_before_any_work(monkeypatch):
    def work(*given):
        raise AssertionError("it computes")

    monkeypatch.setattr("winogen.conv.execute.Prepared.run", work)
    monkeypatch.setattr("winogen.conv.execute.Prepared.pack", work)
    errors = list(OPINFO.error_inputs("cpu"))
    assert len(errors) > 5
    for error in errors:
        sample = error.sample_input
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            winogen.torch.conv2d(sample.input, *sample.args, **sample.kwargs)
