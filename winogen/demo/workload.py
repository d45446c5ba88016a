"""What the demonstration runs, and what it measures of every algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winogen.conv.plan import Plan

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from winogen.demo.filters import banks, weights
from winogen.demo.reference import convolve
from winogen.tasks.turns import in_turns
from winogen.typing import Algorithm, PaddingMode

ALGORITHMS: tuple[Algorithm, ...] = ("direct", "im2col", "winograd2d", "winograd1d", "mcmr")
_SECONDS = 0.4  # spent on timing each algorithm, after one call to warm up
_CALLS = 50


@dataclass(frozen=True)
class Layer:
    """One convolution to run by every algorithm, stride 1, output as large as the input."""

    title: str
    x: np.ndarray  # (N, C, H, W)
    weight: np.ndarray  # (M, C, K, K)
    padding_mode: PaddingMode = "zeros"

    @property
    def padding(self) -> int:
        """Rows and columns added at every side."""
        return self.weight.shape[-1] // 2

    @property
    def flops(self) -> int:
        """Floating-point operations of the direct convolution."""
        batch, _, height, width = self.x.shape
        return 2 * batch * height * width * self.weight.size


@dataclass(frozen=True)
class TableRow:
    """One row of the table."""

    algorithm: str
    threads: int
    tile: str  # "F(4x4, 3x3)", or "" without tiles
    points: str  # "±a" for a and -a; a line for each axis where they differ
    multiplications: int
    workspace_bytes: int
    seconds: float  # median
    gflops: float  # of the direct convolution, whatever the algorithm
    max_error: float  # max |y - y64| / max |y64|
    mean_error: float  # mean |y - y64| / max |y64|


def layers(photo: np.ndarray) -> list[Layer]:
    """Return a layer as VGG has them, then the photograph (3, H, W) with each filter bank.

    The layer comes first, because nets consist of such layers and Winograd's algorithms gain there.
    """
    # The colours are three images of one channel: every filter is applied to each of them.
    picture = f"photograph {photo.shape[1]}x{photo.shape[2]}, colour by colour"
    banks_of_filters = [
        Layer(
            f"{picture}, {len(bank)} filters of {size}x{size}",
            photo[:, None],
            weights(bank),
            "replicate",
        )
        for size, bank in banks().items()
    ]
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1, 256, 56, 56), np.float32)
    weight = generator.standard_normal((256, 256, 3, 3), np.float32) * np.float32(0.03)
    vgg = Layer("VGG-sized layer, 56x56, 256 -> 256 channels", x, weight)
    return [vgg, *banks_of_filters]


def measure(
    layer: Layer, threads: int | None = None, say: Callable[[str], object] = lambda text: None
) -> Iterator[tuple[TableRow, np.ndarray, np.ndarray]]:
    """Run ``layer`` by each algorithm; yield its measurement, its result, and the error in float64.

    ``say(text)`` is told what is going on. Raises what `winogen.Conv2d` raises.
    """
    from winogen.conv import Conv2d

    say(f"{layer.title}: float64 reference")
    exact = convolve(layer.x, layer.weight, layer.padding, layer.padding_mode)
    largest = np.abs(exact).max()
    for algorithm in ALGORITHMS:
        say(f"{layer.title}: {algorithm}")
        conv = Conv2d(
            layer.weight,
            padding=layer.padding,
            padding_mode=layer.padding_mode,
            algorithm=algorithm,
            threads=threads,
        )
        plan = conv.plan(layer.x.shape)
        y = conv(layer.x)
        seconds = _time(partial(conv, layer.x, out=y))
        error = np.abs(y - exact)
        measurement = TableRow(
            algorithm=plan.algorithm,
            threads=plan.threads,
            tile=_tile_text(plan, layer.weight.shape[2:]),
            points=_axes_text(plan.sets) if plan.sets else "",
            multiplications=plan.multiplications,
            workspace_bytes=plan.workspace_bytes,
            seconds=seconds,
            gflops=layer.flops / seconds / 1e9,
            max_error=error.max() / largest,
            mean_error=error.mean() / largest,
        )
        yield measurement, y, error


def points_text(points: tuple[str, ...]) -> str:
    """Return points as short text: each pair of opposite ones as "±a".

    >>> points_text(("0", "1/2", "-1/2", "2", "inf"))
    '0, ±1/2, 2, inf'
    """
    texts = []
    for point in points:
        opposite = point[1:] if point.startswith("-") else f"-{point}"
        if opposite not in points:
            texts.append(point)
        elif not point.startswith("-"):
            texts.append(f"±{point}")
    return ", ".join(texts)


def _axes_text(points: tuple[tuple[str, ...] | None, ...]) -> str:
    along_h, along_w = (None if axis is None else points_text(axis) for axis in points)
    if along_h in (None, along_w):
        return along_w or ""
    return f"{along_h} (height)\n{along_w} (width)"


def _tile_text(plan: Plan, kernel: tuple[int, int]) -> str:
    if plan.tile is None:
        return ""
    (m_h, m_w), (r_h, r_w) = plan.tile, kernel
    return f"F({m_w}, {r_w})" if plan.algorithm == "winograd1d" else f"F({m_h}x{m_w}, {r_h}x{r_w})"


def _time(call: Callable[[], object]) -> float:
    call()
    return median(*in_turns([call], time.perf_counter, (3, _CALLS), _SECONDS))
