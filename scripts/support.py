"""Write docs/support.md's tables: which kernels there are for which target, layout and type.

    python scripts/support.py [--check]

Every cell is asked for, at a size where the kernel is really planned: it is a pair of C files, or
the sentence that refuses it. ``--check`` writes nothing, and fails where the page says otherwise.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from winogen import kernels
from winogen.conv.standalone import standalone
from winogen.errors import WinogenError
from winogen.records import COMPUTED_TYPES, TARGETS
from winogen.records.target import EXTENSIONS

PAGE = Path(__file__).parents[1] / "docs" / "support.md"
LAYOUTS = ("NCHW", "NHWC")
TYPES = (*COMPUTED_TYPES, "float16", "bfloat16")  # flytes go where these go
WORKS, ABSENT = "works", "does not exist"


@dataclass(frozen=True)
class Layer:
    """A layer of real size that its variant computes: image, channels, filters, kernel."""

    size: int
    channels: int
    filters: int
    kernel: int = 3
    options: dict[str, Any] = field(default_factory=dict)

    def shapes(self, layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of input and weight."""
        image = (self.size, self.size)
        groups = self.options.get("groups", 1)
        shape = (self.channels, *image) if layout == "NCHW" else (*image, self.channels)
        weight = (self.filters, self.channels // groups, self.kernel, self.kernel)
        return (1, *shape), weight


def _depthwise(channels: int, kernel: int = 3, **options: Any) -> Layer:
    options = {"padding": "same", "groups": channels, **options}
    return Layer(56, channels, channels, kernel, options)


SAME = {"padding": "same"}
# One for each variant: of layers of its algorithm, the variant takes this one.
LAYERS = {
    "depthwise_rows": _depthwise(3),
    "depthwise_in_place": _depthwise(64),
    "depthwise_strip": _depthwise(64, padding_mode="reflect", padding=1),
    "depthwise_channels": _depthwise(64, 9),
    "depthwise_planes": _depthwise(64),
    "planes": Layer(56, 64, 256, 1),
    "patches": Layer(56, 64, 128, 1, {"stride": 2}),
    "pixels": Layer(56, 3, 2, 3, SAME),
    "pixels_float16": Layer(56, 3, 16, 3, {**SAME, "product_dtype": "float16"}),
    "direct_float16": Layer(56, 64, 64, 3, {**SAME, "product_dtype": "float16"}),
    "few_filters": Layer(56, 64, 2, 3, SAME),
    "few_channels": Layer(112, 3, 64, 3, SAME),
    "pointwise": Layer(56, 64, 256, 1),
    "direct": Layer(56, 64, 64, 3, SAME),
    "im2col": Layer(56, 64, 64, 3, SAME),
    "winograd2d_depthwise": _depthwise(64),
    "winograd2d_tiles": Layer(112, 3, 64, 3, SAME),
    "winograd2d_filters": Layer(112, 3, 64, 3, SAME),
    "winograd2d": Layer(56, 64, 64, 3, SAME),
    "winograd1d_int16": Layer(56, 64, 64, 3, {**SAME, "product_dtype": "int16"}),
    "winograd1d": Layer(56, 64, 64, 3, SAME),
    "mcmr_int16": Layer(56, 64, 64, 3, {**SAME, "product_dtype": "int16"}),
    "mcmr_int8": Layer(56, 64, 64, 3, {**SAME, "product_dtype": "int8"}),
    "mcmr_float16": Layer(56, 64, 64, 3, {**SAME, "product_dtype": "float16"}),
    "mcmr": Layer(56, 64, 64, 3, SAME),
}


def isas() -> Iterator[str]:
    """Yield every target, and each with every extension that products may use."""
    yield from TARGETS
    for one in EXTENSIONS:
        if one.name in ("vnni", "avxvnni", "dotprod", "fp16", "bf16"):
            yield from (f"{target}+{one.name}" for target in one.targets)


@cache
def cell(variant: str, isa: str, layout: str, dtype: str) -> str:
    """Return what becomes of a variant's layer: `WORKS`, `ABSENT`, or the sentence that refuses."""
    layer = LAYERS[variant]
    shape, weight = layer.shapes(layout)
    algorithm = kernels.named(variant).algorithm
    options = {"layout": layout, "algorithm": algorithm, **layer.options}
    try:
        files = standalone(shape, weight, dtype=dtype, isa=isa, name="net", **options)
    except WinogenError as refusal:
        return str(refusal)
    taken = re.search(r"variant (\w+)", files["net.h"])
    assert taken
    return WORKS if taken[1] == variant else ABSENT


def variants() -> list[str]:
    """Return the variants that have C of their own for any layer, in the order of the register."""
    return [name for name, one in kernels.variants().items() if not one.one_layer]


def cells(variant: str, layout: str, dtype: str) -> dict[str, str]:
    """Return what becomes of the variant's layer for each target."""
    return {isa: cell(variant, isa, layout, dtype) for isa in isas()}


def general(sentence: str) -> str:
    """Return a refusal without what it was given.

    >>> general("dtype: got float16; allowed: float32")
    'dtype: allowed: float32'
    """
    return re.sub(r"got .*?; ", "", sentence)


def targets_text(works: list[str]) -> str:
    """Return a list of targets in words: all but some, where that is shorter."""
    missing = [isa for isa in isas() if isa not in works]
    if not missing:
        return "all"
    return f"all but {', '.join(missing)}" if len(missing) < len(works) else ", ".join(works)


def kernels_table() -> list[str]:
    """Return the lines of the table of kernels; types with the same targets share a line."""
    merged: dict[tuple[str, str, str], list[str]] = {}
    for variant, layout, dtype in product(variants(), LAYOUTS, TYPES):
        works = [isa for isa, said in cells(variant, layout, dtype).items() if said == WORKS]
        if works:
            merged.setdefault((variant, layout, targets_text(works)), []).append(dtype)
    lines = ["| kernel | layout | arrays of | targets |", "|---|---|---|---|"]
    for (variant, layout, targets), types in merged.items():
        lines.append(f"| `{variant}` | {layout} | {', '.join(types)} | {targets} |")
    return lines


def refusals_table() -> list[str]:
    """Return the lines of the table of refusals: which kernels and types a sentence refuses."""
    refused: dict[str, dict[tuple[str, str], list[str]]] = {}
    for variant, dtype in product(variants(), TYPES):
        for isa, said in cells(variant, LAYOUTS[0], dtype).items():
            if said not in (WORKS, ABSENT):
                refused.setdefault(general(said), {}).setdefault((variant, dtype), []).append(isa)
    lines = ["| kernels | arrays of | targets | refused by |", "|---|---|---|---|"]
    for sentence, what in refused.items():
        alike: dict[tuple[str, str], list[str]] = {}
        for (variant, dtype), names in what.items():
            alike.setdefault((dtype, targets_text(names)), []).append(f"`{variant}`")
        merged: dict[tuple[str, str], list[str]] = {}
        for (dtype, names), which in alike.items():
            merged.setdefault((", ".join(which), names), []).append(dtype)
        for (which, names), types in merged.items():
            lines.append(f"| {which} | {', '.join(types)} | {names} | {sentence} |")
    return lines


def written(page: str, tables: dict[str, list[str]]) -> str:
    """Return the page with its tables, each between two comments with its name."""
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        text = "\n".join([begin, *lines, end])
        page = re.sub(f"{begin}.*?{end}", text.replace("\\", r"\\"), page, flags=re.DOTALL)
    return page


def tables() -> dict[str, list[str]]:
    """Return the lines of all tables by their names on the page."""
    from support_doors import doors_table

    return {"kernels": kernels_table(), "refusals": refusals_table(), "doors": doors_table()}


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    page = PAGE.read_text("utf-8")
    new = written(page, tables())
    if parser.parse_args().check and new != page:
        raise SystemExit("docs/support.md differs: run python scripts/support.py")
    PAGE.write_text(new, "utf-8")


if __name__ == "__main__":
    main()
