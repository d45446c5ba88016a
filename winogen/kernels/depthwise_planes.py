"""Depthwise convolution in NCHW by kernels of a usual size."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import depthwise, pixels_family
from winogen.kernels.count import Stages
from winogen.kernels.depthwise import USUAL_PLANES, is_usual
from winogen.kernels.geometry import STRIP_FIELDS, strip_pitches, strip_size
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning


class DepthwisePlanes(Variant):
    """A vector of pixels is loaded once for all the rows of outputs that it takes part in."""

    name = "depthwise_planes"
    algorithm = "direct"
    template = "depthwise_planes.c.j2"
    title = "Depthwise convolution of planes, pixels in the lanes"
    uses = ("rows", "vectors")
    tunable = uses
    buffers_used = {"strip": "padded input below a block", "tap": "where the taps begin"}
    fields_used = STRIP_FIELDS

    def applies(self, work: Work) -> bool:
        usual = is_usual(work, axis=0) and work.kernel[0] in USUAL_PLANES
        return work.layout == "NCHW" and work.depthwise and usual

    def fixed(self, work: Work) -> dict[str, int]:
        return {"kernel": work.kernel[0], "stride": work.stride[0]}

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        return tuning.rows > 1  # rows that are left over come one by one

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        vectors = 4 if target.registers >= 32 else 2
        return Tuning("measured on AMD EPYC (Zen 4), 2026-11", rows=4, vectors=vectors)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar=True)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        # Whole vectors are read, up to two beyond what is needed.
        strip = self.fields(work)["strip_plane"] + 2 * work.lanes
        return {"strip": Buffer(strip * work.itemsize), "tap": Buffer(work.taps * 8)}

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return work.tuning.rows, work.block[1], 1

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.taps

    def count(self, work: Work) -> Stages:
        (rows, cols), buffers = work.block, self.buffers(work)
        return depthwise.count(
            work,
            self.packed_bytes(work),
            buffers,
            channels=1,
            vectors=rows * blocks(cols, work.lanes),
        )

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        arithmetic = machine.costs.depthwise * multiply.steps
        product = share * pixels_family.multiply(work, machine, multiply, arithmetic)
        stores = share * pixels_family.block_written(work, machine, multiply, False)
        input_ = share * pixels_family.fill(work, machine, into)
        return pixels_family.stored_meanwhile(machine, input_, product, stores)
