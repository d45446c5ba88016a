"""What the templates of convolutions know of a kernel."""

from __future__ import annotations

from math import ceil, prod
from pathlib import Path
from typing import Any

from winogen.codegen.context import distinct, title_of, tuned, view
from winogen.kernels.spec import PADDING_MODES, KernelSpec
from winogen.kernels.tiles_family import TILES_AT_ONCE


def context(spec: KernelSpec) -> dict[str, Any]:
    """Return what the template of a kernel knows."""
    variant, tuning = spec.entry, spec.tuning
    # Filters are transformed by the matrices, in double.
    height, width = (view(transform, "input", "output") for transform in spec.transforms)
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
        "patches": False,
        "dense": False,
        "skips_padding": variant.skips_padding,
        "filter_taps": (
            "p->filter_taps" if variant.skips_padding else "p->kernel_height * p->kernel_width"
        ),
        "planar_halves": False,
        "one_d": False,
        "nest": None,
        **variant.context(spec.compiled, spec.target),
        # Transforms.
        "H": height,
        "W": width,
        "P": height["products"] * width["products"] if height and width else 0,
        "growth": _growth(height, width),
        "transforms": distinct(height, width),
        # Zipping the halves of 2^k rows k times interleaves them.
        "interleavings": range(width["m"].bit_length() - 1) if width else (),
        **{
            "halves": 0,
            "channels": 0,
            "kernel": 0,
            "stride": 0,
            "together": 1,
            "tiles_at_once": TILES_AT_ONCE,
            # Scales bring the largest numbers between 2^this and 2^(this + 1).
            "scale_top": 14,
            **dict(spec.fixed),
        },
    }


def _growth(*along: dict[str, Any] | None) -> float:
    """How many times as large as the largest number of a filter its transform can be at most."""
    matrices = [transform["g"] for transform in along if transform]
    most = prod(max(sum(abs(float(x)) for x in row) for row in rows) for rows in matrices)
    return ceil(1e3 * most) / 1e3
