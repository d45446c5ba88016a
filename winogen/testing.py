"""What tests of models need, and nothing else does: `optimize` without its clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_every_layer: ContextVar[bool] = ContextVar("every_layer", default=False)


@contextmanager
def every_layer() -> Iterator[None]:
    """Within it, `optimize` gives winogen every convolution it can, however slow that is here.

    This holds for `winogen.torch` and `winogen.onnx`. What a test sees then follows from no clock,
    and an ONNX model that is made on one machine for another one gets all nodes of winogen's.
    Excluded layers, and layers without a kernel of winogen's, stay with the framework as always.
    The context holds in the thread that enters it. `torch.compile(model, backend="winogen")` asks
    for it at the calls that compile.

    >>> import torch, winogen.torch
    >>> from winogen.testing import every_layer
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3))
    >>> with every_layer():
    ...     fast = winogen.torch.optimize(model, torch.randn(1, 3, 16, 16))
    >>> [row.runs == "torch" for row in winogen.torch.report(fast).rows]
    [False]
    """
    before = _every_layer.set(True)
    try:
        yield
    finally:
        _every_layer.reset(before)


def is_every_layer() -> bool:
    """Whether `every_layer` is in force."""
    return _every_layer.get()
