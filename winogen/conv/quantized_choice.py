"""Which kernel computes a convolution of 8-bit integers: algorithm, instruction, and its call."""

from __future__ import annotations

from math import prod
from typing import Any

from winogen.conv.problem import Problem
from winogen.kernels.dots import dot_of, worth_tiles
from winogen.kernels.quantized import QuantizedSpec, QuantizedWork
from winogen.kernels.quantized_depthwise import DepthwiseWork
from winogen.records import Machine, Target


def work_of(
    problem: Problem,
    algorithm: str,
    sums: bool,
    target: Target,
    machine: Machine,
    threads: int,
    **numbers: Any,
) -> QuantizedWork:
    """Return the kernel call that computes a problem. ``numbers``: fields of `QuantizedWork`."""
    layer = problem.layer
    channels = layer.channels // layer.groups
    depthwise = layer.groups > 1 and layer.channels == layer.filters == layer.groups
    if not depthwise or algorithm == "im2col":
        algorithm, target = _multiplied(algorithm, target, channels, layer.kernel)
    groups, filters = layer.groups, layer.filters // layer.groups
    size, output_size = problem.size, problem.output_size
    if layer.pointwise and not depthwise:  # pixels have no neighbours: one row of all of them
        size = output_size = (1, prod(size))
    kind: type[QuantizedWork] = QuantizedWork
    if depthwise and algorithm != "im2col":
        groups, filters, kind, algorithm = 1, groups, DepthwiseWork, "depthwise"
    return kind(
        QuantizedSpec.of(algorithm, layer.layout, sums, target),
        batch=problem.batch,
        groups=groups,
        channels=channels,
        filters=filters,
        size=size,
        output_size=output_size,
        kernel=layer.kernel,
        stride=problem.stride,
        dilation=layer.dilation,
        padding=(layer.axes[0].before, layer.axes[1].before),
        around=problem.seams[:2],
        threads=threads,
        machine=machine,
        **numbers,
    )


def _multiplied(
    algorithm: str, target: Target, channels: int, kernel: tuple[int, int]
) -> tuple[str, Target]:
    """Return the algorithm, and the target less the extension that it is not worth using."""
    dot = dot_of(target)
    if "amx" in dot.extensions:
        high, wide = kernel
        shapes = {"direct": (channels, high * wide), "im2col": (channels * wide, high)}
        for name, (run, taps) in shapes.items():
            if algorithm in ("auto", name) and worth_tiles(-(-run // dot.together), taps):
                return name, target
        target = target.adjusted("-amx")
    if algorithm == "auto":
        algorithm = chosen(channels, kernel[1], dot.together)
    return algorithm, target


def chosen(channels: int, taps: int, together: int) -> str:
    """Return the algorithm for so many channels of a group and taps along the width.

    im2col fills words with neighbouring taps; it is worth its copies where direct convolution would
    multiply a sixth more words, most of them half empty.

    >>> chosen(3, 7, 4), chosen(1, 3, 4), chosen(3, 3, 4), chosen(64, 3, 4)
    ('direct', 'im2col', 'direct', 'direct')
    """
    direct, patches = taps * -(-channels // together), -(-taps * channels // together)
    return "im2col" if 6 * direct > 7 * patches else "direct"
