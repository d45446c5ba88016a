"""A convolution of any number of axes: one call, or an object that packs its weights once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from winogen.conv import arguments, flytes, memory, seams
from winogen.conv.binding import prepare
from winogen.conv.executable import Executable
from winogen.conv.execute import Environment
from winogen.conv.options import Options
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.conv.solvers import looked
from winogen.conv.weighted import WeightedFloats
from winogen.errors import InvalidValue
from winogen.records import NARROW_TYPES, NUMBERS
from winogen.toolchain import host_target
from winogen.toolchain.machine import current, described
from winogen.typing import Array, ArrayType, NDArray


def convolve(
    rank: int,
    input: Array,
    weight: Array,
    bias: Array | None,
    asked: Options,
    add: Array | None,
    add_after: Array | None,
    out: NDArray | None,
) -> NDArray:
    """Return activation(convolution + bias + ``add``) + ``add_after`` of arrays with so many axes
    besides images and channels; see `winogen.conv2d`.
    """
    layout_of(asked, rank)
    x = arguments.layer_array("input", input)
    w, b = parameters(weight, bias)
    layer = Layer.from_options(w.shape, arguments.layer_dtype(x.dtype, w.dtype), asked)
    problem = layer.problem(x.shape)
    request = Request.from_options(layer, asked)
    request = looked(layer, request, w)
    arrays = Arrays.of(*_described(problem), x, out, add, add_after, {"weight": w, "bias": b})
    if problem.batch == 0:  # not worth a compiler
        return np.empty(problem.output_shape, x.dtype) if out is None else out
    prepared = _prepared(problem.sewn(arrays.seams), request)
    w, b = flytes.computed_with(w), None if b is None else flytes.computed_with(b)
    slopes = arguments.slopes(asked.activation, layer.filters, w.dtype)
    packed = prepared.pack(memory.contiguous(w, "weight"))
    b = None if b is None else memory.contiguous(b, "bias")
    y = arrays.apply(prepared, packed, b, slopes)
    return y if out is None else out


def layout_of(asked: Options, rank: int) -> str:
    """Return the layout of layers with so many axes; raises InvalidValue and InvalidType."""
    return str(arguments.choice("layout", asked.layout, arguments.LAYOUTS[rank]))


class Convolution(WeightedFloats):
    """The base of `Conv1d`, `Conv2d` and `Conv3d`: all but the signature of their options."""

    rank: ClassVar[int]

    def __init__(self, weight: Array, bias: Array | None, asked: Options):
        layout_of(asked, self.rank)
        w, b = parameters(weight, bias)
        self._layer = Layer.from_options(w.shape, arguments.dtype_name(w.dtype), asked)
        self._request = Request.from_options(self._layer, asked)
        self._dtype = w.dtype
        self._request = looked(self._layer, self._request, w)
        w = flytes.computed_with(w)
        self._weight = memory.empty(w.shape, w.dtype, "copy of weight")
        self._weight[...] = w
        self._bias = None if b is None else np.array(flytes.computed_with(b), order="C")
        self._slopes = arguments.slopes(asked.activation, self._layer.filters, self._weight.dtype)
        self._forget()

    def __call__(
        self,
        input: Array,
        out: NDArray | None = None,
        *,
        add: Array | None = None,
        add_after: Array | None = None,
    ) -> NDArray:
        """Return activation(conv + bias + add) + add_after, in ``out`` if given.

        See `winogen.conv2d`.
        """
        x = input if type(input) is np.ndarray else arguments.array("input", input)
        if x.dtype != self._dtype:
            arguments.layer_array("input", x)  # names a dtype that is wrong altogether
            return self._for(x.dtype)(x, out, add=add, add_after=add_after)
        shape = x.shape
        if out is None and add is None and add_after is None and x.flags.c_contiguous:
            prepared, packed = self.bound(shape)
            y = memory.empty(prepared.output_shape, self._dtype, "output")
            if not x.flags.aligned:
                x = memory.contiguous(x, "input")
            prepared.run(x, packed, self._bias, y, self._slopes)
            return y
        bound = self._bound.get(shape)
        problem = bound[0].problem if bound else self._layer.problem(shape)
        arrays = Arrays.of(*_described(problem), x, out, add, add_after, {})
        plain = arrays.seams == problem.seams
        prepared, packed = self.bound(shape, None if plain else arrays.seams)
        y = arrays.apply(prepared, packed, self._bias, self._slopes)
        return y if out is None else out

    def bound(
        self, shape: tuple[int, ...], seams: Seams | None = None
    ) -> tuple[Executable, tuple[Any, ...]]:
        """Return what computes inputs of this shape, and the packed weights for it.

        ``seams``: None for C-contiguous arrays and no additions. For callers that have addresses
        instead of arrays: see `Executable.run_at`.
        """
        key = shape if seams is None else (shape, seams)
        return self._bound.get(key) or self._bind(key, shape, seams)

    def plan(
        self,
        input_shape: tuple[int, ...] | list[int],
        dtype: ArrayType | None = None,
    ) -> Plan:
        """Return what a call with an input of this shape does, and what it costs.

        ``dtype``: of the input, by default the weights'. Compiles the kernels if that has not been
        done yet. Raises InvalidValue for a shape that does not fit the weights, InvalidType for
        such a dtype, and BuildError.
        """
        return replace(self._named(dtype)._prepare(input_shape).plan(), machine=described())

    def __repr__(self) -> str:
        name, shape, dtype = type(self).__name__, self._layer.weight_shape, self._layer.dtype
        return f"<{name} weight {shape} {dtype}, algorithm {self._request.algorithm!r}>"

    _STATE: ClassVar[tuple[str, ...]] = (
        "_layer",
        "_request",
        "_dtype",
        "_weight",
        "_bias",
        "_slopes",
    )

    def _retyped(self, dtype: str) -> dict[str, Any]:
        request = replace(self._request, separable=None)  # which is known for one type
        return {"_layer": replace(self._layer, dtype=dtype), "_request": request}

    def _prepare(self, input_shape: Any) -> Executable:
        return self._executable(self._layer.problem(input_shape))

    def _executable(self, problem: Problem) -> Executable:
        return _prepared(problem, self._request)

    def _bind(self, key: tuple, shape: tuple[int, ...], seams: Seams | None) -> tuple:
        problem = self._layer.problem(shape)
        prepared = self._executable(problem.sewn(seams or problem.seams))
        with self._lock:
            return self._keep(key, (prepared, prepared.pack(self._weight, self._packed)))


def _prepared(problem: Problem, request: Request) -> Executable:
    """The problem planned for this machine."""
    return prepare(problem, request, host_target(), current(), Environment.now())


def _described(problem: Problem) -> tuple[str, int, tuple[int, ...]]:
    """What `Arrays` must know of a problem."""
    return problem.layer.layout, problem.layer.filters, problem.output_shape


def parameters(
    weight: Any, bias: Any, filters: int | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return weights and bias as arrays of one dtype, the shape of the bias checked.

    ``filters``: None for as many as the first axis of the weights has.
    """
    w = arguments.layer_array("weight", weight)
    if bias is None:
        return w, None
    b = arguments.layer_array("bias", bias)
    name = arguments.dtype_name(w.dtype)
    if not (name in NARROW_TYPES and b.dtype.name == NUMBERS[name].computed):
        arguments.same_dtype("bias", b, w.dtype, "weight")
    wanted = w.shape[:1] if filters is None else (filters,)
    if w.ndim > 2 and b.shape != wanted:
        raise InvalidValue(
            f"bias: got shape {b.shape}; allowed: {wanted}, one value per filter of weight"
        )
    return w, b


