"""2D Winograd of a depthwise layer: channels fill the lanes, and nothing is summed."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels.count import Demand, Stages, filters_read, of_buffer
from winogen.kernels.depthwise import as_one_group
from winogen.kernels.tiles_family import Tiled, positions
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning


class Winograd2dDepthwise(Tiled):
    """Transformed tiles are multiplied in place."""

    name = "winograd2d_depthwise"
    algorithm = "winograd2d"
    template = "winograd2d_depthwise.c.j2"
    ranks = (2,)
    title = "2D Winograd convolution of a depthwise layer"
    auto = False
    buffers_used = {"v": "Transformed tiles of LANES channels.", **Tiled.buffers_used}
    fields_used = {"v_step": "From one position of v to the next."}

    def applies(self, work: Work) -> bool:
        return work.depthwise

    def view(self, work: Work) -> Work:
        return super().view(as_one_group(work))

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return Tuning("nothing to tune", depth=16)

    def fields(self, work: Work) -> dict[str, Any]:
        return {"v_step": work.block[0] * work.block[1] * work.lanes}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        v = positions(work) * self.fields(work)["v_step"] * work.itemsize
        return {"v": Buffer(v), **self.transform_buffers(work)}

    def packed_numbers(self, work: Work) -> int:
        return work.padded_channels * positions(work)

    def count(self, work: Work) -> Stages:
        into, output = self.tiles_transformed(work), self.outputs_gathered(work, "V")
        packed, v = self.packed_bytes(work), self.buffers(work)["v"]
        places = work.block[0] * work.block[1] * positions(work)
        size = output.bytes("V")
        moves = (
            filters_read(work, packed, (v,)),
            of_buffer("V", size, v),
            of_buffer("V", size, v, writes=True),
        )
        steps = places * blocks(work.channels, work.lanes)
        return into, Demand(places * work.channels, steps, moves=moves), output

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        share, _ = cost.busiest(work)
        into, multiply, output = self.count(work)
        product = multiply.steps * machine.costs.store
        input_ = self.input_cycles(work, machine, into)
        output_ = self.output_cycles(work, machine, output)
        return Cycles(share * input_, share * product, share * output_)
