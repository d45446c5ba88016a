"""Convolutions of 8-bit integers: `QConv2d`, as ONNX's ConvInteger and QLinearConv define them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, SupportsIndex

import numpy as np

from winogen.conv import arguments, memory, seams
from winogen.conv.contest import rank
from winogen.conv.execute import Environment
from winogen.conv.one_call import OneCall
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.quantization import (
    BYTES,
    RANGES,
    SUMS,
    QuantizedFilters,
    Scales,
    any_zero,
    check_zero,
    integers,
    refuse_outputs,
)
from winogen.conv.quantization import scale as real_scale
from winogen.conv.quantized_planner import CallNumbers, QuantizedCall, QuantizedKernels
from winogen.conv.quantized_tiles import EVERY, QuantizedTiles
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer
from winogen.conv.weighted import Weighted, kept
from winogen.errors import InvalidValue
from winogen.kernels.quantized import ALGORITHMS, Reals
from winogen.records import Machine, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current, described
from winogen.typing import Activation, Array, IntOrInts, Layout2d, NDArray, Padding, Real

ACTIVATIONS = (None, "relu")


class QConv2d(Weighted):
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
        None, "relu", or, with ``y_scale``, any other that `conv2d` has; see there.
    algorithm
        "direct", "im2col", or "auto": what is predicted to be faster, or was measured to be; see
        `plan`. "mcmr": Winograd's, which is not exact; see `error`.
    tile
        With "mcmr", outputs of a tile along each axis: 2, 4 or 6, None for 4.
    product_dtype
        With "mcmr", what transformed numbers are rounded to: "int16", or "int8", which is faster
        and far less exact: see `error`. None for "int16".
    tolerance
        With "auto" and ``y_scale``, what `error` may be: then "mcmr" takes part, in any tile and
        product, and runs where it is predicted to be faster. None: results are exact.

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
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
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
        layout: Layout2d = "NCHW",
        # end
        # parameters: activation
        activation: Activation | None = None,
        # end
        algorithm: Literal["auto", "direct", "im2col", "mcmr"] = "auto",
        tile: Literal[2, 4, 6] | None = None,
        product_dtype: Literal["int16", "int8"] | None = None,
        tolerance: Real | None = None,
        # parameters: threads
        threads: SupportsIndex | None = None,
        # end
    ):
        self._filters = QuantizedFilters.of(weight, w_zero, bias)
        shape = self._filters.weight.shape
        arguments.choice("layout", layout, arguments.LAYOUTS[2])
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
        self._epilogue = arguments.activation(activation)
        self._slopes = arguments.slopes(activation, shape[0], np.dtype(np.float32))
        self._relu = self._epilogue.activation == "relu"
        self._in_reals = self._epilogue.activation not in ACTIVATIONS
        if self._in_reals and (y_scale is None or algorithm == "mcmr"):
            without = 'algorithm "mcmr"' if algorithm == "mcmr" else "outputs that are sums"
            raise InvalidValue(
                f'activation: got {activation!r} with {without}; allowed: None or "relu"'
            )
        self._algorithm = arguments.choice("algorithm", algorithm, ("auto", *ALGORITHMS, "mcmr"))
        for name, value in (("tile", tile), ("product_dtype", product_dtype)):
            if value is not None and self._algorithm != "mcmr":
                raise InvalidValue(
                    f'{name}: got {value!r}; allowed: None, but with algorithm="mcmr"'
                )
        self._tile = 4 if tile is None else tile
        self._products = "int16" if product_dtype is None else product_dtype
        self._tolerance = None if tolerance is None else arguments.positive(
            "tolerance", tolerance, "None or a positive number, as 0.01"
        )  # fmt: skip
        if tolerance is not None and (self._algorithm != "auto" or y_scale is None):
            without = "outputs that are sums" if y_scale is None else f"algorithm {algorithm!r}"
            raise InvalidValue(f"tolerance: got {tolerance!r} with {without}; allowed: None")
        self._threads = arguments.threads(threads)
        self._forget()
        if self._algorithm == "mcmr":  # refuses what it cannot do
            self._tiled()

    def __call__(
        self,
        input: Array,
        out: NDArray | None = None,
        *,
        add: Array | None = None,
        add_scale: Real | Array | None = None,
        add_zero: SupportsIndex = 0,
    ) -> NDArray:
        """Return the result for (N, C, H, W), (C, H, W) or (H, W), in ``out`` if given.

        ``input``: uint8 or int8; (H, W) is one image of one channel. With layout="NHWC" the
        channels come last. ``add``: None, or uint8 or int8 of the output's shape with
        ``add_scale`` and ``add_zero``, which joins the sums before the activation. It needs
        ``y_scale``, and no "mcmr". Raises InvalidType and InvalidValue.
        """
        plain = add is None and out is None and add_scale is None and not add_zero
        if plain and type(input) is np.ndarray and input.flags.c_contiguous:
            known = self._ready.get((input.shape, input.dtype))
            if known is not None:  # small layers take less time than all the checks do
                call, shape, dtype = known
                y = memory.empty(shape, dtype, "output")
                call(input, y)
                return y
        x = integers("input", input, BYTES)
        problem = self._layer.problem(x.shape)
        dtype = self._output_dtype(x.dtype)
        more, reals = self._added(add, add_scale, add_zero, problem.output_shape)
        layout, view, around = self._layer.layout, None, self._layer.filters
        if out is not None:
            others = {"input": x, "add": more}
            view, around = seams.writeable(
                out, problem.output_shape, dtype, layout, others, "the result"
            )
        tiles = self._tiles_for(x.shape, x.dtype, add is not None) if problem.batch else None
        if tiles is not None:
            y = memory.empty(problem.output_shape, dtype, "output") if out is None else out
            tiles(x, y)
            return y
        x, channels = seams.readable("input", x, layout)
        y = memory.empty(problem.output_shape, dtype, "output") if view is None else view
        if y.size:
            call = self._bind(problem.sewn(Seams(channels, around)), x.dtype.name, dtype, reals)
            call(x, y, more)
            if add is None and out is None and x.flags.c_contiguous:
                kept(self._ready, (x.shape, x.dtype), (call, problem.output_shape, dtype))
        return y if out is None else out

    def _added(
        self, add: Any, scale: Any, zero: Any, shape: tuple[int, ...]
    ) -> tuple[np.ndarray | None, Reals | None]:
        """What is added, and what becomes of the sums; None for nothing and for what sums do."""
        if add is None:
            for name, value in (("add_scale", scale), ("add_zero", zero or None)):
                if value is not None:
                    raise InvalidValue(f"{name}: got {value!r} without add; allowed: none")
            return None, self._reals
        if self._scales is None or self._algorithm == "mcmr":
            without = "without y_scale" if self._scales is None else 'with algorithm "mcmr"'
            raise InvalidValue(f"add: got an array {without}; allowed: None")
        more = integers("add", add, BYTES)
        if more.shape != shape:
            raise InvalidValue(f"add: got shape {more.shape}; allowed: {shape}, that of the output")
        if scale is None:
            raise InvalidValue("add_scale: got None; allowed: a positive float32, as there is add")
        zero = any_zero("add_zero", zero)
        check_zero("add_zero", zero, more.dtype.name)
        reals = Reals(
            replace(self._epilogue, add=True), self._scales.y, real_scale("add_scale", scale), zero,
            more.dtype == np.int8,
        )  # fmt: skip
        return more, reals

    @property
    def _reals(self) -> Reals | None:
        if not self._in_reals or self._scales is None:
            return None
        return Reals(self._epilogue, self._scales.y)

    def error(self, input_shape: Any) -> float:
        """Return the expected max |y - exact| / max |exact| of outputs before they are rounded.

        0 but for "mcmr", whose outputs then differ from the exact ones by one step where these lie
        as near to a half, which is a share of about twice the mean error, counted in steps. Raises
        InvalidValue for a shape that does not fit.
        """
        self._layer.problem(input_shape)  # refuses shapes that do not fit
        dtype = np.dtype(BYTES[self._x_zero < 0])
        tiles = self._tiles_for(input_shape, dtype)
        return 0.0 if tiles is None else tiles.error(input_shape, dtype)

    def _tiled(self) -> QuantizedTiles:
        if not self._tiles:
            kinds = [(self._tile, self._products)] if self._tolerance is None else EVERY
            self._tiles.append(
                QuantizedTiles(
                    self._filters, self._scales, self._layer, self._x_zero, self._relu, kinds,
                    self._threads, self._tolerance,
                )
            )  # fmt: skip
        return self._tiles[0]

    def _tiles_for(self, shape: Any, dtype: np.dtype, adds: bool = False) -> QuantizedTiles | None:
        """The tiles that inputs of a shape go through; None where an exact kernel is faster."""
        if self._algorithm == "mcmr":
            return self._tiled()
        if self._tolerance is None or self._in_reals or adds:
            return None
        key = tuple(shape), dtype
        runs = self._by_tiles.get(key)
        if runs is None:
            exact = self._offer(self._whole(key[0]), key[1], None).candidates[0].seconds
            runs = kept(self._by_tiles, key, self._tiled().seconds(*key) < exact)
        return self._tiled() if runs else None

    def bound(self, input_shape: Any, dtype: str = "uint8") -> QuantizedCall:
        """Return the call for inputs of this shape and dtype, for others that make it.

        Raises InvalidValue with "mcmr", which is several.
        """
        if self._algorithm == "mcmr":
            raise InvalidValue('algorithm: got "mcmr"; allowed: direct, im2col, which are one call')
        x_dtype = np.dtype(arguments.choice("dtype", dtype, BYTES))
        y_dtype = self._output_dtype(x_dtype)
        return self._bind(self._whole(input_shape), dtype, y_dtype, self._reals)

    def ranked(
        self, input_shape: Any, dtype: str, target: Target, machine: Machine
    ) -> list[OneCall]:
        """Return the ways to compute such inputs on a machine that need not be this one."""
        y_dtype = self._output_dtype(np.dtype(dtype))
        query = Query.here(self._whole(input_shape), self._request, target, machine)
        return rank(QuantizedKernels(self._numbers(dtype, y_dtype, self._reals)), query)

    @property
    def packs(self) -> tuple[np.ndarray | None, ...]:
        """The arrays that a kernel packs: weights, their zero points, bias and multipliers."""
        return packs_of(self._filters, self._scales, self._slopes, self._in_reals)

    def _whole(self, input_shape: Any) -> Problem:
        """The problem for inputs of this shape, of whole arrays."""
        seams = Seams(self._layer.channels, self._layer.filters)
        return self._layer.problem(input_shape).sewn(seams)

    def plan(self, input_shape: Any, dtype: str = "uint8") -> Plan:
        """Return what a call with an input of this shape and dtype does.

        Nothing is compiled. Raises InvalidValue for a shape that does not fit the weights.
        """
        x_dtype = np.dtype(arguments.choice("dtype", dtype, BYTES))
        tiles = self._tiles_for(input_shape, x_dtype)
        if tiles is not None:
            plan = tiles.plan(input_shape, x_dtype)
        else:
            plan = Plan.of(self._offer(self._whole(input_shape), x_dtype, self._reals))
        return replace(plan, machine=described())

    def source(self, input_shape: Any, dtype: str = "uint8") -> str:
        """Return the C of the kernel that inputs of this shape and dtype go through."""
        x_dtype = np.dtype(arguments.choice("dtype", dtype, BYTES))
        tiles = self._tiles_for(input_shape, x_dtype)
        if tiles is not None:
            return str(tiles.plan(input_shape, x_dtype).source)
        problem = self._layer.problem(input_shape)
        return self._bind(problem, dtype, self._output_dtype(x_dtype), self._reals).kernel.source

    def __repr__(self) -> str:
        shape = self._layer.weight_shape
        return f"<QConv2d weight {shape}, algorithm {self._algorithm!r}>"

    _STATE = (
        "_filters",
        "_layer",
        "_x_zero",
        "_scales",
        "_relu",
        "_epilogue",
        "_slopes",
        "_in_reals",
        "_algorithm",
        "_tile",
        "_products",
        "_tolerance",
        "_threads",
    )

    def _forget(self) -> None:
        super()._forget()
        self._dtypes: dict[np.dtype, np.dtype] = {}  # of inputs that were checked, of outputs
        # Shape and dtype of an input -> its call, and shape and dtype of the output.
        self._ready: dict[tuple, tuple[QuantizedCall, tuple[int, ...], np.dtype]] = {}
        self._tiles: list[QuantizedTiles] = []  # one, once it is needed
        self._by_tiles: dict[tuple, bool] = {}  # shape, dtype of an input -> whether these run

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

    def _bind(
        self, problem: Problem, x_dtype: str, y_dtype: np.dtype, reals: Reals | None
    ) -> QuantizedCall:
        key = problem, x_dtype, reals
        known = self._bound.get(key)
        if known is not None:
            return known
        bound = self._offer(problem, np.dtype(x_dtype), reals).bind(Environment.now())
        work = bound.work
        with self._lock:
            # Packing depends on the input's zero point, but not on its sizes.
            alike = bound.kernel, work.zero
            packed = self._packed.get(alike)
            if packed is None:
                packed = self._packed[alike] = bound.pack(
                    *packs_of(self._filters, self._scales, self._slopes, work.spec.in_reals)
                )
            bound.packed = packed
            return self._keep(key, bound)

    def _offer(self, problem: Problem, x_dtype: np.dtype, reals: Reals | None) -> Offer:
        numbers = self._numbers(x_dtype.name, self._output_dtype(x_dtype), reals)
        query = Query.here(problem, self._request, host_target(), current())
        return QuantizedKernels(numbers).offer(query)

    @property
    def _request(self) -> Request:
        return Request(self._algorithm, threads=self._threads)

    def _numbers(self, x_dtype: str, y_dtype: np.dtype, reals: Reals | None) -> CallNumbers:
        zero = 0 if self._scales is None else self._scales.zero
        limits = RANGES[y_dtype.name] if self._scales is not None else SUMS
        if self._relu and reals is None:
            limits = max(limits[0], zero), limits[1]
        return CallNumbers(
            self._scales is None,
            signed_input=x_dtype == "int8",
            x_zero=self._x_zero,
            y_zero=zero,
            limits=limits,
            w_zeros=self._filters.zero is not None,
            reals=reals,
        )


def packs_of(
    filters: QuantizedFilters, scales: Scales | None, slopes: np.ndarray | None, in_reals: bool
) -> tuple[np.ndarray | None, ...]:
    """Return the arrays that a kernel packs. ``slopes``: of "prelu", float32."""
    zero = None if filters.zero is None else filters.zero.astype(np.int32)
    arrays = filters.weight, zero, filters.bias
    if scales is None:
        return (*arrays, None)
    return (*arrays, scales.steps, slopes) if in_reals else (*arrays, scales.multiplier)
