"""Transposed layers on a device of OpenCL: one convolution of all phases, stored where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

from winogen.conv.convolution import parameters
from winogen.conv.options import Options
from winogen.conv.problem import Layer
from winogen.conv.transposed import filters_of
from winogen.conv.transposed_problem import TransposedLayer, TransposedProblem
from winogen.opencl.base import DeviceLayer
from winogen.opencl.phases import request_in_plane
from winogen.opencl.plan import DevicePlan
from winogen.typing import (
    Activation,
    Algorithm,
    Array,
    Ends,
    IntOrInts,
    Layout1d,
    Layout2d,
    Moduli,
    Order,
    Points,
    Real,
    Tile,
)


class DeviceTransposed(DeviceLayer):
    """The base of the classes here: all but the signature of their options."""

    _layer: TransposedLayer

    def __init__(
        self, weight: Array, bias: Array | None, asked: Options, more: IntOrInts, context: Any
    ):
        self._more = more
        super().__init__(weight, bias, asked, context)

    def _parameters(self, weight: Array, bias: Array | None, asked: Options) -> tuple[Any, Any]:
        return parameters(weight, bias, filters_of(weight, asked))

    def _make(self, shape: tuple[int, ...], dtype: str, asked: Options) -> None:
        self._layer = TransposedLayer.of(shape, dtype, asked, self._more)
        self._request = request_in_plane(self._layer, asked)

    def _asked(self, dtype: str, shape: Any, output_size: Any) -> TransposedProblem:
        sample = replace(self._sample, dtype=dtype)
        return replace(self._layer, sample=sample).problem(shape, output_size)

    @property
    def _sample(self) -> Layer:
        return self._layer.sample

    def __call__(
        self,
        input: Any,
        output_size: Sequence[int] | None = None,
        *,
        out: Any = None,
        add: Any = None,
        add_after: Any = None,
    ) -> Any:
        """Return activation(transposed conv + bias + add) + add_after, in ``out`` if given.

        ``output_size``: of the output along each axis, or its shape, instead of what
        ``output_padding`` says. Arrays are those that `Conv2d` takes. See
        `winogen.conv_transpose2d`.
        """
        return self._call(input, out, add, add_after, output_size)[0]

    def plan(
        self,
        input_shape: tuple[int, ...] | list[int],
        output_size: Sequence[int] | None = None,
        dtype: str | None = None,
    ) -> DevicePlan:
        """Return what a call with an input of this shape does; see `Conv2d.plan`."""
        return self._planned(input_shape, output_size, dtype)


class ConvTranspose2d(DeviceTransposed):
    """A transposed convolution with fixed weights and options on a device.

    Arguments and errors are those of `winogen.ConvTranspose2d`, as far as they mean something
    there; ``algorithm``, ``context`` and what a call takes are those of `winogen.opencl.Conv2d`.
    """

    rank = 2

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        stride: IntOrInts = 1,
        padding: IntOrInts | Ends = 0,
        output_padding: IntOrInts = 0,
        groups: SupportsIndex = 1,
        dilation: IntOrInts = 1,
        *,
        # parameters: layout activation algorithm ... order workspace_limit tolerance
        layout: Layout2d = "NCHW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        moduli: Moduli | None = None,
        order: Order | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
        context: Any = None,
    ):
        asked = Options(
            stride, padding, dilation, groups, layout=layout, activation=activation,
            algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order,
            workspace_limit=workspace_limit, tolerance=tolerance, threads=1,
        )  # fmt: skip
        super().__init__(weight, bias, asked, output_padding, context)


class ConvTranspose1d(DeviceTransposed):
    """The same of signals: see `ConvTranspose2d` and `winogen.ConvTranspose1d`."""

    rank = 1

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        stride: IntOrInts = 1,
        padding: IntOrInts | Ends = 0,
        output_padding: IntOrInts = 0,
        groups: SupportsIndex = 1,
        dilation: IntOrInts = 1,
        *,
        # parameters of 1: layout activation algorithm ... order workspace_limit tolerance
        layout: Layout1d = "NCW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        tile: Tile | None = None,
        points: Points | None = None,
        moduli: Moduli | None = None,
        order: Order | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
        context: Any = None,
    ):
        asked = Options(
            stride, padding, dilation, groups, layout=layout, activation=activation,
            algorithm=algorithm, tile=tile, points=points, moduli=moduli, order=order,
            workspace_limit=workspace_limit, tolerance=tolerance, threads=1,
        )  # fmt: skip
        super().__init__(weight, bias, asked, output_padding, context)
