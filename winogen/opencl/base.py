"""What layers on a device share: weights packed once, arrays in and out, plans.

A layer knows what a call computes, a `Problem` or a `TransposedProblem`, and which problem of the
kernels that is. The output of the kernels is the call's: see `winogen.opencl.stores`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from winogen.conv import arguments, flytes, seams
from winogen.conv.convolution import layout_of, parameters
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.conv.transposed_problem import TransposedLayer, TransposedProblem
from winogen.conv.weighted import kept
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.opencl import running, wisdom
from winogen.opencl.choice import ALGORITHMS, DeviceCandidate, choose
from winogen.opencl.devices import DeviceInfo, context_of, platform
from winogen.opencl.phases import computed
from winogen.opencl.plan import DevicePlan
from winogen.opencl.rates import rates_of
from winogen.opencl.running import CompiledWork
from winogen.typing import Array, NDArray

_DTYPES = ("float32", "float16")
Asked = Problem | TransposedProblem


class BoundLayer(NamedTuple):
    """A problem whose kernels are compiled, with packed weights and its own buffers."""

    problem: Problem
    ranked: list[DeviceCandidate]
    running: CompiledWork
    packed: dict[str, Any]  # and the bias and the slopes
    workspace: dict[str, Any]


def check_rank(asked: Options, rank: int) -> None:
    """Raise Unsupported for volumes."""
    if asked.layout in arguments.LAYOUTS[3] or rank == 3:
        raise Unsupported(
            "layout: got a layer of 3 axes; allowed on devices: 1 or 2, and winogen.Conv3d and "
            "winogen.ConvTranspose3d for volumes, on the CPU"
        )


class DeviceLayer(ABC):
    """The base of all layers on devices; each says what it computes, and how it is called."""

    rank: ClassVar[int]
    _layer: Layer | TransposedLayer
    _request: Request
    _weight: np.ndarray

    def __init__(self, weight: Array, bias: Array | None, asked: Options, context: Any):
        """Check and keep all arguments; a subclass makes the rest of them."""
        check_rank(asked, getattr(weight, "ndim", 4) - 2)
        layout_of(asked, self.rank)
        arguments.choice("algorithm", asked.algorithm, ALGORITHMS)
        w, b = self._parameters(weight, bias, asked)
        self._weight_dtype = w.dtype
        self._make(w.shape, device_dtype("weight", w.dtype), asked)
        self._weight = np.array(flytes.computed_with(w), order="C")
        self._bias = None if b is None else np.array(flytes.computed_with(b), order="C")
        filters, kind = self._sample.filters, self._weight.dtype
        self._slopes = arguments.slopes(asked.activation, filters, kind)
        self._settle(context_of(context))

    def _parameters(self, weight: Array, bias: Array | None, asked: Options) -> tuple[Any, Any]:
        return parameters(weight, bias)

    @abstractmethod
    def _make(self, shape: tuple[int, ...], dtype: str, asked: Options) -> None:
        """Set the layer and the request, of weights of this shape."""

    @abstractmethod
    def _asked(self, dtype: str, shape: Any, output_size: Any) -> Asked:
        """Return what a call computes, with arrays of this type."""

    @property
    @abstractmethod
    def _sample(self) -> Layer:
        """A layer with the filters, channels and types of this one."""

    def _settle(self, context: Any) -> None:
        """Begin on a context, with nothing bound."""
        self.context = context
        self.device = DeviceInfo.of(context.devices[0])
        cl = platform()
        self._queue = cl.CommandQueue(
            context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        self._bound: dict[Any, BoundLayer] = {}
        self._lock = threading.Lock()

    _STATE = ("_layer", "_request", "_weight_dtype", "_weight", "_bias", "_slopes")

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles carry the weights, and run on the first device where they arrive."""
        return {name: getattr(self, name) for name in self._STATE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._settle(context_of())

    def timed(
        self, input: NDArray, *, add: NDArray | None = None, add_after: NDArray | None = None
    ) -> tuple[NDArray, dict[str, float]]:
        """Return the result for arrays of numpy, and the seconds that each kernel took.

        Their sum is the time on the device, the copies of arrays left out.
        """
        y, events, bound = self._call(input, None, add, add_after)
        names = [one.name for one in bound.running.work.kernels] if bound else []
        return y, dict(zip(names, running.seconds(events), strict=True))

    def _planned(self, shape: Any, output_size: Any, dtype: str | None) -> DevicePlan:
        sample = self._sample
        name = sample.dtype if dtype is None else arguments.choice("dtype", dtype, _DTYPES)
        asked = self._asked(self._type(arguments.dtype_named(name)), shape, output_size)
        bound = self._bind(computed(asked))
        return DevicePlan.of(asked, bound.problem, bound.ranked, bound.running, self.device)

    def __repr__(self) -> str:
        name, algorithm = type(self).__name__, self._request.algorithm
        return (
            f"<opencl.{name} weight {self._layer.weight_shape} {self._sample.dtype}, "
            f"algorithm {algorithm!r}, on {self.device.name}>"
        )

    def _type(self, dtype: np.dtype) -> str:
        """The type of a call with such an input; raises InvalidType unless it fits the weights."""
        device_dtype("input", dtype)
        return arguments.layer_dtype(dtype, self._weight_dtype)

    def _call(
        self, input: Any, out: Any, add: Any, add_after: Any, output_size: Any = None
    ) -> tuple[Any, Sequence[Any], BoundLayer | None]:
        if isinstance(input, platform().array.Array if _has_arrays() else ()):
            return self._on_device(input, out, add, add_after, output_size)
        x = arguments.layer_array("input", input)
        asked = self._asked(self._type(x.dtype), x.shape, output_size)
        shape = asked.output_shape
        terms = {
            name: None if value is None else seams.added(name, value, shape, x.dtype)
            for name, value in (("add", add), ("add_after", add_after))
        }
        if out is not None:
            out = seams.plain_output(out, x.dtype, shape, "input")
            if not out.flags.writeable:
                raise InvalidValue("out: got an array that is not writeable; allowed: one that is")
        y = np.empty(shape, x.dtype)
        events: Sequence[Any] = ()
        bound = None
        if y.size:
            bound = self._bind(self._sewn(asked, terms))
            given = {"input": x, **{k: v for k, v in terms.items() if v is not None}}
            arrays = {one.name: one for one in bound.running.work.arrays}
            buffers = {
                name: running.upload(self.context, arrays[name], value)
                for name, value in given.items()
            }
            buffers["output"] = bound.running.buffer(arrays["output"])
            events = self._launch(bound, self._queue, buffers)
            platform().enqueue_copy(self._queue, y, buffers["output"])
        if out is None:
            return y, events, bound
        out[...] = y
        return out, events, bound

    def _on_device(
        self, x: Any, out: Any, add: Any, add_after: Any, output_size: Any
    ) -> tuple[Any, Sequence[Any], BoundLayer | None]:
        """The same of arrays of pyopencl."""
        asked = self._asked(self._type(x.dtype), tuple(x.shape), output_size)
        shape = asked.output_shape
        queue = x.queue or self._queue
        given = {"input": self._checked("input", x, tuple(x.shape), x.dtype)}
        for name, value in (("add", add), ("add_after", add_after)):
            if value is not None:
                given[name] = self._checked(name, value, shape, x.dtype)
        if out is None:
            out = platform().array.empty(queue, shape, x.dtype)
        elif self._checked("out", out, shape, x.dtype) is not out:
            raise InvalidValue("out: got a view of another array; allowed: a contiguous array")
        if not out.size:
            return out, (), None
        bound = self._bind(self._sewn(asked, given))
        buffers = {name: array.data for name, array in given.items()} | {"output": out.data}
        after = [event for array in (*given.values(), out) for event in array.events]
        events = self._launch(bound, queue, buffers, after)
        out.add_event(events[-1])
        return out, events, bound

    def _sewn(self, asked: Asked, given: dict[str, Any]) -> Problem:
        """The problem of the kernels, with what is added."""
        problem = computed(asked)
        layer, terms = problem.layer, (given.get(name) for name in ("add", "add_after"))
        adds = (0 if term is None else layer.filters for term in terms)
        return problem.sewn(Seams(layer.channels, layer.filters, *adds))

    def _checked(self, name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """An array of pyopencl that kernels can read; a copy of one that is not contiguous."""
        if not isinstance(value, platform().array.Array):
            raise InvalidType(
                f"{name}: got {type(value).__name__}; allowed: a pyopencl array, as input is"
            )
        if value.context != self.context:
            raise InvalidValue(
                f"{name}: got an array of another context; allowed: one of the layer's, which "
                "context= says"
            )
        arguments.same_dtype(name, value, dtype, "input")
        if tuple(value.shape) != shape:
            raise InvalidValue(f"{name}: got shape {tuple(value.shape)}; allowed: {shape}")
        if value.flags.c_contiguous and value.offset == 0:
            return value
        return value.copy()

    def _launch(
        self, bound: BoundLayer, queue: Any, buffers: dict[str, Any], after: Sequence[Any] = ()
    ) -> list[Any]:
        with self._lock:
            workspace = bound.workspace
            if queue != self._queue:  # whose calls may run beside others
                workspace = bound.running.workspace()
            return bound.running.run(queue, buffers | bound.packed | workspace, after)

    def _bind(self, problem: Problem) -> BoundLayer:
        with self._lock:
            found = self._bound.get(problem)
            return found or kept(self._bound, problem, self._made(problem))

    def _made(self, problem: Problem) -> BoundLayer:
        bias = self._bias is not None
        measured = wisdom.candidates(problem, self.device)
        rates = rates_of(self.context)
        ranked = choose(problem, self._request, self.device, rates, measured)
        compiled = CompiledWork(ranked[0].work(problem, self.device, bias), self.context)
        buffers = compiled.pack(self._queue, self._weight)
        for one in compiled.work.arrays:
            values = {"bias": self._bias, "slopes": self._slopes}.get(one.role)
            if values is not None:
                buffers[one.name] = running.upload(self.context, one, values)
        self._queue.finish()  # queues of callers don't wait for this one
        return BoundLayer(problem, ranked, compiled, buffers, compiled.workspace())


def _has_arrays() -> bool:
    """Whether pyopencl's module of arrays is imported: else nobody has one."""
    import sys

    return "pyopencl.array" in sys.modules


def device_dtype(argument: str, dtype: np.dtype) -> str:
    """Return the type of arrays by its name; raises InvalidType for one that devices lack."""
    name = arguments.dtype_name(dtype)
    if name not in _DTYPES:
        raise InvalidType(f"{argument}: got dtype {dtype}; allowed on devices: float32 or float16")
    return name
