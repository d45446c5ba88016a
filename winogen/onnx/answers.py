"""What a node is answered: kernel calls for its layers, and where their arrays lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MutableMapping, Set
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import accuracy, planner
from winogen.conv.cuts import Candidate
from winogen.conv.execute import Environment, Kernel, Prepared
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.quantized import QConv2d
from winogen.conv.request import Request
from winogen.graph.choose import ways
from winogen.graph.compiling import compile_all
from winogen.graph.memory import Life, offsets
from winogen.kernels.kind import Spec
from winogen.kernels.spec import PADDING_MODES, KernelSpec
from winogen.onnx.operators import ADDRESS, ARENA, NOWHERE
from winogen.records import ACTIVATIONS, Machine, Target
from winogen.records.activations import spelled
from winogen.records.machine import LINE
from winogen.toolchain import host_target
from winogen.toolchain.machine import current

_ACTIVATIONS = (None, *ACTIVATIONS)  # by their numbers
_BYTES = ("uint8", "int8")  # by whether they are signed


class Answered(NamedTuple):
    """What a plan in use needs to stay where it is."""

    prepared: list[Any]
    memory: list[Any]  # packed weights, C structs


class Call(NamedTuple):
    """A kernel call as those need it who write it down."""

    spec: Spec
    code: Kernel
    struct: Any
    weight: int  # which array of the node it is


# A kernel's code, the struct of one call, and the work that it is.
Bound = tuple[Any, Any, Any]


class Error(NamedTuple):
    """The errors that are expected of a layer, relative to its largest output."""

    planned: float  # as it is planned
    direct: float  # of sums in one chain, as about those of frameworks


class Answer:
    """The plan of one question: kernel calls, and where their arrays lie."""

    def __init__(
        self,
        ffi: Any,
        question: Any,
        shared: MutableMapping[tuple, Any],
        familiar: Set[KernelSpec] | None = None,
    ):
        self.ffi = ffi
        self.familiar = familiar  # kernels that are preferred to faster ones; None for no such
        self.shared = shared
        self.question = question
        self.calls: list[Call] = []  # of each step
        self.errors: list[Error] = []  # of each layer
        self.itemsize, self.inputs = question.itemsize, question.inputs
        self.tolerance = float(question.tolerance)  # 0 for none
        self.dtype = "float32" if question.itemsize == 4 else "float64"
        self.kept = Answered([], [])
        self.arena = 0
        self.workspace = 0
        self.steps: list[dict[str, Any]] = []
        self.packings: list[dict[str, Any]] = []
        self.between = self.lay_out()
        self.target, self.machine = self.planned_for()
        self.plan_layers()

    def planned_for(self) -> tuple[Target, Machine]:
        """Return what the kernels are planned for."""
        return host_target(), current()

    def plan_layers(self) -> None:
        """Find the kernel calls of all layers."""
        question = self.question
        layers = [question.layer[i] for i in range(question.layers)]
        problems = [self.problem(layer) for layer in layers]
        self.get_ready(spec for p, ranked in problems for spec in _specs(ranked[0], p))
        for layer, (problem, ranked) in zip(layers, problems):
            self.add(layer, self.calls_of(problem, ranked))

    def get_ready(self, specs: Iterable[KernelSpec]) -> None:
        """Compile all kernels side by side, before any is needed."""
        compile_all(dict.fromkeys(specs))

    def calls_of(self, problem: Problem, ranked: list[Candidate]) -> Iterable[Bound]:
        """Return the kernel calls of a layer by the first of these ways."""
        prepared = Prepared(problem, ranked, self.target, Environment.now())
        self.kept.prepared.append(prepared)
        self.workspace = max(self.workspace, prepared.workspace_bytes)
        return [(call.kernel, call.struct, call.work) for call in prepared.calls]

    @cached_property
    def question_arrays(self) -> list[tuple[int, tuple[int, ...], bool]]:
        """Rank, sizes and whether it never changes, of every array."""
        records = (self.question.array[i] for i in range(self.question.arrays))
        return [(a.rank, tuple(a.shape), a.constant != self.ffi.NULL) for a in records]

    @cached_property
    def question_layers(self) -> list[str]:
        """All layers as C initializers."""
        return [_initializer(self.ffi, self.question.layer[i]) for i in range(self.question.layers)]

    @cached_property
    def question_scales(self) -> str:
        """What a plan of a quantized layer is for, as a C initializer; "" for others."""
        return ""

    def fill(self, plan: Any) -> None:
        """Write the answer."""
        ffi = self.ffi
        steps = ffi.new("winogen_step[]", self.steps)
        packings = ffi.new("winogen_packing[]", self.packings)
        self.kept.memory.extend((steps, packings))
        plan.steps, plan.step = len(self.steps), steps
        plan.packings, plan.packing = len(self.packings), packings
        plan.arena_bytes, plan.workspace_bytes = self.arena, self.workspace

    def lay_out(self) -> dict[int, int]:
        """Return where the arrays between the layers begin; those of different times may share."""
        question = self.question
        touched: dict[int, list[int]] = {}
        for step in range(question.layers):
            layer = question.layer[step]
            for array in (layer.input, layer.add, layer.add_after, layer.output):
                if array >= question.inputs + question.outputs:
                    touched.setdefault(array, []).append(step)
        lives = [
            Life(self.numbers(array) * question.itemsize, min(steps), max(steps))
            for array, steps in touched.items()
        ]
        begins, self.arena = offsets(lives)
        return dict(zip(touched, begins))

    def remembered(self) -> Answer:
        """Return itself with copies of what is only there while the question is asked."""
        _ = self.question_arrays, self.question_layers, self.question_scales
        return self

    def reserve(self, size: int) -> int:
        """Return the place of ``size`` bytes in the arena."""
        begin = self.arena
        self.arena += -(-size // LINE) * LINE
        return begin

    def shape(self, array: int) -> tuple[int, ...]:
        """Return the sizes of an array."""
        record = self.question.array[array]
        return tuple(record.shape[axis] for axis in range(record.rank))

    def numbers(self, array: int) -> int:
        """Return how many numbers an array has."""
        return math.prod(self.shape(array))

    def place(self, array: int, channel: int = 0) -> dict[str, int]:
        """Return where an array begins, at one of its channels."""
        if array < 0:
            return {"base": NOWHERE, "offset": 0}
        offset = 0
        if channel:
            offset = channel * math.prod(self.shape(array)[2:]) * self.question.itemsize
        if array in self.between:
            return self.at(ARENA, self.between[array] + offset)
        return {"base": array, "offset": offset}

    def at(self, base: int, offset: int) -> dict[str, int]:
        """Return a place behind ``base``."""
        return {"base": base, "offset": offset}

    def problem(self, asked: Any) -> tuple[Problem, list[Candidate]]:
        """Return what a layer asks for, and the ways to compute it, the best first."""
        shape = self.shape(asked.weight)
        options = Options(
            stride=tuple(asked.stride),
            dilation=tuple(asked.dilation),
            padding=((asked.padding[0], asked.padding[2]), (asked.padding[1], asked.padding[3])),
            groups=asked.groups,
            padding_mode=PADDING_MODES[asked.padding_mode],
            activation=_activation(asked),
            threads=self.question.threads,
            tolerance=self.question.tolerance or None,
        )
        layer = Layer.from_options(shape, self.dtype, options)
        seams = Seams(
            *(
                self.shape(array)[1] if array >= 0 else 0
                for array in (asked.input, asked.output, asked.add, asked.add_after)
            )
        )
        batch, _, *size = self.shape(asked.input)
        problem = layer.problem((batch, layer.channels, *size)).sewn(seams)
        request = Request.from_options(layer, options)
        ranked = [way.candidate for way in ways(problem, request, self.target, self.machine)]
        if self.familiar is not None:
            familiar = self.familiar
            ranked.sort(key=lambda one: not familiar >= set(_specs(one, problem)))
        planned = planner.predicted_error(layer, ranked[0].choice, self.target)
        terms = math.prod(shape[1:])
        self.errors.append(Error(planned, accuracy.direct_error(self.dtype, terms)))
        return problem, ranked

    def add(self, asked: Any, calls: Iterable[Bound]) -> None:
        """Append the kernel calls of one layer."""
        for bound in calls:
            code, struct, _ = bound
            places = {
                "input": self.place(asked.input, asked.input_channel),
                "packed": self.packed(code, struct, asked),
                "bias": self.place(asked.bias),
                "slopes": self.place(asked.slopes),
                "add": self.place(asked.add, asked.add_channel),
                "add_after": self.place(asked.add_after, asked.add_after_channel),
                "output": self.place(asked.output, asked.output_channel),
            }
            self.append(bound, asked.weight, places)

    def append(self, bound: Bound, weight: int, places: Mapping[str, Any]) -> None:
        """Append a kernel call, which reads and writes at these places."""
        code, struct, work = bound
        self.calls.append(Call(code.spec, code, struct, weight))
        self.steps.append(
            {
                "part": self.function(code, "winogen_part", "winogen_step", "part"),
                "conv": _pointer(self.ffi, code, struct),
                "phases": struct.phases,
                "parts": struct.parts,
                "threads": work.threads,
                **places,
            }
        )

    def packed(self, code: Any, struct: Any, asked: Any) -> dict[str, int]:
        """Return where the packed weights are, or will be: packed now, or in every call."""
        record = self.question.array[asked.weight]
        if not record.constant:
            place = self.at(ARENA, self.reserve(struct.packed_bytes))
            self.packings.append(
                {
                    "pack": self.function(code, "winogen_pack", "winogen_packing", "pack"),
                    "conv": _pointer(self.ffi, code, struct),
                    "weight": self.place(asked.weight),
                    "packed": place,
                }
            )
            return place
        key = (self.question.node, asked.weight, code)
        packed = self.shared.get(key)
        if packed is None:
            size = self.numbers(asked.weight) * self.question.itemsize
            weight = np.frombuffer(self.ffi.buffer(record.constant, size), self.dtype)
            packed = self.pack(code, struct, weight)
            self.shared[key] = packed
        self.kept.memory.append(packed)
        return self.at(ADDRESS, packed.ctypes.data)

    def pack(self, code: Any, struct: Any, weight: np.ndarray) -> np.ndarray:
        """Return weights as a kernel reads them."""
        packed: np.ndarray = code.pack(struct, 1, weight)  # leaves OpenMP's threads alone
        return packed

    def function(self, code: Any, name: str, struct: str, field: str) -> Any:
        """Return a function of a kernel's library as a member of a struct of ours."""
        address = int(code.ffi.cast("intptr_t", code.ffi.addressof(code.lib, name)))
        kind = dict(self.ffi.typeof(struct).fields)[field].type
        return self.ffi.cast(kind, address)


