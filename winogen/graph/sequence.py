"""A planned segment bound to kernels: an array of steps that one C function runs.

``csrc/runtime/sequence.h`` says how that array is laid out.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np

from winogen.conv import arguments, memory
from winogen.conv.execute import Environment, Prepared
from winogen.graph import maps, runtime
from winogen.graph.ir import Conv
from winogen.graph.lower import Step
from winogen.graph.places import Place
from winogen.graph.planning import Planned
from winogen.toolchain import Library
from winogen.toolchain.fork import team_threads

# Seconds after which a call returns to Python, where Ctrl-C is heard.
_PATIENCE = 0.2

Packed = MutableMapping[Any, np.ndarray]


class Bound:
    """A segment for inputs of certain shapes, ready to run; immutable, so threads may share it.

    ``output_shapes`` are those of the arrays, in the segment's layout. ``steps`` is a C array of
    ``count`` steps for `winogen_sequence`. Its slots are 0, the addresses of the inputs, those of
    the outputs, and that of ``scratch_bytes`` bytes, aligned to 64.
    """

    def __init__(self, planned: Planned, packed: Packed, environment: Environment | None = None):
        environment = environment or Environment.now()
        library = sequencer(planned)
        self.planned, self.ffi, self.lib = planned, library.ffi, library.lib
        target, threads = planned.settings.target, planned.settings.threads
        self.threads = threads
        self.prepared = [
            None
            if problem is None
            else Prepared(problem, [way.candidate for way in choice.ways], target, environment)
            for problem, choice in zip(planned.problems, planned.choices)
        ]
        self.workspace_bytes = max((p.workspace_bytes for p in self.prepared if p), default=0)
        self.scratch_bytes = planned.arena_bytes + self.workspace_bytes
        self._kept: list[Any] = []  # what C points to
        inputs = sum(name == "input" for name, _ in planned.buffers)
        self._slots = {
            buffer: 1 + buffer[1] + (inputs if buffer[0] == "output" else 0)
            for buffer in planned.buffers
            if buffer[0] != "arena"
        }
        self._scratch = 1 + inputs + len(planned.outputs)
        rows: list[tuple] = []
        self._groups: list[tuple[int, int]] = []  # steps between returns to Python
        since, spent = 0, 0.0
        for step, prepared, choice in zip(planned.steps, self.prepared, planned.choices):
            steps = (
                self._moving(step, choice.seconds)
                if prepared is None
                else self._rows(step, prepared, packed, threads, choice.seconds)
            )
            for row, share in steps:
                if rows[since:] and spent + share > _PATIENCE:
                    self._groups.append((since, len(rows)))
                    since, spent = len(rows), 0.0
                rows.append(row)
                spent += share
        self._groups.append((since, len(rows)))
        self.count = len(rows)
        last = planned.settings.layout == "NHWC"
        self.output_shapes = tuple(
            (shape[0], *shape[2:], shape[1]) if last else shape for shape in planned.outputs
        )
        self.steps = self.ffi.new("winogen_step[]", rows)

    @property
    def packed_bytes(self) -> int:
        """Of the filters as the kernels read them."""
        arrays = {id(array): array.nbytes for array in self._kept if isinstance(array, np.ndarray)}
        return sum(arrays.values())

    def run(self, addresses: Sequence[int]) -> None:
        """Run on the arrays at these addresses: all inputs, then all outputs.

        They are contiguous, of the right shapes, and nobody checks.
        """
        if not self.count:
            return
        scratch = memory.workspace(self.scratch_bytes)
        slots = self.ffi.new("int64_t[]", (0, *addresses, scratch.ctypes.data))
        threads, run = team_threads(self.threads), self.lib.winogen_sequence
        for first, last in self._groups:
            run(self.steps, first, last, slots, threads)

    def _rows(
        self, step: Step, prepared: Prepared, packed: Packed, threads: int, seconds: float
    ) -> list[tuple[tuple, float]]:
        """The steps of the kernel calls of one convolution, and the seconds that each takes."""
        op, dtype = step.op, np.dtype(self.planned.settings.dtype)
        assert isinstance(op, Conv)
        bias = None if op.bias is None else np.ascontiguousarray(op.bias, dtype)
        slopes = arguments.slopes(op.activation, len(op.weight), dtype)
        weight = np.ascontiguousarray(op.weight, dtype)
        pieces = max(1, int(seconds / _PATIENCE / max(1, len(prepared.calls))))
        rows = []
        for call in prepared.calls:
            code, struct = call.kernel, call.struct
            filters = packed.get((step.key, code))
            if filters is None:
                filters = packed[step.key, code] = code.pack(struct, threads, weight)
            self._kept += [filters, struct, code]
            if bias is not None or slopes is not None:
                self._kept += [(bias, slopes)]
            arrays = [
                self._fixed(int(code.ffi.cast("intptr_t", struct))),
                self._at(step.input),
                self._fixed(filters.ctypes.data),
                self._fixed(0 if bias is None else bias.ctypes.data),
                self._fixed(0 if slopes is None else slopes.ctypes.data),
                self._at(step.add),
                self._at(step.add_after),
                self._at(step.output),
                (self._scratch, self.planned.arena_bytes),
            ]
            function = code.ffi.addressof(code.lib, "winogen_run_some")
            run = self.ffi.cast(
                "void (*)(const void *, int64_t, int64_t, int)",
                int(code.ffi.cast("intptr_t", function)),
            )
            ranges = call.ranges(pieces, threads)
            share = seconds / len(prepared.calls) / max(1, len(ranges))
            rows += [((run, arrays, *some), share) for some in ranges]
        return rows

    def _moving(self, step: Step, seconds: float) -> list[tuple[tuple, float]]:
        """The step of what only moves numbers, of the same form as a kernel call."""
        planned = self.planned
        assert not isinstance(step.op, Conv)
        library = maps.library(planned.settings.dtype, planned.settings.target)
        struct, name, parts = maps.struct(
            library,
            step.op,
            step.shape,
            planned.settings.layout,
            planned.buffers[step.input.buffer],
            planned.buffers[step.output.buffer],
        )
        self._kept += [struct, library]
        run = self.ffi.cast(
            "void (*)(const void *, int64_t, int64_t, int)",
            int(library.ffi.cast("intptr_t", library.ffi.addressof(library.lib, name))),
        )
        none = self._fixed(0)
        arrays = [none] * 9
        arrays[0] = self._fixed(int(library.ffi.cast("intptr_t", struct)))
        arrays[1], arrays[7] = self._at(step.input), self._at(step.output)
        return [((run, arrays, 0, parts), seconds)]

    def _fixed(self, address: int) -> tuple[int, int]:
        return 0, address

    def _at(self, place: Place | None) -> tuple[int, int]:
        if place is None:
            return 0, 0
        planned = self.planned
        _, _, height, width = planned.buffers[place.buffer]
        step = 1 if planned.settings.layout == "NHWC" else height * width
        offset = place.channel * step * np.dtype(planned.settings.dtype).itemsize
        if place.buffer[0] == "arena":
            return self._scratch, planned.arena[place.buffer] + offset
        return self._slots[place.buffer], offset


def sequencer(planned: Planned) -> Library:
    """Return the library that runs steps; compiled once."""
    return runtime.library("sequence", planned.settings.target)
