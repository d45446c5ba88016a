"""Pictures of what the filters do, and of where the algorithms err."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.patches import Rectangle

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from winogen.charts import empty_figure
from winogen.demo.filters import Filter
from winogen.demo.photograph import photograph

__all__ = ["algorithm_sheet", "filter_sheet", "photograph", "view"]

_INK, _PAPER = "#f2efe9", "#16181d"
_DETAIL = (50, 125, 285)  # top, left and size of the part shown beside the whole photograph


def filter_sheet(
    path: Path, photo: np.ndarray, results: Mapping[int, tuple[list[Filter], np.ndarray]]
) -> None:
    """Write a PNG: the photograph, and beside it a detail under every filter of every bank.

    ``photo``: (3, H, W). ``results``: kernel size -> (filters, their outputs (3, M, H, W)).
    """
    columns = max(len(bank) for bank, _ in results.values())
    figure = empty_figure(2.05 * columns + 5.4, 2.22 * len(results) + 0.75, facecolor=_PAPER)
    outer = figure.add_gridspec(
        1, 2, width_ratios=(5.4, 2.05 * columns), left=0.012, right=0.992, top=0.9, bottom=0.02,
        wspace=0.02,
    )  # fmt: skip
    whole = figure.add_subplot(outer[0], anchor="NW")
    _show(whole, photo.transpose(1, 2, 0), "the photograph, and the detail")
    top, left, size = _DETAIL
    whole.add_patch(_rectangle(left, top, size))
    grid = outer[1].subgridspec(len(results), columns, wspace=0.04, hspace=0.14)
    for row, (taps, (bank, outputs)) in enumerate(results.items()):
        for column, item in enumerate(bank):
            axes = figure.add_subplot(grid[row, column])
            picture = view(outputs[:, column], item.view)[_detail()]
            _show(axes, picture, f"{item.name}  {taps}x{taps}")
            _inset(axes, item.taps)
    figure.suptitle(
        "Filter banks by winogen.conv2d", x=0.012, y=0.975, ha="left", color=_INK, fontsize=17
    )
    _save(figure, path)


def algorithm_sheet(
    path: Path,
    item: Filter,
    results: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> None:
    """Write a PNG: one filter by every algorithm, and under each how far it is from float64.

    ``results``: label -> (output, error), both (3, H, W).
    """
    from matplotlib.colors import LogNorm

    figure = empty_figure(2.9 * len(results) + 0.9, 6.9, facecolor=_PAPER)
    grid = figure.add_gridspec(
        2, len(results) + 1, width_ratios=(*(1 for _ in results), 0.05), left=0.01, right=0.94,
        top=0.86, bottom=0.02, wspace=0.04, hspace=0.12,
    )  # fmt: skip
    worst = max(error.max() for _, error in results.values())
    norm = LogNorm(worst / 1e3, worst, clip=True)
    for column, (label, (output, error)) in enumerate(results.items()):
        picture = view(output, item.view)[_detail()]
        _show(figure.add_subplot(grid[0, column]), picture, label)
        axes = figure.add_subplot(grid[1, column])
        image = _show(axes, error.max(0)[_detail()], f"largest error {error.max():.1e}")
        image.set(cmap="magma", norm=norm)
    bar = figure.colorbar(image, cax=figure.add_subplot(grid[1, len(results)]))
    bar.ax.tick_params(colors=_INK, labelsize=8)
    bar.outline.set_visible(False)
    figure.suptitle(
        f"{item.name}, {len(item.taps)}x{len(item.taps)}, by five algorithms; "
        "below, |float32 result - float64 reference|",
        x=0.01, y=0.965, ha="left", color=_INK, fontsize=15,
    )  # fmt: skip
    _save(figure, path)


def view(output: np.ndarray, kind: str) -> np.ndarray:
    """Return a filter's output (3, H, W) as a picture (H, W, 3) with values in 0..1."""
    pixels = output.transpose(1, 2, 0).astype(np.float64)
    if kind == "relief":
        pixels = 0.5 + 0.5 * pixels.mean(-1, keepdims=True).repeat(3, -1)
    elif kind == "strength":
        pixels = np.abs(pixels)
        # Brightened, because few pixels lie on an edge and the eye sees the others as black.
        pixels = (pixels / max(np.quantile(pixels, 0.99), 1e-12)) ** 0.7
    return pixels.clip(0, 1)


def _detail() -> tuple[slice, slice]:
    top, left, size = _DETAIL
    return slice(top, top + size), slice(left, left + size)


def _show(axes: Axes, picture: np.ndarray, title: str) -> AxesImage:
    image = axes.imshow(picture, interpolation="nearest")
    axes.set_title(title, color=_INK, fontsize=9, loc="left", pad=4)
    axes.set_axis_off()
    return image


def _inset(axes: Axes, taps: np.ndarray) -> None:
    """The kernel itself, in a corner."""
    inset = axes.inset_axes((0.03, 0.03, 0.2, 0.2))
    limit = np.abs(taps).max()
    inset.imshow(taps, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    inset.set(xticks=(), yticks=())
    for side in inset.spines.values():
        side.set(color=_INK, linewidth=0.6)


def _rectangle(left: int, top: int, size: int) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((left, top), size, size, fill=False, edgecolor=_INK, linewidth=1.2)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, facecolor=figure.get_facecolor())
