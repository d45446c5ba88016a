"""Convolutions of 8-bit integers: `QConv2d`, as ONNX's ConvInteger and QLinearConv define them."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Literal, SupportsIndex
from weakref import WeakValueDictionary

import numpy as np

from winogen.conv import arguments, memory, seams
from winogen.conv.execute import Call, Environment
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.quantization import (
    BYTES,
    RANGES,
    SUMS,
    Filters,
    Scales,
    any_zero,
    check_zero,
    integers,
    refuse_outputs,
)
from winogen.conv.quantized_choice import work_of
from winogen.conv.quantized_plan import QuantizedPlan
from winogen.conv.quantized_tiles import QuantizedTiles
from winogen.errors import InvalidValue
from winogen.kernels.quantized import ALGORITHMS, QuantizedWork
from winogen.records import Machine, Target
from winogen.toolchain import host_target
from winogen.toolchain.fork import Lock
from winogen.toolchain.machine import current, described
from winogen.typing import Array, IntOrPair, Layout, NDArray, Padding, Real

ACTIVATIONS = (None, "relu")
_SHAPES_KEPT = 256  # input shapes whose calls one `QConv2d` remembers


class QConv2d:
    """A convolution of 8-bit integers with fixed weights, exact in integers, rounded once.

    ``y = saturate(round((sum + bias) * x_scale * w_scale / y_scale) + y_zero)``, where ``sum`` is
    the convolution of ``x - x_zero`` with ``weight - w_zero``, padded with zeros: what ONNX calls
    QLinearConv. Without ``y_scale`` it is ConvInteger: sums in int32, bias included.

    The result equals that of ONNX's reference evaluator bit for bit: the multiplier is rounded to
    float32 after each operation, sums are multiplied with it in float64, the zero point is added,
    and halves go to the even integer.

    Parameters
    ----------
    weight
        (M, C/groups, KH, KW), int8 or uint8. C/groups * KH * KW must be below 65,793, so that no
        sum can leave int32.
    bias
        None or (M,), int32, in units of x_scale * w_scale.
    stride, padding, dilation, groups, layout, threads
        As `conv2d` takes them. What pads is x_zero.
    w_scale
        A positive number, or an array of one for each filter; not needed without ``y_scale``.
    w_zero
        An int of weight's range, or an array of one for each filter.
    x_scale, x_zero
        Scale and zero point of the input.
    y_scale, y_zero
        Of the output; without ``y_scale`` the result is int32.
    y_dtype
        "uint8" or "int8"; None for that of the input.
    activation
        None or "relu": outputs of at least y_zero (0 without ``y_scale``).
    algorithm
        "direct", "im2col", or "auto": im2col where channels are so few that direct convolution
        would multiply many zeros. "mcmr": Winograd's, which is not exact; see `error`.
    tile
        With "mcmr", outputs of a tile along each axis: 2 or 4, None for 4.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work; also TypeError and ValueError.

    >>> import numpy as np, winogen
    >>> weight = np.ones((2, 3, 3, 3), np.int8)
    >>> conv = winogen.QConv2d(weight, w_scale=0.5, x_scale=0.1, x_zero=128, y_scale=0.4, y_zero=7)
    >>> conv(np.full((1, 3, 5, 5), 130, np.uint8))[0, 0].tolist()
    [[14, 14, 14], [14, 14, 14], [14, 14, 14]]
    >>> sums = winogen.QConv2d(weight, x_zero=128)
    >>> int(sums(np.full((1, 3, 5, 5), 130, np.uint8))[0, 0, 0, 0])
    54
    """

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        # parameters: stride ... groups
        stride: IntOrPair = 1,
        padding: Padding = 0,
        dilation: IntOrPair = 1,
        groups: SupportsIndex = 1,
        # end
        *,
        w_scale: Real | Array | Sequence[float] | None = None,
        x_scale: Real | Array | None = None,
        x_zero: SupportsIndex = 0,
        y_scale: Real | Array | None = None,
        y_zero: SupportsIndex = 0,
        w_zero: SupportsIndex | Array = 0,
        y_dtype: Literal["uint8", "int8"] | type[np.uint8 | np.int8] | np.dtype[Any] | None = None,
        # parameters: layout
        layout: Layout = "NCHW",
        # end
        activation: Literal["relu"] | None = None,
        algorithm: Literal["auto", "direct", "im2col", "mcmr"] = "auto",
        tile: Literal[2, 4] | None = None,
        # parameters: threads
        threads: SupportsIndex | None = None,
        # end
    ):
        self._filters = Filters.of(weight, w_zero, bias)
        shape = self._filters.weight.shape
        self._layer = Layer.of(
            shape, "uint8", stride=stride, padding=padding, dilation=dilation, groups=groups,
            layout=layout,
        )  # fmt: skip
        self._x_zero = any_zero("x_zero", x_zero)
        self._scales = None
        if y_scale is None:
            refuse_outputs(shape[0], x_scale, w_scale, y_zero, y_dtype)
        else:
            self._scales = Scales.of(shape[0], x_scale, w_scale, y_scale, y_zero, y_dtype)
        self._relu = arguments.choice("activation", activation, ACTIVATIONS) is not None
        self._algorithm = arguments.choice("algorithm", algorithm, ("auto", *ALGORITHMS, "mcmr"))
        if tile is not None and self._algorithm != "mcmr":
            raise InvalidValue(f'tile: got {tile!r}; allowed: None, but with algorithm="mcmr"')
        self._tile = 4 if tile is None else tile
        self._threads = arguments.threads(threads)
        self._forget()
        if self._algorithm == "mcmr":  # refuses what it cannot do
            self._tiled()

    def __call__(self, input: Array, out: NDArray | None = None) -> NDArray:
        """Return the result for (N, C, H, W), (C, H, W) or (H, W), in ``out`` if given.

        ``input``: uint8 or int8; (H, W) is one image of one channel. With layout="NHWC" the
        channels come last. Raises InvalidType and InvalidValue.
        """
        if out is None and type(input) is np.ndarray and input.flags.c_contiguous:
            known = self._ready.get((input.shape, input.dtype))
            if known is not None:  # small layers take less time than all the checks do
                call, shape, dtype = known
                y = memory.empty(shape, dtype, "output")
                call(input, y)
                return y
        x = integers("input", input, BYTES)
        problem = self._layer.problem(x.shape)
        dtype = self._output_dtype(x.dtype)
        layout, view, around = self._layer.layout, None, self._layer.filters
        if out is not None:
            view, around = seams.writeable(
                out, problem.output_shape, dtype, layout, {"input": x}, "the result"
            )
        if self._algorithm == "mcmr":
            y = memory.empty(problem.output_shape, dtype, "output") if out is None else out
            self._tiled()(x, y)
            return y
        x, channels = seams.readable("input", x, layout)
        y = memory.empty(problem.output_shape, dtype, "output") if view is None else view
        if y.size:
            call = self._bind(problem.sewn(Seams(channels, around)), x.dtype.name, dtype)
            call(x, y)
            if out is None and x.flags.c_contiguous:
                self._ready[x.shape, x.dtype] = call, problem.output_shape, dtype
        return y if out is None else out

    def error(self, input_shape: Any) -> float:
        """Return the expected max |y - exact| / max |exact| of outputs before they are rounded.

        0 but for "mcmr": whose outputs then differ from the exact ones by one step where these lie
        as near to a half, which is a share of about twice the mean error, counted in steps. Raises
        InvalidValue for a shape that does not fit.
        """
        self._layer.problem(input_shape)  # refuses shapes that do not fit
        return self._tiled().error(input_shape) if self._algorithm == "mcmr" else 0.0

    def _tiled(self) -> QuantizedTiles:
        if not self._tiles:
            self._tiles.append(
                QuantizedTiles(
                    self._filters, self._scales, self._layer, self._x_zero, self._relu, self._tile,
                    self._threads,
                )
            )  # fmt: skip
        return self._tiles[0]

    def bound(self, input_shape: Any, dtype: str = "uint8") -> _Bound:
        """Return the call for inputs of this shape and dtype, for others that make it.

        Raises InvalidValue with "mcmr", which is several.
        """
        if self._algorithm == "mcmr":
            raise InvalidValue('algorithm: got "mcmr"; allowed: direct, im2col, which are one call')
        x_dtype = np.dtype(arguments.choice("dtype", dtype, BYTES))
        return self._bind(self._whole(input_shape), dtype, self._output_dtype(x_dtype))

    def work(self, input_shape: Any, dtype: str, target: Target, machine: Machine) -> QuantizedWork:
        """Return the call for such inputs on a machine that need not be this one."""
        y_dtype = self._output_dtype(np.dtype(dtype))
        return self._work(self._whole(input_shape), dtype, y_dtype, target, machine)

    @property
    def packs(self) -> tuple[np.ndarray | None, ...]:
        """The arrays that a kernel packs: weights, their zero points, bias and multipliers."""
        filters, scales = self._filters, self._scales
        return (
            filters.weight,
            None if filters.zero is None else filters.zero.astype(np.int32),
            filters.bias,
            None if scales is None else scales.multiplier,
        )

    def _whole(self, input_shape: Any) -> Problem:
        """The problem for inputs of this shape, of whole arrays."""
        seams = Seams(self._layer.channels, self._layer.filters)
        return self._layer.problem(input_shape).sewn(seams)

    def plan(self, input_shape: Any, dtype: str = "uint8") -> QuantizedPlan:
        """Return what a call with an input of this shape and dtype does.

        Compiles the kernel and packs the weights if that has not been done yet. Raises InvalidValue
        for a shape that does not fit the weights, and BuildError.
        """
        if self._algorithm == "mcmr":
            plan = self._tiled().plan(input_shape)
        else:
            bound, problem = self.bound(input_shape, dtype), self._layer.problem(input_shape)
            plan = QuantizedPlan.of(problem, bound.work, bound.kernel.source)
        return replace(plan, machine=described())

    def source(self, input_shape: Any, dtype: str = "uint8") -> str:
        """Return the C of the kernel that inputs of this shape and dtype go through."""
        if self._algorithm == "mcmr":
            return self._tiled().source(input_shape)
        x_dtype = np.dtype(arguments.choice("dtype", dtype, BYTES))
        problem = self._layer.problem(input_shape)
        return self._bind(problem, dtype, self._output_dtype(x_dtype)).kernel.source

    def __repr__(self) -> str:
        shape = self._layer.weight_shape
        return f"<QConv2d weight {shape}, algorithm {self._algorithm!r}>"

    _STATE = (
        "_filters",
        "_layer",
        "_x_zero",
        "_scales",
        "_relu",
        "_algorithm",
        "_tile",
        "_threads",
    )

    def __getstate__(self) -> dict:
        """Copies and pickles carry the weights; C pointers are made again where they arrive."""
        return {name: getattr(self, name) for name in self._STATE}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._dtypes: dict[np.dtype, np.dtype] = {}  # of inputs that were checked, of outputs
        self._bound: dict[tuple, _Bound] = {}
        # Shape and dtype of an input -> its call, and shape and dtype of the output.
        self._ready: dict[tuple, tuple[_Bound, tuple[int, ...], np.dtype]] = {}
        self._tiles: list[QuantizedTiles] = []  # one, once it is needed
        # What packs alike -> packed filters, as long as a bound call needs them.
        self._packed: MutableMapping[tuple, np.ndarray] = WeakValueDictionary()
        self._lock = Lock()

    def _output_dtype(self, input: np.dtype) -> np.dtype:
        """The dtype of the output; refuses inputs of a dtype that the zero points do not fit."""
        known = self._dtypes.get(input)
        if known is not None:
            return known
        check_zero("x_zero", self._x_zero, input.name)
        lowest, highest = RANGES[input.name]
        self._filters.check_sums(lowest - self._x_zero, highest - self._x_zero)
        dtype = np.dtype(np.int32)
        if self._scales is not None:
            dtype = np.dtype(self._scales.dtype or input)
            check_zero("y_zero", self._scales.zero, dtype.name)
        self._dtypes[input] = dtype
        return dtype

    def _bind(self, problem: Problem, x_dtype: str, y_dtype: np.dtype) -> _Bound:
        key = problem, x_dtype
        known = self._bound.get(key)
        if known is not None:
            return known
        work = self._work(problem, x_dtype, y_dtype, host_target(), current())
        bound = _Bound(work, Environment.now())
        with self._lock:  # filters are packed once even if several threads call at once
            # Packing depends on the input's zero point, but not on its sizes.
            alike = bound.kernel, work.zero
            packed = self._packed.get(alike)
            if packed is None:
                packed = self._packed[alike] = bound.pack(*self.packs)
            bound.packed = packed
            if len(self._bound) >= _SHAPES_KEPT:
                self._bound.clear()
                self._ready.clear()
            self._bound[key] = bound
        return bound

    def _work(
        self, problem: Problem, x_dtype: str, y_dtype: np.dtype, target: Target, machine: Machine
    ) -> QuantizedWork:
        zero = 0 if self._scales is None else self._scales.zero
        limits = RANGES[y_dtype.name] if self._scales is not None else SUMS
        if self._relu:
            limits = max(limits[0], zero), limits[1]
        return work_of(
            problem, self._algorithm, self._scales is None, target, machine, self._threads,
            signed_input=x_dtype == "int8", x_zero=self._x_zero, y_zero=zero, limits=limits,
            w_zeros=self._filters.zero is not None,
        )  # fmt: skip


class _Bound(Call):
    """A call for inputs of one shape, bound to its kernel and to packed filters."""

    def __init__(self, work: QuantizedWork, environment: Environment):
        super().__init__(work.spec, work, environment)
        self.packed = np.empty(0, np.uint8)  # `QConv2d` packs them at once

    def __call__(self, x: np.ndarray, y: np.ndarray) -> None:
        """Compute ``y``; nothing is checked."""
        pointer = self.kernel.pointer
        self.run(pointer(x), pointer(self.packed), pointer(y))
