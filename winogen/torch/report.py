"""What became of a model, layer by layer: a table that prints itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from winogen.columns import wrapped
from winogen.errors import InvalidType
from winogen.graph.ceilings import Errors, errors_of
from winogen.graph.layer_table import Line, table
from winogen.graph.promise import OutputPromise
from winogen.tasks.duel import Times
from winogen.torch.calling import Calls, clones
from winogen.torch.cases import EXAMPLE, Case, run
from winogen.torch.copies import evaluated

USUAL = "fastest within the tolerance"  # why a layer runs as it does, unless something else is said
SMALLER = "smaller filters, to keep to the limit of memory"


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
    tolerance: float | None = None  # of this layer alone, where one of the output was asked for
    share: float | None = None  # of the squared error at the output, as predicted

    @property
    def line(self) -> Line:
        """The row in a table."""
        note = "" if self.why == USUAL else self.why
        times = self.predicted, self.measured, self.torch
        spent = self.tolerance, self.share
        return Line(self.name, self.what, self.runs, *times, self.error, note, *spent)

    def spent(self, tolerance: float | None, share: float | None) -> Row:
        """Return the row with what it may spend of the error at the output."""
        return self if self.runs == "torch" else replace(self, tolerance=tolerance, share=share)

    def left_to_torch(self, why: str) -> Row:
        """Return the row of the same convolution, run by torch; ``why`` unless that is known."""
        if self.runs == "torch":
            return self
        return replace(
            self, runs="torch", why=why, error=None, packed_bytes=0, tolerance=None, share=None
        )


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
    promise: OutputPromise | None = None  # of the error at the output, where one was asked for

    @property
    def packed_bytes(self) -> int:
        """Of all packed filters, for the shapes of the example inputs."""
        return sum(row.packed_bytes for row in self.rows)

    def __str__(self) -> str:
        return self.table()

    def table(self, predicted: bool = False) -> str:
        """Return the table, at most 100 columns wide, with all that is known of the whole.

        ``predicted``: with the times that were predicted of measured layers, and what other limits
        of memory would take.
        """
        ours = sum(row.runs != "torch" for row in self.rows)
        first = (
            f"{ours} of {len(self.rows)} convolutions run by winogen in {self.segments} calls, "
            f"layout {self.layout}; traced by {self.tracer}"
        )
        lines = wrapped(first)
        if self.rows:
            lines += ["", *table([row.line for row in self.rows], "torch", predicted)]
        rest = [part for text in self._whole(predicted) for part in wrapped(text)]
        return "\n".join([*lines, *([""] if rest else []), *rest])

    def _whole(self, predicted: bool) -> Iterator[str]:
        """What is known of the whole model."""
        if self.whole is not None:
            kept = "; torch's is kept" if self.whole.is_slower else ""
            when = f" on {self.day}" if self.day else ""
            yield f"the whole model, measured{when}: torch, {self.rival}, {self.whole}{kept}"
        if self.packed_bytes:
            times = self.packed_bytes / max(1, self.weight_bytes)
            yield f"packed filters: {self.packed_bytes:,} bytes, {times:.2f} x the weights"
        if self.budgets:
            ways = (
                f"{one.packed_bytes:,} bytes at {one.times_weights} x the weights"
                + (f" ({1e3 * one.predicted:.3g} ms predicted)" if predicted else "")
                for one in self.budgets
            )
            yield f"all layers by winogen, by memory_limit: {', '.join(ways)}"
        if self.errors is not None:
            yield self.errors.text("torch")
        if self.promise is not None:
            yield self.promise.line("torch")
        if self.machine:
            yield f"planned for this machine: {self.machine}"
        if self.compared:
            yield f"compared with the model on {self.compared}"
        for one in self.refused:
            yield f"not prepared, computed by the model itself: {one}"


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
    """A model's outputs in one case, beside what they are in float64."""

    def __init__(self, model: nn.Module, calls: Calls, case: Case):
        self.calls, self.case = calls, case
        self.theirs = _numbers(case.leaves)
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
        errors = errors_of(ours.numpy(), theirs.numpy(), exact.numpy())
        other = self.case.name if self.case.name != EXAMPLE else ""
        return replace(errors, case=other) if errors else None

    def _leaves(self, model: Callable[..., Any], dtype: torch.dtype | None = None) -> list[Any]:
        tensors = [
            tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor
            for tensor in clones(self.case.tensors)
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
