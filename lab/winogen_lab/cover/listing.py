"""Kernels as a list in a file: what wheels are built from, a line for each kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from winogen.codegen import joining
from winogen.conv.choice import transform_of
from winogen.errors import InvalidValue
from winogen.files import read_json
from winogen.kernels import named
from winogen.kernels.dots import DOTS, SINGLE_DOTS, dots_of
from winogen.kernels.kind import Spec
from winogen.kernels.quantized import QuantizedSpec, RealsSpec
from winogen.kernels.spec import KernelSpec
from winogen.kernels.tuning import CORES
from winogen.kernels.weight_gradient import GradientSpec
from winogen.kernels.weight_gradient import tuning as gradient_tuning
from winogen.program.summation import PROGRAM
from winogen.records import TARGETS, Points, Precision, Target, Tuning, spelled

FILE = Path(__file__).with_name("kernels.json")
_ALLOWED = "what `winogen lab cover --write` wrote"
_BYTES = {"bytes": QuantizedSpec, "reals": RealsSpec}


def write(kernels: Iterable[Spec], path: Path = FILE) -> None:
    """Write a list of kernels, sorted."""
    lines = sorted({json.dumps(to_dict(kernel)) for kernel in kernels})
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def read(path: Path = FILE) -> list[Spec]:
    """Return the kernels of a list; raises InvalidValue for a file that is something else."""
    entries = read_json("check", path, _ALLOWED)
    if not isinstance(entries, list):
        raise InvalidValue(f"check: got {path}, which is no list; allowed: {_ALLOWED}")
    kernels = []
    for number, entry in enumerate(entries, 1):
        try:
            kernels.append(from_dict(entry))
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            raise InvalidValue(
                f"check: got {path}, whose entry {number} is no kernel ({error!r}); allowed: "
                f"{_ALLOWED}"
            ) from None
    return kernels


def to_dict(kernel: Any) -> dict[str, Any]:
    """Return a kernel as plain data; what follows from the rest is left out."""
    target = kernel.target
    words = [target.name, *sorted(_extensions(target))]
    if isinstance(kernel, QuantizedSpec):
        kind = "reals" if kernel.in_reals else "bytes"
        place = {"target": "+".join(words), "algorithm": kernel.algorithm, "layout": kernel.layout}
        more = {"sums": kernel.sums, "dot": kernel.dot.name, "rows": kernel.rows}
        return {"kind": kind, **place, **more}
    tiles = [one.name for one in kernel.transforms if one]
    if isinstance(kernel, GradientSpec):
        place = {"target": "+".join(words), "layout": kernel.layout}
        return {"kind": "gradient", **place, "tiles": tiles}
    core, sizes = _tuned(kernel)
    precision = kernel.precision
    entry: dict[str, Any] = {
        "kind": "convolution",
        "target": "+".join(words),
        "variant": kernel.variant,
        "layout": kernel.layout,
        "rank": kernel.rank if kernel.rank != 2 else None,
        "tiles": tiles,
        "core": core,
        "sizes": sizes,
        "filters": precision.filters if precision.narrow_filter else None,
        "products": None if precision.format.option is False else precision.products,
        "border": kernel.border if kernel.border != "unswitch" else None,
        "fixed": dict(kernel.fixed),
    }
    return {name: value for name, value in entry.items() if value}


def from_dict(entry: dict[str, Any]) -> Spec:
    """Return the kernel of an entry."""
    name, plus = spelled(entry["target"])
    target = TARGETS[name].adjusted(plus)
    kind = entry["kind"]
    if kind in _BYTES:
        dots = dots_of(target, SINGLE_DOTS if entry["algorithm"] == "depthwise" else DOTS)
        dot = next(one for one in dots if one.name == entry["dot"])
        of = entry["algorithm"], entry["layout"], entry["sums"], target, dot
        return replace(_BYTES[kind].of(*of), rows=entry["rows"])
    height, width = map(_transform, entry["tiles"]) if "tiles" in entry else (None, None)
    if kind == "gradient":
        usual = gradient_tuning(target)
        precision = Precision.of("float32")
        return GradientSpec(entry["layout"], precision, target, usual, height, width)
    precision = Precision.of("float32", entry.get("filters"), entry.get("products"))
    return KernelSpec(
        entry["variant"],
        entry["layout"],
        precision,
        target.using(*sorted(target.extensions)),
        _usual(entry["variant"], target, entry.get("core", ""), precision)
        .with_sizes(tuple(sorted(entry.get("sizes", {}).items())))
        .compiled,
        height,
        width,
        border=entry.get("border", "unswitch"),
        fixed=tuple(sorted(entry.get("fixed", {}).items())),
        rank=entry.get("rank", 2),
    )


def _extensions(target: Target) -> list[str]:
    """The extensions that the flags of a target allow."""
    return [one.name for one in target.used]


def _usual(variant: str, target: Target, core: str, precision: Precision) -> Tuning:
    return named(variant).tuning(replace(target, core=core), precision).compiled


def _tuned(kernel: KernelSpec) -> tuple[str, dict[str, int]]:
    """The micro-architecture whose tuning a kernel has, "" for any, and its sizes beside that."""
    # Which ones were set is in words, since some may be set to what they were.
    tuned = re.match("tuned: (.*?); else", kernel.tuning.provenance)
    names = tuned[1].split(", ") if tuned else []
    sizes = {name: getattr(kernel.tuning, name) for name in names}
    for core in ("", *sorted(CORES)):
        usual = _usual(kernel.variant, kernel.target, core, kernel.precision)
        if usual.with_sizes(tuple(sorted(sizes.items()))) == kernel.tuning:
            return core, sizes
    raise AssertionError(f"no micro-architecture has the tuning of {kernel.name}")


def _transform(name: str) -> Any:
    """The transform of this name: f4_3_gaussian, say, or f4_3_gaussian_residues."""
    base = name.removesuffix(joining.RESIDUES)
    m, taps, *tags = base.removeprefix("f").split("_")
    points = Points("catalog", tuple(tags)) if tags else None
    transform = transform_of(int(m), int(taps), points, PROGRAM)
    return transform if base == name else joining.residues(transform)