class Arrays(NamedTuple):
    """The arrays of one call, checked and ready for its kernels."""

    x: np.ndarray
    out: np.ndarray | None
    add: np.ndarray | None
    add_after: np.ndarray | None
    seams: Seams

    @classmethod
    def of(
        cls, layout: str, filters: int, shape: tuple[int, ...], x: np.ndarray, out: Any, add: Any,
        add_after: Any, others: dict,
    ) -> Arrays:  # fmt: skip
        """Return them; raises InvalidType and InvalidValue. ``others``: ``out`` is none of them.

        ``shape`` is the output's, of so many ``filters``.
        """
        named = {"add": add, "add_after": add_after}
        terms = {name: None if value is None else seams.added(name, value, shape, x.dtype)
                 for name, value in named.items()}  # fmt: skip
        view, around = None, filters
        if out is not None:
            view, around = seams.writeable(
                out, shape, x.dtype, layout, {"input": x, **terms, **others}
            )
        x, channels = seams.readable("input", x, layout)
        totals = {"add": 0, "add_after": 0}
        for name, array in terms.items():
            if array is not None:
                terms[name], totals[name] = seams.readable(name, array, layout)
        return cls(x, view, **terms, seams=Seams(channels, around, **totals))

    def apply(
        self,
        prepared: Executable,
        packed: tuple[Any, ...],
        bias: np.ndarray | None,
        slopes: np.ndarray | None,
    ) -> np.ndarray:
        """Run the kernels; returns ``out``, or a new array."""
        y = self.out
        if y is None:
            y = memory.empty(prepared.output_shape, self.x.dtype, "output")
        prepared.run(self.x, packed, bias, y, slopes, self.add, self.add_after)
        return y
