"""Which of all candidates runs, by predicted time, error and memory.

Nothing here touches data or compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from math import inf, log10, prod
from typing import TYPE_CHECKING, Any, TypeVar

from winogen.conv import accuracy
from winogen.conv.candidates import candidates, other_variants
from winogen.conv.choice import Choice, axes
from winogen.conv.cuts import Candidate, Missed, evaluate
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import MOST_STRIDE, Request
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import algorithms
from winogen.records import NARROW_TYPES, NUMBERS, Machine, Precision, Target

if TYPE_CHECKING:
    from winogen.conv.stock import Stock
    from winogen.conv.wisdom import Wisdom

Way = TypeVar("Way", bound=Any)  # with `seconds`

# Returns every way that a request leaves open on a target, and what each would take.
Evaluated = Callable[[Target], tuple[list[Choice], list[Candidate]]]

# The default tolerance: the largest error of a layer's output, as measured. Arrays of 16 bits
# round it themselves; theirs is what that and little else allows, in units of such a rounding.
TOLERANCE = 1e-5
_ROUNDINGS = 1.13
# A measured error may be this many times as large as the predicted one.
MARGIN = 1.54
# The largest error of direct convolution in frameworks, as measured, over the prediction for one
# chain of additions: 1.6 to 3.3 for 27 to 4608 terms, with a median of 2.2. A little lower here,
# because it is compared with predictions.
_USUAL = 2.05
# With named types of numbers and no tolerance, errors may be so many times the least possible. It
# allows F(4, 3), nine times as coarse as F(1, 1), and little more.
_TIMES_THE_LEAST = 10
# How many times as long a call may take if that makes its error the usual one of direct convolution
# instead of a larger one, and once more for every decimal digit in between: see `price`.
PATIENCE = 1.18
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
    """Return the ``most`` fastest candidates that keep to the request, for a machine.

    Measured choices, the ``wisdom``, come first; the rest is prediction. With a ``stock`` all that
    is returned is in it. Where a compiler would allow something faster, the first says what; it is
    for a lesser target where there is nothing for this one.

    The chosen one is first, the others follow by time. It is the fastest within the ``tolerance``
    of the request. Without a tolerance, it is the one within `TOLERANCE` whose seconds times the
    `price` of its error are the least: as accurate as direct convolution usually is, if that costs
    little. Where narrow numbers are asked for, their least error takes the place of `TOLERANCE`.

    Fastest means on one thread, whatever the threads of the request. So every bit of the result is
    the same for any number of threads, which only change the blocks. A measured choice, too, holds
    for any number of threads. A ``workspace_limit`` may still change the candidates, because more
    threads need more memory.

    ``machine``: None for the default one. Raises InvalidValue if nothing keeps to the
    ``workspace_limit`` or the ``tolerance``, CompilerNotFound if the stock has nothing.
    """
    machine = machine or Machine()
    # Once for each target, though a stock is asked after what a compiler would allow.
    evaluated = cache(partial(_evaluated, problem, request, machine))
    if stock is None:
        return _ranked(problem, request, target, machine, most, wisdom, evaluated)
    ways: list[Candidate] = []
    try:
        if stock.tells:
            ways = _ranked(problem, request, target, machine, most, wisdom, evaluated)
    except Unsupported:
        raise
    except InvalidValue:  # another variant may keep to the limits
        pass

    def on(one: Target) -> list[Candidate]:
        usual = wisdom if one.name == target.name else None
        return _ranked(problem, request, one, machine, most, usual, evaluated, stock)

    found = stock.first(problem, ways, target, on, _described(problem, request))
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


def _ranked(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    most: int | None,
    wisdom: Wisdom | None,
    evaluated: Evaluated,
    stock: Stock | None = None,
) -> list[Candidate]:
    """What `ranked` returns; nothing where the stock has nothing."""
    layer = problem.layer
    fitting = _fitting(problem, request, target, machine, evaluated, stock)
    if not fitting:
        return []
    fitting.sort(key=lambda candidate: candidate.seconds)

    def error(candidate: Candidate) -> float:
        return predicted_error(layer, candidate.choice, target)

    # Tiles and points of the user are taken as they are. Errors are predicted only as far as they
    # are needed, because predicting them takes longer than predicting times.
    is_set = request.asks_for_tiles
    most_error = tolerance_of(layer, request.tolerance) / MARGIN
    if request.tolerance is None and request.asks_for_numbers:
        most_error = _TIMES_THE_LEAST * min(map(error, fitting))
    accurate = list(islice((c for c in fitting if is_set or error(c) <= most_error), most))
    if not accurate:
        most_careful = min(fitting, key=error)
        if request.tolerance is not None:
            raise InvalidValue(
                f"tolerance: got {request.tolerance:g}; allowed: at least "
                f"{MARGIN * error(most_careful):.2g}, the least error that can be expected of this "
                f'layer with algorithm "{request.algorithm}"'
            )
        return _on_threads(problem, [most_careful], request, target, machine)
    chosen = accurate[0]
    if not is_set and request.tolerance is None:
        usual = min(usual_error(layer), most_error)
        able = (way for way in fitting if error(way) <= most_error)
        chosen = preferred(able, lambda way: price(error(way), usual))
    others = [candidate for candidate in accurate if candidate is not chosen]
    ways = _on_threads(problem, [chosen, *others][:most], request, target, machine)
    best = _measured(problem, request, target, machine, wisdom, ways[0])
    if best is None or not (stock is None or stock.has(best.specs(problem))):
        return ways
    return [best, *(way for way in ways if way.choice != best.choice)][:most]


def _measured(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    wisdom: Wisdom | None,
    predicted: Candidate,
) -> Candidate | None:
    """What was measured to be faster than the predicted candidate, if it is accurate enough.

    Its seconds are the predicted one's over the gain. So they compare with other layers and
    layouts, which were never measured.
    """
    entry = wisdom.entry(problem, request, target) if wisdom else None
    if entry is None:
        return None
    most_error = tolerance_of(problem.layer, request.tolerance) / MARGIN
    if predicted_error(problem.layer, entry.choice, target) > most_error:
        return None
    (candidate,) = evaluate(problem, [entry.choice], target, machine, None)
    seconds = predicted.seconds / entry.measured.gain
    return replace(candidate, seconds=seconds, measured=entry.measured)


def _on_threads(
    problem: Problem,
    chosen: list[Candidate],
    request: Request,
    target: Target,
    machine: Machine,
) -> list[Candidate]:
    """The same choices, cut for all threads: the chosen one first, the others by time."""
    if request.threads > 1:
        choices = [replace(candidate.choice, threads=request.threads) for candidate in chosen]
        chosen = evaluate(problem, choices, target, machine, request.workspace_limit)
    return chosen[:1] + sorted(chosen[1:], key=lambda candidate: candidate.seconds)


def price(error: float, usual: float) -> float:
    """Return how many times its seconds a call with this error counts for.

    An error up to the ``usual`` one costs nothing. A larger one costs 18 % of the time, and 18 %
    more for each decimal digit that it is beyond.

    >>> [round(price(error, 1e-6), 3) for error in (1e-7, 1e-6, 1.001e-6, 1e-5)]
    [1.0, 1.0, 1.18, 1.392]
    """
    return PATIENCE ** (1 + log10(error / usual)) if error > usual else 1.0


def preferred(candidates: Iterable[Way], priced: Callable[[Way], float]) -> Way:
    """Return the candidate whose ``seconds`` times its price, at least 1, are the least.

    ``candidates`` are sorted by their ``seconds``, and no more of them are priced than have to be:
    pricing them takes longer than predicting times.

    >>> from types import SimpleNamespace as Way
    >>> ways = [Way(seconds=1.0, price=1.18), Way(seconds=1.1, price=1), Way(seconds=1.2, price=1)]
    >>> preferred(ways, lambda way: way.price).seconds
    1.1
    """
    chosen, least = None, inf
    for way in candidates:
        if way.seconds >= least:
            break
        cost = way.seconds * priced(way)
        if cost < least:
            chosen, least = way, cost
    assert chosen is not None, "there is no candidate"
    return chosen


def tolerance_of(layer: Layer, tolerance: float | None) -> float:
    """Return the tolerance that was asked for; the default one of the layer's arrays for None."""
    if tolerance is not None:
        return tolerance
    if layer.dtype in NARROW_TYPES:
        return float(_ROUNDINGS * 2.0 ** -NUMBERS[layer.dtype].bits)
    return TOLERANCE


