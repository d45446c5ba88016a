"""Operators of codes as steps that C runs: kernels of bytes, and what lies between them.

Maps are int8, channels last; sums are int32. Every operator is a call: of a kernel, or of a
function of ``csrc/runtime/codes.c.j2``, whose parts are rows of its output.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.render import renderer_digest
from winogen.codegen.templates import Context
from winogen.conv import arguments
from winogen.conv.execute import Call, Environment
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.quantization import QuantizedFilters, Scales
from winogen.conv.quantized import packs_of
from winogen.conv.quantized_planner import CallNumbers, QuantizedCall, QuantizedKernels
from winogen.conv.request import Request
from winogen.conv.solver import Offer
from winogen.conv.stock import first_at_hand, only
from winogen.graph import code_tiles
from winogen.graph.ops import (
    Codes,
    Concat,
    Enlarge,
    Lookup,
    MaxPool,
    Nearest,
    QAdd,
    QConv,
    QGlobalMean,
    QMean,
    Recast,
    ScaleSums,
    Shape,
    Spread,
)
from winogen.graph.ops.quantized import HIGHEST, LOWEST
from winogen.graph.runtime import declarations
from winogen.graph.shapes import array_shape
from winogen.kernels.kind import Spec
from winogen.kernels.quantized import Reals
from winogen.kernels.spec import KernelSpec
from winogen.records import Target
from winogen.toolchain import Library, host_target
from winogen.toolchain.loader import Build
from winogen.toolchain.texts import Text

_HEADERS = "codes.h"
_MOST_ALONE = 1 << 14  # codes that a thread makes before another helps
_RUN = 256  # pixels of a part, where channels are put last or first
# The function of each operator that is no convolution.
_FUNCTIONS: dict[type, str] = {
    QAdd: "winogen_add_codes",
    MaxPool: "winogen_largest_code",
    QMean: "winogen_mean_code",
    QGlobalMean: "winogen_mean_code",
    Lookup: "winogen_look_up_codes",
    Recast: "winogen_look_up_codes",
    Concat: "winogen_join_codes",
    Nearest: "winogen_choose_codes",
    Enlarge: "winogen_choose_codes",
    Spread: "winogen_spread_codes",
    ScaleSums: "winogen_scale_sums",
}
OPERATORS = (QConv, *_FUNCTIONS)  # all that there are calls of


@dataclass(frozen=True, kw_only=True)
class CodesContext(Context, templates=("runtime/codes.c.j2",)):
    """What the template of what lies between convolutions of codes knows: nothing."""


class CodeCall(NamedTuple):
    """A step: functions of C, by their addresses, and what they are given."""

    run: int  # runs some parts on some threads; 0: parts are run one by one
    part: int
    struct: int  # the address of the struct of the call
    arrays: tuple[np.ndarray, ...]  # behind what the node reads and makes, or between: filters
    parts: int  # in all
    phase_parts: int
    threads: int
    workspace_bytes: int
    kept: tuple[Any, ...]  # what C points to: of what is no convolution, the struct comes last
    spec: Spec | None = None  # the kernel, of a convolution
    function: str = ""  # what others are parts of


def library() -> Library:
    """Return the library of what lies between convolutions of codes, compiled on first use.

    Raises BuildError.
    """
    return first_at_hand(host_target(), _build).load()


def _build(target: Target) -> Build:
    source = Text(f"codes-{renderer_digest()[:32]}", CodesContext().render)
    return Build(source, _declared(), target, (), name="codes")


@cache
def _declared() -> str:
    return declarations(_HEADERS)


def offer_of(
    op: QConv,
    shape: Shape,
    threads: int,
    familiar: Collection[Spec] | None = None,
    elsewhere: Target | None = None,
) -> Offer:
    """Return the ways to compute a convolution of int8 for inputs (N, C, H, W), the best first.

    ``familiar``: the kernels that all ways must be in; None: any. ``elsewhere``: what to plan for,
    the same wherever that is done; None for this machine. Tiles that the layer runs in are taken
    whatever is familiar, since its codes depend on them.
    """
    problem, reals = problem_of(op, shape), reals_of(op)
    filters = QuantizedFilters.of(op.weight, op.w_zero, op.bias)
    filters.check_sums(LOWEST - op.x_zero, HIGHEST - op.x_zero)
    sums = op.y_scale is None
    numbers = CallNumbers(sums, True, op.x_zero, w_zeros=filters.zero is not None)
    if not sums:
        numbers = replace(numbers, y_zero=op.y_zero, limits=op.limits, reals=reals)
    near = code_tiles.offer_of(op, problem, threads, elsewhere) if problem.batch else None
    if near is not None:
        return near
    stock = None if familiar is None else only(frozenset(familiar))
    query = code_tiles.query_of(problem, Request(threads=threads), elsewhere, stock)
    return QuantizedKernels(numbers).offer(query)


def problem_of(op: QConv, shape: Shape) -> Problem:
    """Return what a convolution of int8 computes of inputs (N, C, H, W)."""
    assert not isinstance(op.padding, str)
    top, bottom, left, right = op.padding
    layer = Layer.of(
        op.weight.shape, "uint8", stride=op.stride, padding=((top, bottom), (left, right)),
        dilation=op.dilation, groups=op.groups, layout="NHWC",
    )  # fmt: skip
    seams = Seams(layer.channels, layer.filters)
    problem: Problem = layer.problem(array_shape(shape, "NHWC")).sewn(seams)
    return problem


def reals_of(op: QConv) -> Reals | None:
    """Return what the sums of a convolution go through beside scales; None for nothing.

    A kernel without it saturates at the largest code: what ends below it is cut off as a number.
    """
    if op.y_scale is None or (op.z is None and op.limits[1] == HIGHEST):
        return None
    epilogue = replace(arguments.activation(op.activation), add=op.z is not None)
    z = op.z or Codes(0.0, 0)
    return Reals(epilogue, float(op.y_scale), z.scale, z.zero, True)


def convolution(op: QConv, offer: Offer, packed: dict[Any, np.ndarray]) -> CodeCall:
    """Return the call of the best kernel of an offer; ``packed`` remembers its filters."""
    if code_tiles.is_near(offer):
        (work,) = offer.best.works(offer.problem)
        spec, environment = KernelSpec.of(work), Environment.now()
        near = Call(spec, work, environment, offer.best.seconds)
        code_tiles.set_codes(near, op)
        weight, bias = code_tiles.unpacked(op)
        if near.kernel not in packed:
            packed[near.kernel] = near.pack(weight)
        return _called(near, (packed[near.kernel], bias))
    call: QuantizedCall = offer.bind(Environment.now())
    work = call.work
    key = work.spec, work.zero
    if key not in packed:
        packed[key] = call.pack(*unpacked(op, work.spec))
    return _called(call, (packed[key],))


def _called(call: Call, arrays: tuple[np.ndarray, ...]) -> CodeCall:
    """The step of a bound kernel."""
    code, struct = call.kernel, call.struct
    run, part = (_address(code, name) for name in ("winogen_run_some", "winogen_part"))
    here = int(code.ffi.cast("intptr_t", struct))
    return CodeCall(
        run, part, here, arrays, struct.phases * struct.parts, struct.parts, call.threads,
        call.workspace_bytes, (call,), code.spec,
    )  # fmt: skip


def unpacked(op: QConv, spec: Any) -> tuple[np.ndarray | None, ...]:
    """Return the arrays that a kernel packs."""
    filters, scales = QuantizedFilters.of(op.weight, op.w_zero, op.bias), None
    if op.y_scale is not None:
        count = len(op.weight)
        scales = Scales.of(count, op.x_scale, op.w_scale, op.y_scale, op.y_zero, "int8")
    return packs_of(filters, scales, None, spec.in_reals)


def other(op: Any, shape: Shape, made: Shape, threads: int) -> CodeCall:
    """Return the call of what is no convolution, between maps of these shapes (N, C, H, W).

    Of a concatenation it is that of one of its parts.
    """
    code, function = library(), _FUNCTIONS[type(op)]
    op = op.step(shape, np.dtype(np.int8), False, False)
    batch, channels, height, width = shape
    fields: dict[str, Any] = {
        "batch": batch,
        "height": height,
        "width": width,
        "channels": channels,
        "whole": made[1],
        "out_height": made[2],
        "out_width": made[3],
    }
    arrays: tuple[np.ndarray, ...] = ()
    if isinstance(op, (MaxPool, QMean)):
        window = op.window
        fields |= {"pad_top": window.padding[0], "pad_left": window.padding[2]}
        for name in ("kernel", "stride", "dilation"):
            fields[f"{name}_h"], fields[f"{name}_w"] = getattr(window, name)
    if isinstance(op, (QAdd, QMean)):
        after = op.after
        fields |= {"x_zero": op.x.zero, "y_zero": after.codes.zero}
        fields |= {"lowest": after.lowest, "highest": after.highest}
    if isinstance(op, QAdd):
        fields["x_factor"], fields["z_factor"] = op.factors
        fields["z_zero"] = op.z.zero
    elif isinstance(op, QMean):
        fields["x_factor"] = op.multiplier
        fields["counted"] = prod(op.kernel) if op.counted else 0
    elif isinstance(op, Nearest):
        arrays = (op.down, op.across)
    elif isinstance(op, Spread):
        fields["kernel_h"], fields["kernel_w"] = op.factor
        fields["pad_top"], _, fields["pad_left"], _ = op.crop
        fields["apart"] = prod(op.factor) if op.is_of_channels else 1
    elif isinstance(op, Recast) and op.planar:
        function = f"winogen_{op.kind}_codes"
        fields |= {"flip": op.flip, "run": _RUN}
    elif isinstance(op, Lookup) and op.line is not None:
        function, (zero, factor, after) = "winogen_scale_codes", op.line
        fields |= {"x_zero": zero, "y_zero": after.codes.zero, "x_factor": factor}
        fields |= {"lowest": after.lowest, "highest": after.highest}
    elif isinstance(op, (Lookup, Recast)):
        table = op.table if isinstance(op, Lookup) else flipped(op)
        arrays = (np.ascontiguousarray(table).view(np.int8),)
        fields["tables"] = len(table)
    elif isinstance(op, ScaleSums):
        arrays = op.scale, op.bias
    struct = code.ffi.new("winogen_codes *", fields)
    part = _address(code, function)
    here = int(code.ffi.cast("intptr_t", struct))
    threads = min(threads, 1 + prod(made) // _MOST_ALONE)
    parts = made[0] * (-(-height * width // _RUN) if "run" in fields else made[2])
    kept = code, struct
    return CodeCall(0, part, here, arrays, parts, parts, threads, 0, kept, function=function)


def flipped(op: Recast) -> np.ndarray:
    """Return what becomes of each code, (1, 256), in the order of the bytes that are read."""
    table: np.ndarray = (np.arange(256) ^ op.flip).astype(np.uint8).reshape(1, -1)
    return table


def bytes_of(op: Any) -> int:
    """Return how many bytes a number of what an operator makes has."""
    is_sum = isinstance(op, QConv) and op.y_scale is None
    return 4 if is_sum or isinstance(op, ScaleSums) else 1


def _address(code: Any, name: str) -> int:
    return int(code.ffi.cast("intptr_t", code.ffi.addressof(code.lib, name)))
