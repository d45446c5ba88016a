"""The public functions: `conv2d` for one call, `Conv2d` for many with the same weights."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from winogen.conv import arguments, memory
from winogen.conv.execute import Environment, Prepared, prepare
from winogen.conv.options import Options, takes_options
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import Request
from winogen.errors import InvalidType, InvalidValue
from winogen.toolchain import host_target
from winogen.toolchain.fork import Lock
from winogen.toolchain.machine import current

# Input shapes whose bound kernels one `Conv2d` remembers.
_SHAPES_KEPT = 256


@takes_options
def conv2d(
    input: Any, weight: Any, bias: Any = None, *args: Any, out: Any = None, **options: Any
) -> np.ndarray:
    """Return the 2D convolution (cross-correlation) of ``input`` with ``weight``.

    The arguments up to ``groups`` mean exactly what they mean in ``torch.nn.functional.conv2d``.

    Parameters
    ----------
    input
        (N, C, H, W), or (C, H, W) for one image; with ``layout="NHWC"`` the channels come last. Any
        strides and memory order; float32 or float64 in native byte order. Arrays and whatever numpy
        can view (torch CPU tensors) are accepted, lists are not. Never written to.
    weight
        (M, C/groups, KH, KW) in either layout, dtype as ``input``.
    bias
        None or (M,), dtype as ``input``.
    stride, dilation
        A positive int, or (height, width).
    padding
        A non-negative int, (height, width), ((top, bottom), (left, right)), "valid" for 0, or
        "same" for outputs as large as the input (stride 1 only).
    groups
        Groups of channels that do not mix; divides C and M.
    padding_mode
        "zeros", "reflect" (padding below the size), "replicate" or "circular" (padding up to the
        size).
    layout
        "NCHW" or "NHWC", of ``input`` and the result.
    activation
        None; "relu" for max(y, 0), which lets NaN through; or ("leaky_relu", slope) for y where
        y >= 0, else slope * y.
    algorithm
        "auto", "direct", "im2col", "winograd2d", "winograd1d" or "mcmr". The Winograd algorithms
        need stride 1 and dilation 1. They mix the values of a tile: an infinity or NaN in the input
        may make its neighbours NaN.
    tile
        Outputs of one Winograd tile: m, or (m_h, m_w). An int is meant for the axes along which the
        kernel is longer than 1. With "auto" it asks for "mcmr".
    points
        Interpolation points instead of the default ones: "0,1,-1,inf", a sequence of exact numbers,
        or a pair (height, width) of these. A tile of m outputs for r taps has m + r - 1 points.
    moduli
        Coprime polynomials instead of points, as `winogen.winograd` takes them:
        "x,x-1,x+1,x^2+1,inf", a sequence, or a pair (height, width) of these. Their degrees, 1 for
        "inf", add up to m + r - 1. A modulus of degree 2 costs one multiplication more than two
        points, and may be much more accurate.
    order
        How transforms add: None or "program" for the shortest programs; "huffman" (smallest partial
        sums first), "pairwise" or "naive" for every row of a matrix on its own.
    edge
        Winograd tiles that do not fit: "discard" computes them whole and drops what is too much,
        "direct" leaves their outputs to direct convolution.
    border
        How Winograd tiles are made at the border: "unswitch" has code of its own for tiles inside,
        "buffer" copies tiles with their padding, "indirect" reads through pointers.
    threads
        None for OMP_NUM_THREADS or else all CPUs of this process, or a positive int. The result
        does not depend on it.
    workspace_limit
        None, or the most bytes of scratch memory that one call may take; less memory may mean more
        time. InvalidValue where the algorithm needs more, with the number.
    tolerance
        The largest error of the output over its largest value, max |y - y_exact| / max |y_exact|,
        as measured on normally distributed data; the fastest way within it runs. Data with outliers
        may see more: see docs/accuracy.md. None for 1e-5, and for an error as that of direct
        convolution where this takes at most 18 % longer.
    out
        Array for the result: C-contiguous, writeable, right shape and dtype, no memory shared with
        an argument.

    Returns
    -------
    (N, M, OH, OW) or (N, OH, OW, M), without N if ``input`` has none; ``out`` if it was given.

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

    Weights are packed anew at every call; `Conv2d` keeps them.

    >>> import numpy as np
    >>> from winogen import conv2d
    >>> image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> box = np.ones((1, 1, 3, 3), np.float32)
    >>> conv2d(image, box, algorithm="direct")[0, 0].tolist()
    [[45.0, 54.0], [81.0, 90.0]]
    """
    asked = Options.of(args, options, "conv2d")
    x = arguments.float_array("input", input)
    w, b = _parameters(weight, bias)
    layer = Layer.from_options(w.shape, arguments.DTYPE_NAMES[w.dtype], asked)
    arguments.same_dtype("input", x, w.dtype, "weight")
    problem = layer.problem(x.shape)
    request = Request.from_options(layer, asked)
    view = None
    if out is not None:
        others = {"input": x, "weight": w, "bias": b}
        view = _check_out(out, problem.output_shape, x.dtype, others)
    if problem.batch == 0:  # not worth a compiler
        return np.empty(problem.output_shape, x.dtype) if out is None else out
    prepared = _prepared(problem, request)
    packed = prepared.pack(memory.contiguous(w, "weight"))
    b = None if b is None else memory.contiguous(b, "bias")
    y = _apply(prepared, x, packed, b, view)
    return y if out is None else out


class Conv2d:
    """A convolution with fixed weights and options, which packs the weights only once.

    ``weight``, ``bias`` and the options are those of `conv2d`, and raise the same errors. The
    weights are copied: later changes of the caller's arrays have no effect. One object may be
    called from several threads at once.

    >>> import numpy as np, winogen
    >>> conv = winogen.Conv2d(np.ones((2, 3, 3, 3), np.float32), padding="same")
    >>> conv(np.ones((1, 3, 5, 5), np.float32))[0, 0, 0].tolist()
    [12.0, 18.0, 18.0, 18.0, 12.0]
    >>> print(conv.plan((1, 3, 5, 5)).output_shape)
    (1, 2, 5, 5)
    """

    @takes_options
    def __init__(self, weight: Any, bias: Any = None, *args: Any, **options: Any):
        asked = Options.of(args, options, "Conv2d")
        w, b = _parameters(weight, bias)
        self._layer = Layer.from_options(w.shape, arguments.DTYPE_NAMES[w.dtype], asked)
        self._request = Request.from_options(self._layer, asked)
        self._weight = np.array(w, order="C")
        self._bias = None if b is None else np.array(b, order="C")
        self._forget()

    def __call__(self, input: Any, out: Any = None) -> np.ndarray:
        """Return the convolution of ``input``, in ``out`` if that is given; see `conv2d`."""
        x = input if type(input) is np.ndarray else arguments.array("input", input)
        if x.dtype != self._weight.dtype:
            arguments.float_array("input", x)  # names a dtype that is wrong altogether
            arguments.same_dtype("input", x, self._weight.dtype, "weight")
        prepared, packed = self._bound.get(x.shape) or self._bind(x.shape)
        if out is None:
            return _apply(prepared, x, packed, self._bias, None)
        view = _check_out(out, prepared.output_shape, x.dtype, {"input": x})
        _apply(prepared, x, packed, self._bias, view)
        return out

    def plan(self, input_shape: Any) -> Plan:
        """Return what a call with an input of this shape does, and what it costs.

        Compiles the kernels if that has not been done yet. Raises InvalidValue for a shape that
        does not fit the weights, and BuildError.
        """
        return self._prepare(input_shape).plan()

    def __repr__(self) -> str:
        shape, request = self._layer.weight_shape, self._request
        return f"<Conv2d weight {shape} {self._layer.dtype}, algorithm {request.algorithm!r}>"

    def __getstate__(self) -> dict:
        """Copies and pickles carry the weights; C pointers are made again where they arrive."""
        return {name: getattr(self, name) for name in ("_layer", "_request", "_weight", "_bias")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._bound: dict[tuple, tuple] = {}  # input shape -> (Prepared, packed weights)
        # Kernel -> packed weights, as long as an input shape needs them.
        self._packed: MutableMapping[Any, np.ndarray] = WeakValueDictionary()
        self._lock = Lock()

    def _prepare(self, input_shape: Any) -> Prepared:
        return _prepared(self._layer.problem(input_shape), self._request)

    def _bind(self, shape: tuple[int, ...]) -> tuple:
        prepared = self._prepare(shape)
        with self._lock:  # weights are packed once even if several threads call at once
            entry = prepared, prepared.pack(self._weight, self._packed)
            if len(self._bound) >= _SHAPES_KEPT:
                del self._bound[next(iter(self._bound))]
            self._bound[shape] = entry
        return entry


def _prepared(problem: Problem, request: Request) -> Prepared:
    """The problem planned for this machine."""
    return prepare(problem, request, host_target(), current(), Environment.now())


def _parameters(weight: Any, bias: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The weights and bias as arrays of one dtype, the shape of the bias checked."""
    w = arguments.float_array("weight", weight)
    if bias is None:
        return w, None
    b = arguments.float_array("bias", bias)
    arguments.same_dtype("bias", b, w.dtype, "weight")
    if w.ndim == 4 and b.shape != w.shape[:1]:
        raise InvalidValue(
            f"bias: got shape {b.shape}; allowed: {w.shape[:1]}, one value per filter of weight"
        )
    return w, b