class QuantizedAnswer(Answer):
    """The plan of a quantized node: one kernel call, with all constants in its packed weights."""

    def plan_layers(self) -> None:
        """Find the kernel call."""
        layer, shape = self.question.layer[0], self.shape(self.question.layer[0].input)
        dtype = _BYTES[self.question.scales.input_signed]
        # One for all sizes, but for the padding that auto_pad makes of them.
        key = self.question.node, "QConv2d", tuple(layer.padding)
        conv = self.shared.get(key)
        if conv is None:
            conv = self.shared[key] = self.conv(layer)
        bound, packed = self.call_of(conv, shape, dtype)
        _, _, work = bound
        self.workspace = work.spec.workspace_bytes(work)
        places = {
            "input": self.place(layer.input),
            "packed": packed,
            "output": self.place(layer.output),
        }
        nowhere = dict.fromkeys(("bias", "slopes", "add", "add_after"), self.place(NOWHERE))
        self.append(bound, layer.weight, places | nowhere)

    def call_of(
        self, conv: QConv2d, shape: tuple[int, ...], dtype: str
    ) -> tuple[Bound, dict[str, int]]:
        """Return the kernel call, and where the packed weights are."""
        bound = conv.bound(shape, dtype)
        self.kept.memory.extend((conv, bound, bound.packed))
        place = self.at(ADDRESS, bound.packed.ctypes.data)
        return (bound.kernel, bound.struct, bound.work), place

    @cached_property
    def question_scales(self) -> str:
        """Where the scales are, and the zero points that the struct of a kernel holds."""
        scales = self.question.scales[0]
        w_zero = self.constant(scales.w_zero, np.int8)
        zeros = (
            self.zero(scales.x_zero, scales.input_signed),
            self.zero(scales.y_zero, scales.output_signed),
            int(w_zero is not None and w_zero.any()),
        )
        return f"{{ {_initializer(self.ffi, scales)} }}, {', '.join(map(str, zeros))}"

    def conv(self, layer: Any) -> QConv2d:
        """Return the convolution that the node is."""
        scales = self.question.scales
        top, left, bottom, right = layer.padding
        signs = scales.input_signed, scales.output_signed
        numbers: dict[str, Any] = {}
        if scales.y_scale >= 0:
            numbers = {
                name: self.constant(getattr(scales, name), np.float32)
                for name in ("x_scale", "w_scale", "y_scale")
            }
            numbers["y_zero"] = self.zero(scales.y_zero, signs[1])
            numbers["y_dtype"] = _BYTES[signs[1]]
        weight, w_zero = (self.constant(one, np.int8) for one in (layer.weight, scales.w_zero))
        assert weight is not None  # a layer has one
        bias = self.constant(layer.bias, np.int32)
        return QConv2d(
            weight,
            None if bias is None else bias.reshape(-1),
            stride=tuple(layer.stride),
            padding=((top, bottom), (left, right)),
            dilation=tuple(layer.dilation),
            groups=layer.groups,
            w_zero=0 if w_zero is None else w_zero,
            x_zero=self.zero(scales.x_zero, signs[0]),
            activation=_activation(layer),
            threads=self.question.threads,
            **numbers,
        )

    def zero(self, array: int, signed: int) -> int:
        """Return a zero point; 0 where there is none."""
        found = self.constant(array, _BYTES[signed])
        return 0 if found is None else int(found.reshape(-1)[0])

    def constant(self, array: int, dtype: Any) -> np.ndarray | None:
        """Return the numbers of a constant; None where there is none."""
        if array < 0:
            return None
        record, kind = self.question.array[array], np.dtype(dtype)
        size = self.numbers(array) * kind.itemsize
        found = np.frombuffer(self.ffi.buffer(record.constant, size), kind)
        return found.reshape(self.shape(array))


