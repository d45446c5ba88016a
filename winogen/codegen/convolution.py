"""What the templates of convolutions know of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winogen.codegen.context import distinct, title_of, tuned, view
from winogen.codegen.headers import function
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


def context(spec: KernelSpec) -> dict[str, Any]:
    """Return what the template of a kernel knows."""
    variant, tuning = spec.entry, spec.tuning
    # Filters are transformed by the matrices, in double.
    short = spec.precision.format.summing == "short"
    joint = _joint(spec.transform_h)
    in_lanes = spec.target.lane_constants and variant.holds_constants and not joint
    lanes = spec.precision.lanes(spec.target.vector_bytes) if in_lanes else 0
    height, width = (
        view(transform, "input", "output", lanes=lanes) for transform in spec.transforms
    )
    planar_rows = spec.layout == "NCHW" and not height and spec.precision.format.together == 1
    return {
        "template": (variant.folder or Path("kernels")) / variant.template,
        "title": title_of(variant.title, spec, height, width),
        "layout": spec.layout,
        "border": spec.border,
        "modes": {mode: index for index, mode in enumerate(PADDING_MODES)},
        "precision": spec.precision,
        **tuned(spec, variant.uses),
        "pixels": tuning.pixels,
        "tiles": tuning.tiles,
        "pair": tuning.pair,
        # Tiles keep the LANES channels of a row together; a strip of planes its pixels.
        "row_step": "1" if planar_rows else "LANES",
        # Sums of tiles, and of pixels that are transposed later, lie one behind the other.
        "packed_sums": bool(height) or spec.layout == "NCHW",
        # Panels of tiles that meet the same filters are one call, which goes from one to the next.
        "panels_inside": spec.target.by_lane
        and spec.precision.format.summing == "kept"
        and spec.precision.format.together == 1
        and all(variant.along)
        and spec.rank == 2,
        "patches": False,
        "dense": False,
        "in_place": False,
        "rank": spec.rank,
        # Products of tiles of volumes leave out taps, too: those before and behind a volume.
        "skips_padding": variant.skips_padding or (spec.rank == 3 and bool(height)),
        "filter_taps": "p->filter_taps" if variant.skips_padding else _TAPS[spec.rank],
        "planar_halves": False,
        "one_d": False,
        "nest": None,
        # Whether one tap alone is left of a filter at each position.
        "one_tap": all(variant.along) and spec.rank == 2,
        **variant.context(spec.compiled, spec.target),
        # Transforms.
        "H": height,
        "W": width,
        "P": joint_products(*spec.transforms) if height and width else 0,
        "joint": joint,
        "lane_constants": in_lanes,
        "growth": _growth(t.g for t in spec.transforms if t),
        "input_growth": _growth(t.bt for t in spec.transforms if t and short),
        "transforms": distinct(height, width),
        # Zipping the halves of 2^k rows k times interleaves them.
        "interleavings": range(width["m"].bit_length() - 1) if width else (),
        **{
            "halves": 0,
            "dilated": 0,
            "spread": 0,
            # Whether other outputs lie between those of a row.
            "apart_in_rows": any(name in ("dilated", "spread", "spaced") for name, _ in spec.fixed),
            "channels": 0,
            "kernel": 0,
            "stride": 0,
            "together": 1,
            "merged": 1,
            "tiles_at_once": most_at_once(spec.target),
            # Scales bring the largest numbers between 2^this and 2^(this + 1).
            "scale_top": 14,
            **dict(spec.fixed),
        },
    }


def _joint(transform: Transform | None) -> dict[str, Any] | None:
    """What joins complex products of both axes; None where all products are real along each."""
    if transform is None or not transform.ring:
        return None
    names = {1: "pair", 2: "pairs"}
    made = {axes: pairs.programs(transform.ring, axes) for axes in names}
    return {
        "one": "winogen_pair",
        "two": "winogen_pairs",
        "one_g": pairs.filters(transform.ring, 1),
        "two_g": pairs.filters(transform.ring, 2),
        "functions": [
            function(KINDS[kind], names[axes], program, "vec", "real", "INLINE")
            for axes, programs in made.items()
            for kind, program in programs.items()
            if kind != "filter"
        ],
    }


def _growth(along: Iterable[Matrix]) -> float:
    """How many times as large as the largest number the largest transformed one can be at most.

    ``along``: the matrices of the transforms along both axes.
    """
    most = prod(max(sum(abs(float(x)) for x in row) for row in rows) for rows in along)
    return ceil(1e3 * most) / 1e3
