"""What the template of Fourier transforms of tiles knows of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin, sqrt
from typing import Any

from winogen.codegen.context import RealKernelContext, framed, tuned
from winogen.codegen.templates import wrapped
from winogen.kernels.fourier import FourierSpec, radices

TITLE = "Convolution of each channel by Fourier transforms of tiles"


@dataclass(frozen=True)
class Butterflies:
    """One stage of a transform: `count` times butterflies of `length` numbers in all."""

    radix: int
    length: int
    count: int
    turns: str  # cosines and sines in C, "" where nothing is turned


@dataclass(frozen=True)
class AxisContext:
    """The transform along one axis, forward."""

    length: int
    stages: Sequence[Butterflies]


@dataclass(frozen=True, kw_only=True)
class FourierContext(RealKernelContext, templates=("fourier.c.j2",)):
    """What the template of Fourier transforms of tiles knows of a kernel."""

    channels: bool  # whether each lane has a channel of its own
    side_by_side: bool  # whether these lie side by side in the arrays
    height: AxisContext
    width: AxisContext
    turning: Sequence[Butterflies]  # of both axes, each table once
    radices: Sequence[int]
    half_root_2: str
    half_root_3: str


def text(
    spec: FourierSpec, prefix: str, call: Mapping[str, Any] | None, alone: bool = False
) -> str:
    """Return the C of a kernel, see `winogen.codegen.render.render`."""
    precision, target = spec.precision, spec.target
    height, width = map(_axis, spec.lengths)
    stages = [*height.stages, *width.stages]
    return FourierContext(
        **framed(spec, prefix, call, narrow=precision.narrow, flushes=target.flushes, alone=alone),
        **tuned(spec, ()),
        title=[f"{TITLE}: {precision.arrays}, {spec.layout}, {target.name}."],
        layout=spec.layout,
        channels=spec.channels,
        side_by_side=spec.side_by_side,
        row_step="1",
        packed_sums=True,
        height=height,
        width=width,
        turning=list({stage.length: stage for stage in stages if stage.turns}.values()),
        radices=sorted({stage.radix for stage in stages}),
        half_root_2=repr(sqrt(0.5)),
        half_root_3=repr(sqrt(0.75)),
    ).render()


def _axis(length: int) -> AxisContext:
    stages, left = [], length
    for radix in radices(length):
        stages.append(Butterflies(radix, left, length // left, _turns(left, radix)))
        left //= radix
    return AxisContext(length, stages)


def _turns(length: int, radix: int) -> str:
    """The powers of a root of unity that the outputs of butterflies are multiplied by."""
    if length == radix:
        return ""
    angles = [
        -2 * pi * place * frequency / length
        for place in range(length // radix)
        for frequency in range(1, radix)
    ]
    return wrapped((repr(part(angle)) for angle in angles for part in (cos, sin)), 4, ", ")
