"""What number formats do to the output of a net: PSNR against the net in float64.

Every dense 3x3 convolution of stride 1 is computed in the format, by the kernels where they have it
and otherwise in numpy; everything else stays float32. 8-bit models, whose scales are fixed, are
calibrated on one corner of the picture by the largest |input| of each layer; what counts is
measured on the opposite corner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen import transforms
from winogen.conv import Conv2d
from winogen.conv.quantized import QConv2d
from winogen.errors import InvalidValue
from winogen.kernels import algorithms
from winogen.numerics.emulated import EmulatedConv2d
from winogen.records import Precision
from winogen.rounding.formats import FORMATS
from winogen.rounding.stages import Stages
from winogen_lab.nets import Net, NotInstalled, trained_net
from winogen_lab.nets.files import example
from winogen_lab.nets.int8 import Compute, Int8Layer, largest_inputs, replaced

CORNER = 48  # pixels of a side of the pieces that nets are calibrated and measured on
TILES = (2, 4, 6)  # m of F(m x m, 3 x 3)
_TAPS = 3
_REAL = ("float32", "float32", "float32")
KERNELS, NUMPY = "kernels", "numpy"


@dataclass(frozen=True)
class Numbers:
    """One row of the table: which numbers are narrow."""

    label: str
    precision: Precision
    rounding: str = "even"  # of packed filters

    @property
    def stages(self) -> Stages:
        """Where numbers are rounded."""
        stages = Stages.of(precision=self.precision, filters="float64")
        if self.rounding == "even":
            return stages
        cut = FORMATS[self.precision.filters].rounds(self.rounding)
        return Stages(**{**vars(stages), "packed": cut})

    def has_kernel(self, algorithm: str) -> bool:
        """Whether a kernel of `Conv2d` computes with these numbers."""
        known = self.rounding == "even" and numpy_type(self.precision.arrays) is not None
        return known and algorithm in algorithms(self.precision)

    @property
    def options(self) -> dict[str, str]:
        """The arguments of `Conv2d` that ask for them."""
        precision = self.precision
        if precision.products != precision.transforms:
            return {"product_dtype": precision.products}
        if precision.filters != precision.transforms:
            return {"filter_dtype": precision.filters}
        return {}


NUMBERS: tuple[Numbers, ...] = (
    Numbers("float32", Precision.of("float32")),
    Numbers("flyte24 filters", Precision.of("float32", "flyte24")),
    Numbers("float16 filters", Precision.of("float32", "float16")),
    Numbers("bfloat16 filters", Precision.of("float32", "bfloat16")),
    Numbers("flyte16 filters, cut", Precision.of("float32", "flyte16"), "cut"),
    Numbers("flyte8 filters", Precision.of("float32", "flyte8")),
    Numbers("flyte8 filters, cut", Precision.of("float32", "flyte8"), "cut"),
    Numbers("float16 filters and tiles", Precision("float32", "float16", "float16", *_REAL)),
    Numbers("int16 products", Precision.of("float32", products="int16")),
    Numbers("int8 products", Precision.of("float32", products="int8")),
    Numbers("float16 arrays", Precision("float16", "float32", "float32", *_REAL)),
    Numbers("bfloat16 arrays", Precision("bfloat16", "float32", "float32", *_REAL)),
)
INT8_MODEL = "int8 model (QConv2d)"


def numpy_type(name: str) -> np.dtype | None:
    """Return numpy's type of arrays, None if nobody gives it one: bfloat16 is of ml_dtypes.

    >>> numpy_type("float16")
    dtype('float16')
    """
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            return None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


class Pieces(NamedTuple):
    """The picture: what a net is calibrated on, and what it is measured on."""

    calibration: np.ndarray  # (1, C, h, w)
    test: np.ndarray


def pieces(net: Net) -> Pieces:
    """Return the upper left and the lower right corner of a net's example."""
    x = example(net)
    corners = x[:, :, :CORNER, :CORNER], x[:, :, -CORNER:, -CORNER:]
    return Pieces(*(np.ascontiguousarray(corner) for corner in corners))


