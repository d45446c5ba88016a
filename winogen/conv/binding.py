"""From a problem to what runs it: planned, and bound by the solver whose offer is the best."""

from __future__ import annotations

from winogen.conv.executable import Executable
from winogen.conv.execute import Environment, remembered
from winogen.conv.problem import Problem
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solvers import chosen
from winogen.records import Machine, Target


@remembered(256)
def prepare(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    environment: Environment,
) -> Executable:
    """Return the problem planned and bound to what computes it: to compiled kernels, to Fourier
    transforms, or to two passes of these.

    The last 256 are remembered.
    """
    return chosen(Query.here(problem, request, target, machine)).bind(environment)
