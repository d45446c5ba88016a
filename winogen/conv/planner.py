"""How a problem is computed: which algorithm, tile and blocking, out of those that apply.

`candidates` lists every way that satisfies a request; each is cut into the blocks that the roofline
model predicts to be fastest; `choose` takes the fastest of all. Nothing here touches data or
compiles, and the model looks at all tiles and blocks of an algorithm at once, so that planning a
layer takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product, takewhile

import numpy as np

from winogen.codegen import kernels, transforms
from winogen.codegen.targets import Target
from winogen.conv import accuracy, model
from winogen.conv.choice import Choice, Rectangle, axes, rectangles
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import MOST_POINTS, Request
from winogen.conv.work import Stack, Work, blocks
from winogen.errors import InvalidValue
from winogen.toolchain import machine

# Tiles tried when none is given, as far as the catalog has them.
_POINTS = 9
# The predicted error that is tolerated where nothing is asked for. The largest error of a whole
# layer may be half as large again as the prediction, and 1e-5 is promised.
_TOLERANCE = 6.5e-6
# The largest error of direct convolution in frameworks, measured, over what one chain of additions
# is expected to have: 1.6 to 3.3 for 27 to 4608 terms, 2.2 in the middle. Taken a little lower, for
# what is compared with it is a prediction too.
_USUAL = 1.9
# How much longer a call may take than the fastest, if that makes it as accurate as that.
PATIENCE = 1.18
# The workspace of one thread, where nothing else is asked for.
_WORKSPACE = 4 << 20
# Larger tiles of few channels are less accurate and, for all that they save, not faster.
_LARGEST_OF_FEW = 4
ALTERNATIVES = 8  # candidates that a plan is chosen from, and tells of
# Tiles (or pixels) that a block should have, at most: between them the model decides.
_BLOCK_SIZES = np.array([4, 9, 14, 16, 28, 42, 56, 84, 112, 224])
_PIXEL_BLOCK_SIZES = np.array([*_BLOCK_SIZES, 448, 1792])


def choose(problem: Problem, request: Request, target: Target) -> Choice:
    """Return the candidate that runs: see `ranked`.

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

    The chosen one is first, the others follow by time. It is the fastest within the ``tolerance``
    of the request; without one, the fastest that is as accurate as direct convolution usually is,
    unless that takes 18 % longer than the fastest within the tolerance that is then taken.

    Fastest means on one thread, whatever the threads of the request, so that the arithmetic and with
    it every bit of the result is the same for any number of threads: they only change the blocks. A
    ``workspace_limit``, which more threads need more memory to keep, may still change the candidates.

    Raises InvalidValue if nothing keeps to the ``workspace_limit`` or the ``tolerance``.
    """
    layer, limit = problem.layer, request.workspace_limit
    pairs = sorted(_fitting(problem, request, target), key=lambda pair: pair[0])
    # A tile or points that the user gave are taken as they are. Errors are only predicted as far
    # as they are needed: that takes longer than the times.
    given = any(request.sets) or None not in request.tile
    tolerance = _TOLERANCE if request.tolerance is None else request.tolerance
    careful = (
        pair for pair in pairs if given or predicted_error(layer, pair[1], target) <= tolerance
    )
    found = list(islice(careful, most))
    if not found:
        most_careful = min(pairs, key=lambda pair: predicted_error(layer, pair[1], target))
        if request.tolerance is not None:
            least = predicted_error(layer, most_careful[1], target)
            raise InvalidValue(
                f"tolerance: got {tolerance:g}; allowed: at least {least:.2g}, the least error that "
                f'is predicted for this layer with algorithm "{request.algorithm}"'
            )
        return _timed(problem, [most_careful], target, limit)
    chosen = found[0]
    if not given and request.tolerance is None:
        least = min(usual_error(layer), tolerance)
        chosen = preferred(
            chosen, pairs, lambda way: predicted_error(layer, way, target) <= least, PATIENCE
        )
    others = (pair for pair in found if pair is not chosen)
    return _timed(problem, [chosen, *others][:most], target, limit)


def _timed(problem: Problem, pairs: list, target: Target, limit: int | None) -> list:
    """The same choices with the seconds they take on all their threads: the first, then by time."""
    choices = [choice for _, choice in pairs]
    if choices[0].threads > 1:
        pairs = list(zip(_costs(problem, choices, target, limit)[0].tolist(), choices))
    return pairs[:1] + sorted(pairs[1:], key=lambda pair: pair[0])


def preferred(fastest: tuple, pairs: Iterable[tuple], accurate: Callable, patience: float) -> tuple:
    """Return the fastest of ``pairs`` that is accurate, unless it takes too long.

    Pairs are (seconds, way), by seconds; ``fastest`` is the first of those that are tolerable, and
    stands where none is accurate within ``patience`` times its seconds.

    >>> ways = [(1.0, "coarse"), (1.1, "fine"), (1.2, "finer")]
    >>> [preferred(ways[0], ways, lambda way: "fine" in way, patience) for patience in (1.05, 1.15)]
    [(1.0, 'coarse'), (1.1, 'fine')]
    """
    close = takewhile(lambda pair: pair[0] <= patience * fastest[0], pairs)
    return next((pair for pair in close if accurate(pair[1])), fastest)


def usual_error(layer: Layer) -> float:
    """Return the error that direct convolution in frameworks is expected to have."""
    terms = layer.channels // layer.groups * layer.kernel[0] * layer.kernel[1]
    return _USUAL * accuracy.direct_error(layer.dtype, terms)


def predicted_error(layer: Layer, choice: Choice, target: Target) -> float:
    """Return the expected max |y - y_exact| / max |y_exact| on normal data."""
    channels = layer.channels // layer.groups
    return accuracy.predicted_error(
        choice.algorithm, layer.dtype, channels, layer.kernel, axes(layer, choice), target
    )


def _fitting(problem: Problem, request: Request, target: Target) -> list[tuple[float, Choice]]:
    """The candidates whose workspace keeps to the limit, with the seconds of each on one thread."""
    limit = request.workspace_limit
    found = list(candidates(problem.layer, request))
    seconds, needed = _costs(problem, found, target, limit)
    if request.threads > 1:
        alone = list(candidates(problem.layer, replace(request, threads=1)))
        seconds, _ = _costs(problem, alone, target, limit)
    if limit is not None and needed.min() > limit:
        raise InvalidValue(
            f"workspace_limit: got {limit}; allowed: at least {needed.min()} bytes for this problem "
            "and algorithm"
        )
    return [
        (time, choice)
        for time, size, choice in zip(seconds.tolist(), needed.tolist(), found)
        if limit is None or size <= limit
    ]


def _costs(
    problem: Problem, choices: list[Choice], target: Target, limit: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The predicted seconds of a call by each choice, all its kernels together, and its workspace."""
    seconds, workspace = np.zeros(len(choices)), np.zeros(len(choices), np.int64)
    alike: dict[tuple, list] = {}  # what differs in tiles only -> (index, choice)
    for index, choice in enumerate(choices):
        for part, way in parts(problem, choice):
            alike.setdefault((way.algorithm, part), []).append((index, way))
    for (_, part), members in alike.items():
        indices, ways = map(list, zip(*members))
        _, size, cycles = _cuts(problem, ways, part, target, limit)
        best = cycles.argmin(axis=1)[:, None]
        seconds[indices] += cycles.min(axis=1) / (machine.current().clock_ghz * 1e9)
        needed = np.take_along_axis(size, best, axis=1)[:, 0]
        workspace[indices] = np.maximum(workspace[indices], needed)
    return seconds, workspace


