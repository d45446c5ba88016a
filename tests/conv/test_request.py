"""What the user asks for is checked before anything is planned, and quickly."""

from winogen import algebra
from winogen.conv import Layer
from winogen.conv.request import Request


def test_points_are_checked_once_for_all_calls(monkeypatch):
    """Deriving the algorithm takes longer than many a convolution."""
    derived = []
    derive = algebra.cook_toom
    monkeypatch.setattr(
        algebra,
        "cook_toom",
        lambda *args, **options: derived.append(args) or derive(*args, **options),
    )
    layer = Layer.of((8, 8, 3, 3), "float32")
    for _ in range(3):
        Request.of(layer, algorithm="mcmr", points="0, 1, -1, 7/5, -7/5, inf")
    assert len(derived) == 1
