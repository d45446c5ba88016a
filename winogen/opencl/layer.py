"""`Conv2d` on a device of OpenCL: arrays of numpy or of pyopencl in and out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from winogen.conv import arguments, seams
from winogen.conv.convolution import layout_of, parameters
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.conv.weighted import SHAPES_KEPT
from winogen.errors import InvalidType, InvalidValue
from winogen.opencl import running, wisdom
from winogen.opencl.choice import ALGORITHMS, DeviceCandidate, choose
from winogen.opencl.devices import DeviceInfo, context_of, platform
from winogen.opencl.plan import DevicePlan
from winogen.opencl.rates import rates_of
from winogen.opencl.running import CompiledWork
from winogen.typing import (
    Activation,
    Algorithm,
    Array,
    IntOrInts,
    Layout2d,
    Moduli,
    NDArray,
    Order,
    Padding,
    PaddingMode,
    Points,
    Real,
    Tile,
)

_DTYPES = ("float32", "float16")


class BoundLayer(NamedTuple):
    """A problem whose kernels are compiled, with packed weights and its own buffers."""

    problem: Problem
    ranked: list[DeviceCandidate]
    running: CompiledWork
    packed: dict[str, Any]  # and the bias and the slopes
    workspace: dict[str, Any]


class Conv2d:
    """A convolution with fixed weights and options on a device, which packs the weights only once.

    Arguments and errors are those of `winogen.Conv2d`, as far as they mean something there.
    ``algorithm`` is "auto", "direct" or "mcmr". ``context``: a pyopencl.Context or
    pyopencl.Device; None for the first device there is, a graphics processor if there is one.

    Weights and arrays are float32 or float16; all is computed in float32. A call takes an array of
    numpy, or of pyopencl on a device of the context, and returns one of the same kind. One object
    may be called from several threads at once.

    Raises
    ------
    InvalidType, InvalidValue, Unsupported
        For an argument that is not allowed, as `winogen.Conv2d` does.
    MissingPackage
        Without pyopencl, which the extra "opencl" brings.
    NoDevice
        Where no driver is installed; the message says which to install.
    """

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        # parameters: stride ... activation
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        groups: SupportsIndex = 1,
        *,
        padding_mode: PaddingMode = "zeros",
        layout: Layout2d = "NCHW",
        activation: Activation | None = None,
        # end
        # parameters: algorithm ... order
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        moduli: Moduli | None = None,
        order: Order | None = None,
        # end
        # parameters: workspace_limit tolerance
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
        context: Any = None,
    ):
        asked = Options(
            stride=stride, padding=padding, dilation=dilation, groups=groups,
            padding_mode=padding_mode, layout=layout, activation=activation, algorithm=algorithm,
            tile=tile, points=points, moduli=moduli, order=order, workspace_limit=workspace_limit,
            tolerance=tolerance, threads=1,
        )  # fmt: skip
        layout_of(asked, 2)
        arguments.choice("algorithm", algorithm, ALGORITHMS)
        w, b = parameters(weight, bias)
        dtype = _dtype("weight", w.dtype)
        self._layer = Layer.from_options(w.shape, dtype, asked)
        self._request = Request.from_options(self._layer, asked)
        self._weight_dtype = w.dtype
        w = arguments.computed_with(w)
        self._weight = np.array(w, order="C")
        self._bias = None if b is None else np.array(arguments.computed_with(b), order="C")
        self._slopes = arguments.slopes(activation, self._layer.filters, self._weight.dtype)
        self._settle(context_of(context))

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

    def __call__(
        self, input: Any, out: Any = None, *, add: Any = None, add_after: Any = None
    ) -> Any:
        """Return activation(conv + bias + add) + add_after, in ``out`` if given.

        All arrays are of numpy, or all of pyopencl, then C-contiguous and of one context. Those of
        pyopencl are computed on the queue of ``input``, without waiting. See `winogen.conv2d`.
        """
        return self._call(input, out, add, add_after)[0]

    def timed(
        self, input: NDArray, *, add: NDArray | None = None, add_after: NDArray | None = None
    ) -> tuple[NDArray, dict[str, float]]:
        """Return the result for arrays of numpy, and the seconds that each kernel took.

        Their sum is the time on the device, the copies of arrays left out.
        """
        y, events, bound = self._call(input, None, add, add_after)
        names = [one.name for one in bound.running.work.kernels] if bound else []
        return y, dict(zip(names, running.seconds(events), strict=True))

    def plan(
        self, input_shape: tuple[int, ...] | list[int], dtype: str | None = None
    ) -> DevicePlan:
        """Return what a call with an input of this shape does, and what it takes.

        ``dtype``: of the input, by default the weights'. Compiles the kernels if that has not been
        done yet. Raises InvalidValue for a shape that does not fit the weights, InvalidType for
        such a dtype, and CompileFailed.
        """
        name = self._layer.dtype if dtype is None else arguments.choice("dtype", dtype, _DTYPES)
        layer = self._typed(arguments.dtype_named(name))
        bound = self._bind(layer.problem(input_shape))
        return DevicePlan.of(bound.problem, bound.ranked, bound.running, self.device)

    def __repr__(self) -> str:
        layer, algorithm = self._layer, self._request.algorithm
        return (
            f"<opencl.Conv2d weight {layer.weight_shape} {layer.dtype}, algorithm {algorithm!r}, "
            f"on {self.device.name}>"
        )

    def _typed(self, dtype: np.dtype) -> Layer:
        """The layer with arrays of a type; raises InvalidType unless it goes with the weights."""
        _dtype("input", dtype)
        name = arguments.layer_dtype(dtype, self._weight_dtype)
        return self._layer if name == self._layer.dtype else replace(self._layer, dtype=name)

    def _call(
        self, input: Any, out: Any, add: Any, add_after: Any
    ) -> tuple[Any, Sequence[Any], BoundLayer | None]:
        if isinstance(input, platform().array.Array if _has_arrays() else ()):
            return self._on_device(input, out, add, add_after)
        x = arguments.layer_array("input", input)
        layer = self._typed(x.dtype)
        problem = layer.problem(x.shape)
        terms = {
            name: None if value is None else seams.added(name, value, problem.output_shape, x.dtype)
            for name, value in (("add", add), ("add_after", add_after))
        }
        if out is not None:
            out = seams.plain_output(out, x.dtype, problem.output_shape, "input")
            if not out.flags.writeable:
                raise InvalidValue("out: got an array that is not writeable; allowed: one that is")
        y = np.empty(problem.output_shape, x.dtype)
        events: Sequence[Any] = ()
        bound = None
        if y.size:
            bound = self._bind(problem.sewn(_seams(layer, terms)))
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
        self, x: Any, out: Any, add: Any, add_after: Any
    ) -> tuple[Any, Sequence[Any], BoundLayer | None]:
        """The same of arrays of pyopencl."""
        layer = self._typed(x.dtype)
        problem = layer.problem(tuple(x.shape))
        shape = problem.output_shape
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
        bound = self._bind(problem.sewn(_seams(layer, given)))
        buffers = {name: array.data for name, array in given.items()} | {"output": out.data}
        after = [event for array in (*given.values(), out) for event in array.events]
        events = self._launch(bound, queue, buffers, after)
        out.add_event(events[-1])
        return out, events, bound

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
            if found is None:
                if len(self._bound) >= SHAPES_KEPT:
                    del self._bound[next(iter(self._bound))]
                found = self._bound[problem] = self._made(problem)
            return found

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


def _dtype(argument: str, dtype: np.dtype) -> str:
    name = arguments.dtype_name(dtype)
    if name not in _DTYPES:
        raise InvalidType(f"{argument}: got dtype {dtype}; allowed on devices: float32 or float16")
    return name


def _seams(layer: Layer, given: dict[str, Any]) -> Seams:
    adds = (layer.filters if given.get(name) is not None else 0 for name in ("add", "add_after"))
    return Seams(layer.channels, layer.filters, *adds)
