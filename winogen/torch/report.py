"""What became of a model, layer by layer: a table that prints itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from winogen.errors import InvalidType
from winogen.graph.ceilings import Errors, errors_of
from winogen.tasks.duel import Times
from winogen.torch.calling import Calls, clones
from winogen.torch.cases import run
from winogen.torch.copies import evaluated


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

    def left_to_torch(self, why: str) -> Row:
        """Return the row of the same convolution, run by torch; ``why`` unless that is known."""
        if self.runs == "torch":
            return self
        return replace(self, runs="torch", why=why, error=None, packed_bytes=0)


class Budget(NamedTuple):
    """All layers by winogen, within so many times the bytes of the weights, or as few as it can."""

    times_weights: int
    packed_bytes: int
    predicted: float  # seconds of all layers together


@dataclass(frozen=True)
class Report:
    """The table of an optimized model; ``print`` shows it."""

    rows: tuple[Row, ...] = ()
    tracer: str = ""  # what traced the model
    layout: str = ""
    errors: Errors | None = None
    weight_bytes: int = 0
    segments: int = 0
    compared: str = ""  # on which inputs the copy was compared with the model
    machine: str = ""  # that layers were planned for, and how it is known
    budgets: tuple[Budget, ...] = ()  # what other limits of memory would give
    whole: Times | None = None  # of the whole model, on the example; None: it was not measured
    rival: str = ""  # how torch computed it
    day: str = ""  # when an earlier process measured; "": this one did
    refused: tuple[str, ...] = ()  # which inputs could not be prepared, and why
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
        if self.whole is not None:
            kept = "; torch's is kept" if self.whole.is_slower else ""
            when = f" on {self.day}" if self.day else ""
            head.append(f"the whole model, measured{when}: torch, {self.rival}, {self.whole}{kept}")
        if self.packed_bytes:
            times = self.packed_bytes / max(1, self.weight_bytes)
            head.append(f"packed filters: {self.packed_bytes:,} bytes, {times:.2f} x the weights")
        if self.budgets:
            ways = (
                f"{_milliseconds(one.predicted)} with {one.packed_bytes:,} bytes at "
                f"{one.times_weights} x"
                for one in self.budgets
            )
            head.append(f"all layers by winogen, predicted by memory_limit: {', '.join(ways)}")
        if self.errors is not None:
            head.append(self.errors.text("torch"))
        if self.machine:
            head.append(f"planned for this machine: {self.machine}")
        if self.compared:
            head.append(f"compared with the model on {self.compared}")
        head += [f"not prepared, computed by the model itself: {one}" for one in self.refused]
        if any(row.measured for row in self.rows):
            head.append(
                "measured, torch: the least of some calls of the layer alone, in turns. Predicted: "
                "on an idle machine; measured times far above tell that others compute, too"
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
    """A model's outputs on its example inputs, ``leaves``, beside what they are in float64."""

    def __init__(self, model: nn.Module, calls: Calls, leaves: Sequence[Any]):
        self.calls = calls
        self.theirs = _numbers(leaves)
        try:
            self.exact = _numbers(self._leaves(evaluated(model).double(), torch.float64))
        except Exception:  # a model that is made for one type
            self.exact = None

    def errors(self, optimized: Callable[..., Any]) -> Errors | None:
        """Return the errors at the output, of an optimized model and of torch, against float64.

        None where the output holds no numbers, or the model does not run in float64.
        """
        exact, theirs = self.exact, self.theirs
        ours = _numbers(self._leaves(optimized))
        if exact is None or theirs is None or ours is None:
            return None
        return errors_of(ours.numpy(), theirs.numpy(), exact.numpy())

    def _leaves(self, model: Callable[..., Any], dtype: torch.dtype | None = None) -> list[Any]:
        tensors = [
            tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor
            for tensor in clones(self.calls.tensors)
        ]
        with torch.no_grad():
            leaves, *_ = run(model, self.calls, tensors)
        return leaves


def _numbers(leaves: Sequence[Any]) -> torch.Tensor | None:
    """All tensors of floats in an output, one behind the other."""
    parts = [
        leaf.double().reshape(-1)
        for leaf in leaves
        if isinstance(leaf, torch.Tensor)
        and leaf.is_floating_point()
        and leaf.layout is torch.strided
    ]
    return torch.cat(parts) if parts else None
