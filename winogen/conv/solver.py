"""Solvers, the registered ways to compute a convolution, and which of their offers is taken.

A solver offers what it would do for a problem, or nothing. The first that offers something is the
one to beat; each of the others replaces it where it is predicted to be faster and accurate enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from winogen.conv.plan import ALTERNATIVES, Prediction
from winogen.conv.tolerance import Tolerance
from winogen.errors import CompilerNotFound

if TYPE_CHECKING:
    import numpy as np

    from winogen.conv.execute import Environment
    from winogen.conv.problem import Layer
    from winogen.conv.query import Query
    from winogen.conv.request import Request
    from winogen.records import Target


@dataclass(frozen=True)
class Offer:
    """What a solver would do for a problem, before anything is compiled."""

    solver: Solver
    query: Query
    target: Target
    candidates: Sequence[Any]  # with their `seconds` predicted; the first is what runs
    threads: int
    beaten: Offer | None = None  # what it was taken instead of
    no_kernel: str = ""  # why it runs where no kernel is at hand and none may be compiled

    @property
    def problem(self) -> Any:
        """What it computes."""
        return self.query.problem

    @property
    def best(self) -> Any:
        """The candidate that runs."""
        return self.candidates[0]

    @property
    def prediction(self) -> Prediction:
        """What is expected of it."""
        return self.solver.prediction(self, self.best)

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """What is expected of all candidates, and of those of the offers that were beaten."""
        own = [self.solver.prediction(self, one) for one in self.candidates]
        return (*own, *(self.beaten.predictions if self.beaten else ()))[:ALTERNATIVES]

    def bind(self, environment: Environment) -> Any:
        """Return it bound to what computes it: see `Solver.bind`."""
        return self.solver.bind(self, environment)


class Solver(ABC):
    """A way to compute problems of one kind; immutable."""

    # What users call it as an ``algorithm``; "": it is no algorithm, "auto" alone takes it.
    algorithm: ClassVar[str] = ""
    # How many times as fast as other offers it must be predicted to be, as predictions may be off.
    safety: ClassVar[float] = 1.0
    exclusive: ClassVar[bool] = False  # whether its offers are taken without a look at others

    @abstractmethod
    def offer(self, query: Query, best: Offer | None = None) -> Offer | None:
        """Return what it would do; None where it does not apply, or is not worth a thought.

        ``best``: the offer to beat; None where no solver before it has one. Raises InvalidValue and
        Unsupported for a request that names its algorithm and cannot be met, and CompilerNotFound
        if nothing is at hand.
        """

    @abstractmethod
    def bind(self, offer: Offer, environment: Environment) -> Any:
        """Return an offer bound to what computes it: an `Executable`, of convolutions of floats."""

    @abstractmethod
    def prediction(self, offer: Offer, candidate: Any) -> Prediction:
        """Return what is expected of a candidate."""

    @abstractmethod
    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the fields of `Plan` that are its own; nothing is compiled."""

    def alone(self, offer: Offer) -> float:
        """Return the seconds of an offer on one thread."""
        return float(offer.best.seconds)

    def check(self, layer: Layer) -> None:  # noqa: B027  (nearly all of them can)
        """Raise Unsupported for a layer that it cannot compute though its algorithm is named."""

    def looked(self, layer: Layer, request: Request, weight: np.ndarray) -> Request:
        """Return the request with what it has to know of the weights."""
        return request


_solvers: list[Solver] = []  # `winogen.conv.solvers` has them registered


def register(solver: Solver) -> None:
    """Add a solver behind the present ones."""
    _solvers.append(solver)


def solvers() -> tuple[Solver, ...]:
    """Return all solvers, in the order in which they are asked."""
    return tuple(_solvers)


def looked(layer: Layer, request: Request, weight: np.ndarray) -> Request:
    """Return the request with what solvers have to know of the weights."""
    for solver in _solvers:
        request = solver.looked(layer, request, weight)
    return request


def chosen(query: Query) -> Offer:
    """Return the offer to take.

    Offers are compared by their seconds on one thread, so that results do not depend on threads.
    Raises what the first solver raises if no other has an offer.
    """
    best: Offer | None = None
    missing: CompilerNotFound | None = None
    for solver in _solvers:
        try:
            offer = solver.offer(query, best)
        except CompilerNotFound as error:
            missing = missing or error
            continue
        if offer is not None and solver.exclusive:
            return offer
        if offer is not None and (best is None or _beats(offer, best)):
            best = offer
    if best is None:
        raise missing or AssertionError(f"no solver for {query.request}")
    return best


def _beats(offer: Offer, best: Offer) -> bool:
    """Whether an offer is to replace the best one before it."""
    seconds, others = offer.solver.alone(offer), best.solver.alone(best)
    rule = Tolerance.of(offer.problem.layer, offer.query.request.tolerance)
    return offer.solver.safety * seconds < others and offer.prediction.error <= rule.usual
