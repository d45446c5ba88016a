"""Every way to compute a problem that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice, product
from typing import Any

from winogen.codegen import shipped
from winogen.conv.choice import Choice, axes
from winogen.conv.cuts import work_of
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import MOST_POINTS, MOST_STRIDE, Request
from winogen.errors import Unsupported, WinogenError
from winogen.kernels import (
    Variant,
    algorithms,
    algorithms_beside,
    assign,
    family,
    first_that_applies,
    general,
    is_tiled,
    named,
)
from winogen.kernels.register_blocks import register_blocks, sizes_of
from winogen.kernels.sizes import allowed
from winogen.records import (
    EXTENSIONS,
    NUMBERS,
    PRODUCT_FORMATS,
    PRODUCT_TYPES,
    Extension,
    Points,
    Precision,
    Sizes,
    Target,
)

# Without a `tile`, the catalog's tiles of at most this many points are tried.
_POINTS = 9
GAUSSIAN = Points("catalog", ("gaussian",))  # with the modulus x^2 + 1


def candidates(problem: Problem, request: Request, target: Target) -> Iterator[Choice]:
    """Yield every way to compute the problem that the request leaves open."""
    asked = request.algorithm
    if asked not in ("auto", *algorithms_beside(asked)):
        raise Unsupported(
            f'algorithm: got "{asked}", which has no C that stands alone; allowed: '
            f"auto, {', '.join(algorithms(rank=problem.layer.rank))}"
        )
    for precision in precisions(problem.layer, request, target):
        yield from _with_numbers(problem, request, target, precision)


def other_variants(problem: Problem, request: Request, target: Target) -> Iterator[Choice]:
    """Yield direct convolution by all variants that apply but the first, which `candidates` has.

    There may be no kernel of the first at hand.
    """
    if request.algorithm not in ("auto", "direct"):
        return
    for precision in precisions(problem.layer, request, target):
        plain = Choice("direct", threads=request.threads, precision=precision)
        work = work_of(problem, plain, target)
        direct = (one for one in family("direct") if one.computes(work.precision))
        able = (variant for variant in direct if variant.serves(work))
        yield from (replace(plain, variant=variant.name) for variant in islice(able, 1, None))


# What a tolerance may choose: packed filters and products. If several formats of filters have the
# same size, the most accurate one is enough.
_NARROW: tuple[tuple[str | None, str | None], ...] = (
    ("flyte24", None),
    ("float16", None),
    *((None, kind) for kind in PRODUCT_TYPES),
)


def precisions(layer: Layer, request: Request, target: Target) -> list[Precision | None]:
    """Return the types of numbers to try; None: all are of the type of the arrays.

    Narrow types are tried if the request names them, or if they can keep to its tolerance. Raises
    Unsupported for a named type without a kernel for the target.
    """
    asked = request.filter_dtype, request.product_dtype
    if any(asked):
        precision = Precision.of(layer.dtype, *asked)
        if not algorithms(precision, target):
            _refuse(layer, request, target)
        return [precision]
    if request.tolerance is None:
        return [None]
    narrow = [
        Precision.of(layer.dtype, filters, products)
        for filters, products in _NARROW
        # No error is less than that of rounding one factor.
        if not (layer.rank == 3 and products)  # which have no kernels for volumes
        and 2.0 ** -(NUMBERS[filters or products or layer.dtype].bits + 1) < request.tolerance
    ]
    return [None, *(one for one in narrow if _computes(request.algorithm, one, target))]


def _computes(algorithm: str, precision: Precision, target: Target) -> bool:
    able = algorithms(precision, target)
    return bool(able) if algorithm == "auto" else algorithm in able


def _refuse(layer: Layer, request: Request, target: Target) -> None:
    able = (
        kind
        for kind in PRODUCT_TYPES
        if algorithms(Precision.of(layer.dtype, products=kind), target)
    )
    names = ", ".join(("None", *(f'"{kind}"' for kind in able)))
    form = PRODUCT_FORMATS[str(request.product_dtype)]
    lacking = [one for one in EXTENSIONS if one.name in form.extensions]
    raise Unsupported(
        f'product_dtype: got "{request.product_dtype}" on {target.name} with the extensions '
        f"{', '.join(sorted(target.extensions)) or 'none'}; allowed: {names}, or a CPU and a "
        f"compiler with {' or '.join(map(_wanted, lacking))}"
    )


def _wanted(one: Extension) -> str:
    """An extension in words, as WINOGEN_ISA asks for it."""
    (target,) = one.targets
    return f"{target}+{one.name} (gcc >= {one.gcc}, clang >= {one.clang})"


def _with_numbers(
    problem: Problem, request: Request, target: Target, precision: Precision | None
) -> Iterator[Choice]:
    layer, asked = problem.layer, request.algorithm
    numbers = precision or Precision.of(layer.dtype)
    names = algorithms(numbers, target, layer.rank) if asked == "auto" else (asked,)
    for algorithm in names:
        plain = Choice(
            algorithm,
            edge=request.edge,
            border=request.border,
            threads=request.threads,
            precision=precision,
        )
        if not is_tiled(algorithm):
            variant = _variant(problem, plain, target)
            if asked != "auto" or variant.suits(work_of(problem, plain, target)):
                yield plain
                for sizes in _register_blocks(problem, plain, target):
                    yield replace(plain, sizes=sizes)
            continue
        if asked == "auto" and not is_winograd_worth_it(layer, request.edge):
            continue
        # Tiles have ten times the error of float16 itself: for those who say how much they accept.
        if asked == "auto" and request.tolerance is None and numbers.format.summing == "short":
            continue
        sample = replace(plain, tile=(1,) * layer.rank)
        variant = _variant(problem, sample, target)
        if asked == "auto" and not variant.suits(work_of(problem, sample, target)):
            continue
        largest = variant.largest_tile if not request.tile else None
        ordered = replace(plain, order=request.order)
        yield from tilings(
            ordered, layer.kernel, layer.stride, request.tile, request.points, largest
        )


def _variant(problem: Problem, choice: Choice, target: Target) -> Variant:
    return first_that_applies(work_of(problem, choice, target))


def _register_blocks(problem: Problem, choice: Choice, target: Target) -> list[Sizes]:
    """The register blocks that suit the layer besides the target's own, where the model was seen to
    tell them apart: with filters in the lanes.
    """
    work = assign(work_of(problem, choice, target))
    variant = named(work.variant)
    if not variant.auto or variant.in_lanes != "filters":
        return []
    sizes = (sizes_of(work, block) for block in register_blocks(work))
    return [one for one in sizes if one]


def is_winograd_worth_it(layer: Layer, edge: str = "discard") -> bool:
    """Whether `auto` considers Winograd algorithms: they apply, and their transforms ship."""
    return (
        (edge == "discard" or max(layer.dilation[-2:]) == 1)
        and layer.in_tiles
        # A filter no longer than the stride has outputs that share no inputs: nothing to gain.
        and any(axis.kernel > axis.stride for axis in layer.plane)
        and all(
            axis.kernel == 1 or shipped.is_shipped(2, axis.kernel, stride=axis.stride)
            for axis in layer.plane
        )
    )


@lru_cache(maxsize=1024)  # the same for most layers of a net
def tilings(
    choice: Choice,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    tile: Any,
    points: Any,
    largest: int | None,
) -> tuple[Choice, ...]:
    """The choice with every tile, at most the largest, and points that are left open."""
    rank = len(kernel)
    open_ = (None,) * rank
    transformed = general(choice.algorithm).transforms_along(rank)
    along = [
        _ways(m, one, taps, step) if is_transformed else [(1, None)]
        for m, one, taps, step, is_transformed in zip(
            tile or open_, points or open_, kernel, stride, transformed
        )
    ]
    ways = (tuple(zip(*way)) for way in product(*along))
    return tuple(
        replace(choice, tile=tiles, points=sets if any(sets) else ())
        for tiles, sets in ways
        if largest is None or max(tiles) <= largest
    )


def _ways(
    tile: int | None, points: Points | None, taps: int, stride: int
) -> list[tuple[int, Points | None]]:
    """The tile sizes to try along one axis, each with its points; None: the default points.

    Where both are left open, transforms with the modulus x^2 + 1 are tried, too. They
    have one product more and a fraction of the error.
    """
    if tile is not None:
        return [(tile, points)]
    if taps == 1:
        return [(1, points)]  # nothing to save along this axis, and F(1,1) is exact
    if stride > 1:
        return [(m, None) for m in shipped.shipped_tiles(taps, stride=stride)] or [(2, None)]
    ways: list[tuple[int, Points | None]] = [
        (m, points) for m in range(2, _POINTS - taps + 2) if shipped.is_shipped(m, taps)
    ]
    if points is None:
        ways += [(m, GAUSSIAN) for m in shipped.shipped_tiles(taps, "gaussian")]
    return ways or [(min(2, MOST_POINTS - taps + 1), points)]


def applies(choice: Choice, problem: Problem, target: Target) -> bool:
    """Return whether a choice of unknown origin can compute a problem."""
    layer, tiled = problem.layer, is_tiled(choice.algorithm)
    if choice.algorithm not in algorithms_beside(choice.algorithm, layer.rank):
        return False
    if tiled != (choice.tile is not None):
        return False
    if choice.tile is not None:
        beyond = max(layer.stride[-2:]) > MOST_STRIDE or max(layer.dilation[-2:]) > 1
        if beyond or len(choice.tile) != layer.rank:
            return False
        if len(choice.points) not in (0, layer.rank):
            return False
        along = general(choice.algorithm).transforms_along(layer.rank)
        for m, taps, transformed in zip(choice.tile, layer.kernel, along):
            if m > MOST_POINTS - taps + 1 or (m > 1 and not transformed):
                return False
    try:
        work = work_of(problem, choice, target, None, axes(layer, choice))
        if choice.variant and choice.variant not in {one.name for one in family(choice.algorithm)}:
            return False
        variant = named(choice.variant) if choice.variant else first_that_applies(work)
        able = variant.computes(work.precision) and variant.applies(work)
        return able and allowed(work, choice.sizes)
    except (WinogenError, KeyError, ValueError, StopIteration):  # points that make no algorithm
        return False
