"""The gradient of the weights of a convolution, by F(r, m).

Of y = conv2d(x, w) with stride 1, dw is a correlation, too, of x with dy. Its tiles use the
matrices of F(m, r), with filter and outputs exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from winogen.conv import arguments, seams
from winogen.conv.execute import Environment, remembered
from winogen.conv.gradient_planner import Gradients, WeightGradient
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Pair, Problem, Seams, plane_of
from winogen.conv.query import Query
from winogen.conv.request import MOST_POINTS, Request
from winogen.errors import InvalidValue, Unsupported
from winogen.records import Machine, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current, described

_LEAST_CHANNELS = 16  # of a group, and filters, from which it pays


def weight_gradient(
    input: Any,
    grad_output: Any,
    kernel: Any,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    layout: str = "NCHW",
    tile: Any = None,
    threads: Any = None,
    tolerance: Any = None,
) -> np.ndarray:
    """Return the gradient of the weights of ``conv2d(input, weight, …)``, padded with zeros.

    Parameters
    ----------
    input
        (N, C, H, W), or (C, H, W) for one image; with ``layout="NHWC"`` the channels come last.
        float32 or float64. Any strides; slices of channels are read in place, others are copied.
    grad_output
        The gradient of the convolution's output: its shape and layout, dtype as ``input``.
    kernel
        The size of the filters: an int, or (KH, KW).
    stride, dilation
        Only 1; others are Unsupported.
    padding, groups, layout
        As `conv2d` takes them.
    tile
        Outputs of the convolution that a tile has: None for the planner's choice, m, or (m_h, m_w).
        1 sums all products as they are. An int is meant for the axes along which the kernel is
        longer than 1.
    threads
        As `conv2d` takes it; the result does not depend on it.
    tolerance
        The largest error of the gradient over its largest value, as expected on normally
        distributed data. None for 1e-5, and for what frameworks have where it takes little longer.

    Returns
    -------
    (M, C/groups, KH, KW), C-contiguous.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work; also TypeError and ValueError.
    Unsupported
        For a stride or dilation other than 1; also ValueError.
    BuildError
        When no kernel can be compiled.
    OutOfMemory
        When an array or the workspace cannot be allocated; also MemoryError.

    >>> import numpy as np
    >>> x, dy = np.ones((2, 3, 5, 6), np.float32), np.ones((2, 4, 5, 6), np.float32)
    >>> dw = weight_gradient(x, dy, 3, padding=1)
    >>> dw.shape, dw[0, 0].round(3).tolist()
    ((4, 3, 3, 3), [[40.0, 48.0, 40.0], [50.0, 60.0, 50.0], [40.0, 48.0, 40.0]])
    """
    x = arguments.float_array("input", input)
    dy = arguments.float_array("grad_output", grad_output)
    arguments.same_dtype("grad_output", dy, x.dtype, "input")
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    problem = _problem(x.shape, dy.shape, x.dtype, kernel, layout=layout, **options)
    request = _request(problem, tile, threads, tolerance)
    x, channels = seams.readable("input", x, problem.layer.layout)
    dy, filters = seams.readable("grad_output", dy, problem.layer.layout)
    problem = problem.sewn(Seams(channels, filters))
    return prepare(problem, request, host_target(), current(), Environment.now())(x, dy)


def plan_weight_gradient(
    input_shape: tuple[int, ...],
    weight_shape: tuple[int, ...],
    *,
    padding: Any = 0,
    groups: Any = 1,
    layout: str = "NCHW",
    dtype: str = "float32",
    tile: Any = None,
    threads: Any = None,
    tolerance: Any = None,
) -> Plan:
    """Return what `weight_gradient` does for an input of this shape, and what it costs.

    ``weight_shape``: (M, C/groups, KH, KW). ``dtype``: of all arrays. The others as
    `weight_gradient` takes them. Nothing is compiled; seconds are those of one thread. Raises
    InvalidType and InvalidValue.

    >>> plan = plan_weight_gradient((1, 64, 56, 56), (64, 64, 3, 3), padding=1, threads=1)
    >>> plan.operation, plan.algorithm, len(plan.tile)
    ('weight_gradient', 'winograd', 2)
    """
    dtype = arguments.choice("dtype", dtype, arguments.DTYPES)
    options = {"padding": padding, "groups": groups, "layout": layout}
    problem = Layer.of(weight_shape, dtype, **options).problem(input_shape)
    request = _request(problem, tile, threads, tolerance)
    query = Query.here(problem, request, host_target(), current())
    return replace(Plan.of(Gradients().offer(query)), machine=described())


def suits(weight_shape: tuple[int, ...]) -> bool:
    """Whether `weight_gradient` is likely to be faster than what frameworks have on CPUs.

    ``weight_shape``: (M/groups, C/groups, KH, KW), of one group. Vectors are mostly empty where
    channels or filters are few, and 1x1 kernels leave nothing to save.

    >>> suits((64, 64, 3, 3)), suits((64, 3, 3, 3)), suits((256, 64, 1, 1))
    (True, False, False)
    """
    filters, channels, *kernel = weight_shape
    return min(filters, channels) >= _LEAST_CHANNELS and max(kernel) > 1


def _request(problem: Problem, tile: Any, threads: Any, tolerance: Any) -> Request:
    """How it is asked for, checked."""
    if tolerance is not None:
        allowed = "None or a positive number, as 1e-6"
        tolerance = arguments.positive("tolerance", tolerance, allowed)
    tiles = _tile(tile, plane_of(problem.layer.kernel)) or ()
    return Request(tile=tiles, threads=arguments.threads(threads), tolerance=tolerance)


def _problem(
    input_shape: tuple, grad_shape: tuple, dtype: np.dtype, kernel: Any, **options: Any
) -> Problem:
    """The convolution whose gradient is asked for, all its shapes checked."""
    taps = arguments.per_axis("kernel", kernel, 1, 2)
    layout = arguments.choice("layout", options["layout"], arguments.LAYOUTS[2])
    axis = -3 if layout == "NCHW" else -1
    shapes = {"input": input_shape, "grad_output": grad_shape}
    for name, shape in shapes.items():
        if len(shape) not in (3, 4):
            raise InvalidValue(f"{name}: got shape {shape}; allowed: 4 axes, or 3 without N")
        if shape[axis] == 0:
            raise InvalidValue(f"{name}: got shape {shape}; allowed: at least one channel")
    channels, filters = input_shape[axis], grad_shape[axis]
    groups = arguments.whole("groups", options["groups"], 1, "a positive int")
    for name, count in (("input", channels), ("grad_output", filters)):
        if count % groups:
            raise InvalidValue(
                f"groups: got {groups}; allowed: a divisor of the {count} channels of {name}"
            )
    for name in ("stride", "dilation"):
        value = arguments.per_axis(name, options[name], 1, 2)
        if value != (1, 1):
            raise Unsupported(
                f"{name}: got {value}; allowed: 1, because the outputs of a Winograd tile are "
                "neighbours that share their inputs"
            )
    layer = Layer.of((filters, channels // groups, *taps), dtype.name, **options)
    problem = layer.problem(input_shape)
    if grad_shape != problem.output_shape:
        raise InvalidValue(
            f"grad_output: got shape {grad_shape}; allowed: {problem.output_shape}, that of the "
            "convolution's output"
        )
    return problem


def _tile(value: Any, kernel: Pair) -> Pair | None:
    """The tile along both axes; an int is meant for the axes along which the kernel is longer."""
    if value is None:
        return None
    allowed = "None, a positive int or a pair (height, width) of them"
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise InvalidValue(f"tile: got {value!r}; allowed: {allowed}")
        height, width = (arguments.whole("tile", item, 1, allowed) for item in value)
    else:
        m = arguments.whole("tile", value, 1, allowed)
        height, width = (m if taps > 1 else 1 for taps in kernel)
    for m, taps in ((height, kernel[0]), (width, kernel[1])):
        if m > 1 and taps > 1 and m + taps - 1 > MOST_POINTS:
            raise InvalidValue(
                f"tile: got {value!r} for {taps} taps; allowed: at most "
                f"{max(1, MOST_POINTS - taps + 1)}"
            )
    return height, width


class _Zero:
    """The gradient of no images."""

    def __init__(self, problem: Problem):
        self.shape, self.dtype = problem.layer.weight_shape, np.dtype(problem.layer.dtype)

    def __call__(self, input: np.ndarray, grad_output: np.ndarray) -> np.ndarray:
        return np.zeros(self.shape, self.dtype)


@remembered(256)
def prepare(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    environment: Environment,
) -> WeightGradient | _Zero:
    """Return the gradient of a convolution planned and bound to its compiled kernel."""
    if problem.batch == 0:
        return _Zero(problem)
    query = Query.here(problem, request, target, machine)
    return Gradients().offer(query, most=1).bind(environment)
