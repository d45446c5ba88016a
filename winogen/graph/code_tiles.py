"""Convolutions of codes by Winograd's algorithm, in tiles of 16 or 8 bits: near, and not exact.

Kernels read codes as numbers of uint8 less their zero point, and write numbers of uint8. A layer
says which tiles it runs in, so that its codes depend on no sizes, threads or times; kernels of
another instruction set add in another order, and a code may be a step off there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from winogen.conv.clocks import unmeasured
from winogen.conv.execute import Call, Kernels
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.quantization import QuantizedFilters
from winogen.conv.quantized_tiles import DO_NOT_APPLY, in_steps, options_of
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer
from winogen.conv.stock import Stock
from winogen.conv.tolerance import MARGIN
from winogen.graph.ops import QConv
from winogen.graph.ops.quantized import HIGHEST, LOWEST
from winogen.records import CODE_TYPE, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current

_SAMPLE = 16  # rows and columns of a corner, and more where taps reach further


def are_possible(op: QConv, problem: Problem) -> bool:
    """Return whether tiles may compute a layer: codes, by kernels of several taps."""
    return op.y_scale is not None and problem.layer.in_tiles and not problem.layer.pointwise


def query_of(
    problem: Problem, request: Request, elsewhere: Target | None, stock: Stock | None = None
) -> Query:
    """Return what solvers are asked for this machine, or the same anywhere for another target."""
    if elsewhere is not None:
        return Query(problem, request, elsewhere, unmeasured(elsewhere))
    return Query.here(problem, request, host_target(), current(), stock)


def is_near(offer: Offer) -> bool:
    """Return whether an offer is one of tiles."""
    return isinstance(offer.solver, Kernels)


def described(offer: Offer) -> str:
    """Return what such tiles are, in words."""
    height, width = offer.best.choice.tile
    return f"mcmr F({height}x{width}) of {offer.query.request.product_dtype}"


def set_codes(call: Call, op: QConv) -> None:
    """Tell the call of such a kernel what codes mean that it reads."""
    call.struct.x_zero = op.x_zero - LOWEST
    call.struct.add_factor = op.z_step


def steps_allowed(op: QConv, x: np.ndarray, tolerance: float) -> float:
    """Return how many steps codes of tiles may be from others that are the nearest to exact sums.

    ``x``: what it reads, codes of int8 (N, C, H, W). A corner of the first image shows how large
    sums are.
    """
    taps = zip(op.dilation, op.weight.shape[2:])
    high, wide = (_SAMPLE + apart * (count - 1) for apart, count in taps)
    sums = replace(op, y_scale=None).computed(x[:1, :, :high, :wide])
    largest = np.abs(sums * op.multiplier.reshape(-1, 1, 1)).max(initial=0)
    return 1 + MARGIN * tolerance * float(largest)


def unpacked(op: QConv) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights that kernels pack, and the biases that they read, in float32."""
    filters = QuantizedFilters.of(op.weight, op.w_zero, op.bias)
    weight, bias = in_steps(filters, op.multiplier)
    zero = op.y_zero - LOWEST
    if op.z is not None:  # kernels add it as numbers of uint8
        bias = bias - float(op.z_step) * (op.z.zero - LOWEST)
    return weight, (bias + zero).astype(np.float32)


def offer_of(op: QConv, problem: Problem, threads: int, elsewhere: Target | None) -> Offer | None:
    """Return the kernel for the tiles that a layer runs in; None where it is exact.

    ``problem``: what is computed, of bytes. ``elsewhere``: for which target, the same wherever that
    is planned; None for this machine. Exact is what runs in no tiles, and what has no kernel there.
    """
    if op.tiles is None or not are_possible(op, problem):
        return None
    asked = options_of(op.tiles, problem.layer, threads)
    if op.limits != (LOWEST, HIGHEST):
        lowest, highest = (end - LOWEST for end in op.limits)
        asked = replace(asked, activation=("clip", float(lowest), float(highest)))
    with suppress(*DO_NOT_APPLY):
        layer = Layer.from_options(op.weight.shape, "float32", asked)
        request, layer = Request.from_options(layer, asked), replace(layer, dtype=CODE_TYPE)
        seams = Seams(layer.channels, layer.filters, 0 if op.z is None else layer.filters)
        near = layer.problem(problem.input_shape).sewn(seams)
        return Kernels().offer(query_of(near, request, elsewhere))
    return None
