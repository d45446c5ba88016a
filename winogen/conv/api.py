"""The public functions: `conv2d` for one call, `Conv2d` for many with the same weights."""

from __future__ import annotations

import numpy as np

from winogen.conv import arguments, memory
from winogen.conv.execute import Prepared, prepare
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer
from winogen.conv.request import request as requested
from winogen.errors import InvalidType, InvalidValue
from winogen.toolchain import host_target
from winogen.toolchain.fork import Lock

# Input shapes whose bound kernels one `Conv2d` remembers.
_SHAPES_KEPT = 256


def conv2d(
    input,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    *,
    padding_mode="zeros",
    layout="NCHW",
    activation=None,
    algorithm="auto",
    tile=None,
    points=None,
    moduli=None,
    order=None,
    edge="discard",
    border="unswitch",
    threads=None,
    workspace_limit=None,
    tolerance=None,
    out=None,
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
        None, or "relu" for max(y, 0), which lets NaN through.
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
        Coprime polynomials instead of points, as `winogen.winograd` takes them: "x,x-1,x+1,x^2+1,inf",
        a sequence, or a pair (height, width) of these. Their degrees, 1 for "inf", add up to
        m + r - 1. A modulus of degree 2 costs one multiplication more than two points, and may be
        much more accurate.
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
        Largest predicted error (`Plan.predicted_error`) of a tile that the planner may choose; the
        fastest within it runs. 6e-6 keeps the largest error of a layer below 1e-5 of its largest
        output. None for no more than that, and where it takes at most 18 % longer, for an error as
        that of direct convolution.
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
    x = arguments.float_array("input", input)
    w, b = _parameters(weight, bias)
    layer = Layer.of(
        w.shape,
        arguments.DTYPE_NAMES[w.dtype],
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        padding_mode=padding_mode,
        layout=layout,
        activation=activation,
    )
    arguments.same_dtype("input", x, w.dtype, "weight")
    problem = layer.problem(x.shape)
    asked = requested(
        layer,
        algorithm=algorithm,
        tile=tile,
        points=points,
        moduli=moduli,
        order=order,
        edge=edge,
        border=border,
        threads=threads,
        workspace_limit=workspace_limit,
        tolerance=tolerance,
    )
    if out is not None:
        _check_out(out, problem.output_shape, x.dtype, {"input": x, "weight": w, "bias": b})
    if problem.batch == 0:  # not worth a compiler
        return np.empty(problem.output_shape, x.dtype) if out is None else out
    prepared = prepare(problem, asked, host_target())
    packed = prepared.pack(memory.contiguous(w, "weight"))
    b = None if b is None else memory.contiguous(b, "bias")
    return _apply(prepared, x, packed, b, out)


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

    def __init__(
        self,
        weight,
        bias=None,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        *,
        padding_mode="zeros",
        layout="NCHW",
        activation=None,
        algorithm="auto",
        tile=None,
        points=None,
        moduli=None,
        order=None,
        edge="discard",
        border="unswitch",
        threads=None,
        workspace_limit=None,
        tolerance=None,
    ):
        w, b = _parameters(weight, bias)
        self._layer = Layer.of(
            w.shape,
            arguments.DTYPE_NAMES[w.dtype],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            padding_mode=padding_mode,
            layout=layout,
            activation=activation,
        )
        self._request = requested(
            self._layer,
            algorithm=algorithm,
            tile=tile,
            points=points,
            moduli=moduli,
            order=order,
            edge=edge,
            border=border,
            threads=threads,
            workspace_limit=workspace_limit,
            tolerance=tolerance,
        )
        self._weight = np.array(w, order="C")
        self._bias = None if b is None else np.array(b, order="C")
        self._forget()

    def __call__(self, input, out=None) -> np.ndarray:
        """Return the convolution of ``input``, in ``out`` if that is given; see `conv2d`."""
        x = input if type(input) is np.ndarray else arguments.array("input", input)
        if x.dtype != self._weight.dtype:
            arguments.float_array("input", x)  # names a dtype that is wrong altogether
            arguments.same_dtype("input", x, self._weight.dtype, "weight")
        prepared, packed = self._bound.get(x.shape) or self._bind(x.shape)
        if out is not None:
            _check_out(out, prepared.output_shape, x.dtype, {"input": x})
        return _apply(prepared, x, packed, self._bias, out)

    def plan(self, input_shape) -> Plan:
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
        self._packed: dict = {}  # library -> packed weights
        self._lock = Lock()

    def _prepare(self, input_shape) -> Prepared:
        return prepare(self._layer.problem(input_shape), self._request, host_target())

    def _bind(self, shape: tuple[int, ...]) -> tuple:
        prepared = self._prepare(shape)
        with self._lock:  # weights are packed once even if several threads call at once
            entry = prepared, prepared.pack(self._weight, self._packed)
            if len(self._bound) >= _SHAPES_KEPT:
                del self._bound[next(iter(self._bound))]
            self._bound[shape] = entry
        return entry


def _parameters(weight, bias) -> tuple[np.ndarray, np.ndarray | None]:
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


def _check_out(out, shape, dtype, others: dict) -> None:
    """Raise unless the result can be written into ``out`` without touching an argument."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise InvalidType(f"out: got {type(out).__name__}; allowed: None or a numpy array")
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


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    if not np.may_share_memory(one, other):
        return False
    try:  # it may still fit between the rows of a strided view
        return np.shares_memory(one, other, max_work=10_000)
    except getattr(np, "exceptions", np).TooHardError:  # numpy < 1.25 has it at the top
        return True


def _apply(prepared: Prepared, x: np.ndarray, packed, bias, out) -> np.ndarray:
    """Run with arguments that have been checked."""
    flags = x.flags
    if not (flags.c_contiguous and flags.aligned):
        x = memory.contiguous(x, "input")
    if out is None:
        out = memory.empty(prepared.output_shape, prepared.dtype, "output")
    prepared.run(x, packed, bias, out)
    return out
