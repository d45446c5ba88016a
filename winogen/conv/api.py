"""The public functions: `conv2d` for one call, `Conv2d` for many with the same weights."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, SupportsIndex
from weakref import WeakValueDictionary

import numpy as np

from winogen.conv import arguments, memory, seams
from winogen.conv.execute import Environment, Prepared, prepare
from winogen.conv.options import Options
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.errors import InvalidValue
from winogen.records import ARRAY_TYPES, NARROW_TYPES
from winogen.toolchain import host_target
from winogen.toolchain.fork import Lock
from winogen.toolchain.machine import current, described
from winogen.typing import (
    Activation,
    Algorithm,
    Array,
    Border,
    Edge,
    FilterType,
    IntOrPair,
    Layout,
    Moduli,
    NDArray,
    Order,
    Padding,
    PaddingMode,
    Points,
    ProductType,
    Real,
    Tile,
)

# Input shapes whose bound kernels one `Conv2d` remembers.
_SHAPES_KEPT = 256


def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    # parameters: stride ... activation
    stride: IntOrPair = 1,
    padding: Padding = 0,
    dilation: IntOrPair = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    layout: Layout = "NCHW",
    activation: Activation | None = None,
    # end
    add: Array | None = None,
    add_after: Array | None = None,
    # parameters: algorithm ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Points | None = None,
    moduli: Moduli | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    filter_dtype: FilterType | None = None,
    product_dtype: ProductType | None = None,
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return activation(convolution + bias + ``add``) + ``add_after``, of images and filters.

    The convolution is a cross-correlation, as in `torch.nn.functional.conv2d`. The arguments up to
    ``groups`` are the same. `Conv2d` is the same for many calls with the same weights, which it
    packs only once.

    Arrays
    ------
    input
        (N, C, H, W); (C, H, W), one image; or (H, W), one image of one channel. With
        ``layout="NHWC"`` the channels come last. float32, float64, float16 or bfloat16 (of
        `ml_dtypes`), in native byte order, with any strides. Whatever numpy can view is accepted,
        as a torch tensor on the CPU; lists are not.
    weight
        (M, C/groups, KH, KW) in either layout, dtype as ``input``. With 16-bit images, whose sums
        are in float32 and rounded once, weights may be float32, too.
    bias
        None or (M,), dtype as ``weight``, or float32 with 16-bit weights.
    add, add_after
        None, or arrays with the shape and dtype of the result, added before and after the
        activation.
    out
        None, or an array for the result: C-contiguous, or a slice of the channels of such an array.
        It shares no memory with other arguments.

    ``input``, ``add`` and ``add_after`` are never written to. Slices of the channels of
    C-contiguous arrays are read where they lie, other views are copied.

    What is computed
    ----------------
    stride
        Pixels from one output to the next: a positive int, or (height, width).
    padding
        Pixels that are added around the image: a non-negative int for every side, (height, width),
        or ((top, bottom), (left, right)). "valid" adds none. "same" makes outputs as large as the
        input, and needs stride 1.
    dilation
        Pixels from one tap of a filter to the next: a positive int, or (height, width).
    groups
        Groups of channels: a filter sees the channels of its own group only. Divides C and M.
    padding_mode
        What the added pixels are: "zeros"; "reflect", a mirror image without the edge itself (needs
        less padding than pixels); "replicate", the nearest pixel; "circular", the opposite side
        (needs at most as much padding as pixels).
    layout
        Order of the axes of ``input``, of the result, and of what is added: "NCHW" or "NHWC".
    activation
        None, or a function of every sum y of products, bias and ``add``. NaN stays NaN.

            "relu": max(y, 0)
            ("leaky_relu", slope): y where y >= 0, else slope * y
            ("prelu", slopes): y where y >= 0, else slope * y, a slope for each filter
            ("clip", lo, hi): y, but at least lo and at most hi
            "relu6": max(y, 0), but at most 6
            "hardswish": y * min(max(y + 3, 0), 6) / 6
            "silu": y / (1 + exp(-y))
            "gelu": y * Phi(y), Phi of normal data
            ("gelu", "tanh"): y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 * y^3)))
            "sigmoid": 1 / (1 + exp(-y))
            "tanh": (exp(y) - exp(-y)) / (exp(y) + exp(-y))
            "softplus": log(1 + exp(y))
            "hard_sigmoid" or ("hard_sigmoid", alpha, beta) (alpha 1/6, beta 1/2 by default):
                alpha * y + beta, but at least 0 and at most 1
            "mish": y * tanh(log(1 + exp(y)))
            "elu" or ("elu", alpha) (alpha 1 by default): y where y >= 0, else alpha * (exp(y) -
                1)

    How it is computed
    ------------------
    algorithm
        "auto" takes the way with the least predicted time. "direct", "im2col" and "loops" multiply
        everything. "winograd2d", "winograd1d" and "mcmr" are Winograd's: they need stride 1 and
        dilation 1. They mix the values of a tile, so an infinity or NaN in the input may make
        neighbours NaN. See docs/conv2d.md.
    tile
        Outputs of a Winograd tile: None for the planner's choice, m, or (m_h, m_w). An int is meant
        for the axes along which the filter is longer than 1. With "auto" a tile asks for "mcmr".
    points
        Interpolation points instead of the default ones: "0,1,-1,inf", a sequence of exact numbers,
        or a pair (height, width) of these. A tile of m outputs and r taps has m + r - 1 points.
    moduli
        Coprime polynomials instead of points, as `winogen.winograd` takes them: "x,x-1,x^2+1,inf",
        a sequence, or a pair (height, width) of these. Their degrees, 1 for "inf", add up to m + r
        - 1. A modulus of degree 2 costs one multiplication more than two points, and may be more
        accurate.
    order
        How transforms add: None or "program" for the shortest programs; "huffman" (smallest partial
        sums first), "pairwise" or "naive" for every row of a matrix on its own.
    edge
        Winograd tiles that do not fit: "discard" computes them whole and drops what is too much,
        "direct" leaves their outputs to direct convolution.
    border
        Winograd tiles at the border: "unswitch" has code of its own for tiles inside, "buffer"
        copies tiles with their padding, "indirect" reads through pointers. Neither changes what is
        computed.
    filter_dtype
        What packed filters are stored in, to read fewer bytes: "float16", "bfloat16", "flyte24",
        "flyte16" or "flyte8" (the first bytes of a float32). None is the type of the arrays, or the
        planner's choice within a given ``tolerance``. Numbers are widened before they are
        multiplied. A type without a ``tolerance`` allows ten times its own least error: see
        docs/numbers.md.
    product_dtype
        What is multiplied: None, "int16", "float16" or "bfloat16", as for ``filter_dtype``.
        "int16": transforms in float32, scaled and rounded to integers, whose products are summed
        exactly by chunks of channels; stride 1 and dilation 1 only. "float16": direct convolution
        of scaled and rounded numbers in sums of 24 products; on CPUs with AVX512-FP16 only,
        Unsupported on others. "bfloat16": direct convolution of rounded numbers in sums of float32;
        fast on AMD's CPUs with AVX512-BF16.

    Limits
    ------
    threads
        A positive int, or None for OMP_NUM_THREADS or else all CPUs of this process. The result
        does not depend on it.
    workspace_limit
        The most bytes of scratch memory of a call, or None. Less memory may take more time.
        InvalidValue where the algorithm needs more, with the number.
    tolerance
        The largest error of the result, max |y - exact| / max |exact|, as measured on normally
        distributed data. The fastest way within it runs. The rounding of 16-bit results counts.
        Data with outliers may see larger errors: see docs/accuracy.md.

        None is 1e-5, for float16 arrays 1.13 * 2^-11, for bfloat16 arrays 1.13 * 2^-8. Then the
        fastest way with the accuracy of direct convolution runs, if it takes at most 18 % longer
        than the fastest of all. Filters and products become narrow only within a given tolerance.

    Returns
    -------
    (N, M, OH, OW), or (N, OH, OW, M) with ``layout="NHWC"``, without N if ``input`` has none. The
    axis of the filters is always there. It is ``out`` if that is given.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work; also TypeError and ValueError.
    Unsupported
        For an algorithm that does not apply; also ValueError.
    BuildError
        When no kernel can be compiled.
    OutOfMemory
        When an array or the workspace cannot be allocated; also MemoryError.

    >>> import numpy as np
    >>> from winogen import conv2d
    >>> image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> box = np.ones((1, 1, 3, 3), np.float32)
    >>> conv2d(image, box, algorithm="direct")[0, 0].tolist()
    [[45.0, 54.0], [81.0, 90.0]]
    """
    asked = Options(
        # arguments: stride ... tolerance
        stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
        points, moduli, order, edge, border, filter_dtype, product_dtype, threads, workspace_limit,
        tolerance,
        # end
    )  # fmt: skip
    x = arguments.layer_array("input", input)
    w, b = _parameters(weight, bias)
    layer = Layer.from_options(w.shape, arguments.layer_dtype(x.dtype, w.dtype), asked)
    problem = layer.problem(x.shape)
    request = Request.from_options(layer, asked)
    arrays = _Arrays.of(problem, x, out, add, add_after, {"weight": w, "bias": b})
    if problem.batch == 0:  # not worth a compiler
        return np.empty(problem.output_shape, x.dtype) if out is None else out
    prepared = _prepared(problem.sewn(arrays.seams), request)
    w, b = arguments.computed_with(w), None if b is None else arguments.computed_with(b)
    slopes = arguments.slopes(asked.activation, layer.filters, w.dtype)
    packed = prepared.pack(memory.contiguous(w, "weight"))
    b = None if b is None else memory.contiguous(b, "bias")
    y = arrays.apply(prepared, packed, b, slopes)
    return y if out is None else out


