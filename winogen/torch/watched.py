"""Who looks at a call from outside, and must see an operator or torch's functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

# Others, as fake tensors, may have no memory; only the dispatcher knows what to do with them.
PLAIN = (Tensor, torch.nn.Parameter, type(None))


def _private(path: str) -> Callable[[], Any]:
    """Return one of torch's own functions; where a version lacks it, one that always answers yes.

    Then every call goes through the operator, which is right, and some microseconds slower.
    """
    function: Any = torch
    for name in path.split("."):
        function = getattr(function, name, None)
    return function or (lambda: 1)


_profiler = torch.autograd.profiler
_is_tracing = _private("_C._is_tracing")
_dispatch_modes = _private("_C._len_torch_dispatch_stack")  # fake tensors, make_fx, counters
_function_modes = _private("_C._len_torch_function_stack")
_transforms = _private("_C._functorch.peek_interpreter_stack")  # vmap, grad and the like
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # since torch 2.7


def watched() -> bool:
    """Whether calls are traced, profiled or transformed."""
    return bool(
        torch.compiler.is_compiling()
        or _is_tracing()
        or _profiler._is_profiler_enabled
        or _dispatch_modes()
        or _function_modes()
        or transformed()
    )


def unseen(*tensors: Tensor | None) -> bool:
    """Whether nobody watches a call, and tensors are plain ones, whose memory can be read."""
    return not watched() and all(type(one) in PLAIN for one in tensors)


def exported() -> bool:
    """Whether a call is written down for others, who may know torch's functions only."""
    if torch.compiler.is_compiling():  # dynamo does not look into the other question
        return bool(_is_exporting() or torch.onnx.is_in_onnx_export())
    if _is_tracing():
        return True
    # Whoever has not imported it exports nothing, and need not wait until it is imported.
    return "torch.onnx" in sys.modules and bool(torch.onnx.is_in_onnx_export())


def transformed() -> bool:
    """Whether a call is differentiated forward or vectorised, which only torch's functions know.

    An operator would drop the tangents, and is refused by `torch.func.grad`.
    """
    if torch.compiler.is_compiling():  # dynamo knows transforms by itself
        return False
    return _transforms() is not None or forward_ad._current_level >= 0
