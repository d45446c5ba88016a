"""Convolutions of 8-bit integers: `QConv2d`, as ONNX's ConvInteger and QLinearConv define them."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.conv import arguments, memory, seams
from winogen.conv.problem import Layer
from winogen.conv.quantization import BYTES, RANGES, Filters, Scales, any_zero, check_zero, integers
from winogen.errors import InvalidValue

ALGORITHMS = ("auto", "direct", "im2col")
ACTIVATIONS = (None, "relu")


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
        would multiply many zeros.

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
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: Any = 1,
        *,
        w_scale: Any = None,
        x_scale: Any = None,
        x_zero: Any = 0,
        y_scale: Any = None,
        y_zero: Any = 0,
        w_zero: Any = 0,
        y_dtype: Any = None,
        layout: str = "NCHW",
        activation: Any = None,
        algorithm: str = "auto",
        threads: Any = None,
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
            for name, value in (("y_zero", y_zero), ("y_dtype", y_dtype)):
                if value is not None and value != 0:
                    raise InvalidValue(
                        f"{name}: got {value!r} without y_scale; allowed: none, for sums are int32"
                    )
        else:
            for name, value in (("x_scale", x_scale), ("w_scale", w_scale)):
                if value is None:
                    raise InvalidValue(
                        f"{name}: got None; allowed: a positive float32, as there is a y_scale"
                    )
            self._scales = Scales.of(shape[0], x_scale, w_scale, y_scale, y_zero, y_dtype)
        self._relu = arguments.choice("activation", activation, ACTIVATIONS) is not None
        self._algorithm = arguments.choice("algorithm", algorithm, ALGORITHMS)
        self._threads = arguments.threads(threads)

    def __call__(self, input: Any, out: Any = None) -> np.ndarray:
        """Return the result for (N, C, H, W) or (C, H, W), uint8 or int8, in ``out`` if given.

        With layout="NHWC" the channels come last. Raises InvalidType and InvalidValue.
        """
        x = integers("input", input, BYTES)
        problem = self._layer.problem(x.shape)
        check_zero("x_zero", self._x_zero, x.dtype.name)
        lowest, highest = RANGES[x.dtype.name]
        self._filters.check_sums(lowest - self._x_zero, highest - self._x_zero)
        dtype = np.dtype(np.int32)
        if self._scales is not None:
            dtype = np.dtype(self._scales.dtype or x.dtype)
            check_zero("y_zero", self._scales.zero, dtype.name)
        if out is not None:
            seams.writeable(out, problem.output_shape, dtype, self._layer.layout, {"input": x})
        y = memory.empty(problem.output_shape, dtype, "output") if out is None else out
        y[...] = self._compute(x, dtype)
        return y

    def _compute(self, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        layer, filters = self._layer, self._filters
        planar = layer.layout == "NCHW"
        batched = x if x.ndim == 4 else x[None]
        x4 = (batched if planar else np.moveaxis(batched, 3, 1)).astype(np.int64) - self._x_zero
        top, bottom, left, right = layer.padding
        x4 = np.pad(x4, ((0, 0), (0, 0), (top, bottom), (left, right)))
        w = filters.weight.astype(np.int64)
        if filters.zero is not None:
            w -= filters.zero[:, None, None, None]
        out_h, out_w = (
            (size - reach) // stride + 1
            for size, reach, stride in zip(x4.shape[2:], layer.reach, layer.stride)
        )
        groups, per = layer.groups, layer.channels // layer.groups
        sums = np.zeros((len(x4), groups, layer.filters // groups, out_h, out_w), np.int64)
        for k in range(layer.kernel[0]):
            for q in range(layer.kernel[1]):
                row, col = k * layer.dilation[0], q * layer.dilation[1]
                window = x4[
                    :, :, row : row + (out_h - 1) * layer.stride[0] + 1 : layer.stride[0],
                    col : col + (out_w - 1) * layer.stride[1] + 1 : layer.stride[1],
                ]  # fmt: skip
                sums += np.einsum(
                    "ngchw,gmc->ngmhw",
                    window.reshape(len(x4), groups, per, out_h, out_w),
                    w[:, :, k, q].reshape(groups, -1, per),
                )
        sums = sums.reshape(len(x4), layer.filters, out_h, out_w)
        if filters.bias is not None:
            sums += filters.bias[:, None, None].astype(np.int64)
        lo, hi = -(1 << 31), (1 << 31) - 1
        zero = 0
        y: np.ndarray = sums
        if self._scales is not None:
            lo, hi = RANGES[dtype.name]
            zero = self._scales.zero
            y = sums * self._scales.multiplier[:, None, None].astype(np.float64) + zero
        y = np.round(np.clip(y, max(lo, zero) if self._relu else lo, hi)).astype(dtype)
        y = y if planar else np.moveaxis(y, 1, 3)
        return y if x.ndim == 4 else y[0]