class Conv2d:
    """A convolution with fixed weights and options, which packs the weights only once.

    Arguments and errors are the same as for `conv2d`, which explains them. Weight and bias are
    copied: later changes of the caller's arrays have no effect. One object may be called from
    several threads at once.

    >>> import numpy as np, winogen
    >>> conv = winogen.Conv2d(np.ones((2, 3, 3, 3), np.float32), padding="same")
    >>> conv(np.ones((1, 3, 5, 5), np.float32))[0, 0, 0].tolist()
    [12.0, 18.0, 18.0, 18.0, 12.0]
    >>> print(conv.plan((1, 3, 5, 5)).output_shape)
    (1, 2, 5, 5)
    """

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        # parameters: stride ... tolerance
        stride: IntOrPair = 1,
        padding: Padding = 0,
        dilation: IntOrPair = 1,
        groups: SupportsIndex = 1,
        *,
        padding_mode: PaddingMode = "zeros",
        layout: Layout = "NCHW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        moduli: Moduli | None = None,
        order: Order | None = None,
        edge: Edge = "discard",
        border: Border = "unswitch",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ):
        asked = Options(
            # arguments: stride ... tolerance
            stride, padding, dilation, groups, padding_mode, layout, activation, algorithm, tile,
            points, moduli, order, edge, border, filter_dtype, product_dtype, threads,
            workspace_limit, tolerance,
            # end
        )  # fmt: skip
        w, b = _parameters(weight, bias)
        self._layer = Layer.from_options(w.shape, arguments.dtype_name(w.dtype), asked)
        self._request = Request.from_options(self._layer, asked)
        self._dtype = w.dtype
        w = arguments.computed_with(w)
        self._weight = memory.empty(w.shape, w.dtype, "copy of weight")
        self._weight[...] = w
        self._bias = None if b is None else np.array(arguments.computed_with(b), order="C")
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
        """Return activation(conv + bias + add) + add_after, in ``out`` if given; see `conv2d`."""
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
        arrays = _Arrays.of(problem, x, out, add, add_after, {})
        plain = arrays.seams == problem.seams
        prepared, packed = self.bound(shape, None if plain else arrays.seams)
        y = arrays.apply(prepared, packed, self._bias, self._slopes)
        return y if out is None else out

    def bound(
        self, shape: tuple[int, ...], seams: Seams | None = None
    ) -> tuple[Prepared, tuple[Any, ...]]:
        """Return what computes inputs of this shape, and the packed weights for it.

        ``seams``: None for C-contiguous arrays and no additions. For callers that have addresses
        instead of arrays: see `Prepared.run_at`.
        """
        key = shape if seams is None else (shape, seams)
        return self._bound.get(key) or self._bind(key, shape, seams)

    def plan(
        self,
        input_shape: tuple[int, ...] | list[int],
        dtype: Literal["float32", "float64", "float16", "bfloat16"] | None = None,
    ) -> Plan:
        """Return what a call with an input of this shape does, and what it costs.

        ``dtype``: of the input, by default the weights'. Compiles the kernels if that has not been
        done yet. Raises InvalidValue for a shape that does not fit the weights, InvalidType for
        such a dtype, and BuildError.
        """
        if dtype is not None:
            asked = arguments.dtype_named(arguments.choice("dtype", dtype, ARRAY_TYPES))
            if asked != self._dtype:
                return self._for(asked).plan(input_shape)
        return replace(self._prepare(input_shape).plan(), machine=described())

    def __repr__(self) -> str:
        shape, request = self._layer.weight_shape, self._request
        return f"<Conv2d weight {shape} {self._layer.dtype}, algorithm {request.algorithm!r}>"

    _STATE = ("_layer", "_request", "_dtype", "_weight", "_bias", "_slopes")

    def __getstate__(self) -> dict:
        """Copies and pickles carry the weights; C pointers are made again where they arrive."""
        return {name: getattr(self, name) for name in self._STATE}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._bound: dict[tuple, tuple] = {}  # shape, seams -> (Prepared, packed weights)
        # Kernel -> packed weights, as long as an input shape needs them.
        self._packed: MutableMapping[Any, np.ndarray] = WeakValueDictionary()
        self._lock = Lock()
        self._twins: dict[np.dtype, Conv2d] = {}

    def _for(self, dtype: np.dtype) -> Conv2d:
        """The same with inputs of another type: raises InvalidType unless it goes with weights."""
        twin = self._twins.get(dtype)
        if twin is None:
            name = arguments.layer_dtype(dtype, self._dtype)
            twin = self.__class__.__new__(self.__class__)
            state = self.__getstate__() | {"_dtype": dtype}
            twin.__setstate__(state | {"_layer": replace(self._layer, dtype=name)})
            self._twins[dtype] = twin
        return twin

    def _prepare(self, input_shape: Any) -> Prepared:
        return _prepared(self._layer.problem(input_shape), self._request)

    def _bind(self, key: tuple, shape: tuple[int, ...], seams: Seams | None) -> tuple:
        problem = self._layer.problem(shape)
        prepared = _prepared(problem.sewn(seams or problem.seams), self._request)
        with self._lock:  # weights are packed once even if several threads call at once
            entry = prepared, prepared.pack(self._weight, self._packed)
            if len(self._bound) >= _SHAPES_KEPT:
                del self._bound[next(iter(self._bound))]
            self._bound[key] = entry
        return entry


