"""What became of a model, layer by layer: a table that prints itself."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from winogen.errors import InvalidType


@dataclass(frozen=True)
class Row:
    """One convolution."""

    name: str  # of the layer in the model
    what: str  # it computes, seams included
    runs: str  # by which algorithm, or torch
    why: str
    predicted: float | None = None  # seconds of a call
    measured: float | None = None
    torch: float | None = None  # torch's seconds for the same
    error: float | None = None  # predicted max |y - y_exact| / max |y_exact|
    packed_bytes: int = 0


@dataclass(frozen=True)
class Errors:
    """At the output on the example inputs, against float64: max |y - y64| / max |y64|, and L2."""

    ours: float
    torch: float
    ours_l2: float
    torch_l2: float


@dataclass(frozen=True)
class Report:
    """The table of an optimized model; ``print`` shows it."""

    rows: tuple[Row, ...] = ()
    tracer: str = ""  # what traced the model
    layout: str = ""
    errors: Errors | None = None
    weight_bytes: int = 0
    segments: int = 0
    _columns: tuple[str, ...] = field(
        default=("layer", "computes", "runs", "predicted", "measured", "torch", "error", "why"),
        repr=False,
    )

    @property
    def packed_bytes(self) -> int:
        """Of all packed filters, for the shapes of the example inputs."""
        return sum(row.packed_bytes for row in self.rows)

    def __str__(self) -> str:
        cells = [self._columns, *(self._cells(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(self._columns))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip()
            for line in cells
        ]
        return "\n".join([*self._head(), "", lines[0], "-" * len(lines[0]), *lines[1:]])

    def _head(self) -> list[str]:
        ours = sum(row.runs != "torch" for row in self.rows)
        head = [
            f"{ours} of {len(self.rows)} convolutions run by winogen in {self.segments} calls, "
            f"layout {self.layout}; traced by {self.tracer}",
        ]
        if self.packed_bytes:
            times = self.packed_bytes / max(1, self.weight_bytes)
            head.append(f"packed filters: {self.packed_bytes:,} bytes, {times:.2f} x the weights")
        if self.errors is not None:
            e = self.errors
            head.append(
                f"error at the output against float64: {e.ours:.1e} of the largest value "
                f"(torch {e.torch:.1e}); L2 {e.ours_l2:.1e} (torch {e.torch_l2:.1e})"
            )
        return head

    def _cells(self, row: Row) -> tuple[str, ...]:
        times = [_milliseconds(s) for s in (row.predicted, row.measured, row.torch)]
        error = "" if row.error is None else f"{row.error:.1e}"
        return (row.name, row.what, row.runs, *times, error, row.why)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3g} ms"


def report(model: nn.Module) -> Report:
    """Return what became of a model that `optimize` returned.

    Raises InvalidType for any other model.
    """
    made = getattr(model, "winogen_report", None)
    if not isinstance(made, Report):
        raise InvalidType(
            f"model: got {type(model).__name__}; allowed: what winogen.torch.optimize returned"
        )
    return made


class Reference:
    """A model's outputs on its example inputs: in float64, and as torch computes them."""

    def __init__(self, model: nn.Module, inputs: Sequence[Any]):
        self.inputs = inputs
        with torch.no_grad():
            own = copy.deepcopy(model).eval()
            self.theirs = _numbers(_tried(own, inputs))
            self.exact = _numbers(_tried(own.double(), inputs, torch.float64))

    def errors(self, optimized: nn.Module) -> Errors | None:
        """Return the errors at the output, of an optimized model and of torch, against float64.

        None where the output holds no numbers, or the model does not run in float64.
        """
        exact, theirs = self.exact, self.theirs
        with torch.no_grad():
            ours = _numbers(_tried(optimized, self.inputs))
        if exact is None or theirs is None or ours is None or ours.shape != exact.shape:
            return None
        if not exact.numel() or not torch.isfinite(exact).all():
            return None
        largest = exact.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
        length = exact.norm().clamp_min(torch.finfo(torch.float64).tiny)

        def of(y: torch.Tensor) -> tuple[float, float]:
            difference = y - exact
            return float(difference.abs().max() / largest), float(difference.norm() / length)

        (ours_max, ours_l2), (torch_max, torch_l2) = of(ours), of(theirs)
        return Errors(ours_max, torch_max, ours_l2, torch_l2)


def _tried(model: nn.Module, inputs: Sequence[Any], dtype: torch.dtype | None = None) -> Any:
    def fitting(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return x.to(dtype) if dtype is not None and x.is_floating_point() else x.clone()

    try:
        return model(*(fitting(x) for x in inputs))
    except (RuntimeError, TypeError):
        if dtype is None:
            raise
        return None


def _numbers(output: Any) -> torch.Tensor | None:
    """All tensors of floats in an output, one behind the other."""
    found: list[torch.Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            found.append(value.detach().double().reshape(-1))
        elif isinstance(value, (tuple, list)):
            for item in value:
                collect(item)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item)

    collect(output)
    return torch.cat(found) if found else None
