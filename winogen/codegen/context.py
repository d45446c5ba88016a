"""What the templates of all kinds of kernels know: numbers, vectors, prefetches and transforms."""

from __future__ import annotations

import textwrap
from typing import Any

from winogen.codegen.functions import FUNCTIONS
from winogen.codegen.headers import function
from winogen.codegen.transform import Transform
from winogen.kernels.gemm import GemmSpec
from winogen.kernels.spec import KernelSpec
from winogen.kernels.weight_gradient import GradientSpec
from winogen.program.kinds import KINDS
from winogen.program.signs import without_negations
from winogen.records import NUMBERS, Precision, Target, Tuning
from winogen.records.precision import NumberType
from winogen.records.tuning import MEANS


def tuned(spec: KernelSpec | GemmSpec | GradientSpec, uses: tuple[str, ...]) -> dict[str, Any]:
    """Return what templates know of numbers, vectors and the register block."""
    tuning, precision = spec.tuning, spec.precision
    return {
        "tuning": tuning_lines(tuning, uses),
        "tuning_of": f"{spec.target.name}, {tuning.provenance}",
        "functions": FUNCTIONS[precision.real.c],
        **numbers_and_vectors(precision, spec.target),
        "rows": tuning.rows,
        "vectors": tuning.vectors,
        "chains": tuning.chains,
        "skips_padding": False,
        "prefetch": prefetches(tuning, precision.real.itemsize, precision.filter_itemsize),
    }


def numbers_and_vectors(precision: Precision, target: Target) -> dict[str, Any]:
    """Return what templates know of the numbers that they compute with, and of their vectors."""
    real, lanes = precision.real, precision.lanes(target.vector_bytes)
    words = precision.format.together > 1
    address = "word_address" if words else "address"
    return {
        "real": real.c,
        "integer": real.integer,
        "array_number": _stored_as(precision.arrays, real),
        "filter_number": "word" if words else _stored_as(precision.filters, real),
        "storage": precision.stored,
        # Packed filters that are narrower: their format.
        "narrow_filter": precision.narrow_filter,
        "filter_address": "filter_address" if precision.narrow_filter else address,
        "scaled": precision.scaled,
        # How numbers are multiplied, and what the filters meet: a real, or a word of several.
        "format": precision.format,
        "number": "word" if words else "real",
        "number_address": address,
        # Filters whose type has a small range: what their scales are made for.
        "scaled_type": precision.filters,
        "flags": target.flags,
        "isa": target.name,
        "vector_bytes": target.vector_bytes,
        "lanes": lanes,
        "block_sizes": [1 << i for i in range(lanes.bit_length() - 1)],
        "masked": real.avx512 if target.masks else "",
        "register": real.register,
        "flushes": target.flushes,
        "dots": target.dots,
        "by_lane": target.by_lane,
        # Whether products of float16 take one number of a register for all lanes.
        "lane_halves": target.by_lane and precision.format.summing == "short",
        # Whether one instruction multiplies and adds words.
        "fused_words": bool(target.multiplying(precision.format)),
        "narrow": precision.narrow,  # whether the arrays are
    }


def _stored_as(number: str, real: NumberType) -> str:
    """The C type that a number is stored as."""
    return "real" if number == real.name else NUMBERS[number].c


# What __builtin_prefetch calls the caches.
_LOCALITY = {1: 3, 2: 2}


def prefetches(tuning: Tuning, itemsize: int, filter_itemsize: int = 0) -> dict[str, Any]:
    """Return what templates know of prefetching; distances in numbers of ``itemsize`` bytes.

    Numbers of packed filters may have ``filter_itemsize`` bytes.
    """
    streams = {name: tuning.fetches(name) for name in ("A", "B", "output", "next")}
    operands = " and ".join(f"`{name.lower()}`" for name in "AB" if streams[name])
    return {
        **streams,
        "operands": operands,
        "distance": tuning.prefetch // itemsize,
        "filters": tuning.prefetch // (filter_itemsize or itemsize),
        "level": tuning.prefetch_level,
        "locality": _LOCALITY[tuning.prefetch_level],
        "ahead": tuning.prefetch_output // itemsize,
        "output_locality": _LOCALITY[tuning.output_level],
    }


def title_of(title: str, spec: KernelSpec | GradientSpec, height: Any, width: Any) -> list[str]:
    """The head of a kernel: what it computes, on which numbers and with which transforms."""
    lines = [f"{title}: {spec.precision.arrays}, {spec.layout}, {spec.target.name}."]
    if height and width:
        both = height["title"] if height == width else f"{height['title']} x {width['title']}"
        lines += textwrap.wrap(f"Tiles by {both}.", 94)
    return lines


def tuning_lines(tuning: Tuning, uses: tuple[str, ...]) -> list[str]:
    """The constants of a tuning that are compiled in, and what they mean."""
    lines = []
    for name in uses or ("prefetch",):
        if name in MEANS:
            constant = "BAND_VECTORS" if name == "band" else name.upper()
            lines.append(f"{f'{constant} = {getattr(tuning, name)},':<22}/* {MEANS[name]} */")
    return lines or ["NOTHING_TO_TUNE"]


def view(transform: Transform | None, *kinds: str, lanes: int = 0) -> dict[str, Any] | None:
    """A transform as templates see it, with the C of these of its three programs.

    ``lanes``: those of a vector where multiply-adds take constants from lanes, else 0.
    """
    if transform is None:
        return None
    functions = {}
    for kind in kinds:
        program = transform.programs[kind]
        program = without_negations(program) if lanes else program
        functions[kind] = function(
            KINDS[kind], transform.name, program, "vec", "real", "INLINE", lanes
        )
    what = f"on {{{', '.join(transform.points)}}}"
    if transform.stride > 1:
        what = f"at stride {transform.stride}"
    if transform.moduli:
        what = f"modulo {{{', '.join(transform.moduli)}}}"
    return {
        "title": f"F({transform.m}, {transform.r}) {what}",
        "function": f"winogen_{transform.name}",
        "g": [[repr(float(x)) for x in row] for row in transform.g],
        "functions": list(functions.values()),
        # Vectors of constants of each, that a caller holds.
        "vectors": {kind: one["vectors"] for kind, one in functions.items()},
        **{
            key: getattr(transform, key)
            for key in ("m", "r", "n", "products", "rows", "reals", "step")
        },
    }


def distinct(height: Any, width: Any) -> list[Any]:
    """The transforms along both axes, once if they are the same; none without tiles."""
    if height is None:
        return []
    return [height] if height["function"] == width["function"] else [height, width]