def measure_quality(
    name: str,
    numbers: Sequence[Numbers] = NUMBERS,
    tiles: Sequence[int] = TILES,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict:
    """Return the report on a net of `winogen_lab.nets.NETS` as plain data, ready for JSON.

    Raises InvalidValue for what is not the name of a trained torch module, NotInstalled for what
    the net needs.
    """
    net = trained_net(name)
    quality = _Quality(net, progress, len(numbers) * (1 + len(tiles)) + 1)
    rows = [quality.row(one, tiles) for one in numbers]
    rows.append(quality.int8_model())
    return {
        "kind": "net",
        "net": {
            "name": net.name,
            "title": net.title,
            "input": list(quality.pieces.test.shape),
            "output": list(quality.truth.shape),
            "layers": quality.count,
        },
        "peak": 1.0,
        "columns": ["direct", *map(_name_of, tiles)],
        "rows": rows,
    }


def _name_of(m: int) -> str:
    return f"F({m}x{m},3x3)"


class _Quality:
    """One net, its pieces of picture, and what it says of them in float64."""

    def __init__(self, net: Net, progress: Callable[[int, int, str], None] | None, steps: int):
        try:
            import torch
        except ImportError:
            raise NotInstalled(
                "net: torch is not installed; allowed: pip install 'winogen[torch]'"
            ) from None
        self._torch, self._module = torch, net.module()
        self.pieces = pieces(net)
        self.count = len(self._convolutions(self._module))
        if not self.count:
            raise InvalidValue(f"net: got {net.name!r}; allowed: one with dense 3x3 layers")
        with torch.no_grad():
            test = torch.from_numpy(self.pieces.test).double()
            self.truth = self._module.double()(test).numpy()
        self._module.float()
        self._progress, self._done, self._steps = progress, 0, steps

    def row(self, numbers: Numbers, tiles: Sequence[int]) -> dict:
        """Return the PSNR of these numbers by direct convolution and with each tile."""
        found: dict[str, float | None] = {}
        by = {}
        for m in (None, *tiles):
            column = "direct" if m is None else _name_of(m)
            self._say(f"{numbers.label}, {column}")
            if m is None and numbers.stages.quantised:
                found[column] = None
                continue
            algorithm = "direct" if m is None else "mcmr"
            compiled = numbers.has_kernel(algorithm)
            by[column] = KERNELS if compiled else NUMPY
            make = _by_kernel if compiled else _by_numpy
            found[column] = self._psnr(partial(make, numbers=numbers, m=m))
        return {"numbers": numbers.label, "psnr": found, "by": by}

    def int8_model(self) -> dict:
        """Return the row of a net whose inputs and weights have 8 bits and fixed scales."""
        self._say(INT8_MODEL)
        convs = self._convolutions(self._module).values()
        largest = largest_inputs(self._module, convs, self.pieces.calibration)
        psnr = self._psnr(lambda conv: _by_bytes(conv, largest[conv]))
        return {"numbers": INT8_MODEL, "psnr": {"direct": psnr}, "by": {"direct": KERNELS}}

    def _psnr(self, make: Callable[[Any], Compute]) -> float | None:
        """Return that of the net whose convolutions are computed by ``make(conv)``."""
        layers = {conv: make(conv) for conv in self._convolutions(self._module).values()}
        with replaced(layers), self._torch.no_grad():
            y = self._module(self._torch.from_numpy(self.pieces.test)).numpy()
        return psnr_of(y, self.truth)

    def _convolutions(self, module: Any) -> dict[str, Any]:
        """The layers that are computed in narrow numbers."""
        return {
            name: layer
            for name, layer in module.named_modules()
            if isinstance(layer, self._torch.nn.Conv2d)
            and layer.kernel_size == (_TAPS, _TAPS)
            and layer.stride == layer.dilation == (1, 1)
            and layer.groups == 1
        }

    def _say(self, what: str) -> None:
        if self._progress:
            self._progress(self._done, self._steps, what)
        self._done += 1


def psnr_of(y: np.ndarray, truth: np.ndarray, peak: float = 1.0) -> float | None:
    """Return the peak signal-to-noise ratio in dB: 10 log10(peak^2 / mean squared error).

    None where no number tells it: if they are equal, or some of ``y`` are not finite.

    >>> round(psnr_of(np.full(3, 0.501), np.full(3, 0.5)), 3)
    60.0
    """
    square = float(np.mean((y.astype(np.float64) - truth) ** 2))
    return round(10 * math.log10(peak**2 / square), 1) if 0 < square < math.inf else None


def _arrays(conv: Any) -> tuple[np.ndarray, np.ndarray | None, tuple[int, int]]:
    bias = None if conv.bias is None else conv.bias.detach().numpy()
    return conv.weight.detach().numpy(), bias, tuple(conv.padding)


def _by_kernel(conv: Any, numbers: Numbers, m: int | None) -> Compute:
    weight, bias, padding = _arrays(conv)
    way: dict[str, Any] = {"algorithm": "direct"} if m is None else {"algorithm": "mcmr", "tile": m}
    way |= numbers.options
    layer = Conv2d(weight, bias, padding=padding, **way)
    arrays = numpy_type(numbers.precision.arrays)
    return lambda x: layer(x.astype(arrays)).astype(np.float32)


def _by_numpy(conv: Any, numbers: Numbers, m: int | None) -> Compute:
    weight, bias, padding = _arrays(conv)
    transform = None if m is None else transforms.load(m, _TAPS)
    return EmulatedConv2d(weight, bias, padding, transform, stages=numbers.stages)


def _by_bytes(conv: Any, largest: float) -> Compute:
    layer = Int8Layer(conv, largest)
    return layer.by(QConv2d(layer.weight, padding=tuple(conv.padding)))