def _specs(candidate: Candidate, problem: Problem) -> list[KernelSpec]:
    """The kernels of a way."""
    return [KernelSpec.of(work) for work in candidate.works(problem)]


def _pointer(ffi: Any, code: Any, struct: Any) -> Any:
    """Return the address of a kernel's struct as ours."""
    return ffi.cast("void *", int(code.ffi.cast("intptr_t", struct)))


def _initializer(ffi: Any, struct: Any) -> str:
    """Return the values of a struct as C writes them."""
    values = []
    for name, field in ffi.typeof(struct).fields:
        value = getattr(struct, name)
        if field.type.kind == "array":
            values.append(f"{{ {', '.join(map(_number, value))} }}")
        else:
            values.append(_number(value))
    return ", ".join(values)


def _number(value: float) -> str:
    """Return a number as C writes it, exactly."""
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "-__builtin_inf()" if value < 0 else "__builtin_inf()"
    return value.hex()


def _activation(layer: Any) -> Any:
    """The activation of a `winogen_layer`, but for slopes of filters."""
    name = _ACTIVATIONS[layer.activation]
    if name is None:
        return None
    if ACTIVATIONS[name].per_filter:
        return name, 0.0
    return spelled(name, tuple(layer.parameters)[: len(ACTIVATIONS[name].parameters)])
