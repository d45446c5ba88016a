"""Kernel calls to test kernels with: real layers, seen by the variant that computes them.

`spread` goes through layers that together reach every variant of the register: a new variant that
none of them reaches fails the tests, and wants a line in the lists below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product

from winogen import kernels
from winogen.conv import Layer
from winogen.conv.choice import Choice, axes, rectangles
from winogen.conv.cuts import work_of
from winogen.conv.options import Options
from winogen.conv.problem import Seams
from winogen.conv.transposed_problem import TransposedLayer
from winogen.errors import InvalidValue
from winogen.kernels import Variant, Work
from winogen.kernels.spec import BORDERS, KernelSpec
from winogen.kernels.variant import is_tiled
from winogen.records import PRODUCT_TYPES, Precision, Target

LAYOUTS = ("NCHW", "NHWC")
MODES = ("zeros", "reflect", "replicate", "circular")
ACTIVATIONS = (None, "relu", ("leaky_relu", 0.25), ("prelu", 0.5))

# Channels of the arrays beside those of the input and output; of those that are added, one more.
SLICES = ((0, 0), (0, 0), (3, 0), (0, 0), (0, 16), (0, 0), (5, 7))
ADDED = ((0, 0), (0, 0), (1, 0), (0, 0), (0, 1), (3, 6), (0, 0), (0, 0))

# Of Winograd kernels: m != r - 1 along both axes, and the axes differ; widths of tiles that are a
# power of two and not, for those are interleaved.
KERNEL, TILES = (3, 2), ((3, 4), (4, 3))

# Groups, channels and filters of a group: below, at and above the lanes of vectors and their half.
COUNTS = (
    *((1, 1, 1), (1, 17, 35), (2, 5, 3), (19, 1, 1), (1, 32, 32), (1, 3, 32), (3, 1, 9)),
    *((32, 1, 1), (1, 4, 16), (2, 2, 8), (16, 1, 1), (1, 8, 17), (1, 1, 32), (2, 9, 20)),
    *((2, 13, 1), (1, 40, 3), (4, 4, 4)),
)
# Height and width; padding at the top, bottom, left and right.
AREAS = (
    *((3, 3, 0, 0, 0, 0), (5, 9, 1, 2, 0, 1), (7, 11, 2, 2, 2, 2), (4, 20, 0, 1, 3, 0)),
    *((9, 5, 3, 0, 1, 2), (1, 160, 0, 0, 0, 0), (1, 47, 0, 0, 0, 0), (11, 40, 1, 1, 2, 2)),
    *((4, 8, 0, 0, 0, 0), (6, 67, 1, 1, 0, 1)),
)
# Kernel, strides and dilations, of algorithms that take any.
SHAPES = (
    *((3, 2, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1), (3, 3, 2, 3, 1, 1), (2, 3, 1, 2, 2, 1)),
    *((1, 3, 3, 1, 1, 2), (3, 3, 1, 1, 1, 1), (5, 5, 1, 2, 1, 1), (3, 3, 2, 2, 1, 1)),
    *((5, 5, 2, 1, 1, 1), (1, 1, 2, 2, 1, 1), (2, 3, 2, 4, 1, 1)),
)


def work_for(*layer, **options) -> Work:
    """Return the kernel call of a layer as its variant sees it, in one block: see `call_for`."""
    return seen(call_for(*layer, **options))


def seen(call: Work) -> Work:
    """Return a call as the variant sees it that computes it, in one block."""
    work = kernels.assign(call)
    tiles = [-(-count // (t.m if t else 1)) for count, t in zip(work.out, work.transforms)]
    return replace(work, block=(tiles[0], tiles[1]))


def call_for(
    weight: tuple[int, int, int, int],
    shape: tuple[int, int, int],
    algorithm: str,
    target: Target,
    *,
    dtype: str = "float32",
    tile: tuple[int, int] | None = None,
    border: str = "unswitch",
    threads: int = 1,
    inside: bool = False,
    slices: tuple[int, int] = (0, 0),
    added: tuple[int, int] = (0, 0),
    products: str | None = None,
    packed: str | None = None,
    **options,
) -> Work:
    """Return the kernel call of a layer, which no variant was assigned to yet.

    ``slices``: channels of the arrays beside those of the input and output. ``added``: channels of
    the arrays that the epilogue adds. ``products``: what is multiplied, if not the arrays' numbers;
    ``packed``: what filters are packed in.

    ``shape``: batch, height and width. ``inside``: leave out some outputs at the rim, where there
    are any to spare. Raises InvalidValue for a layer that does not exist.
    """
    layer = Layer.of(weight, dtype, **options)
    batch, height, width = shape
    image = (height, width, layer.channels) if layer.layout == "NHWC" else (
        layer.channels, height, width)  # fmt: skip
    problem = layer.problem((batch, *image))
    problem = problem.sewn(Seams(*(count + more for count, more in zip(problem.seams, slices)),
                                 *added))  # fmt: skip
    precision = Precision.of(dtype, packed, products)
    choice = Choice(algorithm, tile, border=border, threads=threads, precision=precision)
    (part,) = rectangles(problem, choice)
    if inside:
        _, row_end, _, col_end = part.bounds
        rows = (1, row_end - 1) if row_end > 3 else (0, row_end)
        cols = (2, col_end - 1) if col_end > 3 else (0, col_end)
        part = replace(
            part, **dict(zip(("row_begin", "row_end", "col_begin", "col_end"), rows + cols))
        )
    return work_of(problem, choice, target, part, axes(layer, choice))


def of_phases(
    layout: str, target: Target, dtype: str = "float32", packed: str | None = None
) -> tuple[Work, Work]:
    """Return calls of a transposed layer as their variants see them: of all phases, by tiles, and
    of one, without.
    """
    asked = Options(stride=2, padding=1, layout=layout)
    problem = TransposedLayer.of((8, 24, 4, 3), dtype, asked, 0).problem(
        (1, 8, 7, 9) if layout == "NCHW" else (1, 7, 9, 8)
    )
    precision = Precision.of(dtype, packed)
    lanes, seams = precision.lanes(target.vector_bytes), Seams(8, 24, 25, 24)
    ways = (
        (problem.together(seams, lanes)[0].problem, Choice("mcmr", (2, 2), precision=precision)),
        (problem.apart(seams)[0].problem, Choice("direct", precision=precision)),
    )
    all_, one = (
        seen(work_of(part, way, target, transforms=axes(part.layer, way))) for part, way in ways
    )
    return all_, one


# Kernels that are made for one layer each: of so many layers of the spread.
ONE_EACH = 8


@lru_cache(maxsize=256)
def spread(*kind) -> tuple[Work, ...]:
    """Return kernel calls of an algorithm as variants see them: see `spread_of_calls`."""
    return tuple(map(seen, spread_of_calls(*kind)))


@lru_cache(maxsize=256)
def spread_of_calls(
    algorithm: str,
    layout: str,
    dtype: str,
    target: Target,
    border: str,
    tile: tuple[int, int],
    products: str | None = None,
    packed: str | None = None,
) -> tuple[Work, ...]:
    """Return kernel calls of an algorithm: layers of every kind, of all its variants."""
    found = []
    tiled = is_tiled(algorithm)
    if tiled and not all(kernels.general(algorithm).along):
        tile = (1, tile[1])
    shapes = ((*KERNEL, 1, 1, 1, 1),) if tiled else SHAPES
    for index, (count, shape, area) in enumerate(product(COUNTS, shapes, AREAS)):
        groups, channels, outputs = count
        options = {
            "padding": ((area[2], area[3]), (area[4], area[5])),
            "padding_mode": MODES[(index + index // len(AREAS)) % len(MODES)],
            "stride": shape[2:4],
            "dilation": shape[4:6],
            "activation": ACTIVATIONS[index % len(ACTIVATIONS)],
        }
        try:
            call = call_for(
                (groups * outputs, channels, *shape[:2]),
                (1 + index % 5 // 3, *area[:2]),
                algorithm,
                target,
                dtype=dtype,
                border=border,
                tile=tile if tiled else None,
                threads=1 + index % 2,
                inside=index % 3 == 1,
                layout=layout,
                groups=groups,
                products=products,
                packed=packed,
                slices=SLICES[index % len(SLICES)],
                added=tuple(
                    min(1, more) * (groups * outputs + more - 1)
                    for more in ADDED[index % len(ADDED)]
                ),
                **options,
            )
        except InvalidValue:  # the kernel or its padding does not fit
            continue
        found.append(call)
    return tuple(found)


def products_of(variant: Variant, dtype: str) -> str | None:
    """Return what a variant multiplies, if not numbers of the arrays."""
    kinds = (None, *PRODUCT_TYPES)
    return next(
        (kind for kind in kinds if variant.computes(Precision.of(dtype, products=kind))), None
    )


def computes(variant: Variant, dtype: str, target: Target) -> bool:
    """Whether there are kernels of a variant for such arrays and a target."""
    precision = Precision.of(dtype, products=products_of(variant, dtype))
    return variant.computes(precision) and variant.runs_on(target)


def reaching(
    variant: Variant,
    layout: str,
    dtype: str,
    target: Target,
    border: str = "unswitch",
    tile: tuple[int, int] = TILES[0],
) -> dict[KernelSpec, list[Work]]:
    """Return the kernels of a variant, and the calls of the spread that each computes."""
    calls = defaultdict(list)
    if not computes(variant, dtype, target):
        return {}
    works = spread(
        variant.algorithm, layout, dtype, target, border, tile, products_of(variant, dtype)
    )
    for work in works[:: len(works) // ONE_EACH] if variant.one_layer else works:
        if work.variant == variant.name:
            calls[KernelSpec.of(work)].append(work)
    return dict(calls)


def borders(variant: Variant) -> tuple[str, ...]:
    """Return the ways to make tiles at the border that a variant knows."""
    return BORDERS if "columns" in variant.buffers_used else BORDERS[:1]


# Rows and columns of a block, and whether threads share it.
BLOCKS = (((1, 1), 0), ((2, 3), 0), ((3, 50), 1), ((50, 50), 0), ((2, 2), 1))


def cuts(work: Work) -> Iterator[Work]:
    """Yield the same call in blocks of every size."""
    spans = named(work).spans_images
    for index, (block, shared) in enumerate(BLOCKS):
        images = 1 + index % 2 if spans else 1
        yield replace(work, block=block, split=shared if work.threads > 1 else 0, images=images)


def named(work: Work) -> Variant:
    """Return the variant that computes a call."""
    return kernels.named(work.variant)
