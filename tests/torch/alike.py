"""Whether two outputs are alike: the same types, structure and shapes, and numbers close enough."""

from __future__ import annotations

import copy
import dataclasses
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# Errors may be so many times torch's own, and this part of the largest number anyway.
TIMES, RELATIVE, ABSOLUTE = 20.0, 1e-4, 1e-6
# Of what the original says where it wants other strides, which an optimized model may have.
STRIDES = ("view size is not compatible", "view() ", "unsupported memory format")


@dataclass
class Outcome:
    """What a call returned, or raised."""

    value: Any = None
    error: Exception | None = None

    def __str__(self) -> str:
        if self.error is None:
            return f"returns {type(self.value).__name__}"
        text = str(self.error).strip().splitlines() or [""]
        return f"raises {type(self.error).__name__}: {text[0][:160]}"


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Return what a call returns or raises."""
    try:
        return Outcome(call(*args, **kwargs))
    except Exception as error:  # whatever it is, the other must do so, too
        return Outcome(error=error)


def trace(error: Exception | None) -> str:
    """Return the last frames, in winogen and in the model."""
    return "" if error is None else "".join(traceback.format_exception(error)[-4:])


def compared(
    fast: Callable[..., Any],
    original: Callable[..., Any],
    make: Callable[[], tuple[tuple, dict[str, Any]]],
    exact: Callable[..., Any] | None = None,
    before: Callable[[], Any] = lambda: None,
) -> str | None:
    """Call two models with the same arguments, and return in words what differs; None for nothing.

    ``make`` makes the arguments, as often as they are needed. Both must return alike and change
    their arguments alike, or both must raise. ``exact`` is the original in float64, ``excused``
    tells of which of its errors nothing is expected.
    """

    def called(model: Callable[..., Any], wide: bool = False) -> tuple[Outcome, Any]:
        args, kwargs = make()
        if wide:
            args, kwargs = mapped(
                lambda t: t.double() if t.is_floating_point() else t, (args, kwargs)
            )
        torch.default_generator.manual_seed(0)
        before()
        return outcome(model, *args, **kwargs), [*args, kwargs]

    (theirs, theirs_after), (ours, ours_after) = called(original), called(fast)
    right = Outcome() if exact is None else called(exact, wide=True)[0]
    if theirs.error is not None and ours.error is not None:
        return None
    if theirs.error is not None and _of_strides(theirs.error):
        return None
    if theirs.error is not None or ours.error is not None:
        return f"{ours}, the original {theirs}\n{trace(ours.error)}"
    found = difference(ours.value, theirs.value, right.value)
    return found or difference(ours_after, theirs_after, None, "what it was given, afterwards,")


def _of_strides(error: Exception) -> bool:
    return any(text in str(error) for text in STRIDES)


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors within lists, tuples, dictionaries and objects, in their order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for item in value.values() for t in tensors(item)]
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in tensors(item)]
    return tensors(vars(value)) if _has_fields(value) else []


def mapped(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """Return the same structure, with other tensors."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple):
        items = [mapped(function, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return type(value)(mapped(function, item) for item in value)
    made = copy.copy(value)
    if isinstance(value, dict):
        made.update({key: mapped(function, item) for key, item in value.items()})
    elif _has_fields(value):
        vars(made).update({key: mapped(function, item) for key, item in vars(value).items()})
    return made


def clones(value: Any) -> Any:
    """Return a copy whose tensors lie in memory as the originals do."""
    return mapped(torch.Tensor.clone, value)


def _has_fields(value: Any) -> bool:
    """Whether an object is told by its fields, as one of a data class is."""
    plain = dataclasses.is_dataclass(value) or type(value).__eq__ is object.__eq__
    return plain and hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module))


def difference(ours: Any, theirs: Any, exact: Any = None, where: str = "output") -> str | None:
    """Return in words where two outputs differ; None where they don't.

    ``exact`` is the output in float64, or None where there is none.
    """
    if type(ours) is not type(theirs):
        return f"{where} is a {type(ours).__name__} instead of a {type(theirs).__name__}"
    if isinstance(ours, torch.Tensor):
        return _difference_of_tensors(ours, theirs, exact, where)
    if isinstance(ours, np.ndarray):
        return difference(torch.from_numpy(ours), torch.from_numpy(theirs), None, where)
    if _has_fields(ours):
        exact = vars(exact) if _has_fields(exact) else None
        ours, theirs = vars(ours), vars(theirs)
    if isinstance(ours, dict):
        if list(ours) != list(theirs):
            return f"{where} has the keys {list(ours)} instead of {list(theirs)}"
        ours, theirs = [*ours.values()], [*theirs.values()]
        exact = [*exact.values()] if isinstance(exact, dict) else None
    if isinstance(ours, (tuple, list)):
        if len(ours) != len(theirs):
            return f"{where} has {len(ours)} items instead of {len(theirs)}"
        known = isinstance(exact, (tuple, list)) and len(exact) == len(ours)
        for i, (one, other) in enumerate(zip(ours, theirs)):
            found = difference(one, other, exact[i] if known else None, f"{where}[{i}]")
            if found:
                return found
        return None
    if isinstance(ours, (float, np.floating)):
        same = math.isclose(ours, theirs, rel_tol=10 * RELATIVE, abs_tol=10 * ABSOLUTE)
        same = same or (math.isnan(ours) and math.isnan(theirs))
    else:
        same = bool(ours == theirs)
    return None if same else f"{where} is {ours!r} instead of {theirs!r}"


def _difference_of_tensors(
    ours: torch.Tensor, theirs: torch.Tensor, exact: Any, where: str
) -> str | None:
    for what in ("shape", "dtype", "layout", "device"):
        if getattr(ours, what) != getattr(theirs, what):
            return f"{where} has {what} {getattr(ours, what)} instead of {getattr(theirs, what)}"
    ours, theirs = ours.detach(), theirs.detach()
    if ours.layout != torch.strided:
        ours, theirs = ours.to_dense(), theirs.to_dense()
    if not (ours.is_floating_point() or ours.is_complex()):
        return None if torch.equal(ours, theirs) else f"{where} has other numbers"
    kind = torch.complex128 if ours.is_complex() else torch.float64
    step = torch.finfo(ours.dtype).eps  # numbers near a half step may be rounded either way
    ours, theirs = ours.to(kind), theirs.to(kind)
    if isinstance(exact, torch.Tensor) and exact.shape == ours.shape:
        exact = exact.detach().to(kind)
    else:
        exact = theirs
    finite = torch.isfinite(theirs)
    if not torch.allclose(ours[~finite], theirs[~finite], equal_nan=True):
        return f"{where} has other NaN or Inf"
    finite &= torch.isfinite(exact)
    if not finite.any():
        return None
    ours, theirs, exact = ours[finite], theirs[finite], exact[finite]
    error, usual, largest = (float(x.abs().max()) for x in (ours - exact, theirs - exact, exact))
    allowed = max(TIMES * usual, max(RELATIVE, step) * largest, ABSOLUTE)
    if error <= allowed:
        return None
    return f"{where} is off by {error:.2g} where {allowed:.2g} is allowed (largest {largest:.2g})"
