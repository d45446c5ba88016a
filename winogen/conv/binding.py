"""From a problem to what runs it: planned, and bound to kernels, to transforms or to two passes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from winogen.conv import fourier, planner, rankings
from winogen.conv.cuts import Candidate
from winogen.conv.executable import Executable
from winogen.conv.execute import Environment, Prepared, predictions, remembered
from winogen.conv.folded import Folded
from winogen.conv.problem import Problem
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.separated import Separated, passes_of
from winogen.conv.spectral import Spectral
from winogen.conv.stock import at_hand
from winogen.conv.tolerance import Tolerance
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.kernels import FFT
from winogen.records import Machine, Target
from winogen.toolchain.machine import is_new, settle


@remembered(256)
def prepare(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    environment: Environment,
) -> Executable:
    """Return the problem planned and bound to compiled kernels, to Fourier transforms, or to two
    passes of these.

    The last 256 are remembered.
    """
    folded = problem.folded
    if folded is not problem:
        asked = request.folded(problem.layer)
        return Folded(problem, prepare(folded, asked, target, machine, environment))
    if request.separable is not None:
        whole = prepare(problem, replace(request, separable=None), target, machine, environment)
        return _in_two_passes(whole, request, machine, environment) or whole
    found = chosen(problem, request, target, machine)
    if isinstance(found, Spectral):
        return found
    if is_new() and not all(map(at_hand, found[0].specs(problem))):
        settle()  # for later processes, as this call compiles anyway
    return Prepared(problem, found, found[0].target or target, environment)


def _in_two_passes(
    whole: Executable, request: Request, machine: Machine, environment: Environment
) -> Separated | None:
    """The two passes of a problem that is bound as a ``whole``, if they are predicted to be faster
    and keep to the request.
    """
    distance, problem, target = request.separable, whole.problem, whole.target
    assert distance is not None
    first, second = passes_of(problem)
    limit = request.workspace_limit
    if limit is not None:
        limit -= prod(first.output_shape) * problem.layer.itemsize
        if limit <= 0:
            return None
    threads, tolerance = request.threads, request.tolerance
    asked = Request(threads=threads, tolerance=tolerance, workspace_limit=limit)
    try:
        columns = prepare(first, asked, target, machine, environment)
        rows = prepare(second, asked, target, machine, environment)
    except InvalidValue:  # within the limits there is no such way
        return None
    found = Separated(whole, columns, rows, distance)
    if threads > 1:
        # Decided for one thread, so that results do not depend on their number.
        request = replace(request, threads=1)
        alone = replace(request, separable=None)
        one = prepare(problem, alone, target, machine, environment)
        return found if _in_two_passes(one, request, machine, environment) else None
    plan, other = found.plan(), whole.plan()
    is_faster = plan.predictions[0].seconds <= other.predictions[0].seconds
    rule = Tolerance.of(problem.layer, tolerance)
    return found if is_faster and rule.allows(plan.predicted_error) else None


def chosen(
    problem: Problem, request: Request, target: Target, machine: Machine
) -> Spectral | list[Candidate]:
    """Return Fourier transforms, or the ways by kernels, the fastest first; nothing is compiled."""
    if request.algorithm == FFT:
        way = fourier.checked(problem, request, machine)
        return Spectral(problem, way, request.threads, target)
    query, most = Query.here(problem, request, target, machine), planner.ALTERNATIVES
    try:
        ranked = rankings.kept(f"first {most}", query, lambda: planner.rank(query, most))
    except CompilerNotFound:
        without = fourier.instead(problem, request, machine)
        if without is None:
            raise
        reason = "" if query.stock is None else query.stock.reason
        return Spectral(problem, without, request.threads, target, no_kernel=reason)
    found = fourier.faster(problem, request, ranked[0], target, machine)
    if found is not None:
        others = predictions(problem.layer, ranked, target)
        return Spectral(problem, found, request.threads, target, others)
    return ranked
