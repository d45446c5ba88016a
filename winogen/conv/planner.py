"""How a problem is computed: which algorithm, tile and blocking, out of those that apply.

`candidates` lists every way that satisfies a request; for each, `blocking` cuts the work so that the
roofline model predicts the least time; `choose` takes the fastest. Nothing here touches arrays or
compiles, so that the alternatives of a plan cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, product, takewhile

from winogen.codegen import kernels, transforms
from winogen.codegen.targets import Target
from winogen.conv import accuracy, machine, model
from winogen.conv.choice import Choice, Rectangle, axes, rectangles
from winogen.conv.machine import Machine
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import MOST_POINTS, Request
from winogen.conv.work import Work, blocks
from winogen.errors import InvalidValue

# Tiles tried when none is given, as far as the catalog has them.
_POINTS = 9
# The predicted error that is tolerated where nothing is asked for. The largest error of a whole
# layer may be half as large again as the prediction, and 1e-5 is promised.
_TOLERANCE = 6.5e-6
# The largest error of direct convolution in frameworks, measured, over what one chain of additions
# is expected to have: 1.6 to 3.3 for 27 to 4608 terms.
_USUAL = 2.2
# How much longer a call may be predicted to take than the fastest, if that makes it as accurate as
# that: a tenth in truth, for accurate tiles have more positions, which are predicted 3 % too slow.
_PATIENCE = 1.13
# The workspace of one thread, where nothing else is asked for.
_WORKSPACE = 4 << 20
# Larger tiles of few channels in NHWC are less accurate and, for all that they save, not faster.
_LARGEST_OF_FEW = 4
ALTERNATIVES = 8  # candidates that a plan is chosen from, and tells of
# Tiles (or pixels) that a block should have, at most: between them the model decides.
_BLOCK_SIZES = (4, 9, 14, 16, 28, 42, 56, 84, 112, 224)
_PIXEL_BLOCK_SIZES = (*_BLOCK_SIZES, 448, 1792)


def choose(problem: Problem, request: Request, target: Target) -> Choice:
    """Return the candidate that is predicted to be fastest; at equal times the first.

    Raises InvalidValue if no candidate keeps to the request's ``workspace_limit``.

    >>> from winogen.codegen.targets import TARGETS
    >>> layer = Layer.of((64, 64, 3, 3), "float32", padding=1)
    >>> choose(layer.problem((1, 64, 56, 56)), Request(), TARGETS["avx512"]).algorithm
    'mcmr'
    """
    return ranked(problem, request, target, ALTERNATIVES)[0][1]


def ranked(
    problem: Problem, request: Request, target: Target, most: int | None = None
) -> list[tuple[float, Choice]]:
    """Return (predicted seconds, candidate) of the ``most`` fastest that keep to the request.

    The chosen one is first, the others follow by time. It is the fastest that is as accurate as
    direct convolution usually is, unless that takes a tenth longer than the fastest of all.

    Raises InvalidValue if nothing keeps to the ``workspace_limit`` or the ``tolerance``.
    """
    layer, limit = problem.layer, request.workspace_limit
    pairs = sorted(
        (
            (seconds(problem, choice, target, limit), choice)
            for choice in _fitting(problem, request, target)
        ),
        key=lambda pair: pair[0],
    )
    # A tile or points that the user gave are taken as they are. Errors are only predicted as far
    # as they are needed: that takes longer than the times.
    given = any(request.sets) or None not in request.tile
    tolerance = _TOLERANCE if request.tolerance is None else request.tolerance
    careful = (pair for pair in pairs if given or predicted_error(layer, pair[1]) <= tolerance)
    found = list(islice(careful, most))
    if not found:
        most_careful = min(pairs, key=lambda pair: predicted_error(layer, pair[1]))
        if request.tolerance is not None:
            raise InvalidValue(
                f"tolerance: got {tolerance:g}; allowed: at least "
                f"{predicted_error(layer, most_careful[1]):.2g}, the least error that is predicted "
                f'for this layer with algorithm "{request.algorithm}"'
            )
        return [most_careful]
    chosen = found[0]
    if not given:
        terms = layer.channels // layer.groups * layer.kernel[0] * layer.kernel[1]
        usual = _USUAL * accuracy.direct_error(layer.dtype, terms)
        close = takewhile(lambda pair: pair[0] <= _PATIENCE * chosen[0], pairs)
        accurate = (
            pair for pair in close if predicted_error(layer, pair[1]) <= min(usual, tolerance)
        )
        chosen = next(accurate, chosen)
    return [chosen, *(pair for pair in found if pair is not chosen)][:most]


def predicted_error(layer: Layer, choice: Choice) -> float:
    """Return the expected max |y - y_exact| / max |y_exact| on normal data."""
    channels = layer.channels // layer.groups
    return accuracy.predicted_error(
        choice.algorithm, layer.dtype, channels, layer.kernel, axes(layer, choice)
    )


def _fitting(problem: Problem, request: Request, target: Target) -> list[Choice]:
    """The candidates whose workspace keeps to the limit."""
    limit = request.workspace_limit
    found = list(candidates(problem.layer, request))
    if limit is None:
        return found
    needed = [workspace_bytes(problem, choice, target, limit) for choice in found]
    if min(needed) > limit:
        raise InvalidValue(
            f"workspace_limit: got {limit}; allowed: at least {min(needed)} bytes for this problem "
            "and algorithm"
        )
    return [choice for choice, size in zip(found, needed) if size <= limit]


def candidates(layer: Layer, request: Request) -> Iterator[Choice]:
    """Yield every way to compute the layer that the request leaves open."""
    rest = (request.edge, request.border, request.threads)
    transformed = (request.moduli, request.order)
    if request.algorithm in ("auto", "direct", "im2col"):
        algorithm = "direct" if request.algorithm == "auto" else request.algorithm
        yield Choice(algorithm, None, (None, None), *rest)
        if request.algorithm != "auto":
            return
    for algorithm in _winograd(layer) if request.algorithm == "auto" else (request.algorithm,):
        small = (
            algorithm == "winograd2d" and _filters_in_lanes(layer) and request.tile == (None, None)
        )
        # winograd1d leaves the height alone.
        heights = ((1, None),) if algorithm == "winograd1d" else _ways(request, 0, layer.kernel[0])
        for (m_h, points_h), (m_w, points_w) in product(
            heights, _ways(request, 1, layer.kernel[1])
        ):
            if not small or max(m_h, m_w) <= _LARGEST_OF_FEW:
                yield Choice(algorithm, (m_h, m_w), (points_h, points_w), *rest, *transformed)


def seconds(problem: Problem, choice: Choice, target: Target, limit: int | None = None) -> float:
    """Return the predicted time of one call, all its kernels together."""
    total = 0.0
    for part, way in parts(problem, choice):
        work = blocking(problem, way, part, target, limit)
        total += model.predict(work, target, machine.current()).seconds
    return total


def workspace_bytes(
    problem: Problem, choice: Choice, target: Target, limit: int | None = None
) -> int:
    """Return the workspace of one call."""
    return max(
        (
            blocking(problem, way, part, target, limit).workspace_bytes(target)
            for part, way in parts(problem, choice)
        ),
        default=0,
    )


def parts(problem: Problem, choice: Choice) -> list[tuple[Rectangle, Choice]]:
    """Return the kernel calls: what each computes, and how; the rim of Winograd tiles is direct."""
    inner, *rim = rectangles(problem, choice)
    direct = Choice("direct", None, (None, None), "discard", "unswitch", choice.threads)
    return [
        (part, way)
        for part, way in ((inner, choice), *((part, direct) for part in rim))
        if part.size
    ]


def blocking(
    problem: Problem, choice: Choice, part: Rectangle, target: Target, limit: int | None = None
) -> Work:
    """Return the kernel call for ``part``, cut into the blocks that are predicted to be fastest.

    Blocks are rectangles of tiles (or output pixels), cut evenly. With several threads both ways of
    sharing are tried: whole blocks for each, or the channels and filters of every block among all.
    """
    return _blocking(problem, choice, part, target, limit, machine.current())


@lru_cache(maxsize=4096)
def _blocking(
    problem: Problem,
    choice: Choice,
    part: Rectangle,
    target: Target,
    limit: int | None,
    known: Machine,
) -> Work:
    along = axes(problem.layer, choice)
    tiles = tuple(
        blocks(size, t.m if t else 1)
        for size, t in zip((part.row_end - part.row_begin, part.col_end - part.col_begin), along)
    )
    if limit is None:
        limit = _WORKSPACE * choice.threads
    sizes = _BLOCK_SIZES if choice.tile else _PIXEL_BLOCK_SIZES
    shapes = dict.fromkeys(_shape(tiles, size) for size in sizes)
    works = [
        _work(problem, choice, part, along, shape, split)
        for split in ((0, 1) if choice.threads > 1 else (0,))
        for shape in shapes
    ]
    sizes = [work.workspace_bytes(target) for work in works]
    fitting = [work for work, size in zip(works, sizes) if size <= max(limit, min(sizes))]
    return min(fitting, key=lambda work: model.predict(work, target, known).cycles)


def _shape(tiles: tuple[int, int], size: int) -> tuple[int, int]:
    """Rows and columns of even blocks of about ``size``: whole rows of tiles if they are that short."""
    rows, cols = (max(1, count) for count in tiles)
    wide = blocks(cols, blocks(cols, min(cols, size)))
    high = max(1, min(rows, size // wide))
    return blocks(rows, blocks(rows, high)), wide


def _work(problem: Problem, choice: Choice, part: Rectangle, along, shape, split: int) -> Work:
    layer = problem.layer
    return Work(
        algorithm=choice.algorithm,
        layout=layer.layout,
        itemsize=layer.itemsize,
        batch=problem.batch,
        groups=layer.groups,
        channels=layer.channels // layer.groups,
        filters=layer.filters // layer.groups,
        out=(part.row_end - part.row_begin, part.col_end - part.col_begin),
        kernel=layer.kernel,
        stride=layer.stride,
        dilation=layer.dilation,
        transforms=along,
        border=choice.border if choice.tile else "unswitch",
        block=shape,
        split=split,
        threads=choice.threads,
    )


def _winograd(layer: Layer) -> tuple[str, ...]:
    """The Winograd algorithms that `auto` considers: that apply, are shipped, and fill the vectors."""
    if not (
        layer.stride == (1, 1)
        and layer.dilation == (1, 1)
        and max(layer.kernel) > 1
        and all(taps == 1 or f"f2_{taps}" in transforms.catalog() for taps in layer.kernel)
    ):
        return ()
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
    # Groups of few channels: only tiles fill the lanes.
    few = channels <= kernels.FEW and filters >= 8
    return ("winograd2d",) * few + ("mcmr", "winograd1d") * (min(channels, filters) >= 4)


def _filters_in_lanes(layer: Layer) -> bool:
    """Whether `winograd2d` fills the lanes with filters."""
    channels = layer.channels // layer.groups
    depthwise = channels == 1 and layer.filters == layer.groups
    return layer.layout == "NHWC" and channels <= kernels.FEW and not depthwise


def _ways(request: Request, axis: int, taps: int) -> list[tuple]:
    """The tile sizes to try along one axis, each with its points; None: the default points.

    Where the request leaves both open, transforms with the modulus x^2 + 1 take part: one more
    product, and a fraction of the error.
    """
    given, points = request.tile[axis], request.points[axis]
    if given is not None:
        return [(given, points)]
    if taps == 1:
        return [(1, points)]  # nothing to save along this axis, and F(1,1) is exact
    shipped = transforms.catalog()
    few = [(m, points) for m in range(2, _POINTS - taps + 2) if f"f{m}_{taps}" in shipped]
    if points is None:
        few += [
            (entry["m"], name)
            for name, entry in shipped.items()
            if name.endswith(f"_{taps}_gaussian")
        ]
    return few or [(min(2, MOST_POINTS - taps + 1), points)]
