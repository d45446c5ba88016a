"""What a framework does for the engine that replaces parts of its models: see `decide`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from winogen.graph.ceilings import Errors
from winogen.graph.promise import OutputPromise
from winogen.graph.spending import Spending
from winogen.tasks.duel import Times


@dataclass(frozen=True, eq=False)
class TimedPart:
    """A part of a draft that is measured beside what the framework has in its place."""

    key: str  # of all parts that take the same time
    name: str  # of what it makes
    label: str  # of the layer, or of several
    worth: float  # the parts that are worth most are measured first
    subject: Any  # what the adapter measures
    values: Sequence[str]  # that the framework computes where it is faster
    is_layer: bool = True  # one, and no segment of several


class DraftRequest(NamedTuple):
    """What a draft is to be like."""

    uncut: bool  # whether winogen computes layers that the framework computes faster
    ceiling: int  # a number of `winogen.graph.ceilings.CEILINGS`
    refused: Mapping[str, str]  # parts that computed something else -> why
    slower: Sequence[tuple[TimedPart, Times]] = ()  # that the framework computes faster
    spending: Spending | None = None  # tolerances of layers; None: they are not chosen one by one


class Replacement:
    """A model with winogen's layers in it, as an adapter makes it."""

    key: str  # of how every layer runs
    is_empty: bool  # whether there is no layer to decide on
    largest: float  # error that is predicted of a layer
    gain = 1.0  # how many times as fast layers are, those not measured as predicted

    def stages(self) -> Iterable[Sequence[TimedPart]]:
        """Parts to be measured: those that come later only where none before is slower."""
        return ()


M = TypeVar("M", bound=Replacement)


@dataclass
class Draft(Generic[M]):
    """What may become of a model."""

    made: M
    way: DraftRequest
    errors: Errors | None = None  # at the output; None: they are not known
    whole: Times | None = None  # of winogen and of the framework; None: not measured
    day: str = ""  # when an earlier process measured that
    left: str = ""  # why the framework computes all of it
    reason: str = ""  # why it must not be used
    facts: Mapping[str, str] | None = None  # by which to make it again; None: not measured
    promise: OutputPromise | None = None  # of the error at the output, if one was asked for

    @property
    def has_lost(self) -> bool:
        """Whether the framework is faster in some layers, and others are left."""
        return not self.made.is_empty and any(part.is_layer for part, _ in self.way.slower)

    @property
    def gain(self) -> float:
        """How many times as fast as the framework's model it is: 1 where nobody knows."""
        if self.reason:
            return 0.0
        return self.whole.gain if self.whole and not self.left else 1.0


@dataclass(frozen=True)
class Fault:
    """In what a draft is not what the model computes: parts and why, else the whole."""

    parts: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


class Adapter(ABC, Generic[M]):
    """What a framework does with one model."""

    name: str  # of the framework
    seconds: float  # of a run of the model
    proof = 4.0  # runs of a model that are never left out: those that compare it
    contest = 5.0  # runs of a model that the measuring of the whole takes, about
    double = 5.0  # runs of a model that a comparison with float64 takes, about
    is_careful: bool  # whether the error at the output decides how accurate layers are
    needs_whole = False  # whether the whole is measured, whatever time is left
    output_tolerance: float | None = None  # what is promised of the error at the output

    @abstractmethod
    def replace(self, way: DraftRequest) -> M:
        """Return the model with winogen's layers, compiled as far as the limit allows."""

    @abstractmethod
    def time(self, made: M, part: TimedPart | None, earlier: float) -> Times | None:
        """Return the times of a part, or of the whole, in turns; None where it does not run.

        ``earlier``: how many times as fast another draft is as a whole.
        """

    @abstractmethod
    def run(self, draft: Draft[M], is_known: bool) -> Fault | None:
        """Compare a draft with the model; less where it is known to have been compared."""

    @abstractmethod
    def run_exactly(self, draft: Draft[M]) -> Errors | None:
        """Return the errors at the output against float64, None where nobody knows them."""

    def spend(self, budget: float) -> Spending:
        """Return the tolerances of layers that keep a predicted error at the output."""
        raise NotImplementedError

    def promise(self, draft: Draft[M]) -> OutputPromise | None:
        """Measure the error at the output on several inputs; None where nobody knows it."""
        raise NotImplementedError

    @abstractmethod
    def describe(self, draft: Draft[M], layers: Mapping[str, Times]) -> Any:
        """Return what users get, with its report. ``layers``: times by what a layer makes."""

    @abstractmethod
    def keep(self, draft: Draft[M]) -> Mapping[str, str]:
        """Return what a later process must find again to take the draft for proven."""
