"""What the user asked for: names, tiles and points, checked before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, get_args

from winogen.conv import arguments
from winogen.conv.options import Options
from winogen.conv.problem import Layer
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.kernels import algorithms, general, is_tiled
from winogen.kernels.spec import BORDERS
from winogen.program.summation import NAMES as ORDERS
from winogen.program.summation import PROGRAM
from winogen.records import FILTER_TYPES, PRODUCT_TYPES, Points, Precision
from winogen.typing import Edge

EDGES: tuple[Edge, ...] = get_args(Edge)
MOST_POINTS = 18  # default points end here

Axes = tuple[int, int]


@dataclass(frozen=True)
class Request:
    """What the user asked for; None leaves it to the planner."""

    algorithm: str = "auto"
    tile: tuple[int | None, int | None] = (None, None)  # along height and width
    points: tuple[Points | None, Points | None] = (None, None)  # or moduli; None: default points
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
        algorithm = arguments.choice("algorithm", options.algorithm, ("auto", *algorithms()))
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
        if algorithm != "auto" and not is_tiled(algorithm):
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
        able = algorithms(Precision.of(layer.dtype, filters, products))
        if not able:
            raise InvalidValue(f'{name}: got "{value}" with {layer.dtype} arrays; allowed: None')
        if algorithm not in ("auto", *able):
            raise Unsupported(
                f'{name}: got "{value}" with algorithm "{algorithm}"; allowed: None, or algorithm '
                f"auto, {', '.join(able)}"
            )
    return numbers


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
    points, moduli = options.points, options.moduli
    if points is not None and moduli is not None:
        raise InvalidValue(f"moduli: got {moduli!r} and points {points!r}; allowed: one of them")
    kind, value = ("points", points) if moduli is None else ("moduli", moduli)
    sets = _sets(kind, value, layer.kernel, algorithm)
    tile = _tile(options.tile, layer.kernel, algorithm)
    along = general(algorithm).along
    fitted = tuple(
        _fit(kind, axis, m, one, taps) if transformed else m
        for axis, m, one, taps, transformed in zip(
            ("height", "width"), tile, sets, layer.kernel, along
        )
    )
    for m, one, taps in zip(fitted, sets, layer.kernel):
        if one is not None and m is not None:
            _check_makes_an_algorithm(one, m, taps)
    return {"tile": fitted, "points": sets}


@lru_cache(maxsize=256)  # deriving takes longer than many a convolution
def _check_makes_an_algorithm(points: Points, m: int, taps: int) -> None:
    """Refuse a set of points or moduli at once that makes no algorithm: equal points, say."""
    from winogen.algebra import cook_toom, winograd

    if points.kind == "points":
        cook_toom(m, taps, points=points.items)
    else:
        winograd(m, taps, moduli=points.items)


def _check_applies(layer: Layer, algorithm: str) -> None:
    for name in ("stride", "dilation"):
        value = getattr(layer, name)
        if value != (1, 1):
            raise Unsupported(
                f'algorithm: got "{algorithm}" with {name} {value}; allowed: {name} 1, because the '
                'outputs of a Winograd tile are neighbours that share their inputs; "direct" and '
                f'"im2col" take any {name}'
            )


def _tile(value: Any, kernel: Axes, algorithm: str) -> tuple[int | None, int | None]:
    """The tile per axis; an int is meant for the axes along which the kernel is longer than 1."""
    if value is None:
        return (None if general(algorithm).along[0] else 1), None
    allowed = "None, a positive int or a pair (height, width) of them"
    if not isinstance(value, (tuple, list)):
        m = arguments.whole("tile", value, 1, allowed)
        m_h, m_w = (m if taps > 1 else 1 for taps in kernel)
        return (m_h if general(algorithm).along[0] else 1), m_w
    if len(value) != 2:
        raise InvalidValue(f"tile: got {value!r}; allowed: {allowed}")
    m_h, m_w = (arguments.whole("tile", item, 1, allowed) for item in value)
    if m_h != 1 and not general(algorithm).along[0]:
        raise InvalidValue(
            f'tile: got {(m_h, m_w)}; allowed: (1, m) with algorithm "{algorithm}", whose tiles '
            "are pieces of a row"
        )
    return m_h, m_w


def _sets(
    name: str, value: Any, kernel: Axes, algorithm: str
) -> tuple[Points | None, Points | None]:
    """Points or moduli per axis; one set is for the axes with more than one tap."""
    if value is None:
        return None, None
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_is_set, value)):
        height, width = (None if item is None else _set(name, item) for item in value)
        if height is not None and not general(algorithm).along[0]:
            raise InvalidValue(
                f'{name}: got {value!r}; allowed: (None, {name}) with algorithm "{algorithm}", '
                "which transforms along the width only"
            )
        return height, width
    one = _set(name, value)
    height, width = (
        one if taps > 1 and transformed else None
        for taps, transformed in zip(kernel, general(algorithm).along)
    )
    return height, width


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
            f"{name}: got {value!r}; allowed: None, {_EXAMPLES[name]}, or a pair (height, width) "
            "of these"
        )
    parse = parse_points if name == "points" else parse_moduli
    return Points(name, tuple(str(item) for item in parse(value)))


def _degree(points: Points) -> int:
    """How many inputs a set is for: one per point, and the degrees of all moduli together."""
    if points.kind == "points":
        return len(points.items)
    from winogen.algebra.moduli import parse_moduli

    return sum(getattr(modulus, "degree", 1) for modulus in parse_moduli(points.items))


def _fit(name: str, axis: str, tile: int | None, points: Points | None, taps: int) -> int | None:
    """The tile along an axis; points or moduli determine it, because they are for m + r - 1."""
    if points is None:
        if tile is not None and taps > 1 and tile + taps - 1 > MOST_POINTS:
            raise InvalidValue(
                f"tile: got {tile} for the {taps} taps along the {axis}; allowed: at most "
                f"{MOST_POINTS - taps + 1} without points= or moduli="
            )
        if tile is None and taps > MOST_POINTS:
            raise Unsupported(
                f"algorithm: got a kernel {axis} of {taps}; allowed: at most {MOST_POINTS} without "
                'points=, or algorithm "direct"'
            )
        return tile
    degree = _degree(points)
    m = degree - taps + 1
    if m < 1 or (tile is not None and m != tile):
        needed = f"{tile + taps - 1} for tile {tile}" if tile else f"at least {taps}"
        count = degree if name == "points" else f"a total degree of {degree}"
        raise InvalidValue(
            f"{name}: got {count} along the {axis}, {points.text}; allowed: "
            f'{needed} and {taps} taps, "inf" counted'
        )
    return m