def _check_out(out: Any, shape: tuple, dtype: np.dtype, others: dict) -> np.ndarray:
    """Return ``out`` as a plain array; raise unless writing it leaves all arguments alone."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise InvalidType(f"out: got {type(out).__name__}; allowed: None or a numpy array")
    out = np.asarray(out)  # a subclass may say of itself what it is not
    if out.dtype != dtype:
        raise InvalidType(f"out: got dtype {out.dtype.str}; allowed: {dtype.str}, as input has")
    if out.shape != shape:
        raise InvalidValue(f"out: got shape {out.shape}; allowed: {shape}")
    flags = out.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable):
        wrong = [
            name for name in ("c_contiguous", "aligned", "writeable") if not flags[name.upper()]
        ]
        raise InvalidValue(
            f"out: got an array that is not {' and not '.join(wrong)}; allowed: a C-contiguous, "
            "aligned, writeable array"
        )
    for name, other in others.items():
        if other is not None and _overlap(out, other):
            raise InvalidValue(
                f"out: got an array that overlaps {name}; allowed: memory of its own"
            )
    return out


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    if not np.may_share_memory(one, other):
        return False
    try:  # it may still fit between the rows of a strided view
        return np.shares_memory(one, other, max_work=10_000)  # type: ignore[arg-type]
    except getattr(np, "exceptions", np).TooHardError:  # numpy < 1.25 has it at the top
        return True


def _apply(
    prepared: Prepared,
    x: np.ndarray,
    packed: tuple[Any, ...],
    bias: np.ndarray | None,
    out: np.ndarray | None,
) -> np.ndarray:
    """Run with arguments that have been checked."""
    flags = x.flags
    if not (flags.c_contiguous and flags.aligned):
        x = memory.contiguous(x, "input")
    if out is None:
        out = memory.empty(prepared.output_shape, prepared.dtype, "output")
    prepared.run(x, packed, bias, out)
    return out
