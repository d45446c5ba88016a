"""Trained nets whose layers are computed in words of chosen widths, and how good they are then.

All convolutions have 8-bit inputs and weights with fixed scales. Those of stride 1 with a kernel
are computed by a fast algorithm of integers, all others directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.extras import require
from winogen.fixed.layer import WordConv2d
from winogen.fixed.words import Widths, full_widths
from winogen_lab.nets import TRAINED, trained_net
from winogen_lab.nets.int8 import Compute, Int8Layer, largest_inputs, replaced
from winogen_lab.nets.quality import pieces, psnr_of

if TYPE_CHECKING:
    from winogen.fixed.integral import Integral
    from winogen.fixed.words import Spans

DIGITS, RESIDUAL = "digits", "residual"
CHUNK = 16  # channels whose products are summed before their sum joins the others
_CALIBRATION, _TEST = 200, 300  # pictures of digits
_BEST = 99.0  # dB that stand for equality


@dataclass(frozen=True)
class Subject:
    """A trained net, what it is calibrated on, and what becomes of its outputs."""

    name: str
    title: str
    module: Any
    calibration: np.ndarray
    test: np.ndarray
    judge: Callable[[np.ndarray], float]  # quality of outputs: the more the better
    unit: str  # of quality: "dB" or "%"


def judged_nets() -> tuple[str, ...]:
    """Return the names of all nets that `subject` knows."""
    return (*TRAINED, DIGITS, RESIDUAL)


def subject(name: str) -> Subject:
    """Return a net; raises InvalidValue for an unknown name, NotInstalled, MissingPackage."""
    torch = require("torch", "torch")
    if name not in judged_nets():
        raise InvalidValue(f"nets: got {name!r}; allowed: {', '.join(judged_nets())}")
    if name in (DIGITS, RESIDUAL):
        return _of_digits(name)
    net = trained_net(name)
    module, found = net.module(), pieces(net)
    with torch.no_grad():
        truth = module.double()(torch.from_numpy(found.test).double()).numpy()

    def psnr(y: np.ndarray) -> float:
        quality = psnr_of(y, truth)
        return _BEST if quality is None else quality

    return Subject(name, net.title, module.float(), *found, psnr, "dB")


def _of_digits(name: str) -> Subject:
    from winogen_lab.nets.digits import Samples, digits
    from winogen_lab.nets.residual import residual

    data = digits()
    held_out = Samples(data.held_out.pictures[:_TEST], data.held_out.labels[:_TEST])
    module, title = (
        (data.to_torch(), "digits, two 5x5 layers")
        if name == DIGITS
        else (residual(), "digits, a ResNet of 9 layers")
    )
    return Subject(
        name, title, module, data.training.pictures[:_CALIBRATION], held_out.pictures,
        lambda y: round(100 * held_out.accuracy(y), 2), "%",
    )  # fmt: skip


class WordNet:
    """A net of 8-bit integers that is run in words of any widths.

    ``room``: by what values may be larger than any that were seen when it was calibrated.
    """

    def __init__(self, net: Subject, room: float = 1.0):
        self.net, self.room = net, room
        nn = require("torch.nn", "torch")
        convs = [
            conv
            for conv in net.module.modules()
            if isinstance(conv, nn.Conv2d) and conv.groups == 1
        ]
        largest = largest_inputs(net.module, convs, net.calibration)
        self._layers = {conv: Int8Layer(conv, largest[conv]) for conv in convs}
        self._direct = {conv: _direct(conv, one.weight) for conv, one in self._layers.items()}
        self.fast = [conv for conv in convs if _is_fast(conv)]
        sizes = {conv.kernel_size[0] for conv in self.fast}
        if len(sizes) != 1:
            raise InvalidValue(
                f"nets: got {net.name!r} with kernels of the sizes {sorted(sizes)}; allowed: "
                "square kernels of one size, at a stride of 1"
            )
        (self.taps,) = sizes
        self._seen: dict[str, dict[Any, Spans]] = {}

    @property
    def channels(self) -> int:
        """The most channels of a layer that is computed by a fast algorithm."""
        return max(conv.in_channels for conv in self.fast)

    @cached_property
    def direct(self) -> float:
        """The quality of the net by direct convolution of the same integers."""
        return self._quality({})

    def full(self, made: Integral) -> Widths:
        """Return widths that lose nothing in any layer."""
        return full_widths(made, self.channels)

    def quality(self, name: str, made: Integral, widths: Widths) -> float:
        """Return the quality of the net by an algorithm, whose ``name`` tells it from others."""
        if name not in self._seen:
            self._seen[name] = self._ranges(made)
        seen = self._seen[name]
        fast: dict[Any, Compute] = {
            conv: WordConv2d(
                self._layers[conv].weight, made, widths, padding=tuple(conv.padding),
                seen=seen[conv], chunk=CHUNK,
            )
            for conv in self.fast
        }  # fmt: skip
        return self._quality(fast)

    def _ranges(self, made: Integral) -> dict[Any, Spans]:
        """The ranges of every layer's values on what the net is calibrated on."""
        found: dict[Any, Spans] = {}

        def watched(conv: Any) -> Compute:
            layer = WordConv2d(self._layers[conv].weight, made, padding=tuple(conv.padding))

            def compute(x: np.ndarray) -> np.ndarray:
                found[conv] = layer.see(x, self.room)
                return self._direct[conv](x)

            return compute

        self._outputs({conv: watched(conv) for conv in self.fast}, self.net.calibration)
        return found

    def _quality(self, fast: dict[Any, Compute]) -> float:
        return self.net.judge(self._outputs(fast, self.net.test))

    def _outputs(self, fast: dict[Any, Compute], x: np.ndarray) -> np.ndarray:
        import torch

        sums = {**self._direct, **fast}
        layers = {conv: layer.by(sums[conv]) for conv, layer in self._layers.items()}
        with replaced(layers), torch.no_grad():
            return self.net.module(torch.from_numpy(x)).numpy()


def _is_fast(conv: Any) -> bool:
    height, width = conv.kernel_size
    plain = conv.stride == conv.dilation == (1, 1) and isinstance(conv.padding, tuple)
    return plain and height == width > 1


def _direct(conv: Any, weight: np.ndarray) -> Compute:
    """Sums of products of integers, which float64 holds exactly."""
    import torch
    from torch.nn import functional

    exact = torch.from_numpy(weight.astype(np.float64))

    def compute(x: np.ndarray) -> np.ndarray:
        y = functional.conv2d(
            torch.from_numpy(x.astype(np.float64)), exact, None,
            conv.stride, conv.padding, conv.dilation,
        )  # fmt: skip
        return y.numpy()

    return compute
