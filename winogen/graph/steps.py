"""A plan bound to kernels: an array of steps that one C function runs.

``csrc/runtime/steps.h`` says how that array is laid out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import arguments, memory
from winogen.conv.execute import Call, Environment
from winogen.conv.quantized import QConv2d
from winogen.graph import maps, runtime
from winogen.graph.chains import Chain
from winogen.graph.choose import Choice
from winogen.graph.lower import Step
from winogen.graph.ops import Conv, Repeat
from winogen.graph.places import Place
from winogen.graph.planning import Planned
from winogen.graph.relayout import turning
from winogen.graph.shapes import array_shape
from winogen.graph.step_ways import bytes_of
from winogen.graph.strips import Move
from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.kernels.work import round_up
from winogen.records.machine import LINE
from winogen.toolchain import Library
from winogen.toolchain.threads import follow

# Seconds after which a call returns to Python, where Ctrl-C is heard.
_PATIENCE = 0.2

Packed = MutableMapping[Any, np.ndarray]
Spot = tuple[int, int]  # slot and offset, a `winogen_place`
NOWHERE: Spot = (0, 0)
_PLACES = ("input", "add", "add_after", "output")  # of a step, as kernels name them
# Makes a kernel call of its spec, its work and its predicted seconds.
Calling = Callable[[Spec, Any, float | None], Call]


class Row(NamedTuple):
    """One `winogen_step`."""

    number: int  # of the plan's step that it belongs to
    content: bytes  # of what its first pointer points to
    call: Call | None  # of a kernel; None for what only moves numbers
    run: int  # addresses of functions
    part: int
    pointers: tuple[Spot, ...]
    first: int
    last: int
    parts: int
    threads: int
    seconds: float = 0.0  # predicted
    packs: bool = False  # whether it only packs weights that come with the call


class Steps:
    """The steps of a plan and all that they point to.

    Slots are 0, the addresses of the inputs, those of the outputs, and that of ``scratch_bytes``
    bytes, aligned to 64. ``library`` has the steps' declarations. ``packed`` remembers filters.
    ``threads`` pack them. Steps that take longer than ``patience`` are several.
    """

    def __init__(
        self,
        planned: Planned,
        library: Library,
        packed: Packed,
        *,
        threads: int = 1,
        patience: float = inf,
        calling: Calling | None = None,
    ):
        self.planned, self.ffi, self.lib = planned, library.ffi, library.lib
        self._packed, self._threads, self._patience = packed, threads, patience
        environment = Environment.now()
        self._calling = calling or (
            lambda spec, work, seconds: Call(spec, work, environment, seconds)
        )
        self._carried = library if calling else None
        self._moves: Library | None = None  # what only moves numbers
        self._kept: list[Any] = [library]  # what C points to
        fields = dict(self.ffi.typeof("winogen_step").fields)
        self._functions = [fields[name].type for name in ("run", "part")]
        self._quantized: dict[int, QConv2d] = {}  # by the number of their step
        inputs = sum(name == "input" for name, _ in planned.buffers)
        self._first_slot = {"input": 1, "output": 1 + inputs}
        self._scratch = 1 + inputs + len(planned.outputs)
        chains = {chain.first: chain for chain in planned.chains}
        chained = {number for chain in planned.chains for number in chain.numbers}
        calls = {
            number: self._calls(number, step, planned.choices[number])
            for number, step in enumerate(planned.steps)
            if number not in chained
        } | {first: self._strip_calls(chain) for first, chain in chains.items()}
        workspace = max((one.workspace_bytes for some in calls.values() for one in some), default=0)
        # Buffers lie behind the memory that kernels work in, packed weights of a call behind them.
        self._arena = int(round_up(workspace, LINE))
        self.scratch_bytes = self._arena + planned.arena_bytes
        self.rows = [
            row
            for number, some in sorted(calls.items(), key=itemgetter(0))
            for row in (
                self._strips(chains[number], some)
                if number in chains
                else self._rows(number, planned.steps[number], some)
            )
        ]
        self.table = self.ffi.new("winogen_step[]", [self._filled(row) for row in self.rows])

    @property
    def packed_bytes(self) -> int:
        """Of the filters as the kernels read them."""
        arrays = {id(array): array.nbytes for array in self._kept if isinstance(array, np.ndarray)}
        return sum(arrays.values())

    # ---- calls of kernels ------------------------------------------------------------------------

    def _calls(self, number: int, step: Step, choice: Choice) -> list[Call]:
        """The kernel calls of a step; none of what only moves numbers."""
        planned, settings = self.planned, self.planned.settings
        op = step.op.quantized
        if op is not None:
            conv = self._quantized[number] = bytes_of(op, settings)
            ways = conv.ranked(step.shape, op.x_dtype, settings.target, settings.machine)
            return [self._calling(ways[0].work.spec, ways[0].work, ways[0].seconds)]
        problem = planned.problems[number]
        if problem is None:
            return []
        candidate = choice.ways[0].candidate
        return [
            self._calling(KernelSpec.of(work), work, candidate.seconds)
            for work in candidate.works(problem)
        ]

    def _rows(self, number: int, step: Step, calls: list[Call]) -> Iterator[Row]:
        seconds = self.planned.choices[number].seconds
        if step.op.origin:
            yield self._turning(number, step)
            return
        if not calls:
            yield self._moving(number, step, seconds)
            return
        places = {name: self._at(getattr(step, name)) for name in _PLACES}
        if step.op.is_convolution:
            places |= self._biases(step, step.op.conv)
        pieces = max(1, int(seconds / self._patience / len(calls)))
        for call in calls:
            if "weight" not in step.arrays:
                places["packed"] = self._filters(number, step, call)
            else:
                packing = self._packing(number, step, call)
                places["packed"] = packing.pointers[2]
                yield packing
            ranges = call.ranges(pieces, self._threads)
            share = seconds / len(calls) / max(1, len(ranges))
            for parts in ranges:
                yield self._calling_row(number, call, places, parts, share)

    def _calling_row(
        self,
        number: int,
        call: Call,
        places: Mapping[str, Spot],
        parts: tuple[int, int],
        seconds: float,
    ) -> Row:
        """The step that computes some parts of a kernel call."""
        self._kept.append(call)
        spec, struct = call.kernel.spec, call.struct
        order = (*spec.inputs, spec.output)
        pointers = (self._struct(call), *(places[name] for name in order), (self._scratch, 0))
        functions = (_function(call, "winogen_run_some"), _function(call, "winogen_part"))
        content = _content(call.kernel.ffi, struct)
        return Row(
            number, content, call, *functions, pointers, *parts, struct.parts, call.threads,
            seconds,
        )  # fmt: skip

    def _struct(self, call: Call) -> Spot:
        return self._fixed(_address(call.kernel.ffi, call.struct))

    # ---- chains ----------------------------------------------------------------------------------

    def _strip_calls(self, chain: Chain) -> list[Call]:
        """The kernel calls of a chain, equal ones once."""
        works = {id(work): work for work in chain.works if work is not None}
        return [self._calling(KernelSpec.of(work), work, 0.0) for work in works.values()]

    def _strips(self, chain: Chain, calls: list[Call]) -> Iterator[Row]:
        """The steps of a chain, strip by strip of image by image."""
        by_work = {id(call.work): call for call in calls}
        parameters = {
            number: self._biases(step, step.op.conv)
            for number in chain.numbers
            for step in self.planned.steps[number : number + 1]
            if step.op.is_convolution
        }
        for image in range(chain.images):
            for job, work in zip(chain.strips.jobs, chain.works):
                number = chain.first + job.step
                step = self.planned.steps[number]
                if isinstance(job, Move):
                    copy = replace(step, op=Repeat((1, 1)), input=step.output, add=None)
                    part = maps.Part(0, job.rows, job.rows)
                    yield self._moving(number, copy, 0.0, part, (job.up, 0))
                    continue
                whole = self.planned.choices[number].seconds / step.shape[0]
                seconds = (
                    whole * (job.end - job.begin) / self.planned.buffers[step.output.buffer][2]
                )
                if work is None:
                    part = maps.Part(job.above, job.last - job.first, job.end - job.begin)
                    between = job.source, job.target
                    yield self._moving(number, step, seconds, part, between, image)
                    continue
                rows = {"input": job.source, "output": job.target}
                spots = {
                    name: self._at(getattr(step, name), rows.get(name, job.begin), image)
                    for name in _PLACES
                }
                call = by_work[id(work)]
                spots |= parameters[number] | {"packed": self._filters(number, step, call)}
                parts = 0, call.struct.phases * call.struct.parts
                yield self._calling_row(number, call, spots, parts, seconds)

    def _filters(self, number: int, step: Step, call: Call) -> Spot:
        """Where the weights are as a kernel reads them, packed once for all shapes."""
        conv = self._quantized.get(number)
        # Packing depends on an input's zero point, too.
        key = step.key, call.kernel, None if conv is None else call.work.zero
        filters = self._packed.get(key)
        if filters is None:
            if conv is not None:
                weights = conv.packs
            else:
                weights = (np.ascontiguousarray(step.op.conv.weight, self._dtype),)
            filters = call.kernel.pack(call.struct, self._threads, *weights)
            self._packed[key] = filters
        self._kept.append(filters)
        return self._fixed(filters.ctypes.data)

    def _packing(self, number: int, step: Step, call: Call) -> Row:
        """The step that packs weights of the call, into memory of their own."""
        packed = self._scratch, self.scratch_bytes
        self.scratch_bytes += int(round_up(call.struct.packed_bytes, LINE))
        pack = self._fixed(_function(call, "winogen_pack"))
        pointers = (self._struct(call), self._at(step.arrays["weight"]), packed, pack)
        part = _address(self.ffi, self.ffi.addressof(self.lib, "winogen_pack_part"))
        content = _content(call.kernel.ffi, call.struct)
        return Row(number, content, call, 0, part, pointers, 0, 1, 1, 1, packs=True)

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self.planned.settings.dtype)

    def _biases(self, step: Step, op: Conv) -> dict[str, Spot]:
        """Where the bias and the slopes of a convolution are."""
        slopes = arguments.slopes(op.activation, len(op.weight), self._dtype)
        return self._parameters(step, bias=op.bias, slopes=slopes)

    def _parameters(self, step: Step, **arrays: np.ndarray | None) -> dict[str, Spot]:
        """Where numbers per channel are: in the plan, or in arrays of the call."""
        spots = {}
        for name, array in arrays.items():
            spots[name] = NOWHERE
            if name in step.arrays:
                spots[name] = self._at(step.arrays[name])
            elif array is not None:
                kept = np.ascontiguousarray(array, self._dtype)
                self._kept.append((kept,))
                spots[name] = self._fixed(kept.ctypes.data)
        return spots

    def _moving(
        self,
        number: int,
        step: Step,
        seconds: float,
        part: maps.Part | None = None,
        rows: tuple[int, int] = (0, 0),
        image: int = 0,
    ) -> Row:
        """The step of what only moves numbers, of the same form as a kernel call.

        ``part`` of it from ``rows`` of its input and output on, if it is not all.
        """
        planned = self.planned
        op = step.op
        assert op.kinds
        struct, parts = planned.map_struct(self, step, part)
        # Of onnxruntime's operators only those that a library carries are for this target.
        target, dtype = planned.settings.target, planned.settings.dtype
        if self._moves is None:  # to look it up takes longer than many a step
            self._moves = self._carried or runtime.library(target, dtype)
        library = self._moves
        self._kept += [struct, library]
        function = library.ffi.addressof(library.lib, f"winogen_map_part_{runtime.REALS[dtype]}")
        here, function = (_address(self.ffi, pointer) for pointer in (struct, function))
        ends = zip((step.input, step.output), rows)
        pointers = [self._fixed(here), *(self._at(place, row, image) for place, row in ends)]
        if op.weights is not None:
            scale, shift = op.weights
            pointers += self._parameters(step, weight=scale, bias=shift).values()
        if step.add is not None:
            pointers.append(self._at(step.add))
        content, threads = _content(self.ffi, struct), planned.settings.threads
        places = tuple(pointers)
        return Row(number, content, None, 0, function, places, 0, parts, parts, threads, seconds)

    # ---- where things are ------------------------------------------------------------------------

    def _fixed(self, address: int) -> Spot:
        return 0, address

    def _at(self, place: Place | None, row: int = 0, image: int = 0) -> Spot:
        """Where a place is, from a row of an image on; a window has rows of one image."""
        if place is None:
            return NOWHERE
        planned, (kind, number) = self.planned, place.buffer
        offset = planned.offset(place, row, image) * np.dtype(planned.settings.dtype).itemsize
        if kind == "arena":
            return self._scratch, self._arena + planned.arena[place.buffer] + offset
        return self._first_slot[kind] + number, offset

    def _filled(self, row: Row) -> tuple:
        """A row as cffi takes it."""
        run, part = (
            self.ffi.cast(kind, address)
            for kind, address in zip(self._functions, (row.run, row.part))
        )
        return run, part, row.pointers, row.first, row.last, row.parts, row.threads

    def _turning(self, number: int, step: Step) -> Row:
        """The step that brings a map into the other layout."""
        settings = self.planned.settings
        struct, function, parts = turning(self, step.op.origin, step.shape, settings.dtype)
        self._kept.append(struct)
        here, part = (_address(self.ffi, pointer) for pointer in (struct, function))
        pointers = (self._fixed(here), self._at(step.input), self._at(step.output))
        numbers = 0, parts, parts, settings.threads, self.planned.choices[number].seconds
        return Row(number, _content(self.ffi, struct), None, 0, part, pointers, *numbers)


class Bound(Steps):
    """A segment for inputs of certain shapes, ready to run; immutable, so threads may share it.

    ``output_shapes`` are those of the arrays, in the segment's layout.
    """

    def __init__(self, planned: Planned, packed: Packed):
        self.threads = planned.settings.threads
        library = runtime.library(planned.settings.target, planned.settings.dtype)
        super().__init__(planned, library, packed, threads=self.threads, patience=_PATIENCE)
        self._groups: list[tuple[int, int]] = []  # steps between returns to Python
        since, spent = 0, 0.0
        for place, row in enumerate(self.rows):
            if place > since and spent + row.seconds > _PATIENCE:
                self._groups.append((since, place - since))
                since, spent = place, 0.0
            spent += row.seconds
        self._groups.append((since, len(self.rows) - since))
        layout = planned.settings.layout
        self.output_shapes = tuple(array_shape(shape, layout) for shape in planned.outputs)

    def run(self, addresses: Sequence[int]) -> None:
        """Run on the arrays at these addresses: all inputs, then all outputs.

        They are contiguous, of the right shapes, and nobody checks.
        """
        if not self.rows:
            return
        scratch = memory.workspace(self.scratch_bytes)
        slots = self.ffi.new("int64_t[]", (0, *addresses, scratch.ctypes.data))
        follow()
        for first, count in self._groups:
            self.lib.winogen_run_segment(self.table + first, count, slots, self.threads)


def _content(ffi: Any, struct: Any) -> bytes:
    return bytes(ffi.buffer(struct))


def _address(ffi: Any, pointer: Any) -> int:
    return int(ffi.cast("intptr_t", pointer))


def _function(call: Call, name: str) -> int:
    """The address of a function of a kernel; 0 where that is not loaded."""
    code = call.kernel
    return _address(code.ffi, code.ffi.addressof(code.lib, name)) if code.lib else 0
