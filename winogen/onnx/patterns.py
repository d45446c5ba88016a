"""ONNX nodes as operators of `winogen.graph`, and groups of nodes that mean one function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from winogen.conv.phases import ordinary
from winogen.graph import (
    Add,
    Affine,
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    GlobalAverage,
    GroupNorm,
    MaxPool,
    Multiply,
    Pad,
    Repeat,
    Shuffle,
    Slice,
    Softmax,
    Spread,
)
from winogen.graph.ops.pools import pool_padding
from winogen.onnx.functions import Functions
from winogen.onnx.matching import Match
from winogen.onnx.padding import same, transposed, windows
from winogen.onnx.sizes import ACTIVE, STANDARD, Sizes, input_of, number

# What may take a factor or a sum on that follows.
_TAKING = (
    "Conv",
    "ConvTranspose",
    "BatchNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "LayerNormalization",
    "MatMul",
)
_MODES = {"constant": "zeros", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


class Patterns(Functions):
    """Recognizes the nodes of a model whose numbers are of type ``kind``.

    What is not recognized stays as it is, so every doubt is a None.
    """

    def match(self, node: Any) -> Match | None:
        """Return what a node is, None for one of the framework's."""
        if node.domain not in STANDARD:
            return None
        if not self._is_map(node.output[0]):
            return None
        found = self.read(node)
        if found is None or not all(self._is_map(x) and self.channels(x) for x in found.inputs):
            return None
        return found

    def read(self, node: Any) -> Match | None:
        """Return what a node is if it makes a map of maps."""
        known = self._activation if node.op_type in ACTIVE else None
        read: Callable[[Any], Match | None] | None = getattr(self, f"_{node.op_type}", known)
        return None if read is None else read(node)

    # ---- convolutions and what is linear ---------------------------------------------------------

    def _filters(self, node: Any) -> tuple[np.ndarray, np.ndarray | None] | None:
        """The weights of a convolution, with as many axes as what it reads, and its bias.

        None where they may change.
        """
        weight = self._array(node.input[1])
        bias = self._array(input_of(node, 2))
        sizes = self.model.sizes.get(node.input[0], ())
        if weight is None or weight.ndim != len(sizes) or min(weight.shape) == 0:
            return None
        if bias is None and input_of(node, 2):
            return None
        return weight, bias

    def _Conv(self, node: Any) -> Match | None:
        filters = self._filters(node)
        if filters is None:
            return None
        weight, bias = filters
        values, ones = self.model.attributes(node), (1,) * (weight.ndim - 2)
        stride, dilation = (tuple(values.get(k, ones)) for k in ("strides", "dilations"))
        padding = self._padding(node, values, weight.shape[2:], stride, dilation)
        groups = values.get("group", 1)
        if padding is None or groups < 1 or weight.shape[0] % groups:
            return None
        if weight.shape[1] * groups != self.model.sizes[node.input[0]][1].number:
            return None
        op = Conv(weight, bias, stride, padding, dilation, groups)
        return Match(op, (node.input[0],))

    def _ConvTranspose(self, node: Any) -> Match | None:
        filters = self._filters(node)
        if filters is None:
            return None
        (weight, bias), values = filters, self.model.attributes(node)
        rank, groups = weight.ndim - 2, values.get("group", 1)
        stride, dilation = (tuple(values.get(k, (1,) * rank)) for k in ("strides", "dilations"))
        if groups < 1 or len(weight) % groups:
            return None
        sizes = self.model.sizes[node.input[0]]
        if len(weight) != sizes[1].number:
            return None
        axes = enumerate(zip(sizes[2:], weight.shape[2:]))
        found = [transposed(values, axis, rank, size, taps) for axis, (size, taps) in axes]
        ends = [one for one in found if one is not None]
        if len(ends) < rank:
            return None
        padding = tuple(end for one in ends for end in one[:2])
        more = tuple(one.more for one in ends)
        ours = ordinary(weight, groups)
        op = ConvTranspose(ours, bias, stride, padding, more, groups, dilation)
        return None if op.is_sparse else Match(op, (node.input[0],))

    def _padding(
        self, node: Any, values: dict[str, Any], taps: Any, stride: Any, dilation: Any
    ) -> tuple[int, ...] | None:
        """Before and after each axis; None where it depends on sizes that are not known."""
        auto, rank = values.get("auto_pad", "NOTSET"), len(taps)
        if auto == "VALID":
            return (0,) * (2 * rank)
        if auto == "NOTSET":
            pads = values.get("pads", (0,) * (2 * rank))
            return _by_axis(pads) if len(pads) == 2 * rank and min(pads) >= 0 else None
        sides: list[int] = []
        for axis in range(rank):
            size, step = self.model.sizes[node.input[0]][2 + axis], stride[axis]
            reach = dilation[axis] * (taps[axis] - 1)
            if not size.known and step > 1:
                return None
            sides += same(auto, size.number if size.known else 0, step, reach)
        return tuple(sides)

    def _BatchNormalization(self, node: Any) -> Match | None:
        if any(node.output[1:]) or self.model.attributes(node).get("training_mode", 0):
            return None
        scale, bias, mean, var = (self._array(name) for name in node.input[1:])
        if scale is None or bias is None or mean is None or var is None:
            return None
        if any(a.shape != (self.channels(node.output[0]),) for a in (scale, bias, mean, var)):
            return None
        epsilon = self.model.attributes(node).get("epsilon", 1e-5)
        op = Affine.batch_norm(mean, var, scale, bias, float(np.float32(epsilon)))
        return affine(op.scale, op.shift, node.input[0])

    def _behind_conv(self, node: Any, x: str, other: str) -> np.ndarray | None:
        """The constant ``other``, a number per channel, if x comes from what can take it on."""
        channels = self.channels(node.output[0])
        if not self._is_map(x) or self.channels(x) != channels or not self._convolved(x):
            return None
        return self._per_channel(other, channels, self.rank(node.output[0]))

    def _convolved(self, name: str, depth: int = 4) -> bool:
        """Whether a value comes from a convolution, sums and activations in between."""
        if self.everywhere:
            return True
        maker = self.model.makers.get(name)
        if maker is None or depth == 0:
            return False
        while maker.op_type in ("Reshape", "Transpose") and maker.input[0] in self.model.makers:
            maker = self.model.makers[maker.input[0]]  # a norm by parts, or what `forms` reads
        if maker.op_type in _TAKING:
            return True
        return maker.op_type in ("Add", "Mul", *ACTIVE) and any(
            self._convolved(one, depth - 1) for one in maker.input if one
        )

    def _affine(self, node: Any, factor: bool) -> Match | None:
        """A product or a sum with constants, behind what can take it on."""
        for x, other in (node.input, reversed(node.input)):
            values = self._behind_conv(node, x, other)
            if values is not None:
                none = np.zeros_like(values)
                return affine(values, none, x) if factor else affine(none + 1, values, x)
        return None

    def _Div(self, node: Any) -> Match | None:
        divisor = self._behind_conv(node, *node.input)
        if divisor is None:
            return self._gelu(node)
        with np.errstate(all="ignore"):
            scale = (1 / divisor.astype(np.float64)).astype(self.dtype)
        return affine(scale, np.zeros_like(scale), node.input[0])

    def _Sub(self, node: Any) -> Match | None:
        shift = self._behind_conv(node, *node.input)
        if shift is None:
            return None
        return affine(np.ones_like(shift), -shift, node.input[0])

    def _Mul(self, node: Any) -> Match | None:
        return (
            self._gated(node)
            or self._gelu(node)
            or self._affine(node, factor=True)
            or self._product(node)
        )

    def _product(self, node: Any) -> Match | None:
        """A product of maps, or of a map and one of a single pixel."""
        if not all(map(self._is_map, node.input)):
            return None
        one, other = node.input
        sizes = self.model.sizes
        if sizes[one] == pixel_of(sizes[one]):
            one, other = other, one
        if sizes[other] not in (sizes[one], pixel_of(sizes[one])):
            return None
        return Match(Multiply(), (one, other))

    def _Add(self, node: Any) -> Match | None:
        one, other = node.input
        sizes = self.model.sizes
        if self._is_map(one) and self._is_map(other) and sizes[one] == sizes[other]:
            return Match(Add(), (one, other))
        return self._affine(node, factor=False) or self._pixel_added(node)

    def _pixel_added(self, node: Any) -> Match | None:
        """The sum of a map and one of a single pixel."""
        for one, other in (node.input, reversed(node.input)):
            if not self._is_map(one) or not self._is_map(other):
                continue
            sizes = self.model.sizes
            if sizes[other] == pixel_of(sizes[one]):
                return Match(Add(repeated=True), (one, other))
        return None

    def _Sum(self, node: Any) -> Match | None:
        return self._Add(node) if len(node.input) == 2 else None

    def _Concat(self, node: Any) -> Match | None:
        if not all(map(self._is_map, node.input)):
            return None
        if not self._is_channels(self.model.attributes(node).get("axis"), node.input[0]):
            return None
        parts = tuple(name for name in node.input if self.channels(name))
        return Match(Concat(), parts) if parts else None

    # ---- what moves numbers ----------------------------------------------------------------------

    def _MaxPool(self, node: Any) -> Match | None:
        dilation = self._dilation(node)
        window = self._window(node, dilation)
        if any(node.output[1:]) or window is None:
            return None
        kernel, stride, padding = window
        return Match(MaxPool(kernel, stride, padding, dilation), (node.input[0],))

    def _window(self, node: Any, dilation: Any) -> tuple[Any, Any, Any] | None:
        """Kernel, stride and padding of a pooling; None where a window may lie in padding alone."""
        values = self.model.attributes(node)
        rank = self.rank(node.output[0])
        kernel, stride = tuple(values.get("kernel_shape", ())), values.get("strides", (1,) * rank)
        if not len(kernel) == len(stride) == len(dilation) == rank:
            return None
        size = self.model.sizes[node.input[0]][2:]
        if all(one.known for one in size):
            axes = enumerate(zip(size, kernel))
            made = [windows(values, axis, rank, one.number, taps) for axis, (one, taps) in axes]
            known = zip(made, size, kernel, stride, dilation)
            if not all(one.sees_input(n.number, *more) for one, n, *more in known):
                return None
            return kernel, tuple(stride), tuple(end for one in made for end in one[:2])
        padding = self._padding(node, values, kernel, stride, dilation)
        if padding is not None:
            padding = pool_padding(kernel, stride, padding, dilation, values.get("ceil_mode", 0))
        return None if padding is None else (kernel, tuple(stride), padding)

    def _dilation(self, node: Any) -> tuple[int, ...]:
        """That of a pooling."""
        rank = self.rank(node.output[0])
        return tuple(self.model.attributes(node).get("dilations", (1,) * rank))

    def _AveragePool(self, node: Any) -> Match | None:
        values = self.model.attributes(node)
        window = self._window(node, self._dilation(node))
        if window is None or set(self._dilation(node)) != {1}:
            return None
        padded = values.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or any(
            values.get("pads", ())
        )
        counted = bool(values.get("count_include_pad", 0)) and padded
        kernel, stride, padding = window
        if counted and values.get("ceil_mode", 0):  # nothing is counted beyond the padding
            given = values.get("pads", ())
            if any(more > end for more, end in zip(padding[1::2], given[len(given) // 2 :])):
                return None
        return Match(AveragePool(kernel, stride, padding, counted), (node.input[0],))

    def _GlobalAveragePool(self, node: Any) -> Match | None:
        return Match(GlobalAverage(), (node.input[0],))

    def _ReduceMean(self, node: Any) -> Match | None:
        kept = self.model.attributes(node).get("keepdims", 1)
        every = set(range(2, 2 + self.rank(node.output[0])))
        if not kept or self._mean_axes(node) != every:
            return None
        return self._GlobalAveragePool(node)

    def _Split(self, node: Any) -> Match | None:
        values = self.model.attributes(node)
        ends = [0]
        if not all(map(self._is_map, node.output)):
            return None
        if not self._is_channels(values.get("axis", 0), node.output[0]):
            return None
        for name in node.output:
            ends.append(ends[-1] + self.channels(name))
        if not self._is_map(node.input[0]) or ends[-1] != self.channels(node.input[0]):
            return None
        if not all(self.channels(name) or self._only_joined(name) for name in node.output):
            return None
        first, *others = (Slice(start, stop) for start, stop in pairwise(ends))
        return Match(first, (node.input[0],), others=tuple(others))

    def _only_joined(self, empty: str) -> bool:
        """Whether nothing reads a map without channels but concatenations, which leave it out."""
        readers = self.model.readers.get(empty, [])
        joined = all(node.op_type == "Concat" and self.match(node) for node in readers)
        return joined and self.model.uses[empty] == len(readers)  # no output of the model

    def _Slice(self, node: Any) -> Match | None:
        if len(node.input) < 4 or not self._is_map(node.input[0]):
            return None
        first, last, axis = (self._scalar(name) for name in node.input[1:4])
        step = self._scalar(node.input[4]) if len(node.input) > 4 else 1
        if first is None or last is None or step != 1:
            return None
        if not self._is_channels(axis, node.input[0]):
            return None
        start, stop, _ = slice(int(first), int(last)).indices(self.channels(node.input[0]))
        return Match(Slice(start, stop), (node.input[0],)) if start < stop else None

    def _InstanceNormalization(self, node: Any) -> Match | None:
        scale, shift = (self._array(name) for name in node.input[1:3])
        channels = self.channels(node.output[0])
        if scale is None or shift is None or scale.shape != (channels,):
            return None
        op = GroupNorm(channels, scale, shift, self._epsilon(node))
        return Match(op, (node.input[0],))

    def _GroupNormalization(self, node: Any) -> Match | None:
        values, channels = self.model.attributes(node), self.channels(node.output[0])
        scale, shift = (self._array(name) for name in node.input[1:3])
        groups = values.get("num_groups", 0)
        if scale is None or shift is None or groups < 1 or channels % groups:
            return None
        if len(scale) == groups and self.model.opset < 21:  # numbers of groups, at first
            scale, shift = (np.repeat(one, channels // groups) for one in (scale, shift))
        if scale.shape != (channels,) or shift.shape != (channels,):
            return None
        if values.get("stash_type", 1) != 1:
            return None
        return Match(GroupNorm(groups, scale, shift, self._epsilon(node)), (node.input[0],))

    def _epsilon(self, node: Any) -> float:
        return float(np.float32(self.model.attributes(node).get("epsilon", 1e-5)))

    def _Softmax(self, node: Any) -> Match | None:
        axis = self.model.attributes(node).get("axis", -1)
        if not self._is_channels(axis, node.output[0]) or self.model.opset < 13:
            return None
        return Match(Softmax(), (node.input[0],))

    def _Reshape(self, node: Any) -> Match | None:
        return self._group_norm(node) or self._shuffle(node)

    def _group_norm(self, node: Any) -> Match | None:
        """Groups as channels, normalized each, and reshaped as before."""
        norm = self._alone(node.input[0], "InstanceNormalization")
        split = self._alone(norm.input[0], "Reshape") if norm is not None else None
        if split is None or not self._is_map(split.input[0]):
            return None
        sizes, dims = self.model.sizes[split.input[0]], self.model.constant(split.input[1])
        scale, shift = (self._array(name) for name in norm.input[1:3])
        if dims is None or dims.size != 3 or self.model.sizes.get(node.output[0]) != sizes:
            return None
        (first, groups, last), channels = (int(one) for one in dims), sizes[1].number
        batch = first == 0 or number(first) == sizes[0]
        rest = math.prod(one.number for one in sizes[1:]) if all(s.known for s in sizes[1:]) else 0
        if not batch or groups < 1 or channels % groups or last not in (-1, rest // groups):
            return None
        if scale is None or shift is None or not scale.shape == shift.shape == (groups,):
            return None
        scale, shift = (np.repeat(one, channels // groups) for one in (scale, shift))
        op = GroupNorm(groups, scale, shift, self._epsilon(norm))
        return Match(op, (split.input[0],), (norm, split))

    def _shuffle(self, node: Any) -> Match | None:
        """Channels (g, c) as (c, g): a reshape, the axes exchanged, and reshaped as before."""
        exchange = self._alone(node.input[0], "Transpose")
        split = self._alone(exchange.input[0], "Reshape") if exchange is not None else None
        if split is None or not self._is_map(split.input[0]):
            return None
        sizes, dims = self.model.sizes[split.input[0]], self.model.constant(split.input[1])
        if tuple(self.model.attributes(exchange).get("perm", ())) != (0, 2, 1, 3, 4):
            return None
        if dims is None or dims.size != 5 or not all(size.known for size in sizes[1:]):
            return None
        groups, rest, *size = (int(number) for number in dims[1:])
        if groups < 1 or [groups * rest, *size] != [one.number for one in sizes[1:]]:
            return None
        if self.model.sizes[node.output[0]] != sizes:
            return None
        return Match(Shuffle(groups), (split.input[0],), (exchange, split))

    def _Resize(self, node: Any) -> Match | None:
        """Pixels repeated along each axis, where each comes from the one before."""
        values = self.model.attributes(node)
        given = [*node.input, "", "", ""]
        scales = self.model.constant(given[1 if self.model.opset < 11 else 2])
        place = values.get("coordinate_transformation_mode", "half_pixel")
        nearest = values.get("nearest_mode", "round_prefer_floor")
        if self.model.opset < 11:
            place, nearest = "asymmetric", "floor"
        usual = (place, nearest) == ("asymmetric", "floor") or (
            place in ("half_pixel", "pytorch_half_pixel") and nearest == "round_prefer_floor"
        )
        if values.get("mode", "nearest") != "nearest" or not usual or "axes" in values:
            return None
        rank = self.rank(node.output[0])
        if scales is None or scales.shape != (2 + rank,) or (scales[:2] != 1).any():
            return None
        factor = tuple(map(int, scales[2:]))
        if factor != tuple(scales[2:]) or min(factor) < 1:
            return None
        return Match(Repeat(factor), (node.input[0],))

    _Upsample = _Resize

    def _DepthToSpace(self, node: Any) -> Match | None:
        values = self.model.attributes(node)
        size = values.get("blocksize", 0)
        if size < 1 or self.channels(node.input[0]) % size**2 or self.rank(node.input[0]) != 2:
            return None
        order = "channels" if values.get("mode", "DCR") == "CRD" else "pixels"
        return Match(Spread((size, size), order), (node.input[0],))

    def _Pad(self, node: Any) -> Match | None:
        values = self.model.attributes(node)
        mode = _MODES.get(values.get("mode", "constant"))
        if "pads" in values:  # before opset 11
            pads, fill = values["pads"], values.get("value", 0.0)
        else:
            array = self.model.constant(node.input[1])
            pads = None if array is None else array.tolist()
            fill = self._scalar(name) if (name := input_of(node, 2)) else 0.0
            if input_of(node, 3):
                return None
        axes = 2 + self.rank(node.output[0])
        if mode is None or pads is None or len(pads) != 2 * axes or min(pads) < 0:
            return None
        before, after = pads[:axes], pads[axes:]
        if (mode == "zeros" and fill != 0) or any((*before[:2], *after[:2])):
            return None
        return Match(Pad(_by_axis([*before[2:], *after[2:]]), mode), (node.input[0],))


def affine(scale: np.ndarray, shift: np.ndarray, x: str) -> Match | None:
    """Return a factor and a sum; None where one is infinite or NaN, which no weights take on."""
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        return None
    return Match(Affine(scale, shift), (x,))


def _by_axis(pads: Sequence[int]) -> tuple[int, ...]:
    """Return ONNX's padding, before all axes and then after all, as graphs have it."""
    half = len(pads) // 2
    return tuple(end for ends in zip(pads[:half], pads[half:]) for end in ends)


def pixel_of(sizes: Sizes) -> Sizes:
    """Return the sizes of a map with a single pixel, else as this one."""
    return (*sizes[:2], *(number(1) for _ in sizes[2:]))
