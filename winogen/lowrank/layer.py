"""A convolution of low rank: two layers in place of one, called like `winogen.Conv2d`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from winogen.conv import Plan, arguments, flytes
from winogen.conv.convolution import parameters
from winogen.conv.options import Options
from winogen.conv.plan import Prediction
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.errors import InvalidType, InvalidValue
from winogen.lowrank.cutting import RankCut, Wanted, best_cut
from winogen.lowrank.form import FIRSTS, First, Form
from winogen.lowrank.running import Pipeline
from winogen.lowrank.times import predicted
from winogen.typing import (
    Activation,
    Algorithm,
    Array,
    FilterType,
    IntOrInts,
    Layout2d,
    NDArray,
    Padding,
    PaddingMode,
    ProductType,
    Real,
)

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn


@dataclass(frozen=True)
class LowRankPlan:
    """How both stages are computed, beside the layer as it was; ``print(plan)`` shows it."""

    stages: tuple[Plan, Plan]
    exact: Prediction  # the fastest way that the planner knows for the layer as it was
    residual: float

    @property
    def seconds(self) -> float:
        """Predicted, of both stages."""
        return sum(stage.predictions[0].seconds for stage in self.stages)

    @property
    def multiplications(self) -> int:
        """Of both stages as they are computed, on the whole input."""
        return sum(stage.multiplications for stage in self.stages)

    @property
    def is_faster(self) -> bool:
        """Whether both stages are predicted to take less time than the layer as it was."""
        return self.seconds < self.exact.seconds

    def __str__(self) -> str:
        tile = "" if self.exact.tile is None else f" with tiles of {_sizes(self.exact.tile)}"
        lines = [
            f"low rank, residual {self.residual:.3f}: predicted {1e3 * self.seconds:.3g} ms, for "
            f"{1e3 * self.exact.seconds:.3g} ms of the layer as it was, by {self.exact.algorithm}"
            f"{tile}{'' if self.is_faster else ': not worth it'}"
        ]
        for stage in self.stages:
            lines += [f"  {line}" for line in str(stage).splitlines()]
        return "\n".join(lines)


class LowRank:
    """Two convolutions in place of one: taps along one axis, then along the other.

    Made by `from_conv`. ``rank`` is that of each group, ``full_rank`` the one at which nothing is
    lost. ``residual`` is √ of the share that the singular values left out have of all squares: the
    error of the filters, relative to their norm; with ``inputs`` that of their products with these.
    ``products`` are per pixel of the output, ``compression`` is how many times fewer than in the
    layer as it was. ``first`` says whether "columns" or "rows" of taps come first, ``weights``
    are those of both stages, ``bias`` is the second one's. ``parameters`` counts the weights.
    """

    def __init__(self, layer: Layer, options: Options, cut: RankCut, slopes: np.ndarray | None):
        self._layer, self._options, self._slopes = layer, options, slopes
        self._form, self.residual, self.bias = cut.form, cut.residual, cut.bias
        self.weights = cut.first, cut.second
        self.rank = cut.first.shape[0] // cut.form.groups
        self._pipeline = Pipeline(layer, options, cut)

    @classmethod
    def from_conv(
        cls,
        weight: Array,
        bias: Array | None = None,
        *,
        rank: SupportsIndex | None = None,
        compression: Real | None = None,
        error: Real | None = None,
        inputs: Array | None = None,
        # parameters: stride ... groups
        stride: IntOrInts = 1,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        groups: SupportsIndex = 1,
        # end
        # parameters of 2: padding_mode layout activation algorithm filter_dtype ... tolerance
        padding_mode: PaddingMode = "zeros",
        layout: Layout2d = "NCHW",
        activation: Activation | None = None,
        algorithm: Algorithm = "auto",
        filter_dtype: FilterType | None = None,
        product_dtype: ProductType | None = None,
        threads: SupportsIndex | None = None,
        workspace_limit: SupportsIndex | None = None,
        tolerance: Real | None = None,
        # end
    ) -> LowRank:
        """Return the layer `winogen.Conv2d` (weight, bias, …) at a lower rank.

        Parameters
        ----------
        weight, bias
            As of `winogen.Conv2d`: (M, C/groups, KH, KW), and None or (M,). Finite.
        rank
            How many maps lie between the stages, for each group: 1 to the full rank.
        compression
            How many times fewer products than direct convolution has; the nearest rank is taken.
        error
            The largest residual, from 0 up to 1; the least rank that has it is taken. One of
            ``rank``, ``compression`` and ``error`` must be given.
        inputs
            None, or inputs of this layer in its layout, (N, C, H, W) or (N, H, W, C), with its
            dtype. Then the error on such inputs is made small, not that of the filters: the
            decomposition is weighted by their covariance, and stage 2 is fitted to the outputs by
            least squares.

        All others are those of `winogen.Conv2d`, for each of both stages. Of two orders of the
        stages the one with fewer products is taken; of equal ones that with the lower residual.

        Raises InvalidType and InvalidValue, before any work, and what `winogen.Conv2d` raises.

        >>> import numpy as np
        >>> from winogen.lowrank import LowRank
        >>> blur = np.ones((8, 4, 3, 3), np.float32)
        >>> layer = LowRank.from_conv(blur, rank=1, padding=1)
        >>> layer.products, round(layer.compression, 1), layer.residual < 1e-6
        (36, 8.0, True)
        >>> layer(np.ones((1, 4, 5, 5), np.float32))[0, 0, 0].round(3).tolist()
        [16.0, 24.0, 24.0, 24.0, 16.0]
        """
        asked = Options(
            stride=stride, padding=padding, dilation=dilation, groups=groups,
            padding_mode=padding_mode, layout=layout, activation=activation, algorithm=algorithm,
            filter_dtype=filter_dtype, product_dtype=product_dtype, threads=threads,
            workspace_limit=workspace_limit, tolerance=tolerance,
        )  # fmt: skip
        arguments.choice("layout", layout, arguments.LAYOUTS[2])
        w, b = parameters(weight, bias)
        layer = Layer.from_options(w.shape, arguments.dtype_name(w.dtype), asked)
        Request.from_options(layer, asked)
        slopes = arguments.slopes(activation, layer.filters, flytes.computed_with(w).dtype)
        for name, array in (("weight", w), ("bias", b)):
            if array is not None and not np.isfinite(array).all():
                raise InvalidValue(f"{name}: got numbers that are not finite; allowed: finite ones")
        forms = tuple(Form.of(layer, first) for first in FIRSTS)
        wanted = Wanted.of(rank, compression, error, max(form.full_rank for form in forms))
        images = None if inputs is None else _images(inputs, layer)
        return cls(layer, asked, best_cut(layer, forms, w, b, wanted, images), slopes)

    def __call__(
        self,
        input: Array,
        out: NDArray | None = None,
        *,
        add: Array | None = None,
        add_after: Array | None = None,
    ) -> NDArray:
        """Return activation(stage 2 of stage 1 + bias + add) + add_after, in ``out`` if given.

        See `winogen.conv2d`. Both stages are one call of a segment, whose results have the bits of
        two; additions, an ``out`` that is a slice, numbers of 16 bits and ``workspace_limit`` make
        them two.
        """
        return self._pipeline(input, out, add, add_after)

    def plan(self, input_shape: tuple[int, ...] | list[int]) -> LowRankPlan:
        """Return what a call with an input of this shape does, and what it costs.

        Compiles the kernels of both stages, as `winogen.Conv2d.plan`, whose errors it raises; the
        layer as it was is predicted only.
        """
        first, second = self._pipeline.each
        one = first.plan(input_shape)
        other = second.plan(one.output_shape)
        request = Request.from_options(self._layer, self._options)
        shape = self._layer.problem(input_shape).input_shape
        return LowRankPlan((one, other), predicted(self._layer, request, shape), self.residual)

    def to_torch(self) -> nn.Sequential:
        """Return both stages as layers of torch with copies of the weights, and the activation.

        They take NCHW, whatever the layout here. Raises Unsupported for an activation that is no
        module of torch, and MissingPackage without torch.
        """
        from winogen.lowrank.exporting import as_torch

        return as_torch(self._layer, self._form, self.weights, self.bias, self._activation)

    def to_onnx(self) -> ModelProto:
        """Return both stages as a model of ONNX's own operators, from ``x`` to ``y`` in NCHW.

        The sizes of ``x`` are open, but for its channels. Raises Unsupported for an activation or
        a type that ONNX does not have, and MissingPackage without the extra `onnx`.
        """
        from winogen.lowrank.exporting import as_onnx

        return as_onnx(self._layer, self._form, self.weights, self.bias, self._activation)

    @property
    def _activation(self) -> tuple[str | None, tuple[Any, ...]]:
        """The name of the activation in `ACTIVATIONS` and its parameters, slopes as an array."""
        epilogue = self._layer.epilogue
        slopes = epilogue.parameters if self._slopes is None else (self._slopes,)
        return epilogue.activation, slopes

    @property
    def first(self) -> First:
        """Which taps stage 1 has."""
        return self._form.first

    @property
    def full_rank(self) -> int:
        """The rank at which nothing is lost."""
        return self._form.full_rank

    @property
    def products(self) -> int:
        """Products per pixel of the output, over all filters."""
        return self._form.products(self.rank)

    @property
    def parameters(self) -> int:
        """Weights of both stages."""
        return self._form.parameters(self.rank)

    @property
    def compression(self) -> float:
        """How many times fewer products than the layer as it was."""
        return self._form.compression(self.rank)

    def __repr__(self) -> str:
        return (
            f"<LowRank weight {self._layer.weight_shape} {self._layer.dtype}, rank {self.rank} of "
            f"{self.full_rank}, {self.first} first, residual {self.residual:.3g}>"
        )


def _images(inputs: Any, layer: Layer) -> np.ndarray:
    """Inputs as (N, C, H, W)."""
    x = arguments.array("inputs", inputs)
    if not arguments.dtype_name(x.dtype):
        raise InvalidType(f"inputs: got dtype {x.dtype}; allowed: an array of floats")
    try:
        problem = layer.problem(x.shape)
    except InvalidValue as problem_of_shape:
        raise InvalidValue(str(problem_of_shape).replace("input:", "inputs:", 1)) from None
    x = x.reshape(problem.input_shape if problem.batched else (1, *problem.input_shape))
    if not x.size or not np.isfinite(x).all():
        raise InvalidValue("inputs: got none, or numbers that are not finite; allowed: finite ones")
    return x if layer.planar else np.moveaxis(x, -1, 1)


def _sizes(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
