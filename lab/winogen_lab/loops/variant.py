"""A generated loop nest, for one layer: its sizes and the choices of the nest are compiled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family
from winogen.kernels.count import Demand, Panel, PanelProduct, Stages
from winogen.kernels.variant import Buffer, Cycles, Variant, register
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Strides, Target, Tuning
from winogen_lab.loops.build import build
from winogen_lab.loops.nest import Nest
from winogen_lab.loops.parameters import LoopProblem, Parameters
from winogen_lab.loops.rules import flaws, register_blocks
from winogen_lab.loops.text import nest_of
from winogen_lab.loops.usual import usual


class Loops(Variant):
    """Runs only if asked for, by `algorithm` or by a choice that names its parameters."""

    name = "loops"
    algorithm = "loops"
    template = "loops.c.j2"
    folder = Path(__file__).parent
    from_elsewhere = True
    widens_filters = True
    title = "Direct convolution by a generated loop nest"
    auto = False
    adds_early = True
    one_layer = True
    buffers_used = {"tile": "A padded copy of inputs.", "sums": "Sums that wait for others."}

    def computes(self, precision: Precision) -> bool:
        """Whether it knows the types: filters have no scales here."""
        return not precision.scaled and super().computes(precision)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return Tuning("the parameters of the nest stand below")

    def compiled(self, work: Work) -> tuple[LoopProblem, Parameters]:
        problem = problem_of(work)
        return problem, work.parameters or usual(problem, work.target)

    def context(self, compiled: tuple[LoopProblem, Parameters], target: Target) -> dict[str, Any]:
        return {"nest": nest_of(*compiled, target)}

    def applies(self, work: Work) -> bool:
        nest = work.parameters
        return nest is None or not flaws(problem_of(work), nest, work.target)

    def parameters(self, work: Work) -> Iterator[Parameters]:
        """The usual nest, or those with other register blocks, the largest first."""
        problem, nest = self.compiled(work)
        if work.parameters is None:
            yield nest
        blocks_ = register_blocks(
            nest.strategy, work.lanes, work.target.registers, nest.rows, problem.kernel
        )
        for pixels, filters in sorted(blocks_, key=lambda block: -block[0] * block[1]):
            other = replace(nest, pixels=pixels, filters=filters)
            if other != nest and not flaws(problem, other, work.target):
                yield other

    def parameters_from(self, fields: Mapping[str, Any]) -> Parameters:
        return Parameters.from_dict(dict(fields))

    def buffers(self, work: Work) -> dict[str, Buffer]:
        built, size = self._built(work), work.itemsize
        sums = 0 if self._rounds(work) else built.sums
        # Whole vectors are read, up to one beyond what is needed.
        made = {
            "tile": Buffer((built.tile + work.lanes) * size if built.tile else 0),
            "sums": Buffer((sums + work.lanes) * size if sums else 0),
        }
        if work.precision.narrow_filter:
            made["wide"] = Buffer(built.wide * size)
        return made

    def buffer_names(self, border: str, precision: Precision) -> dict[str, str]:
        names = dict(self.buffers_used)
        if precision.narrow_filter:
            names["wide"] = "Filters of a step that are widened once."
        return names

    def unit(self, work: Work) -> tuple[int, int, int]:
        filters, rows, cols = self._built(work).region
        return rows, cols, filters

    def unit_strides(self, work: Work) -> Strides:
        if not self._rounds(work):
            return super().unit_strides(work)
        filter_, row, pixel = self._built(work).pitch
        return Strides(0, row, pixel, filter_)

    def _rounds(self, work: Work) -> bool:
        """Whether sums lie as the outputs do, and wait where these are rounded from."""
        problem, nest = self.compiled(work)
        return work.precision.narrow and nest.output == problem.output_layout

    def packed_numbers(self, work: Work) -> int:
        return work.groups * self._built(work).packed

    def schedule(self, work: Work) -> tuple[int, int]:
        return 1, work.batch * work.groups * self._built(work).parts

    def summation(self, tuning: Tuning, channels: int) -> dict[str, Any]:
        return {"block": None, "chains": 1}

    def count(self, work: Work) -> Stages:
        """Count one group of one image, whatever the blocks: the nest cuts by itself.

        Its last register blocks count as whole ones.
        """
        problem, nest = self.compiled(work)
        kind, lanes = nest.kind, work.lanes
        runs = prod(blocks(problem.extent(dim), nest.step(dim, lanes)) for dim in "MHW")
        depth = round_up(work.channels, nest.step("C", lanes)) * work.taps
        product = PanelProduct(
            (Panel(nest.rows * nest.pixels, nest.filters, runs),),
            depth / lanes if kind.meet == "dot" else depth,
        )
        whole = replace(work, block=work.out, images=1)
        moves = pixels_family.moved(whole, self.packed_bytes(work), {})
        counted = product.demand(pixels_family.multiplications(whole), moves)
        return Demand(), replace(counted, steps=self._many(work) * counted.steps), Demand()

    def demands(self, work: Work) -> Stages:
        return super().demands(replace(work, block=work.out, images=1))

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, many = machine.costs, self._many(work)
        _, multiply, _ = self.count(work)
        counted = multiply.product
        (panel,) = counted.panels
        step = np.maximum(
            np.maximum(many * panel.sums / machine.vectors_per_cycle, panel.loads / costs.loads),
            costs.latency,
        )
        share = work.batch * work.groups / min(work.threads, max(1, self.schedule(work)[1]))
        runs = share * counted.times * panel.times
        arithmetic = runs * (counted.depth * step + costs.call(1))
        moved = share * (multiply.bytes("input") + 2 * multiply.bytes("output", writes=True))
        product = cost.roof(arithmetic, moved / machine.memory_rate, costs.shows)
        return Cycles(0.0, product, 0.0)

    def _many(self, work: Work) -> int:
        """Vectors that a step multiplies for each pair of its operands."""
        _, nest = self.compiled(work)
        return nest.kind.sums(nest.pixels, nest.filters, work.lanes) // (nest.pixels * nest.filters)

    def _built(self, work: Work) -> Nest:
        return build(*self.compiled(work), work.target)


def problem_of(work: Work) -> LoopProblem:
    """Return one group and image of a call as loop nests see it."""
    (row_begin, _, col_begin, _), precision = work.part, work.precision
    return LoopProblem(
        layout=work.layout,
        channels=work.channels,
        filters=work.filters,
        size=work.size,
        output_size=work.out,
        kernel=work.kernel,
        stride=work.stride,
        dilation=work.dilation,
        before=(
            work.padding[0] - row_begin * work.stride[0],
            work.padding[1] - col_begin * work.stride[1],
        ),
        padding_mode=work.padding_mode,
        input=work.input,
        output=work.output,
        dtype=precision.transforms,
        arrays=precision.arrays if precision.narrow else "",
        weights=precision.narrow_filter,
    )


register(Loops())
