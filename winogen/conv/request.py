"""What the user asked for: names, tiles and points, checked before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from winogen.conv import arguments
from winogen.conv.problem import Layer
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.program.summation import NAMES as ORDERS
from winogen.program.summation import PROGRAM

WINOGRAD = ("winograd2d", "winograd1d", "mcmr")
ALGORITHMS = ("auto", "direct", "im2col", *WINOGRAD)
EDGES = ("discard", "direct")
BORDERS = ("unswitch", "buffer", "indirect")
MOST_POINTS = 18  # default points end here

Axes = tuple[int, int]
Points = tuple[str, ...]  # points or moduli, as exact texts


@dataclass(frozen=True)
class Request:
    """What the user asked for; None leaves it to the planner."""

    algorithm: str = "auto"
    tile: tuple[int | None, int | None] = (None, None)  # along height and width
    points: tuple[Points | None, Points | None] = (None, None)  # None: the default ones
    moduli: tuple[Points | None, Points | None] = (None, None)  # polynomials instead of points
    order: str = PROGRAM  # how transforms add
    edge: str = "discard"
    border: str = "unswitch"
    threads: int = 1
    workspace_limit: int | None = (
        None  # bytes of scratch memory per call; None: the planner's choice
    )
    tolerance: float | None = None  # of the predicted error; None: the planner's default

    @property
    def sets(self) -> tuple[Points | None, Points | None]:
        """What was given for height and width, points or moduli."""
        return tuple(points or moduli for points, moduli in zip(self.points, self.moduli))


def request(
    layer: Layer,
    *,
    algorithm="auto",
    tile=None,
    points=None,
    moduli=None,
    order=None,
    edge="discard",
    border="unswitch",
    threads=None,
    workspace_limit=None,
    tolerance=None,
) -> Request:
    """Return the checked request.

    Raises InvalidType and InvalidValue for unknown names and wrong numbers, Unsupported when the
    algorithm asked for does not apply to the layer, with the reason.
    """
    algorithm = arguments.choice("algorithm", algorithm, ALGORITHMS)
    edge = arguments.choice("edge", edge, EDGES)
    border = arguments.choice("border", border, BORDERS)
    threads = arguments.threads(threads)
    if workspace_limit is not None:
        allowed = "None or a number of bytes"
        workspace_limit = arguments.whole("workspace_limit", workspace_limit, 0, allowed, 2**62)
    if tolerance is not None:
        tolerance = arguments.positive("tolerance", tolerance, "None or a positive number, as 1e-6")
    asked = {"tile": tile, "points": points, "moduli": moduli, "order": order}
    if order is not None:
        order = arguments.choice("order", order, ORDERS)
    found = Request(
        algorithm,
        order=order or PROGRAM,
        edge=edge,
        border=border,
        threads=threads,
        workspace_limit=workspace_limit,
        tolerance=tolerance,
    )
    if algorithm in ("direct", "im2col"):
        for name, value in asked.items():
            if value is not None:
                raise InvalidValue(
                    f'{name}: got {value!r}; allowed: None with algorithm "{algorithm}", which has '
                    "no tiles"
                )
        return found
    if algorithm == "auto":
        if tile is None and points is None and moduli is None:
            return found
        algorithm = "mcmr"  # asking for a tile is asking for a Winograd algorithm
    _check_applies(layer, algorithm)
    if points is not None and moduli is not None:
        raise InvalidValue(f"moduli: got {moduli!r} and points {points!r}; allowed: one of them")
    name = "points" if moduli is None else "moduli"
    sets = _sets(name, asked[name], layer.kernel, algorithm)
    tiles = _tile(tile, layer.kernel, algorithm)
    axes = zip(("height", "width"), tiles, sets, layer.kernel)
    tiles = tuple(_fit(name, *axis) for axis in axes)
    found = replace(found, algorithm=algorithm, tile=tiles, **{name: sets})
    _check_sets(found, layer.kernel)
    return found


def _check_applies(layer: Layer, algorithm: str) -> None:
    for name in ("stride", "dilation"):
        value = getattr(layer, name)
        if value != (1, 1):
            raise Unsupported(
                f'algorithm: got "{algorithm}" with {name} {value}; allowed: {name} 1, because the '
                'outputs of a Winograd tile are neighbours that share their inputs; "direct" and '
                f'"im2col" take any {name}'
            )


def _tile(value, kernel: Axes, algorithm: str) -> tuple[int | None, int | None]:
    """The tile per axis; an int is meant for the axes along which the kernel is longer than 1."""
    if value is None:
        return (1 if algorithm == "winograd1d" else None), None
    allowed = "None, a positive int or a pair (height, width) of them"
    if not isinstance(value, (tuple, list)):
        m = arguments.whole("tile", value, 1, allowed)
        m_h, m_w = (m if taps > 1 else 1 for taps in kernel)
        return (1, m_w) if algorithm == "winograd1d" else (m_h, m_w)
    if len(value) != 2:
        raise InvalidValue(f"tile: got {value!r}; allowed: {allowed}")
    m_h, m_w = (arguments.whole("tile", item, 1, allowed) for item in value)
    if algorithm == "winograd1d" and m_h != 1:
        raise InvalidValue(
            f'tile: got {(m_h, m_w)}; allowed: (1, m) with algorithm "winograd1d", whose tiles are '
            "pieces of a row"
        )
    return m_h, m_w


def _sets(name: str, value, kernel: Axes, algorithm: str) -> tuple[Points | None, Points | None]:
    """Points or moduli per axis; one set is for the axes along which the kernel is longer than 1."""
    if value is None:
        return None, None
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_is_set, value)):
        sets = tuple(None if item is None else _set(name, item) for item in value)
        if algorithm == "winograd1d" and sets[0] is not None:
            raise InvalidValue(
                f'{name}: got {value!r}; allowed: (None, {name}) with algorithm "winograd1d", '
                "which transforms along the width only"
            )
        return sets
    one = _set(name, value)
    along = [taps > 1 for taps in kernel]
    if algorithm == "winograd1d":
        along[0] = False
    return tuple(one if transformed else None for transformed in along)


def _is_set(item) -> bool:
    return (
        item is None or isinstance(item, (tuple, list)) or (isinstance(item, str) and "," in item)
    )


_EXAMPLES = {
    "points": 'text such as "0,1,-1,inf", a sequence of exact numbers',
    "moduli": 'text such as "x,x-1,x+1,x^2+1,inf", a sequence of polynomials in x',
}


def _set(name: str, value) -> Points:
    """One set of points or moduli as exact texts."""
    from winogen.algebra import parse_points
    from winogen.algebra.moduli import parse_moduli

    if not isinstance(value, (str, tuple, list)):
        raise InvalidType(
            f"{name}: got {value!r}; allowed: None, {_EXAMPLES[name]}, or a pair (height, width) of "
            "these"
        )
    parse = parse_points if name == "points" else parse_moduli
    return tuple(str(item) for item in parse(value))


def _degree(name: str, given: Points) -> int:
    """How many inputs a set is for: one per point, and the degrees of all moduli together."""
    if name == "points":
        return len(given)
    from winogen.algebra.moduli import parse_moduli

    return sum(getattr(modulus, "degree", 1) for modulus in parse_moduli(given))


def _fit(name: str, axis: str, tile: int | None, given: Points | None, taps: int) -> int | None:
    """The tile along an axis, which given points or moduli determine: they are for m + r - 1."""
    if given is None:
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
    degree = _degree(name, given)
    m = degree - taps + 1
    if m < 1 or (tile is not None and m != tile):
        wanted = f"{tile + taps - 1} for tile {tile}" if tile else f"at least {taps}"
        count = degree if name == "points" else f"a total degree of {degree}"
        raise InvalidValue(
            f"{name}: got {count} along the {axis}, {', '.join(given)}; allowed: "
            f'{wanted} and {taps} taps, "inf" counted'
        )
    return m


def _check_sets(request: Request, kernel: Axes) -> None:
    """Derive what was asked for, so that a set that makes no algorithm is refused at once."""
    from winogen.codegen.transforms import load

    for m, points, moduli, taps in zip(request.tile, request.points, request.moduli, kernel):
        if points or moduli:
            load(m, taps, points, moduli=moduli, order=request.order)
