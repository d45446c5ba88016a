"""What the templates of convolutions know of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winogen.codegen.context import (
    RealKernelContext,
    TransformContext,
    distinct,
    framed,
    title_of,
    tuned,
    view,
)
from winogen.codegen.headers import FunctionContext, function
from winogen.codegen.transform import Transform
from winogen.kernels.spec import PADDING_MODES, KernelSpec
from winogen.kernels.tiles_family import most_at_once
from winogen.kernels.work import joint_products
from winogen.program import pairs
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix

# How many taps a filter has, by the number of its axes.
_TAPS = {2: "p->kernel_height * p->kernel_width"}
_TAPS[3] = f"p->kernel_depth * {_TAPS[2]}"


@dataclass(frozen=True, kw_only=True)
class Joint:
    """What joins complex products of both axes."""

    one: str  # what functions of one pair are named after, and below of two
    two: str
    one_g: Sequence[Any]  # how filters are joined
    two_g: Sequence[Any]
    functions: Sequence[FunctionContext]


@dataclass(frozen=True, kw_only=True)
class ConvolutionContext(RealKernelContext, templates=("kernels/*.c.j2", "shared/*.c.j2")):
    """What the templates of the variants know of a kernel."""

    border: str  # how tiles at the border are made
    modes: Mapping[str, int]  # modes of padding, and their numbers
    pixels: int  # of the register block, where that has pixels
    tiles: int  # that are transformed together
    pair: int  # panels that are computed together
    filter_taps: str  # how many taps a filter has, in C
    nest: Any  # loops, where the template is made of them
    # Transforms along height and width, each once; None, (): the kernel has none.
    H: TransformContext | None
    W: TransformContext | None
    transforms: Sequence[TransformContext]
    P: int  # positions of a transformed tile
    joint: Joint | None  # None: all products are real along each axis
    growth: float  # how much larger than filters transformed ones may be
    input_growth: float  # the same of inputs
    interleavings: Sequence[int]  # steps that interleave the halves of 2^k rows
    apart_in_rows: bool  # whether other outputs lie between those of a row
    # What variants say of themselves, as `Variant.context` does.
    patches: bool = False  # whether the strip holds patches
    dense: bool = False  # whether pixels of the strip lie without gaps
    in_place: int = False  # whether inputs are read where they lie
    # Sizes that are compiled in, as `Variant.fixed` says; 0: they are known at run time.
    channels: int = 0
    kernel: int = 0
    stride: int = 0
    taps_wide: int = 0
    stride_wide: int = 0
    together: int = 1  # channels of a group that meet the same inputs
    merged: int = 1  # neighbouring groups that are computed as one
    dilated: int = 0  # whether phases of dilated layers count as images
    spread: int = 0  # whether outputs are phases, which lie apart
    picks_late: int = 0  # whether strided inputs are picked after they are loaded
    tiles_at_once: int  # tiles that are transformed before they are rounded
    # Of products of integers and of float16.
    word: int = 0  # numbers of a word
    chunk: int = 0  # channels of it
    row_segment: int = 0  # pixels of a row that are made into words together
    scale_top: int = 14  # scales bring the largest numbers between 2^this and 2^(this + 1)


def text(spec: KernelSpec, prefix: str, call: Mapping[str, Any] | None, alone: bool = False) -> str:
    """Return the C of a kernel, see `winogen.codegen.render.render`."""
    variant = spec.entry
    file = (variant.folder or Path("kernels")) / variant.template
    known = context(spec, prefix, call)
    known = replace(known, alone=alone, pairs=variant.shares_blocks)
    return replace(known, apart=call is None and spec.apart).render(file)


def shared(spec: KernelSpec) -> dict[str, str]:
    """Return the parts of a kernel that others have, too, by name."""
    hidden = '__attribute__((visibility("hidden"))) '
    known = replace(context(spec, "winogen", None), hidden=hidden)
    return {
        f"{name}_{known.isa}": known.render(f"shared/{name}.c.j2") for name in ("gemm", "finish")
    }


def context(spec: KernelSpec, prefix: str, call: Mapping[str, Any] | None) -> ConvolutionContext:
    """Return what the template of a kernel knows."""
    variant, tuning, precision = spec.entry, spec.tuning, spec.precision
    one_by_one = precision.format.together == 1  # numbers are multiplied as they are computed with
    # Filters are transformed by the matrices, in double.
    short = precision.format.summing == "short"
    joint = _joint(spec.transform_h)
    in_lanes = spec.target.lane_constants and variant.holds_constants and not joint
    lanes = precision.lanes(spec.target.vector_bytes) if in_lanes else 0
    height, width = (
        view(transform, "input", "output", lanes=lanes) for transform in spec.transforms
    )
    single_tap = all(variant.along) and spec.rank == 2
    fixed = dict(spec.fixed)
    known = ConvolutionContext(
        **framed(spec, prefix, call, narrow=precision.narrow, flushes=spec.target.flushes),
        **tuned(spec, variant.uses),
        title=title_of(variant.title, spec, height, width),
        layout=spec.layout,
        border=spec.border,
        modes={mode: index for index, mode in enumerate(PADDING_MODES)},
        pixels=tuning.pixels,
        tiles=tuning.tiles,
        pair=tuning.pair,
        # Tiles keep the LANES channels of a row together; a strip of planes its pixels.
        row_step="1" if spec.layout == "NCHW" and not height and one_by_one else "LANES",
        # Sums of tiles, and of pixels that are transposed later, lie one behind the other.
        packed_sums=bool(height) or spec.layout == "NCHW",
        # Panels of tiles that meet the same filters are one call, which goes from one to the next.
        panels_inside=spec.target.by_lane
        and precision.format.summing == "kept"
        and one_by_one
        and single_tap,
        rank=spec.rank,
        # Products of tiles of volumes leave out taps, too: those before and behind a volume.
        skips_padding=variant.skips_padding or (spec.rank == 3 and bool(height)),
        filter_taps="p->filter_taps" if variant.skips_padding else _TAPS[spec.rank],
        nest=None,
        single_tap=single_tap,
        H=height,
        W=width,
        P=joint_products(*spec.transforms) if height and width else 0,
        joint=joint,
        lane_constants=in_lanes,
        growth=_growth(t.g for t in spec.transforms if t),
        input_growth=_growth(t.bt for t in spec.transforms if t and short),
        transforms=distinct(height, width),
        # Zipping the halves of 2^k rows k times interleaves them.
        interleavings=range(width.m.bit_length() - 1) if width else (),
        apart_in_rows=any(name in fixed for name in ("dilated", "spread", "spaced")),
        tiles_at_once=most_at_once(spec.target),
    )
    fixed.pop("spaced", None)  # outputs that lie apart are all that templates ask for
    return replace(known, **{**variant.context(spec.compiled, spec.target), **fixed})


def _joint(transform: Transform | None) -> Joint | None:
    """What joins complex products of both axes; None where all products are real along each."""
    if transform is None or not transform.ring:
        return None
    names = {1: "pair", 2: "pairs"}
    made = {axes: pairs.programs(transform.ring, axes) for axes in names}
    return Joint(
        one="winogen_pair",
        two="winogen_pairs",
        one_g=pairs.filters(transform.ring, 1),
        two_g=pairs.filters(transform.ring, 2),
        functions=[
            function(KINDS[kind], names[axes], program, "vec", "real", "INLINE")
            for axes, programs in made.items()
            for kind, program in programs.items()
            if kind != "filter"
        ],
    )


def _growth(along: Iterable[Matrix]) -> float:
    """How many times as large as the largest number the largest transformed one can be at most.

    ``along``: the matrices of the transforms along both axes.
    """
    most = prod(max(sum(abs(float(x)) for x in row) for row in rows) for rows in along)
    return ceil(1e3 * most) / 1e3
