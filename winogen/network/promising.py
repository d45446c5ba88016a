"""A bound of the error at a network's output: tolerances of layers that keep it, tried as C.

onnxruntime measures what errors of layers become at the output, their errors and times are those
predicted for the target. What all of them make of the output is measured of the C itself, beside
the model in float64. Where nothing runs that, the same network for any CPU is measured, whose
layers have the same tolerances; then what is predicted for the target must keep the bound, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from winogen.errors import CompilerNotFound, Unsupported
from winogen.graph import promise
from winogen.graph.promise import SAFE, OutputPromise
from winogen.graph.spending import Spending, Spent, cheapest, offered
from winogen.network.comparison import Runnable, place_of, too_large
from winogen.network.example import UNSEEN
from winogen.network.float_writing import FloatWriter
from winogen.network.reading import Network
from winogen.network.schedule import Schedule, schedule, settings_of
from winogen.network.trial import Program
from winogen.onnx.loading import first_line
from winogen.onnx.probes import Feed, feed_of, usual_sizes
from winogen.onnx.promising import UnseenFeeds, gains_of
from winogen.onnx.reference import Reference
from winogen.progress import working
from winogen.records import TARGETS, Target


@dataclass(frozen=True)
class KeptPromise:
    """The tolerances of a network's layers, and what they keep."""

    tolerances: Mapping[str, float]
    promise: OutputPromise
    how: str  # it was measured
    spent: Mapping[str, Spent]  # by the labels of layers

    @property
    def line(self) -> str:
        """What is said of it."""
        return f"{self.promise.line('onnxruntime')}, {self.how}"


@dataclass
class _Draft:
    """A plan, and what was measured of it."""

    spending: Spending
    plan: Schedule
    promise: OutputPromise | None = None
    how: str = ""
    counts: float = 0.0  # the error that is to be small enough


class Promising:
    """A network whose outputs may be off by ``asked``, relative (L2), from the model in float64.

    ``options``: of all layers, as `settings_of` has them.
    """

    def __init__(self, name: str, read: Network, asked: float, options: Mapping[str, Any]):
        self.name, self.read, self.asked, self._options = name, read, asked, options
        self._reference = Reference(read.model, self._feed, 1)

    def kept(self, target: Target) -> KeptPromise:
        """Return the tolerances of the least predicted time that keep to it.

        Raises InvalidValue where none do, and Unsupported where nothing can be measured.
        """
        tried: set[str] = set()

        def made(budget: float) -> _Draft | None:
            spending = cheapest(layouts, self._gains, budget)
            plan = self._planned(spending, target)
            is_new = plan.ways not in tried
            tried.add(plan.ways)
            return _Draft(spending, plan) if is_new else None

        with working("choosing the tolerances of layers"):
            parts = [(self.read.graph, self.read.maps)]
            layouts = offered(parts, settings_of(target, **self._options))
            draft, holds = promise.kept(self.asked, made, self._seen)
        told = promise.certain(draft.promise, self.asked)
        if not holds:
            raise too_large(self.asked, draft.counts / SAFE)
        labels = {node.output: node.label for node in self.read.graph.convolutions}
        spent = draft.spending.spent(draft.plan.errors, labels)
        return KeptPromise(draft.spending.tolerances, told, draft.how, spent)

    @cached_property
    def unseen(self) -> UnseenFeeds:
        """Inputs that had no say in what was chosen: the test's is among them."""
        return UnseenFeeds(self.read.model, self._reference, (UNSEEN, UNSEEN + 1))

    @property
    def _feed(self) -> Feed:
        return feed_of(self.read.model, usual_sizes(self.read.model), 1)

    @cached_property
    def _cases(self) -> UnseenFeeds:
        return UnseenFeeds(self.read.model, self._reference)

    @cached_property
    def _gains(self) -> dict[str, float]:
        names = [node.output for node in self.read.graph.convolutions]
        return gains_of(self.read.rewritten, names, self._feed)

    def _planned(self, spending: Spending, target: Target) -> Schedule:
        return schedule(self.read, target, tolerances=spending.tolerances, **self._options)

    def _seen(self, draft: _Draft) -> OutputPromise | None:
        """What is measured of a draft; of the network for any CPU no less than is predicted."""
        program, error = self._program(draft.plan), draft.plan.predicted_error
        twin = partial(self._twin, draft.spending)
        try:
            place = place_of(program, error, draft.plan.products[0], twin)
        except CompilerNotFound as lack:
            raise Unsupported(
                f"output_tolerance: got {self.asked:g}; allowed: None where nothing can be "
                f"measured ({first_line(lack)})"
            ) from lack
        predicted = draft.spending.predicted(draft.plan.errors)
        told = measured(place, self._cases, self.asked, predicted)
        if told is None:
            return None
        draft.promise, draft.how, draft.counts = told, place.how, told.measured
        if place.program is not program:
            draft.counts = max(told.measured, predicted)
        return replace(told, measured=draft.counts)

    def _program(self, plan: Schedule) -> Program:
        """The C of a plan; weights in a file take no compiler's time."""
        target = plan.planned.settings.target
        writer = FloatWriter(self.name, self.read, plan, target, "file", "")
        return writer.program(writer.code_files())

    def _twin(self, spending: Spending) -> tuple[Program, float]:
        plan = self._planned(spending, TARGETS["generic"])
        return self._program(plan), plan.predicted_error


def measured(
    place: Runnable, cases: UnseenFeeds, asked: float, predicted: float = 0.0
) -> OutputPromise | None:
    """Return the error at the outputs of a network as C; None where nobody knows the model's."""
    outputs = iter(place.program.run(place.runner, cases.feeds))
    return cases.promise(lambda _: next(outputs), asked, predicted)