def _prepared(problem: Problem, request: Request) -> Prepared:
    """The problem planned for this machine."""
    return prepare(problem, request, host_target(), current(), Environment.now())


def _parameters(weight: Any, bias: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The weights and bias as arrays of one dtype, the shape of the bias checked."""
    w = arguments.layer_array("weight", weight)
    if bias is None:
        return w, None
    b = arguments.layer_array("bias", bias)
    if not (arguments.dtype_name(w.dtype) in NARROW_TYPES and b.dtype == np.float32):
        arguments.same_dtype("bias", b, w.dtype, "weight")
    if w.ndim == 4 and b.shape != w.shape[:1]:
        raise InvalidValue(
            f"bias: got shape {b.shape}; allowed: {w.shape[:1]}, one value per filter of weight"
        )
    return w, b


class _Arrays(NamedTuple):
    """The arrays of one call, checked and ready for its kernels."""

    x: np.ndarray
    out: np.ndarray | None
    add: np.ndarray | None
    add_after: np.ndarray | None
    seams: Seams

    @classmethod
    def of(
        cls, problem: Problem, x: np.ndarray, out: Any, add: Any, add_after: Any, others: dict
    ) -> _Arrays:
        """Return them; raises InvalidType and InvalidValue. ``others``: ``out`` is none of them."""
        layout, shape = problem.layer.layout, problem.output_shape
        named = {"add": add, "add_after": add_after}
        terms = {name: None if value is None else seams.added(name, value, shape, x.dtype)
                 for name, value in named.items()}  # fmt: skip
        view, around = None, problem.layer.filters
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
        prepared: Prepared,
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