def usual_error(layer: Layer) -> float:
    """Return the error that direct convolution in frameworks is expected to have."""
    terms = prod(layer.weight_shape[1:])
    return _USUAL * accuracy.direct_error(layer.dtype, terms)


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


def _evaluated(
    problem: Problem, request: Request, machine: Machine, target: Target
) -> tuple[list[Choice], list[Candidate]]:
    """Every way that the request leaves open, evaluated. Raises Unsupported if there is none."""
    choices = list(candidates(problem, request, target))
    if not choices:
        raise _unable(problem.layer, request)
    limit = request.workspace_limit
    return choices, evaluate(problem, choices, target, machine, limit)


def _fitting(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    every: Evaluated,
    stock: Stock | None,
) -> list[Candidate]:
    """The candidates whose workspace keeps to the limit, as they run on one thread.

    None where the stock has nothing.
    """
    limit = request.workspace_limit
    choices, evaluated = every(target)
    if stock is not None:
        others = list(other_variants(problem, request, target))
        choices = [*choices, *others]
        evaluated = [*evaluated, *evaluate(problem, others, target, machine, limit)]
        known = [stock.has(candidate.specs(problem)) for candidate in evaluated]
        choices = [choice for choice, has in zip(choices, known) if has]
        evaluated = [candidate for candidate, has in zip(evaluated, known) if has]
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
        alone = [replace(choice, threads=1) for choice in choices]
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
