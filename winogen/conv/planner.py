"""How a problem is computed: which algorithm, tile and blocking, out of those that apply.

`request` checks what the user asked for; `candidates` lists every way that satisfies it; `choose`
takes the cheapest by `cost`, an estimate in multiply-adds. Nothing here touches C or arrays, so that
the rule can be replaced without anything else noticing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from winogen.codegen.transforms import catalog
from winogen.conv import arguments
from winogen.conv.problem import Layer, Problem
from winogen.errors import InvalidType, InvalidValue, Unsupported

WINOGRAD = ("winograd2d", "winograd1d", "mcmr")
ALGORITHMS = ("auto", "direct", "im2col", *WINOGRAD)
EDGES = ("discard", "direct")
BORDERS = ("unswitch", "buffer", "indirect")

# Tiles tried when none is given. Up to 8 points the error stays near that of direct convolution;
# a longer kernel gets the smallest tile that saves anything, as far as there are default points.
_TILES = (2, 3, 4, 5, 6)
_POINTS = 8
_MOST_POINTS = 18

# Multiply-adds that fit into the time in which one number of the packed filters arrives from beyond
# the second-level cache.
_STREAM = 6
# Fewer channels or filters than this leave the matrix products of `mcmr` mostly padding.
_CHANNELS = 16

# Bytes that the data of one block may take, so that it stays in a second-level cache ...
_BLOCK_BYTES = 1 << 20
# ... or, up to this many tiles (or pixels), in all: fewer make products too flat for the register
# block, and the filters are read once per block.
_FLAT = 28
_FLAT_BYTES = 3 << 20
# Filters that a kernel computes at once: two vectors of 512 bits.
_FILTERS = 32

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


@dataclass(frozen=True)
class Choice:
    """One way to compute a problem, complete."""

    algorithm: str
    tile: Axes | None  # outputs of one tile; None without tiles
    points: tuple[Points | None, Points | None]
    edge: str
    border: str
    threads: int


@dataclass(frozen=True)
class Rectangle:
    """Outputs to compute: rows row_begin..row_end-1, and columns alike."""

    row_begin: int
    row_end: int
    col_begin: int
    col_end: int

    @property
    def size(self) -> int:
        """How many outputs it has."""
        return max(0, self.row_end - self.row_begin) * max(0, self.col_end - self.col_begin)


def request(
    layer: Layer,
    *,
    algorithm="auto",
    tile=None,
    points=None,
    edge="discard",
    border="unswitch",
    threads=None,
) -> Request:
    """Return the checked request.

    Raises InvalidType and InvalidValue for unknown names and wrong numbers, Unsupported when the
    algorithm asked for does not apply to the layer, with the reason.
    """
    algorithm = arguments.choice("algorithm", algorithm, ALGORITHMS)
    edge = arguments.choice("edge", edge, EDGES)
    border = arguments.choice("border", border, BORDERS)
    threads = arguments.threads(threads)
    if algorithm in ("direct", "im2col"):
        for name, value in (("tile", tile), ("points", points)):
            if value is not None:
                raise InvalidValue(
                    f'{name}: got {value!r}; allowed: None with algorithm "{algorithm}", which has '
                    "no tiles"
                )
        return Request(algorithm, edge=edge, border=border, threads=threads)
    if algorithm == "auto":
        if tile is None and points is None:
            return Request(algorithm, edge=edge, border=border, threads=threads)
        algorithm = "mcmr"  # asking for a tile is asking for a Winograd algorithm
    _check_applies(layer, algorithm)
    sets = _points(points, layer.kernel, algorithm)
    tiles = _tile(tile, layer.kernel, algorithm)
    tiles = tuple(_fit(*axis) for axis in zip(("height", "width"), tiles, sets, layer.kernel))
    if any(sets):
        _check_points(tiles, sets, layer.kernel)
    return Request(algorithm, tiles, sets, edge, border, threads)


def choose(problem: Problem, request: Request) -> Choice:
    """Return the cheapest candidate; at equal cost the first.

    >>> layer = Layer.of((64, 64, 3, 3), "float32", padding=1)
    >>> choose(layer.problem((1, 64, 56, 56)), Request()).algorithm
    'mcmr'
    >>> choose(layer.problem((1, 64, 56, 56)), Request("direct")).tile is None
    True
    """
    return min(candidates(problem, request), key=lambda choice: cost(problem, choice))


def candidates(problem: Problem, request: Request) -> Iterator[Choice]:
    """Yield every way to compute the problem that satisfies the request."""
    layer = problem.layer
    rest = (request.edge, request.border, request.threads)
    if request.algorithm in ("auto", "direct", "im2col"):
        algorithm = "direct" if request.algorithm == "auto" else request.algorithm
        yield Choice(algorithm, None, (None, None), *rest)
        if request.algorithm != "auto" or not _worth_trying(layer):
            return
    algorithm = "mcmr" if request.algorithm == "auto" else request.algorithm
    heights = (1,) if algorithm == "winograd1d" else _tiles(request.tile[0], layer.kernel[0])
    for m_h in heights:
        for m_w in _tiles(request.tile[1], layer.kernel[1]):
            yield Choice(algorithm, (m_h, m_w), request.points, *rest)


def cost(problem: Problem, choice: Choice) -> float:
    """Return the work of a choice in multiply-adds.

    Those of the products; of the transforms, where a tile of n x n takes about n per number along
    either axis; and the wait for the filters, which every block of tiles reads again unless they
    stay in the cache.
    """
    layer = problem.layer
    if choice.tile is None:
        return multiplications(problem, choice)
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
    taps = (1 if choice.algorithm == "winograd1d" else layer.kernel[0], layer.kernel[1])
    points = sum(m + r - 1 for m, r in zip(choice.tile, taps) if r > 1)
    share = 1 + points * (1 / channels + 1 / filters)
    if products(layer.kernel, choice) * channels * filters * layer.itemsize > _BLOCK_BYTES:
        rows, cols, _ = blocking(problem, choice, rectangles(problem, choice)[0])
        share += _STREAM / (rows * cols)
    inside = _tile_products(problem, choice)
    return inside * share + multiplications(problem, choice) - inside


def multiplications(problem: Problem, choice: Choice) -> int:
    """Return the element-wise multiplications of one call, over the batch, tile waste included.

    Winograd: products of a tile · tiles · (C/groups) · M, and KH times that for `winograd1d`,
    whose tiles are rows; outputs computed directly: (C/groups) · M · KH · KW each.
    """
    if choice.tile is None:
        return problem.direct_multiplications
    outputs = problem.out_height * problem.out_width
    rim = outputs - rectangles(problem, choice)[0].size
    return _tile_products(problem, choice) + problem.direct_multiplications // outputs * rim


def rectangles(problem: Problem, choice: Choice) -> tuple[Rectangle, ...]:
    """Return the outputs that the chosen algorithm computes, then those left to `direct`.

    With edge="direct" the Winograd part ends at the last full tile; below and to the right of it
    remain at most two strips.
    """
    height, width = problem.out_height, problem.out_width
    if choice.tile is None or choice.edge == "discard":
        return (Rectangle(0, height, 0, width),)
    rows = height - height % choice.tile[0]
    cols = width - width % choice.tile[1]
    if not rows or not cols:
        return Rectangle(0, 0, 0, 0), Rectangle(0, height, 0, width)
    rim = (Rectangle(rows, height, 0, width), Rectangle(0, rows, cols, width))
    return (Rectangle(0, rows, 0, cols), *(part for part in rim if part.size))


def products(kernel: Axes, choice: Choice) -> int:
    """Return the multiplications of one tile, per channel and filter."""
    if choice.algorithm == "winograd1d":
        return kernel[0] * (choice.tile[1] + kernel[1] - 1)
    return (choice.tile[0] + kernel[0] - 1) * (choice.tile[1] + kernel[1] - 1)


def blocking(problem: Problem, choice: Choice, part: Rectangle) -> tuple[int, int, int]:
    """Return (rows, columns, split) of the work items that ``part`` is cut into.

    Rows and columns count tiles, or output pixels without tiles. A block's data should stay in the
    second-level cache and every thread should get some. Where so little would be left to each
    thread that its products get too flat, split is 1: the threads share the channels and filters
    of every block instead.
    """
    layer = problem.layer
    m_h, m_w = choice.tile or (1, 1)
    rows = -(-(part.row_end - part.row_begin) // m_h)
    cols = -(-(part.col_end - part.col_begin) // m_w)
    share = max(1, -(-rows * cols * problem.batch * layer.groups // choice.threads))
    many_filters = layer.filters // layer.groups >= _FILTERS * choice.threads
    split = int(choice.threads > 1 and share < _FLAT and many_filters)
    most = rows * cols if split else share

    def fits(block_rows: int, block_cols: int) -> bool:
        count = block_rows * block_cols
        size = _footprint(layer, choice, block_rows, block_cols) * layer.itemsize
        return count <= most and size <= (_FLAT_BYTES if count <= _FLAT else _BLOCK_BYTES)

    block_cols = _largest(cols, lambda count: fits(1, count))
    block_rows = _largest(rows, lambda count: fits(count, block_cols))
    return block_rows, block_cols, split


def _largest(count: int, fits) -> int:
    """The largest block that fits, at least 1, once ``count`` is cut into blocks of equal size."""
    low, high = 1, count  # by bisection
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return -(-count // -(-count // low))


def _footprint(layer: Layer, choice: Choice, rows: int, cols: int) -> int:
    """Numbers that a block of rows x cols tiles or pixels keeps at hand, filters apart."""
    channels, filters = (-(-count // layer.groups) for count in (layer.channels, layer.filters))
    if choice.tile is None:
        in_rows, in_cols = (
            (count - 1) * step + reach
            for count, step, reach in zip((rows, cols), layer.stride, layer.reach)
        )
        patches = layer.kernel[0] * layer.kernel[1] if choice.algorithm == "im2col" else 0
        return channels * (in_rows * in_cols + patches * rows * cols) + _FILTERS * rows * cols
    if choice.algorithm == "winograd1d":
        positions = choice.tile[1] + layer.kernel[1] - 1
        lines = rows + layer.kernel[0] - 1
        return positions * cols * (channels * lines + _FILTERS * rows)
    positions = products(layer.kernel, choice)
    if choice.algorithm == "mcmr":
        return positions * rows * cols * (channels + _FILTERS)
    return positions * rows * cols * (_CHANNELS + filters)


def _tile_products(problem: Problem, choice: Choice) -> int:
    layer, part = problem.layer, rectangles(problem, choice)[0]
    tiles = -(-part.row_end // choice.tile[0]) * -(-part.col_end // choice.tile[1])
    pairs = layer.filters * layer.channels // layer.groups
    return problem.batch * tiles * products(layer.kernel, choice) * pairs


def _worth_trying(layer: Layer) -> bool:
    """Whether `auto` considers Winograd at all: it applies, is shipped, and fills the vectors."""
    return (
        layer.stride == (1, 1)
        and layer.dilation == (1, 1)
        and max(layer.kernel) > 1
        and all(taps == 1 or f"f2_{taps}" in catalog() for taps in layer.kernel)
        and min(layer.channels, layer.filters) // layer.groups >= _CHANNELS
    )


def _tiles(given: int | None, taps: int) -> tuple[int, ...]:
    """The tile sizes to try along one axis."""
    if given is not None:
        return (given,)
    if taps == 1:
        return (1,)  # nothing to save along this axis, and F(1,1) is exact
    few = tuple(m for m in _TILES if m + taps - 1 <= _POINTS and f"f{m}_{taps}" in catalog())
    return few or (min(2, _MOST_POINTS - taps + 1),)


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
    return item is None or isinstance(item, (tuple, list)) or (isinstance(item, str) and "," in item)


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
        if tile is not None and taps > 1 and tile + taps - 1 > _MOST_POINTS:
            raise InvalidValue(
                f"tile: got {tile} for the {taps} taps along the {axis}; allowed: at most "
                f"{_MOST_POINTS - taps + 1} without points="
            )
        if tile is None and taps > _MOST_POINTS:
            raise Unsupported(
                f"algorithm: got a kernel {axis} of {taps}; allowed: at most {_MOST_POINTS} without "
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
