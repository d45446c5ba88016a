"""What the variants for depthwise layers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from winogen.kernels import pixels_family
from winogen.kernels.count import Demand, PanelProduct, Stages, of_buffer
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work
from winogen.records import Machine

# Sizes of kernels that have micro-kernels of their own.
USUAL = (3, 5, 7)


def is_usual(work: Work, axis: int) -> bool:
    """Whether a kernel and its stride along ``axis`` have a micro-kernel of their own."""
    square = work.kernel[0] == work.kernel[1] and work.kernel[0] in USUAL
    return square and work.dilation == (1, 1) and work.stride[axis] <= 2


def as_one_group(work: Work) -> Work:
    """Return the layer seen as one group, whose strip holds all channels side by side."""
    channels, filters = work.groups * work.channels, work.groups * work.filters
    return replace(work, groups=1, channels=channels, filters=filters, merged=work.channels)


def around(machine: Machine, product: PanelProduct) -> Any:
    """Cycles to enter and leave a micro-kernel, and to begin and store its sums."""
    calls = product.times * sum(panel.times for panel in product.panels)
    return calls * machine.costs.call_of_one + product.rows * machine.costs.sum_of_one


def count(
    work: Work,
    packed: int,
    buffers: Mapping[str, Buffer],
    *,
    channels: int,
    vectors: Any,
    taps: float | None = None,
) -> Stages:
    """Count the stages of a block: nothing is summed but the taps, of each channel of a group.

    ``channels`` of the strip, if there is one among the ``buffers``; ``vectors`` of outputs.
    ``packed``: bytes of all filters. ``taps`` of one output, by default those of the kernel.
    """
    taps = work.taps if taps is None else taps
    moves = pixels_family.moved(work, packed, buffers)
    into = Demand()
    if "strip" in buffers:
        into = pixels_family.filled(work, packed, buffers["strip"], channels)
        size = into.bytes("strip", writes=True)
        moves = (*moves, of_buffer("strip", size, buffers["strip"]))
    products = pixels_family.multiplications(work, channels=work.merged, taps=taps)
    return into, Demand(products, steps=taps * work.merged * vectors, moves=moves), Demand()
