"""Which of all candidates runs, by predicted time, error and memory.

Nothing here touches data or compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from winogen.conv import accuracy
from winogen.conv.candidates import applies, candidates, other_variants
from winogen.conv.choice import Choice, axes
from winogen.conv.cuts import Candidate, Missed, evaluate
from winogen.conv.problem import Layer, Problem
from winogen.conv.query import Query
from winogen.conv.request import MOST_STRIDE, Request
from winogen.conv.tolerance import Tolerance
from winogen.conv.wisdom import NOTHING, Wisdom
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import algorithms
from winogen.records import Machine, Precision, Target

if TYPE_CHECKING:
    from winogen.conv.stock import Stock

# Returns every way that a request leaves open on a target.
Evaluated = Callable[[Target], list[Candidate]]

# With named types of numbers and no tolerance, errors may be so many times the least possible. It
# allows F(4, 3), nine times as coarse as F(1, 1), and little more.
_TIMES_THE_LEAST = 10
ALTERNATIVES = 8  # the most candidates that a plan lists
# Another register block than a variant's own is another kernel to compile, to find at hand and to
# keep in caches. Predicted to be less than so many times as fast, it is not worth that.
_ANOTHER_KERNEL = 1.02


def choose(
    problem: Problem, request: Request, target: Target, machine: Machine | None = None
) -> Candidate:
    """Return the candidate that runs: see `ranked`.

    >>> from winogen.records import TARGETS
    >>> layer = Layer.of((64, 64, 3, 3), "float32", padding=1)
    >>> choose(layer.problem((1, 64, 56, 56)), Request(), TARGETS["avx512"]).choice.algorithm
    'mcmr'
    """
    return ranked(problem, request, target, machine, ALTERNATIVES)[0]


def ranked(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine | None = None,
    most: int | None = None,
    wisdom: Wisdom | None = None,
    stock: Stock | None = None,
) -> list[Candidate]:
    """Return `rank` of a query; ``machine``: None for the default one."""
    query = Query(problem, request, target, machine or Machine(), wisdom or NOTHING, stock)
    return rank(query, most)


def rank(query: Query, most: int | None = None) -> list[Candidate]:
    """Return the ``most`` fastest candidates that keep to the request, for a machine.

    Measured choices, the wisdom, come first; the rest is prediction. With a stock all that is
    returned is in it. Where a compiler would allow something faster, the first says what; it is
    for a lesser target where there is nothing for this one.

    The chosen one is first, the others follow by time. It is the fastest within the ``tolerance``
    of the request. Without a tolerance, it is the one within the usual one whose seconds times the
    `Tolerance.price` of its error are the least: as accurate as direct convolution usually is, if
    that costs little. Where narrow numbers are asked for, their least error takes its place.

    Fastest means on one thread, whatever the threads of the request. So every bit of the result is
    the same for any number of threads, which only change the blocks. A measured choice, too, holds
    for any number of threads. A ``workspace_limit`` may still change the candidates, because more
    threads need more memory.

    Raises InvalidValue if nothing keeps to the ``workspace_limit`` or the ``tolerance``,
    CompilerNotFound if the stock has nothing.
    """
    problem, stock = query.problem, query.stock
    # Once for each target, though a stock is asked after what a compiler would allow.
    evaluated = cache(partial(_evaluated, query))
    if stock is None:
        return _ranked(query, most, evaluated)
    ways: list[Candidate] = []
    try:
        if stock.tells:
            ways = _ranked(query._replace(stock=None), most, evaluated)
    except Unsupported:
        raise
    except InvalidValue:  # another variant may keep to the limits
        pass

    def on(one: Target) -> list[Candidate]:
        usual = query.wisdom if one.name == query.target.name else NOTHING
        return _ranked(query._replace(target=one, wisdom=usual), most, evaluated)

    found = stock.first(problem, ways, query.target, on, _described(problem, query.request))
    return Missed.told(problem, ways, found, stock)


def _described(problem: Problem, request: Request) -> str:
    """What was asked for, as far as a stock may lack it."""
    layer = problem.layer
    named = {
        "tile": request.tile or None,
        "points": request.points if any(request.points) else None,
        "filter_dtype": request.filter_dtype,
        "product_dtype": request.product_dtype,
    }
    words = [f'algorithm "{request.algorithm}" in {layer.dtype}, {layer.layout}']
    return ", ".join([*words, *(f"{name} {value}" for name, value in named.items() if value)])


def _ranked(query: Query, most: int | None, evaluated: Evaluated) -> list[Candidate]:
    """What `rank` returns; nothing where the stock has nothing."""
    request, layer, stock = query.request, query.problem.layer, query.stock
    fitting = _fitting(query, evaluated(query.target))
    if not fitting:
        return []
    fitting.sort(key=lambda candidate: candidate.seconds)

    def error(candidate: Candidate) -> float:
        return predicted_error(layer, candidate.choice, query.target)

    # Tiles and points of the user are taken as they are. Errors are predicted only as far as they
    # are needed, because predicting them takes longer than predicting times.
    tolerance, chosen, accurate = Tolerance.of(layer, request.tolerance), fitting[0], iter(fitting)
    if not request.asks_for_tiles:
        if request.tolerance is None and request.asks_for_numbers:
            tolerance = replace(tolerance, most=_TIMES_THE_LEAST * min(map(error, fitting)))
        chosen = tolerance.best(fitting, error, f'layer with algorithm "{request.algorithm}"')
        accurate = (one for one in fitting if tolerance.allows(error(one)))
    others = [candidate for candidate in islice(accurate, most) if candidate is not chosen]
    ways = _on_threads(query, [chosen, *others][:most])
    best = _measured(query, ways[0], tolerance)
    if best is None or not (stock is None or stock.has(best.specs(query.problem))):
        return ways
    return [best, *(way for way in ways if way.choice != best.choice)][:most]


def _measured(query: Query, predicted: Candidate, tolerance: Tolerance) -> Candidate | None:
    """What was measured to be faster than the predicted candidate, if it is accurate enough.

    Its seconds are the predicted one's over the gain. So they compare with other layers and
    layouts, which were never measured.
    """
    problem, request, target, machine, wisdom, _ = query
    entry = wisdom.entry(problem, request, target, applies)
    if entry is None:
        return None
    if not tolerance.allows(predicted_error(problem.layer, entry.choice, target)):
        return None
    (candidate,) = evaluate(problem, [entry.choice], target, machine, None)
    seconds = predicted.seconds / entry.measured.gain
    return replace(candidate, seconds=seconds, measured=entry.measured)


def _on_threads(query: Query, chosen: list[Candidate]) -> list[Candidate]:
    """The same choices, cut for all threads: the chosen one first, the others by time."""
    problem, request, target, machine, *_ = query
    if request.threads > 1:
        choices = [replace(candidate.choice, threads=request.threads) for candidate in chosen]
        chosen = evaluate(problem, choices, target, machine, request.workspace_limit)
    return chosen[:1] + sorted(chosen[1:], key=lambda candidate: candidate.seconds)


def predicted_error(layer: Layer, choice: Choice, target: Target) -> float:
    """Return the expected max |y - y_exact| / max |y_exact| on normal data."""
    return accuracy.predicted_error(*_facts(layer, choice, target))


def recall_error(layer: Layer, choice: Choice, target: Target, error: float) -> None:
    """Have `predicted_error` of these return what it returned in an earlier process."""
    accuracy.recall(error, *_facts(layer, choice, target))


def _facts(layer: Layer, choice: Choice, target: Target) -> tuple[Any, ...]:
    """What `winogen.conv.accuracy` asks for."""
    return (
        choice.algorithm,
        choice.precision or Precision.of(layer.dtype),
        layer.channels // layer.groups,
        layer.kernel,
        axes(layer, choice),
        target,
        choice.sizes,
    )


def _unable(layer: Layer, request: Request) -> Unsupported:
    """What "auto" says of types of numbers if none of its kernels for the layer has them."""
    name = "product_dtype" if request.product_dtype else "filter_dtype"
    allowed = "None"
    # Where tiles gain nothing they still apply.
    if layer.in_tiles and max(layer.stride[-2:]) <= MOST_STRIDE:
        numbers = Precision.of(layer.dtype, request.filter_dtype, request.product_dtype)
        allowed += f", or algorithm {', '.join(algorithms(numbers))}"
    return Unsupported(
        f'{name}: got "{getattr(request, name)}" for a layer with stride {layer.stride}, dilation '
        f"{layer.dilation}, {layer.groups} groups and kernel {layer.kernel}; allowed: {allowed}"
    )


def _evaluated(query: Query, target: Target) -> list[Candidate]:
    """Every way that the request leaves open, evaluated. Raises Unsupported if there is none."""
    problem, request, _, machine, *_ = query
    choices = list(candidates(problem, request, target))
    if not choices:
        raise _unable(problem.layer, request)
    return evaluate(problem, choices, target, machine, request.workspace_limit)


def _fitting(query: Query, evaluated: list[Candidate]) -> list[Candidate]:
    """The candidates whose workspace keeps to the limit, as they run on one thread.

    None where the stock has nothing.
    """
    problem, request, target, machine, _, stock = query
    limit = request.workspace_limit
    if stock is not None:
        others = list(other_variants(problem, request, target))
        more = evaluate(problem, others, target, machine, limit)
        evaluated = stock.among(problem, [*evaluated, *more])
        if not evaluated:
            return []
    least = min(candidate.workspace_bytes for candidate in evaluated)
    if limit is not None and least > limit:
        raise InvalidValue(
            f"workspace_limit: got {limit}; allowed: at least {least} bytes for this problem "
            "and algorithm"
        )
    fits = [limit is None or candidate.workspace_bytes <= limit for candidate in evaluated]
    if request.threads > 1:
        alone = [replace(candidate.choice, threads=1) for candidate in evaluated]
        evaluated = evaluate(problem, alone, target, machine, limit)
    fitting = [candidate for candidate, fit in zip(evaluated, fits) if fit]

    def seconds(candidate: Candidate) -> float:
        return candidate.seconds * (_ANOTHER_KERNEL if candidate.choice.sizes else 1.0)

    # Of choices that differ in their register block only, the fastest.
    best: dict[Choice, Candidate] = {}
    for candidate in sorted(fitting, key=seconds):
        choice = candidate.choice
        best.setdefault(replace(choice, sizes=()) if choice.sizes else choice, candidate)
    return list(best.values())
