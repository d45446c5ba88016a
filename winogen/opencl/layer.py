"""`Conv2d` and `Conv1d` on a device of OpenCL: arrays of numpy or of pyopencl in and out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, SupportsIndex

from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem
from winogen.opencl.base import DeviceLayer
from winogen.opencl.phases import request_in_plane
from winogen.opencl.plan import DevicePlan
from winogen.typing import (
    Activation,
    Algorithm,
    Array,
    IntOrInts,
    Layout1d,
    Layout2d,
    Moduli,
    Order,
    Padding,
    PaddingMode,
    Points,
    Real,
    Tile,
)


class DeviceConvolution(DeviceLayer):
    """The base of `Conv1d` and `Conv2d`: all but the signature of their options."""

    _layer: Layer

    def _make(self, shape: tuple[int, ...], dtype: str, asked: Options) -> None:
        self._layer = Layer.from_options(shape, dtype, asked)
        self._request = request_in_plane(self._layer, asked)

    def _asked(self, dtype: str, shape: Any, output_size: Any) -> Problem:
        layer = self._layer
        return (layer if dtype == layer.dtype else replace(layer, dtype=dtype)).problem(shape)

    @property
    def _sample(self) -> Layer:
        return self._layer

    def __call__(
        self, input: Any, out: Any = None, *, add: Any = None, add_after: Any = None
    ) -> Any:
        """Return activation(conv + bias + add) + add_after, in ``out`` if given.

        All arrays are of numpy, or all of pyopencl, then C-contiguous and of one context. Those of
        pyopencl are computed on the queue of ``input``, without waiting. See `winogen.conv2d`.
        """
        return self._call(input, out, add, add_after)[0]

    def plan(
        self, input_shape: tuple[int, ...] | list[int], dtype: str | None = None
    ) -> DevicePlan:
        """Return what a call with an input of this shape does, and what it takes.

        ``dtype``: of the input, by default the weights'. Compiles the kernels if that has not been
        done yet. Raises InvalidValue for a shape that does not fit the weights, InvalidType for
        such a dtype, and CompileFailed.
        """
        return self._planned(input_shape, None, dtype)


class Conv2d(DeviceConvolution):
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

    rank = 2

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
        super().__init__(weight, bias, asked, context)


class Conv1d(DeviceConvolution):
    """The same of signals, which are planes of one row: see `Conv2d` and `winogen.Conv1d`."""

    rank = 1

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        # parameters of 1: stride ... activation
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        groups: SupportsIndex = 1,
        *,
        padding_mode: PaddingMode = "zeros",
        layout: Layout1d = "NCW",
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
        super().__init__(weight, bias, asked, context)
