"""Odd models, optimized, do what they did: the same structure, types and numbers, or an error.

The odd are in `odd_flow.py`, `odd_state.py`, `odd_hooks.py` and `odd_data.py`. What users do with
an optimized model besides calling it is in `test_odd_uses.py`.
"""

import pytest

torch = pytest.importorskip("torch")

from alike import compared, outcome, trace  # noqa: E402
from odd_models import ALL, Odd, Two  # noqa: E402

import winogen.torch  # noqa: E402
from winogen.testing import every_layer  # noqa: E402

MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "grad": torch.enable_grad,
}


def wrong_with(odd):
    """What an optimized model does otherwise than the original, in words; None for nothing."""
    with odd.around():
        given, original = odd.model(), odd.model()
        for parameter in original.parameters():  # as in the copy
            if parameter.is_leaf and not parameter.is_inference():
                parameter.requires_grad_(False)
        odd.before()
        with every_layer():
            fast = outcome(winogen.torch.optimize, given, odd.example())
        if fast.error is not None:
            return f"optimize {fast}\n{trace(fast.error)}"
        for mode, inside in MODES.items():
            if (odd.name, mode) == ("weights made in inference mode", "grad"):
                continue  # a backward pass would need them, and the copy has other weights
            for what, make in odd.calls():
                with inside():
                    wrong = compared(fast.value, original, make, before=odd.before)
                if wrong:
                    return f"{what}, {mode}: {wrong}"
    return None


@pytest.mark.parametrize("odd", ALL, ids=lambda odd: odd.name)
def test_an_odd_model(odd):
    wrong = wrong_with(odd)
    assert wrong is None, wrong


def test_names_are_different():
    assert len({odd.name for odd in ALL}) == len(ALL) >= 60


@pytest.mark.parametrize(
    "what", ("another number", "another type", "another structure", "an error", "an input")
)
def test_what_is_wrong_is_noticed(what, monkeypatch):
    def spoiled(model, example):
        def call(x):
            y = model(x)
            if what == "an error":
                raise RuntimeError("no")
            if what == "an input":
                x.add_(1)
            return {
                "another number": y + 1e-2,
                "another type": y.double(),
                "another structure": (y,),
            }.get(what, y)

        return call

    monkeypatch.setattr(winogen.torch, "optimize", spoiled)
    (odd,) = (odd for odd in ALL if odd.name == "weight_norm")
    assert "first call" in wrong_with(odd)
    assert isinstance(odd, Odd) and isinstance(odd.model(), Two)
