"""What users of a layer's C see of its kernel: arrays, their types, what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from winogen.codegen.reference import Reference
from winogen.kernels.gemm import GemmSpec
from winogen.kernels.kind import wishes_of
from winogen.kernels.quantized import QuantizedSpec
from winogen.kernels.spec import KernelSpec
from winogen.records import ACTIVATIONS, NUMBERS


@dataclass(frozen=True)
class Interface:
    """What users of a pair see of a kernel: its arrays, their types in C, and what they mean."""

    whole: str  # "layer" or "product"
    packing: Mapping[str, str]  # the arrays that are packed, and their types; others are NULL
    packed: str  # the type of what they become
    reading: Mapping[str, str]  # the arrays that `run` reads, and their types
    writing: str  # the type of the output
    contiguous: str  # what the arrays are, in words
    pack_means: str
    run_means: str
    casts: Mapping[str, str]  # the kernel's own types of arrays, where they differ
    note: str = ""  # on numbers in narrow arrays
    scratch: bool = False  # whether packing needs memory of its own
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # of arrays, by name
    shared: bool = False  # whether threads are the caller's, each of which runs a part
    filters: int = 0  # of all groups; of a product: columns
    bytes_each: int = 0  # of numbers that C has no type for: arrays of them are "void"
    reference: Reference | None = None  # what tests in other languages compute; None: nothing


@dataclass(frozen=True)
class Transposed:
    """A transposed layer as calls of one kernel, one after the other."""

    groups: int
    channels: int  # of a group
    filters: int  # of a group
    taps: int  # of the kernel, along all axes
    calls: tuple[Phases, ...]


@dataclass(frozen=True)
class Phases:
    """Some phases of a transposed layer, as one call of a kernel."""

    fields: Mapping[str, Any]  # of its struct
    input: int | None  # the first number that it reads; None: zeros
    output: int  # the first number that it writes
    filters: int  # of a phase and group, in whole vectors where these are filters of one call
    # Of each phase, places in the kernel that is numbered along all axes; -1 for a zero.
    taps: tuple[tuple[int, ...], ...]
    zeros: int = 0  # bytes of the zeros that it reads, whole lines


def float_interface(
    spec: KernelSpec | GemmSpec, fields: Mapping[str, Any], transposed: Transposed | None = None
) -> Interface:
    """Return the interface of a convolution or a product of matrices; ``fields``: of its struct."""
    precision = spec.precision
    real = precision.real.c
    stored = NUMBERS[precision.arrays]
    number = real if not precision.narrow else "void" if stored.wide else stored.c
    extra = {
        "slopes": _takes_slopes(wishes_of(fields)["activation"]),
        **{name: fields[name][0] > 0 for name in ("add", "add_after") if name in fields},
    }
    (right,), (left, *_) = spec.packs, spec.inputs
    packed = real if precision.filters == precision.real.name else "void"
    reading = {left: number, "packed": packed, "bias": real}
    reading |= {
        name: number if name.startswith("add") else real for name, used in extra.items() if used
    }
    whole, packs, does, filters = (
        ("product", right, "a * b", fields["n"])
        if isinstance(spec, GemmSpec)
        else ("layer", "the weights", "the convolution", fields["groups"] * fields["filters"])
    )
    if transposed is not None:
        does, filters = "the transposed convolution", transposed.groups * transposed.filters
    means = f"Computes {does}. bias: {filters} numbers or NULL."
    if extra["slopes"]:
        means += f" slopes: {filters} numbers."
    if added := [name for name in reading if name.startswith("add")]:
        means += f" {', '.join(added)}: shaped as the output, which must be other memory."
    each = f"a {number} has the bits of one"
    if stored.wide:
        cut = "cut off" if stored.cut else "rounded to nearest"
        each = f"the upper {stored.itemsize} bytes of a {real}, the lowest first, {cut}"
    note = (
        f"Input, output and what is added are {precision.arrays}: {each}. "
        f"Weights, bias and sums are {real}."
    )
    return Interface(
        whole=whole,
        packing={right: real},
        packed=packed,
        reading=reading,
        writing=number,
        contiguous=f"{precision.arrays if stored.wide else number} arrays that are contiguous",
        pack_means=f"Brings {packs} into the form that `run` reads.",
        run_means=means,
        casts={},
        note=note if precision.narrow else "",
        scratch=transposed is not None,
        filters=filters,
        bytes_each=stored.itemsize * bool(stored.wide),
    )


def byte_interface(
    spec: QuantizedSpec, fields: Mapping[str, Any], types: tuple[str, ...]
) -> Interface:
    """Return that of a convolution of bytes; ``types``: of input, output and what is added."""
    read, written = (NUMBERS[dtype].c for dtype in types[:2])
    filters = fields["groups"] * fields["filters"]
    means = f"Brings the weights into the form that `run` reads. bias: {filters} numbers or NULL."
    packing = {"weight": "int8_t", "bias": "int32_t"}
    if not spec.sums:
        packing["multiplier"] = "float"
        over = "" if spec.in_reals else " / y_scale"
        means += f" multiplier: {filters} numbers, x_scale * w_scale{over} of every filter."
    reading, does = {"input": read, "packed": "void"}, "Computes the convolution."
    if spec.in_reals and _takes_slopes(fields["activation"]):
        packing["slopes"] = "float"
        means += f" slopes: {filters} numbers."
    if fields.get("add"):
        reading["add"] = NUMBERS[types[2]].c
        does += " add: shaped as the output, which must be other memory."
    return Interface(
        whole="layer",
        packing=packing,
        packed="void",
        reading=reading,
        writing=written,
        contiguous="arrays that are contiguous",
        pack_means=f"{means} No sum of products and bias may leave 32 bits.",
        run_means=does,
        casts={
            "input": "const uint8_t *",
            "add": "const uint8_t *",
            "output": "output_number *",
        },
        filters=filters,
    )


def _takes_slopes(code: int) -> bool:
    """Whether the activation of this number has a parameter for every filter."""
    return any(known.per_filter for known in ACTIVATIONS.values() if known.code == code)


def sizes(interface: Interface) -> dict[str, int]:
    """Return how many numbers each array has, packed weights aside, as users give them."""
    whole = {array: prod(shape) for array, shape in interface.shapes.items()}
    found: dict[str, int] = {}
    for array in (*interface.packing, *interface.reading):
        if array in whole:
            found[array] = whole[array]
        elif array.startswith("add"):  # shaped as the output
            found[array] = whole["output"]
        elif array != "packed":  # a number for each filter
            found[array] = interface.filters
    return found | {"output": whole["output"]}
