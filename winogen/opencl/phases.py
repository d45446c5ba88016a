"""Transposed layers on devices, as one convolution whose filters are those of all phases.

Along an axis, tap k of input i adds to output s*i + d*k - p. With g = gcd(s, d), taps k, k + s/g,
k + 2s/g, ... meet inputs that are d/g apart: a convolution of stride 1, whose pixel q is output
s*q + d*k - p. There are s/g such phases, by their first tap k. They see the same inputs, and
between two of their outputs lie g - 1 that see none. These are phases, too, with filters of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams, plane_of
from winogen.conv.request import Request
from winogen.conv.transposed_problem import TransposedLayer, TransposedProblem
from winogen.opencl.stores import Interleaving, in_plane
from winogen.records import Axis


@dataclass(frozen=True)
class PhasesOnAxis:
    """The phases of a transposed layer along one axis, as a convolution of stride 1.

    >>> phases = PhasesOnAxis(taps=4, stride=2, dilation=1, padding=1)
    >>> phases.axis(size=48, outputs=96), phases.crop, phases.pixels(96)
    (Axis(kernel=2, stride=1, dilation=1, before=1, after=1), 1, 49)
    """

    taps: int  # of the layer
    stride: int
    dilation: int
    padding: int  # before the first output

    @property
    def between(self) -> int:
        """From one output that may see inputs to the next."""
        return gcd(self.stride, self.dilation)

    @property
    def count(self) -> int:
        """How many phases see inputs."""
        return self.stride // self.between

    @property
    def first(self) -> int:
        """The pixel q that is the first to have an output."""
        reach = self.dilation * (self.count - 1) + self.between
        return -((reach - 1 - self.padding) // self.stride)

    @property
    def crop(self) -> int:
        """How many outputs of the first pixel lie before the first of the layer."""
        return self.padding - self.stride * self.first

    def pixels(self, outputs: int) -> int:
        """How many pixels there are, for so many outputs of the layer."""
        return (outputs - 1 + self.padding) // self.stride - self.first + 1

    def axis(self, size: int, outputs: int) -> Axis:
        """Return what the convolution does along the axis of an input.

        Padding below zero: inputs that no output sees.
        """
        taps = -(-self.taps // self.count)
        dilation = self.dilation // self.between if taps > 1 else 1
        before = dilation * (taps - 1) - self.first
        after = self.pixels(outputs) - 1 + dilation * (taps - 1) - before - size + 1
        return Axis(taps, 1, dilation, before, after)


def phases_of(layer: TransposedLayer) -> list[PhasesOnAxis]:
    """Return the phases of a layer along each axis."""
    along = zip(layer.sample.kernel, layer.stride, layer.dilation, layer.ends)
    return [PhasesOnAxis(k, s, d, before) for k, s, d, (before, _) in along]


def _in_plane(phases: list[PhasesOnAxis]) -> tuple[PhasesOnAxis, PhasesOnAxis]:
    return plane_of(phases, PhasesOnAxis(1, 1, 1, 0))


def with_phases(layer: TransposedLayer) -> Layer:
    """Return the convolution of all phases, without padding: what is asked of it is checked."""
    axes = (replace(one.axis(1, 1), before=0, after=0) for one in phases_of(layer))
    filters = layer.sample.filters * prod(layer.stride)
    return replace(layer.sample, filters=filters, axes=tuple(axes))


def computed(asked: Problem | TransposedProblem) -> Problem:
    """Return the problem of the kernels: of planes, and of all phases of a transposed layer."""
    return in_plane(asked) if isinstance(asked, Problem) else phase_problem(asked)


def request_in_plane(layer: Layer | TransposedLayer, asked: Options) -> Request:
    """Return what is asked of a layer, of its plane: signals are rows."""
    plain = layer if isinstance(layer, Layer) else with_phases(layer)
    request = Request.from_options(plain, asked)
    if plain.rank > 1:
        return request
    return replace(
        request,
        tile=(1, *request.tile) if request.tile else (),
        points=(None, *request.points) if request.points else (),
    )


def phase_problem(asked: TransposedProblem) -> Problem:
    """Return the convolution of all phases of planes, which stores them where they lie."""
    layer, phases = asked.layer, phases_of(asked.layer)
    sizes = [*zip(phases, asked.size, asked.output_size)]
    axes = tuple(one.axis(size, outputs) for one, size, outputs in sizes)
    joint = replace(with_phases(layer), axes=axes)
    pixels = tuple(one.pixels(outputs) for one, _, outputs in sizes)
    seams = Seams(joint.channels, joint.filters)
    problem = in_plane(Problem(joint, asked.batch, asked.size, pixels, seams, asked.batched))
    own = layer.sample.filters // layer.sample.groups
    high, wide = _in_plane(phases)
    crop, apart = (high.crop, wide.crop), (high.dilation, wide.dilation)
    step, whole = (high.stride, wide.stride), plane_of(asked.output_size)
    taps, before = (high.taps, wide.taps), (high.padding, wide.padding)
    spread = Interleaving(step, whole, own, own, crop, apart, taps, before)
    return replace(problem, spread=spread)
