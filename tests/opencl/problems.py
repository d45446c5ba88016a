"""Random problems of convolution on devices, with all options, and what they come to in float64."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from conv.reference import convolve

from winogen.conv.problem import Layer, Problem, Seams

ACTIVATIONS = (
    None, "relu", ("leaky_relu", 0.1), "prelu", "relu6", ("clip", -0.5, 0.75), "hardswish", "silu",
    "gelu", ("gelu", "tanh"), "sigmoid", "tanh", "softplus", "hard_sigmoid", "mish", ("elu", 0.7),
)  # fmt: skip
# Of an output of 16 bits: half a unit in the last place, of numbers that were rounded before, too.
ROUNDING = {"float32": 0.0, "float16": 2.0**-10}


@dataclass(frozen=True)
class Case:
    """A problem, but for its numbers."""

    weight: tuple[int, int, int, int]
    image: tuple[int, int, int]  # batch, height, width
    dtype: str = "float32"
    bias: bool = True
    added: tuple[str, ...] = ()
    activation: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        """The problem as it is planned, with what is added."""
        activation = ("prelu", 0.5) if self.activation == "prelu" else self.activation
        layer = Layer.of(self.weight, self.dtype, activation=activation, **self.options)
        problem = layer.problem(self.shape)
        adds = (layer.filters * (name in self.added) for name in ("add", "add_after"))
        return problem.sewn(Seams(layer.channels, layer.filters, *adds))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        batch, height, width = self.image
        channels = self.weight[1] * self.options.get("groups", 1)
        if self.options.get("layout") == "NHWC":
            return batch, height, width, channels
        return batch, channels, height, width

    def arrays(self, seed: int) -> dict[str, np.ndarray]:
        """Numbers for all arrays of a call, by the names that kernels have for them."""
        rng = np.random.default_rng(seed)
        shapes = {"weights": self.weight, "input": self.shape}
        if self.bias:
            shapes["bias"] = self.weight[:1]
        if self.activation == "prelu":
            shapes["slopes"] = self.weight[:1]
        shapes |= dict.fromkeys(self.added, self.problem.output_shape)
        kinds = {"bias": "float32", "slopes": "float32"}
        return {
            name: rng.standard_normal(shape).astype(kinds.get(name, self.dtype))
            for name, shape in shapes.items()
        }

    def largest(self, arrays: dict[str, np.ndarray]) -> float:
        """The largest of all sums before the activation, which may hide how large they are."""
        sums = replace(self, activation=None).wanted(arrays)
        return float(np.abs(sums).max(initial=0))

    def wanted(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """The result in float64."""
        activation = self.activation
        if activation == "prelu":
            activation = ("prelu", arrays["slopes"].astype(np.float64))
        ends = self.options.get("padding", ((0, 0), (0, 0)))
        others = {name: arrays.get(name) for name in ("bias", "add", "add_after")}
        options = {**self.options, "padding": ends}
        return convolve(
            arrays["input"], arrays["weights"], activation=activation, **others, **options
        )


def case_of(seed: int, tiled: bool = True) -> Case:
    """Return a problem of a seed; ``tiled``: one that Winograd's algorithms take."""
    rng = random.Random(seed)
    while True:
        case = _attempt(rng, tiled)
        sizes = zip(case.image[1:], case.weight[2:], case.options["padding"],
                    case.options["dilation"])  # fmt: skip
        if all(size + sum(ends) > d * (k - 1) for size, k, ends, d in sizes):
            return case


def _attempt(rng: random.Random, tiled: bool) -> Case:
    groups = rng.choice((1, 1, 1, 2, 3))
    depthwise = rng.random() < 0.1
    channels = 1 if depthwise else rng.choice((1, 2, 3, 4, 5, 8, 16, 19))
    filters = groups * (rng.choice((1, 2)) if depthwise else rng.choice((1, 2, 3, 4, 7, 8, 12)))
    kernel = rng.choice(((3, 3), (3, 3), (5, 5), (2, 3), (1, 3), (3, 1), (4, 2), (3, 5)))
    stride, dilation = (1, 1), (1, 1)
    if rng.random() < 0.3:
        stride = rng.choice(((2, 2), (1, 2), (2, 1)))
    elif rng.random() < 0.3:
        dilation = rng.choice(((2, 2), (1, 3), (3, 2), (4, 1)))
    if not tiled and rng.random() < 0.3:
        stride, dilation = rng.choice(((5, 3), (2, 3))), rng.choice(((1, 2), (3, 1)))
    dilation = tuple(d if k > 1 else 1 for d, k in zip(dilation, kernel))
    size = rng.choice((1, 3, 7, 8, 13, 18)), rng.choice((2, 5, 9, 12, 17))
    mode = rng.choice(("zeros", "zeros", "reflect", "replicate", "circular"))
    spare = {"reflect": 1, "circular": 0}.get(mode)
    padding = tuple(
        tuple(
            min(end, one - spare) if spare is not None else end
            for end in (rng.choice((0, 1, 2, 5)), rng.choice((0, 1, 2)))
        )
        for one in size
    )
    options = dict(
        groups=groups, stride=stride, dilation=dilation, padding=padding, padding_mode=mode,
        layout=rng.choice(("NCHW", "NHWC")),
    )  # fmt: skip
    return Case(
        (filters, channels, *kernel),
        (rng.choice((1, 1, 2, 3)), *size),
        rng.choice(("float32", "float32", "float16")),
        rng.random() < 0.6,
        tuple(name for name in ("add", "add_after") if rng.random() < 0.3),
        rng.choice(ACTIVATIONS),
        options,
    )


def close(found: np.ndarray, wanted: np.ndarray, error: float) -> None:
    """Assert that no number is farther off than an error, and than the rounding of its type."""
    assert not np.isnan(found).any()
    allowed = error + ROUNDING[str(found.dtype)] * np.abs(wanted)
    assert (np.abs(found.astype(np.float64) - wanted) <= allowed).all()
