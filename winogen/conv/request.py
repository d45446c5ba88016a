"""What the user asked for: names, tiles and points, checked before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass

from winogen.conv import arguments
from winogen.conv.problem import Layer
from winogen.errors import InvalidType, InvalidValue, Unsupported

WINOGRAD = ("winograd2d", "winograd1d", "mcmr")
ALGORITHMS = ("auto", "direct", "im2col", *WINOGRAD)
EDGES = ("discard", "direct")
BORDERS = ("unswitch", "buffer", "indirect")
MOST_POINTS = 18  # default points end here

Axes = tuple[int, int]
Points = tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """What the user asked for; None leaves it to the planner."""

    algorithm: str = "auto"
    tile: tuple[int | None, int | None] = (None, None)  # along height and width
    points: tuple[Points | None, Points | None] = (None, None)  # None: the default ones
    edge: str = "discard"
    border: str = "unswitch"
    threads: int = 1
    workspace_limit: int | None = (
        None  # bytes of scratch memory per call; None: the planner's choice
    )
    tolerance: float | None = None  # of the predicted error; None: the planner's default


def request(
    layer: Layer,
    *,
    algorithm="auto",
    tile=None,
    points=None,
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
    free, rest = ((None, None), (None, None)), (edge, border, threads, workspace_limit, tolerance)
    if algorithm in ("direct", "im2col"):
        for name, value in (("tile", tile), ("points", points)):
            if value is not None:
                raise InvalidValue(
                    f'{name}: got {value!r}; allowed: None with algorithm "{algorithm}", which has '
                    "no tiles"
                )
        return Request(algorithm, *free, *rest)
    if algorithm == "auto":
        if tile is None and points is None:
            return Request(algorithm, *free, *rest)
        algorithm = "mcmr"  # asking for a tile is asking for a Winograd algorithm
    _check_applies(layer, algorithm)
    sets = _points(points, layer.kernel, algorithm)
    tiles = _tile(tile, layer.kernel, algorithm)
    tiles = tuple(_fit(*axis) for axis in zip(("height", "width"), tiles, sets, layer.kernel))
    if any(sets):
        _check_points(tiles, sets, layer.kernel)
    return Request(algorithm, tiles, sets, *rest)


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


def _points(value, kernel: Axes, algorithm: str) -> tuple[Points | None, Points | None]:
    """The points per axis; one set is meant for the axes along which the kernel is longer than 1."""
    if value is None:
        return None, None
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_is_set, value)):
        sets = tuple(None if item is None else _point_set(item) for item in value)
        if algorithm == "winograd1d" and sets[0] is not None:
            raise InvalidValue(
                f'points: got {value!r}; allowed: (None, points) with algorithm "winograd1d", '
                "which transforms along the width only"
            )
        return sets
    one = _point_set(value)
    along = [taps > 1 for taps in kernel]
    if algorithm == "winograd1d":
        along[0] = False
    return tuple(one if transformed else None for transformed in along)


def _is_set(item) -> bool:
    return (
        item is None or isinstance(item, (tuple, list)) or (isinstance(item, str) and "," in item)
    )


def _point_set(value) -> Points:
    """One set of points as exact texts, from "0,1,-1,inf" or a sequence of exact numbers."""
    from winogen.algebra import parse_points

    if not isinstance(value, (str, tuple, list)):
        raise InvalidType(
            f'points: got {value!r}; allowed: None, text such as "0,1,-1,inf", a sequence of exact '
            "numbers, or a pair (height, width) of these"
        )
    return tuple(str(point) for point in parse_points(value))


def _fit(axis: str, tile: int | None, points: Points | None, taps: int) -> int | None:
    """The tile along an axis, which a given set of points determines: n = m + r - 1 points."""
    if points is None:
        if tile is not None and taps > 1 and tile + taps - 1 > MOST_POINTS:
            raise InvalidValue(
                f"tile: got {tile} for the {taps} taps along the {axis}; allowed: at most "
                f"{MOST_POINTS - taps + 1} without points="
            )
        if tile is None and taps > MOST_POINTS:
            raise Unsupported(
                f"algorithm: got a kernel {axis} of {taps}; allowed: at most {MOST_POINTS} without "
                'points=, or algorithm "direct"'
            )
        return tile
    m = len(points) - taps + 1
    if m < 1 or (tile is not None and m != tile):
        wanted = f"{tile + taps - 1} for tile {tile}" if tile else f"at least {taps}"
        raise InvalidValue(
            f"points: got {len(points)} along the {axis}, {', '.join(points)}; allowed: "
            f'{wanted} and {taps} taps, "inf" counted'
        )
    return m


def _check_points(tiles, sets, kernel: Axes) -> None:
    """Derive what was asked for, so that points that make no algorithm are refused at once."""
    from winogen.codegen.transforms import load

    for m, points, taps in zip(tiles, sets, kernel):
        if points is not None:
            load(m, taps, points)
