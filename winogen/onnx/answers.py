"""What a node is answered: its layers as a plan of `winogen.graph`, bound to kernels."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import accuracy, planner
from winogen.conv.clocks import unmeasured
from winogen.graph import maps
from winogen.graph.compiling import compile_all, kernels
from winogen.graph.layouts import channels_last
from winogen.graph.lower import Step
from winogen.graph.ops import Conv, QConv, Window
from winogen.graph.places import Buffer, Place
from winogen.graph.planning import Planned, Settings, computable, plan_steps
from winogen.graph.steps import Calling, Row, Steps
from winogen.graph.trial import tried
from winogen.kernels.kind import Spec
from winogen.kernels.spec import PADDING_MODES, KernelSpec
from winogen.records import ACTIVATIONS, Target
from winogen.records.activations import spelled
from winogen.tasks.limit import Limit
from winogen.toolchain import Library, host_target
from winogen.toolchain.machine import current

_ACTIVATIONS = (None, *ACTIVATIONS)  # by their numbers
_BYTES = ("uint8", "int8")  # by whether they are signed


class Error(NamedTuple):
    """The errors that are expected of a layer, relative to its largest output."""

    planned: float  # as it is planned
    direct: float  # of sums in one chain, as about those of frameworks


def constants_of(ffi: Any, question: Any) -> dict[int, int]:
    """Return the bytes of the arrays of a `winogen_question` that all calls share, by number."""
    items: dict[int, int] = {}  # bytes of a number, where they are not those of the input
    if question.scales != ffi.NULL:
        scales = question.scales[0]
        items = dict.fromkeys((scales.x_scale, scales.w_scale, scales.y_scale), 4)
        items |= dict.fromkeys((question.layer[i].bias for i in range(question.layers)), 4)
    records = ((number, question.array[number]) for number in range(question.arrays))
    return {
        number: math.prod(record.shape[0 : record.rank]) * items.get(number, question.itemsize)
        for number, record in records
        if record.constant != ffi.NULL
    }


class Question:
    """A `winogen_question` as steps of a plan."""

    def __init__(self, ffi: Any, question: Any):
        self._ffi, self._question = ffi, question
        self.itemsize = int(question.itemsize)
        self.inputs, self.outputs = int(question.inputs), int(question.outputs)
        self.tolerance = float(question.tolerance)  # 0 for none
        self.most_error = float(question.most_error)  # 0 for none
        self.threads = int(question.threads)
        self.dtype = {1: "uint8", 4: "float32", 8: "float64"}[self.itemsize]
        records = [question.array[i] for i in range(question.arrays)]
        self.shapes = [tuple(a.shape)[: a.rank] for a in records]
        self.constant = [a.constant != ffi.NULL for a in records]
        layers = [question.layer[i] for i in range(question.layers)]
        self.weights = [int(layer.weight) for layer in layers]  # which array, of every layer
        self.layers = [_initializer(ffi, layer) for layer in layers]
        self.scales = ""  # what a plan of a quantized layer is for; "" for others
        if question.scales != ffi.NULL:
            self.scales = self._initializer_of_scales(question.scales[0])
        self.steps = [self._step(layer) for layer in layers]
        # Those of single layers; of layers that share their filters the least.
        self.tolerances: dict[str, float] = {}
        for step, layer in zip(self.steps, layers):
            if layer.tolerance:
                least = self.tolerances.get(step.key, layer.tolerance)
                self.tolerances[step.key] = min(least, layer.tolerance)

    def plan(self, settings: Settings) -> tuple[Planned, int]:
        """Return the plan of its layers, and how many steps come before those of layers.

        Several layers run in NHWC where it is predicted to be faster, although arrays of the caller
        are brought into it and out of it again, and where all kernels are familiar. Raises
        CompilerNotFound if the kernels at hand suffice in neither layout.
        """
        buffers = {self._buffer(i): shape for i, shape in enumerate(self.shapes)}
        outputs = self.shapes[self.inputs : self.inputs + self.outputs]
        ways = [lambda: (plan_steps(self.steps, buffers, outputs, settings), 0)]
        if len(self.layers) > 1 and not self.scales:
            steps, turned, before = channels_last(self.steps, buffers)
            last = replace(settings, layout="NHWC")
            ways.append(lambda: (plan_steps(steps, turned, outputs, last), before))
        return fastest(computable(ways), settings.familiar)  # kernels at hand may be of one layout
        return fastest(ways, settings.familiar)

    def _map(self, layer: Any) -> Step:
        batch, _, *size = self.shapes[layer.input]
        repeated = layer.add >= 0 and tuple(self.shapes[layer.add][2:]) != tuple(size)
        in_rows = len(size) == 3 and not layer.planes
        seen = Window(*(_of_map(one, in_rows) for one in _axes(layer, 3)))
        op = maps.operator_of(layer, seen, _activation(layer), repeated)
        channels = layer.channels
        after = op.channels_after(channels)
        named = {"weight": layer.weight, "bias": layer.bias}
        return Step(
            f"node {self._question.node}",
            str(op),
            op,
            (batch, channels, *size),
            Place(self._buffer(layer.input), layer.input_channel, channels),
            Place(self._buffer(layer.output), layer.output_channel, after),
            self._added(layer.add, layer.add_channel, channels),
            arrays={name: Place(self._buffer(i), 0, 0) for name, i in named.items() if i >= 0},
            planes=bool(layer.planes),
        )

    def _step(self, layer: Any) -> Step:
        if layer.kind:
            return self._map(layer)
        quantized = self._question.scales != self._ffi.NULL
        op = self._bytes(layer) if quantized else self._real(layer)
        arrays = {}
        if not quantized:
            named = {"bias": layer.bias, "slopes": layer.slopes}
            if not self.constant[layer.weight]:
                named["weight"] = layer.weight
            arrays = {name: Place(self._buffer(i), 0, 0) for name, i in named.items() if i >= 0}
        filters, channels = len(op.weight), op.weight.shape[1] * op.groups
        batch, _, *size = self.shapes[layer.input]
        return Step(
            f"node {self._question.node}, weight {layer.weight}",
            f"layer {layer.weight}",
            op,
            (batch, channels, *size),
            Place(self._buffer(layer.input), layer.input_channel, channels),
            Place(self._buffer(layer.output), layer.output_channel, filters),
            self._added(layer.add, layer.add_channel, filters),
            self._added(layer.add_after, layer.add_after_channel, filters),
            arrays,
        )

    def _added(self, array: int, channel: int, channels: int) -> Place | None:
        return None if array < 0 else Place(self._buffer(array), channel, channels)

    def _buffer(self, array: int) -> Buffer:
        if array < self.inputs:
            return "input", array
        outside = self.inputs + self.outputs
        return ("output", array - self.inputs) if array < outside else ("arena", array - outside)

    def _real(self, layer: Any) -> Conv:
        weight = self._constant(layer.weight, self.dtype)
        if weight is None:  # its numbers come with the call
            weight = np.broadcast_to(np.zeros((), self.dtype), self.shapes[layer.weight])
        _, stride, padding, dilation = _axes(layer, weight.ndim - 2)
        return Conv(
            weight,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=layer.groups,
            padding_mode=PADDING_MODES[layer.padding_mode],
            activation=_activation(layer),
        )

    def _bytes(self, layer: Any) -> QConv:
        scales = self._question.scales
        weight, w_zero = (self._constant(one, np.int8) for one in (layer.weight, scales.w_zero))
        _, stride, padding, dilation = _axes(layer, 2)
        bias = self._constant(layer.bias, np.int32)
        assert weight is not None  # a layer has one
        numbers: dict[str, Any] = {}
        if scales.y_scale >= 0:
            numbers = {
                name: self._constant(getattr(scales, name), np.float32)
                for name in ("x_scale", "w_scale", "y_scale")
            }
            numbers["y_zero"] = self._zero(scales.y_zero, scales.output_signed)
            numbers["y_dtype"] = _BYTES[scales.output_signed]
        return QConv(
            weight,
            None if bias is None else bias.reshape(-1),
            _BYTES[scales.input_signed],
            self._zero(scales.x_zero, scales.input_signed),
            0 if w_zero is None else w_zero,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=layer.groups,
            activation=_activation(layer),
            **numbers,
        )

    def _zero(self, array: int, signed: int) -> int:
        """A zero point; 0 where there is none."""
        numbers = self._constant(array, _BYTES[signed])
        return 0 if numbers is None else int(numbers.reshape(-1)[0])

    def _constant(self, array: int, dtype: Any) -> np.ndarray | None:
        """The numbers of a constant; None where there is none."""
        if array < 0 or not self.constant[array]:
            return None
        kind, shape = np.dtype(dtype), self.shapes[array]
        size = math.prod(shape) * kind.itemsize
        memory = self._ffi.buffer(self._question.array[array].constant, size)
        return np.frombuffer(memory, kind).reshape(shape)

    def _initializer_of_scales(self, scales: Any) -> str:
        """Where the scales are, and the zero points that the struct of a kernel holds."""
        w_zero = self._constant(scales.w_zero, np.int8)
        zeros = (
            self._zero(scales.x_zero, scales.input_signed),
            self._zero(scales.y_zero, scales.output_signed),
            int(w_zero is not None and w_zero.any()),
        )
        return f"{{ {_initializer(self._ffi, scales)} }}, {', '.join(map(str, zeros))}"


def fastest(
    ways: Sequence[tuple[Planned, int]], familiar: frozenset[KernelSpec] | None
) -> tuple[Planned, int]:
    """Return the plan that is predicted to be fastest; one without new kernels goes before."""

    def rank(way: tuple[Planned, int]) -> tuple[bool, float]:
        is_new = familiar is not None and not familiar.issuperset(kernels([way[0]]))
        return is_new, way[0].seconds

    return min(ways, key=rank)


class Answer:
    """The plan of one question, which `bind` binds to kernels.

    Kernels that are ``familiar`` are preferred to faster ones. With a ``calling`` the plan is for
    the default machine of ``target``, and nothing is compiled. Raises BuildError and InvalidValue.
    """

    steps: Steps  # once it is bound
    held: Sequence[np.ndarray] = ()  # arrays that its steps read

    def __init__(
        self,
        library: Library,
        question: Any,
        packed: MutableMapping[Any, np.ndarray],
        familiar: Set[KernelSpec] | None = None,
        target: Target | None = None,
        calling: Calling | None = None,
        algorithm: str = "auto",
    ):
        self._library, self._packed, self._calling = library, packed, calling
        self.question = Question(library.ffi, question)
        self.tolerance = self.question.tolerance
        settings = Settings(
            layout="NCHW",
            dtype=self.question.dtype,
            threads=self.question.threads,
            tolerance=self.tolerance or None,
            algorithm=algorithm,
            most_error=self.question.most_error or None,
            target=target or host_target(),
            machine=unmeasured(target) if target else current(),
            familiar=None if familiar is None else frozenset(familiar),
            # A library packs the filters of each of its steps. Strips change no result, and to
            # find them takes long where somebody only compares.
            strips=calling is None and familiar is None and algorithm == "auto",
            tolerances=tuple(self.question.tolerances.items()),
        )
        self.planned, self._before = self.question.plan(settings)

    def late(self, limit: Limit) -> set[int]:
        """Compile its kernels as far as a limit allows; return the layers that lack one then.

        The largest come first.
        """
        planned = self.planned
        times = {n: choice.seconds for n, choice in enumerate(planned.choices)}
        order = sorted(times, key=lambda n: times[n], reverse=True)
        wanted = dict.fromkeys(spec for n in order for spec in planned.specs_of(n))
        ready = compile_all(wanted, limit=limit)
        return {n - self._before for n in order if not ready.issuperset(planned.specs_of(n))}

    def bind(self, measures: bool = True) -> Answer:
        """Load its kernels and pack; ``measures``: whether strips are tried out. Returns itself."""
        planned = self.planned
        if self._calling is None:
            compile_all(kernels([planned]))  # side by side, before any is needed
            planned = tried(planned, self._packed) if measures else planned
        self.steps = Steps(planned, self._library, self._packed, calling=self._calling)
        return self

    @property
    def weights(self) -> list[int]:
        """Which arrays hold the filters of its layers: once it is bound, they are packed."""
        return self.question.weights

    @property
    def wanted(self) -> list[KernelSpec]:
        """The kernels of its plan."""
        return kernels([self.planned])

    @property
    def specs(self) -> list[Spec]:
        """The kernels that it calls."""
        return [row.call.kernel.spec for row in self.steps.rows if row.call is not None]

    def layer_of(self, row: Row) -> int:
        """Return the number of the layer that a row computes; -1 if it turns a map."""
        number = row.number - self._before
        return number if number < len(self.question.layers) else -1

    @property
    def errors(self) -> list[Error]:
        """The expected errors of each layer, but for layers of bytes."""
        planned = self.steps.planned
        errors = []
        for problem, choice in zip(planned.problems, planned.choices):
            if problem is not None:
                layer, chosen = problem.layer, choice.ways[0].candidate.choice
                terms = math.prod(layer.weight_shape[1:])
                errors.append(
                    Error(
                        planner.predicted_error(layer, chosen, planned.settings.target),
                        accuracy.direct_error(layer.dtype, terms),
                    )
                )
        return errors

    def fill(self, plan: Any) -> None:
        """Write the answer."""
        plan.count, plan.steps = len(self.steps.rows), self.steps.table
        plan.scratch_bytes = self.steps.scratch_bytes


def _axes(layer: Any, rank: int) -> tuple[Any, ...]:
    """Kernel, stride, padding and dilation of a `winogen_layer` along its last axes, as graphs have
    them.
    """
    before, after = tuple(layer.padding)[:3], tuple(layer.padding)[3:]
    padding = tuple(end for ends in [*zip(before, after)][-rank:] for end in ends)
    kernel, stride, dilation = (
        tuple(getattr(layer, name))[-rank:] for name in ("kernel", "stride", "dilation")
    )
    return kernel, stride, padding, dilation


def _of_map(values: tuple[int, ...], in_rows: bool) -> tuple[int, ...]:
    """What a map has of three axes: the height is the depth where all rows of a plane are one."""
    each = len(values) // 3  # of padding two
    if not in_rows:
        return values[each:]
    return (*values[:each], *((0, 0) if each == 2 else (1,)))


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
