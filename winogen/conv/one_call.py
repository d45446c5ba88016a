"""Candidates that are one kernel call: of bytes, of gradients, of products of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from winogen.conv.choice import Choice
from winogen.conv.contest import Contest, rank
from winogen.conv.cuts import MeasuredChoice, Missed
from winogen.conv.plan import ALTERNATIVES, Prediction
from winogen.conv.query import Query
from winogen.conv.solver import Offer, Solver
from winogen.conv.stock import build_of
from winogen.kernels.kind import Spec


@dataclass(frozen=True)
class OneCall:
    """A choice with its kernel call and its predicted time."""

    choice: Choice
    work: Any  # of its kind, as `winogen.kernels.gemm.GemmWork`
    seconds: float
    measured: MeasuredChoice | None = None  # where it is known from a measurement
    missed: Missed | None = None  # what would be faster and is not at hand

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of a call."""
        return int(self.work.spec.workspace_bytes(self.work))

    def specs(self, problem: Any) -> list[Spec]:
        """Return the kernel of its call."""
        return [self.work.spec]

    def works(self, problem: Any) -> list[Any]:
        """Return its kernel calls, ready to run: one."""
        return [self.work]


class CallSolver(Solver, Contest[OneCall]):
    """A solver of problems of its own kind, which no other solves."""

    def offer(self, query: Query, best: Offer | None = None, most: int = ALTERNATIVES) -> Offer:
        """Return the ``most`` fastest calls; raises what `winogen.conv.contest.rank` raises."""
        ranked = rank(self, query, most)
        target = ranked[0].work.spec.target
        return Offer(self, query, target, ranked, ranked[0].work.threads)

    def prediction(self, offer: Offer, candidate: OneCall) -> Prediction:
        """Return what is expected of a call."""
        choice, error = candidate.choice, self.error(offer.query, candidate)
        return Prediction(candidate.seconds, error, choice.algorithm, choice.tile, "")

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the choice, the sizes and the C of its kernel."""
        best, choice = offer.best, offer.best.choice
        return {
            "variant": choice.variant,
            "tile": choice.tile,
            "sizes": choice.sizes,
            "workspace_bytes": best.workspace_bytes,
            "packed_weight_bytes": best.work.packed_bytes,
            "multiplications": best.work.products,
            "measured": best.measured,
            "with_compiler": best.missed,
            "source": str(build_of(best.work.spec).source),
        }