def candidates(layer: Layer, request: Request) -> Iterator[Choice]:
    """Yield every way to compute the layer that the request leaves open."""
    rest = (request.edge, request.border, request.threads)
    transformed = (request.moduli, request.order)
    few = kernels.has_few_channels(layer.channels // layer.groups, layer.filters // layer.groups)
    if request.algorithm in ("auto", "direct", "im2col"):
        algorithm = "direct" if request.algorithm == "auto" else request.algorithm
        yield Choice(algorithm, None, (None, None), *rest)
        if request.algorithm != "auto":
            return
    for algorithm in _winograd(layer) if request.algorithm == "auto" else (request.algorithm,):
        small = algorithm == "winograd2d" and few and request.tile == (None, None)
        # winograd1d leaves the height alone.
        heights = ((1, None),) if algorithm == "winograd1d" else _ways(request, 0, layer.kernel[0])
        for (m_h, points_h), (m_w, points_w) in product(
            heights, _ways(request, 1, layer.kernel[1])
        ):
            if not small or max(m_h, m_w) <= _LARGEST_OF_FEW:
                yield Choice(algorithm, (m_h, m_w), (points_h, points_w), *rest, *transformed)


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
    work, _, cycles = _cuts(problem, (choice,), part, target, limit)
    best = cycles.argmin()
    cut = (*work.block, work.split, work.images)
    high, wide, split, images = (int(sizes.flat[best]) for sizes in cut)
    transforms = axes(problem.layer, choice)
    return replace(work, transforms=transforms, block=(high, wide), split=split, images=images)


def _cuts(
    problem: Problem, ways: Sequence[Choice], part: Rectangle, target: Target, limit: int | None
) -> tuple[Work, np.ndarray, np.ndarray]:
    """All ways to cut ``part`` into blocks, for choices that differ in their tiles only.

    Returns the kernel calls, their workspaces and predicted cycles, as arrays (choices, cuts); those
    that need more memory than they may take for ever.
    """
    layer, (choice, *_) = problem.layer, ways
    out = part.row_end - part.row_begin, part.col_end - part.col_begin
    stacks = tuple(map(Stack.of, zip(*(axes(layer, way) for way in ways))))
    tiles = tuple(
        np.maximum(1, blocks(size, stack.m if stack else 1)) for size, stack in zip(out, stacks)
    )
    sizes = _BLOCK_SIZES if choice.tile else _PIXEL_BLOCK_SIZES
    high, wide = _shapes(*tiles, sizes)
    images = np.ones_like(high)
    if choice.algorithm in kernels.REGIONS and problem.batch > 1:
        shared = _images(*tiles, high, wide, sizes, problem.batch)
        images = np.concatenate([images, shared], axis=1)
        high, wide = np.tile(high, 2), np.tile(wide, 2)
    ways_to_share = (0, 1) if choice.threads > 1 else (0,)
    *block, images = (np.tile(sizes, len(ways_to_share)) for sizes in (high, wide, images))
    work = Work(
        algorithm=choice.algorithm,
        layout=layer.layout,
        itemsize=layer.itemsize,
        batch=problem.batch,
        groups=layer.groups,
        channels=layer.channels // layer.groups,
        filters=layer.filters // layer.groups,
        out=out,
        kernel=layer.kernel,
        stride=layer.stride,
        dilation=layer.dilation,
        transforms=stacks,
        border=choice.border if choice.tile else "unswitch",
        block=tuple(block),
        in_row=part.in_row or (layer.pointwise and problem.height == 1),
        images=images,
        split=np.repeat(ways_to_share, high.shape[1])[None],
        threads=choice.threads,
    )
    size = work.workspace_bytes(target)
    if limit is None:
        limit = _WORKSPACE * choice.threads
    allowed = np.maximum(limit, size.min(axis=1, keepdims=True))
    cycles = model.predict(work, target, machine.current()).cycles
    return work, size, np.where(size <= allowed, cycles, np.inf)


def _shapes(rows, cols, sizes) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of even blocks of about ``sizes``: whole rows of tiles if they are that short."""
    wide = blocks(cols, blocks(cols, np.minimum(cols, sizes)))
    high = np.clip(sizes // wide, 1, rows)
    return np.atleast_2d(blocks(rows, blocks(rows, high)), wide)


def _images(rows, cols, high, wide, sizes, batch: int) -> np.ndarray:
    """How many images share a block: where one has too few tiles, so that filters are read less often."""
    whole = (high == rows) & (wide == cols)
    most = np.where(whole, np.clip(sizes // (high * wide), 1, batch), 1)
    return blocks(batch, blocks(batch, most))


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
