"""What the user asked for: names, tiles and points, checked before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

from winogen.conv import arguments
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Sizes
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.kernels import algorithms, algorithms_beside, family, general, is_tiled
from winogen.kernels.spec import BORDERS
from winogen.program.summation import NAMES as ORDERS
from winogen.program.summation import PROGRAM
from winogen.records import AXES, FILTER_TYPES, PRODUCT_TYPES, Points, Precision
from winogen.typing import Edge

if TYPE_CHECKING:
    from winogen.conv.solver import Solver

EDGES: tuple[Edge, ...] = get_args(Edge)
MOST_POINTS = 18  # of a tile by default; programs of larger ones take minutes to find
# ... of transforms that add row by row, which are not searched for; a compiler takes a minute.
MOST_SUMMED = 24
MOST_STRIDE = 4  # of tiles: beyond, they read far more than they share


@dataclass(frozen=True)
class Request:
    """What the user asked for; None leaves it to the planner."""

    algorithm: str = "auto"
    tile: tuple[int | None, ...] = ()  # along each axis; (): None along all
    points: tuple[Points | None, ...] = ()  # or moduli; None: default points
    order: str = PROGRAM  # how transforms add
    # What filters are packed in, and what is multiplied; None: the planner's choice.
    filter_dtype: str | None = None
    product_dtype: str | None = None
    edge: str = "discard"
    border: str = "unswitch"
    threads: int = 1
    workspace_limit: int | None = None  # bytes per call; None: the planner's choice
    # The largest error of the output over its largest value; None: the planner's default.
    tolerance: float | None = None
    # How far filters are from products of a column and a row; None: too far, or nobody looked.
    separable: float | None = None

    def folded(self, layer: Layer) -> Request:
        """Return what it asks of `Layer.folded` of a layer, which may lack the last axis."""
        if layer.folded.rank == layer.rank:
            return self
        return replace(self, tile=self.tile[:-1], points=self.points[:-1])

    @property
    def asks_for_tiles(self) -> bool:
        """Whether it says all that there is to say of tiles."""
        return any(self.points) or (bool(self.tile) and None not in self.tile)

    @property
    def asks_for_numbers(self) -> bool:
        """Whether it says what filters are packed in, or what is multiplied."""
        return self.filter_dtype is not None or self.product_dtype is not None

    @classmethod
    def of(cls, layer: Layer, **options: Any) -> Request:
        """Return the checked request; ``options`` as `conv2d` takes them.

        Raises InvalidType and InvalidValue for unknown names and wrong numbers, Unsupported when
        the algorithm asked for does not apply to the layer, with the reason.
        """
        return cls.from_options(layer, Options(**options))

    @classmethod
    def from_options(cls, layer: Layer, options: Options) -> Request:
        """The same, of options that also say what is computed."""
        algorithm, solver = _named(options.algorithm)
        if solver is not None:
            solver.check(layer)
        elif algorithm != "auto":
            _check_rank(layer, algorithm)
        request = cls(
            algorithm,
            order=arguments.choice("order", options.order, (None, *ORDERS)) or PROGRAM,
            edge=arguments.choice("edge", options.edge, EDGES),
            border=arguments.choice("border", options.border, BORDERS),
            threads=arguments.threads(options.threads),
            workspace_limit=_limit(options.workspace_limit),
            tolerance=_tolerance(options.tolerance),
            **_numbers(layer, algorithm, options),
        )
        tiles = {name: getattr(options, name) for name in ("tile", "points", "moduli", "order")}
        if solver is not None or (algorithm != "auto" and not is_tiled(algorithm)):
            for name, value in tiles.items():
                if value is not None:
                    raise InvalidValue(
                        f'{name}: got {value!r}; allowed: None with algorithm "{algorithm}", '
                        "which has no tiles"
                    )
            return request
        if algorithm == "auto":
            if options.tile is None and options.points is None and options.moduli is None:
                return request
            algorithm = "mcmr"  # asking for a tile is asking for a Winograd algorithm
        _check_rank(layer, algorithm)
        return replace(request, algorithm=algorithm, **_tiles(layer, algorithm, options))


def _numbers(layer: Layer, algorithm: str, options: Options) -> dict[str, Any]:
    """The types of packed filters and of products, checked against the arrays."""
    numbers = {
        name: arguments.choice(name, getattr(options, name), (None, *types))
        for name, types in (("filter_dtype", FILTER_TYPES), ("product_dtype", PRODUCT_TYPES))
    }
    filters, products = numbers.values()
    if filters and products:
        raise InvalidValue(
            f'filter_dtype: got "{filters}" and product_dtype "{products}"; allowed: one of them'
        )
    for name, value in numbers.items():
        if value is None:
            continue
        precision = Precision.of(layer.dtype, filters, products)
        able = algorithms(precision)
        if layer.rank == 3 and products:
            raise Unsupported(
                f'{name}: got "{value}" for a layer of 3 axes; allowed: None, or filter_dtype'
            )
        if not able:
            raise InvalidValue(f'{name}: got "{value}" with {layer.dtype} arrays; allowed: None')
        others = any(one.computes(precision) for one in family(algorithm))  # of the laboratory, say
        if algorithm not in ("auto", *able) and not others:
            raise Unsupported(
                f'{name}: got "{value}" with algorithm "{algorithm}"; allowed: None, or algorithm '
                f"auto, {', '.join(able)}"
            )
    return numbers


def _check_rank(layer: Layer, algorithm: str) -> None:
    able = algorithms_beside(algorithm, layer.rank)
    if algorithm not in able:
        ranks = " or ".join(map(str, general(algorithm).ranks))
        raise Unsupported(
            f'algorithm: got "{algorithm}" for a layer of {layer.rank} axes, layout '
            f"{layer.layout}; allowed: {ranks} axes, or algorithm auto, {', '.join(able)}"
        )


def _named(name: Any) -> tuple[str, Solver | None]:
    """An algorithm that exists, and its solver if that is one without kernels."""
    from winogen.conv.solvers import solvers  # who read requests

    others = {one.algorithm: one for one in solvers() if one.algorithm}
    names = "auto", *algorithms_beside(name), *others
    algorithm = arguments.choice("algorithm", name, names)
    return algorithm, others.get(algorithm)


def _limit(value: Any) -> int | None:
    if value is None:
        return None
    return arguments.whole("workspace_limit", value, 0, "None or a number of bytes", 2**62)


def _tolerance(value: Any) -> float | None:
    if value is None:
        return None
    return arguments.positive("tolerance", value, "None or a positive number, as 1e-6")


def _tiles(layer: Layer, algorithm: str, options: Options) -> dict[str, Any]:
    """The tile and the points of a Winograd algorithm, checked against the layer."""
    _check_applies(layer, algorithm)
    if options.edge == "direct" and max(layer.folded.dilation[-2:]) > 1:
        raise Unsupported(
            f'edge: got "direct" with dilation {layer.dilation}; allowed: "discard", because the '
            "tiles of each phase end elsewhere"
        )
    points, moduli = options.points, options.moduli
    if points is not None and moduli is not None:
        raise InvalidValue(f"moduli: got {moduli!r} and points {points!r}; allowed: one of them")
    kind, value = ("points", points) if moduli is None else ("moduli", moduli)
    along = general(algorithm).transforms_along(layer.folded.rank)
    along += (False,) * (layer.rank - len(along))
    sets = _sets(kind, value, layer.kernel, algorithm, along)
    tile = _tile(options.tile, layer.kernel, algorithm, along)
    fitted = tuple(
        _fit(kind, axis, m, one, taps, stride, options.order) if transformed else m
        for axis, m, one, taps, stride, transformed in zip(
            AXES[-layer.rank :], tile, sets, layer.kernel, layer.stride, along
        )
    )
    for m, one, taps in zip(fitted, sets, layer.kernel):
        if one is not None and m is not None:
            _check_makes_an_algorithm(one, m, taps)
    return {
        "tile": fitted if fitted != _tile(None, layer.kernel, algorithm, along) else (),
        "points": sets if any(sets) else (),
    }


@lru_cache(maxsize=256)  # deriving takes longer than many a convolution
def _check_makes_an_algorithm(points: Points, m: int, taps: int) -> None:
    """Refuse a set of points or moduli at once that makes no algorithm: equal points, say."""
    from winogen.algebra import cook_toom, winograd

    if points.kind == "points":
        cook_toom(m, taps, points=points.items)
    else:
        winograd(m, taps, moduli=points.items)


def _check_applies(layer: Layer, algorithm: str) -> None:
    # Along the depth planes are summed, whichever they are.
    folded = layer.folded
    if max(folded.stride[-2:]) > MOST_STRIDE:
        raise Unsupported(
            f'algorithm: got "{algorithm}" with stride {layer.stride}; allowed: stride up to '
            f"{MOST_STRIDE}, because the outputs of a Winograd tile are neighbours that share "
            'their inputs; "direct" and "im2col" take any stride'
        )
    if not folded.in_tiles:
        whole = folded.rank == 3
        allowed = "dilation 1 along height and width" if whole else "one of them per axis"
        raise Unsupported(
            f'algorithm: got "{algorithm}" with stride {layer.stride} and dilation '
            f"{layer.dilation}; allowed: {allowed}, because the outputs of a Winograd tile are "
            'neighbours that share their inputs; "direct" and "im2col" take any'
        )


Along = tuple[bool, ...]  # the axes that an algorithm transforms


def _tile(value: Any, kernel: Sizes, algorithm: str, along: Along) -> tuple[int | None, ...]:
    """The tile per axis; an int is meant for the axes along which the kernel is longer than 1."""
    if value is None:
        return tuple(None if transformed else 1 for transformed in along)
    allowed = f"None, a positive int or {arguments.several(len(along))} of them"
    if not isinstance(value, (tuple, list)):
        m = arguments.whole("tile", value, 1, allowed)
        return tuple(
            m if taps > 1 and transformed else 1 for taps, transformed in zip(kernel, along)
        )
    if len(value) != len(along):
        raise InvalidValue(f"tile: got {value!r}; allowed: {allowed}")
    tile = tuple(arguments.whole("tile", item, 1, allowed) for item in value)
    if any(m > 1 and not transformed for m, transformed in zip(tile, along)):
        pieces = "planes" if all(along[1:]) and len(along) > 2 else "a row"
        raise InvalidValue(
            f"tile: got {tile}; allowed: {_written('m', along, '1')} with algorithm "
            f'"{algorithm}", whose tiles are pieces of {pieces}'
        )
    return tile


def _sets(
    name: str, value: Any, kernel: Sizes, algorithm: str, along: Along
) -> tuple[Points | None, ...]:
    """Points or moduli per axis; one set is for the axes with more than one tap."""
    if value is None:
        return (None,) * len(along)
    if isinstance(value, (tuple, list)) and len(value) == len(along) and all(map(_is_set, value)):
        sets = tuple(None if item is None else _set(name, item) for item in value)
        if any(one and not transformed for one, transformed in zip(sets, along)):
            able = [axis for axis, transformed in zip(AXES[-len(along) :], along) if transformed]
            raise InvalidValue(
                f"{name}: got {value!r}; allowed: {_written(name, along, 'None')} with algorithm "
                f'"{algorithm}", which transforms along the {" and the ".join(able)} only'
            )
        return sets
    one = _set(name, value)
    return tuple(
        one if taps > 1 and transformed else None for taps, transformed in zip(kernel, along)
    )


def _written(what: str, along: Along, other: str) -> str:
    """What may be given along each axis, as a tuple in words."""
    return f"({', '.join(what if transformed else other for transformed in along)})"


def _is_set(item: Any) -> bool:
    return (
        item is None or isinstance(item, (tuple, list)) or (isinstance(item, str) and "," in item)
    )


_EXAMPLES = {
    "points": 'text such as "0,1,-1,inf", a sequence of exact numbers',
    "moduli": 'text such as "x,x-1,x+1,x^2+1,inf", a sequence of polynomials in x',
}


def _set(name: str, value: Any) -> Points:
    """One set of points or moduli as exact texts."""
    from winogen.algebra import parse_points
    from winogen.algebra.moduli import parse_moduli

    if not isinstance(value, (str, tuple, list)):
        raise InvalidType(
            f"{name}: got {value!r}; allowed: None, {_EXAMPLES[name]}, or a tuple of these with "
            "one for each axis"
        )
    parse = parse_points if name == "points" else parse_moduli
    return Points(name, tuple(str(item) for item in parse(value)))


def _degree(points: Points) -> int | None:
    """How many inputs a set is for: one per point, and the degrees of all moduli together.

    None where it is for any number, "fourier" and "iterated", or where the tile has to say which.
    """
    if points.iterated:
        return None
    if points.kind == "points":
        return len(points.items)
    from winogen.algebra.moduli import FOURIER, parse_moduli

    if points.items == (FOURIER,):
        return None
    return sum(getattr(modulus, "degree", 1) for modulus in parse_moduli(points.items))


def _fit(
    name: str,
    axis: str,
    tile: int | None,
    points: Points | None,
    taps: int,
    stride: int,
    order: str | None,
) -> int | None:
    """The tile along an axis; points or moduli determine it, because they are for m + r - 1."""
    if points is not None and stride > 1:
        raise InvalidValue(
            f"{name}: got {points.text} along the {axis}, where the stride is {stride}; allowed: "
            "None, since the parts of the filter have different sizes, and their default points"
        )
    taps = -(-taps // stride)  # of the longest part
    if points is None:
        summed = order not in (None, PROGRAM)
        most = MOST_SUMMED if summed else MOST_POINTS
        if tile is not None and taps > 1 and tile + taps - 1 > most:
            others = 'points= or moduli=, or algorithm "fft"'
            if not summed and taps < MOST_SUMMED:
                others += (
                    f', or up to {MOST_SUMMED - taps + 1} with order="huffman", as the short '
                    "programs of larger tiles take minutes to find"
                )
            raise InvalidValue(
                f"tile: got {tile} for the {taps} taps along the {axis}; allowed: at most "
                f"{most - taps + 1}, {others}"
            )
        if tile is None and taps > MOST_POINTS:
            raise Unsupported(
                f"algorithm: got a kernel {axis} of {taps}; allowed: at most {MOST_POINTS} without "
                'points=, or algorithm "direct" or "fft"'
            )
        return tile
    degree = _degree(points)
    if degree is None:
        if tile is None:
            raise InvalidValue(
                f"{name}: got {points.text} along the {axis} without tile; allowed: with tile=, "
                "since it is for tiles of several sizes"
            )
        degree = tile + taps - 1
    m = degree - taps + 1
    if m < 1 or (tile is not None and m != tile):
        needed = f"{tile + taps - 1} for tile {tile}" if tile else f"at least {taps}"
        count = degree if name == "points" else f"a total degree of {degree}"
        raise InvalidValue(
            f"{name}: got {count} along the {axis}, {points.text}; allowed: "
            f'{needed} and {taps} taps, "inf" counted'
        )
    return m
