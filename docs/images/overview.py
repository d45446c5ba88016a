"""Draws overview.png beside this file: one tile of a photograph on its way through F(4x4, 3x3).

python docs/images/overview.py [FILE]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Rectangle

import winogen
from winogen.codegen.transforms import load
from winogen.demo import photograph
from winogen.numerics import Direct, measure

INK, QUIET, PAPER, ACCENT = "#f2efe9", "#9a9aa2", "#16181d", "#e8a33d"
EMBOSS = np.array([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], np.float32)
CORNER = (183, 214)  # top, left of the tile, where the glasses meet the eye
MIDDLE = 0.735  # of the upper row
SHAPE = 14 / 7  # width of the figure over its height
DETAIL = (60, 120, 260)  # top, left, size of what is shown of the photograph


def main(path: Path) -> None:
    """Compute what is to be seen, draw it, and save it small."""
    figure = Figure(figsize=(14, 7), facecolor=PAPER)
    FigureCanvasAgg(figure)
    journey(figure)
    program(figure)
    accuracy(figure)
    figure.savefig(path, dpi=100, facecolor=PAPER)
    shrink(path)


def journey(figure) -> None:
    """The upper row: photograph, tile, transforms, products, result, filtered photograph."""
    photo = photograph().mean(0)
    filtered = winogen.conv2d(photo[None, None], EMBOSS[None, None], padding="same")[0, 0]
    at, g, bt = winogen.cook_toom(4, 3).arrays("float32")
    top, left = CORNER
    tile = photo[top : top + 6, left : left + 6]
    v, u = bt @ tile @ bt.T, g @ EMBOSS @ g.T
    y = at @ (u * v) @ at.T
    assert np.allclose(y, filtered[top + 1 : top + 5, left + 1 : left + 5], atol=1e-4)

    whole = picture(figure, 0.02, photo, "a photograph", (0, 1))
    matrices = [
        (0.265, tile, "d", "tile, 6 × 6"),
        (0.38, v, "BᵀdB", "transformed"),
        (0.495, u, "GgGᵀ", "filter, once"),
        (0.61, u * v, "⊙", "36 products"),
        (0.718, y, "Aᵀ( · )A", "16 outputs"),
    ]
    axes = [matrix(figure, *rest) for rest in matrices]
    result = picture(figure, 0.82, filtered, "embossed", (-1.2, 1.2))
    for x, sign in ((0.3655, "→"), (0.4805, "⊙"), (0.5955, "="), (0.7095, "→")):
        figure.text(x, MIDDLE, sign, color=QUIET, fontsize=17, ha="center", va="center")
    link(figure, whole, axes[0], CORNER, 6, 1)
    link(figure, result, axes[-1], (top + 1, left + 1), 4, 0)
    title(
        figure,
        0.02,
        0.935,
        "F(4 × 4, 3 × 3): 36 multiplications where direct convolution takes 144",
    )


def picture(figure, x: float, image, name: str, limits):
    """The detail of a photograph, from `x` on."""
    top, left, size = DETAIL
    width = 0.165
    axes = figure.add_axes((x, MIDDLE - width * SHAPE / 2, width, width * SHAPE))
    part = image[top : top + size, left : left + size]
    axes.imshow(part, cmap="gray", vmin=limits[0], vmax=limits[1])
    axes.set_axis_off()
    axes.text(0.5, -0.035, name, color=QUIET, fontsize=9, ha="center", va="top",
              transform=axes.transAxes)  # fmt: skip
    return axes


def matrix(figure, x: float, values, name: str, what: str):
    """A small matrix as colours: grey for pixels, else red above zero and blue below."""
    width = 0.085 * len(values) / 6
    axes = figure.add_axes((x, MIDDLE - width * SHAPE / 2, width, width * SHAPE))
    if name == "d":
        axes.imshow(values, cmap="gray", vmin=0)
    else:
        limit = np.abs(values).max()
        axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.set(xticks=np.arange(-0.5, len(values)), yticks=np.arange(-0.5, len(values)))
    axes.grid(color=PAPER, linewidth=1)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.spines[:].set_visible(False)
    axes.set_title(name, color=INK, fontsize=12, pad=6)
    axes.set_xlabel(what, color=QUIET, fontsize=9)
    return axes


def link(figure, photo, tile, corner, size: int, side: int) -> None:
    """A box around the tile in the photograph, and lines from it to the matrix."""
    left, top = corner[1] - DETAIL[1] - 0.5, corner[0] - DETAIL[0] - 0.5
    photo.add_patch(Rectangle((left, top), size, size, fill=False, color=ACCENT, linewidth=1.5))
    for end in (0, 1):
        near, far = (left + size * side, top + size * end), (1 - side, 1 - end)
        figure.add_artist(
            ConnectionPatch(
                near, far, "data", "axes fraction", axesA=photo, axesB=tile, color=ACCENT, lw=0.8
            )
        )


def program(figure) -> None:
    """Lower left: the input transform as the generated header has it, equations and C."""
    header = load(4, 3).header
    equations = re.search(
        r"/\* v = B\^T d: (\d+) instructions\.\n \*\n(.*?)\n \*/", header, re.DOTALL
    )
    body = re.search(r"_input\(const.*?\n\n(.*?)\n}", header, re.DOTALL)[1]
    columns = (
        (0.028, INK, equations[2].replace(" *     ", "")),
        (0.245, QUIET, body.replace("    ", "").replace("WINOGEN_VEC", "vec")),
    )
    title(
        figure,
        0.02,
        0.42,
        f"one of its three transforms in C: v = Bᵀ d, {equations[1]} instructions",
    )
    for x, colour, text in columns:
        figure.text(x, 0.385, text, color=colour, fontsize=9.5, family="monospace", va="top",
                    linespacing=1.45)  # fmt: skip


def accuracy(figure) -> None:
    """Lower right: what a larger tile saves and costs, with two choices of points."""
    axes = figure.add_axes((0.57, 0.09, 0.415, 0.305), facecolor=PAPER)
    title(figure, 0.52, 0.42, "what larger tiles save and cost: F(m × m, 3 × 3), float32")
    sizes = range(2, 9)
    for points, colour, name in (
        (integers, QUIET, "points 0, 1, −1, 2, −2, … ∞"),
        (lambda n: None, ACCENT, "winogen's default points"),
    ):
        errors = [measure(winogen.cook_toom(m, 3, points(m + 2)), trials=2000).mean for m in sizes]
        saved = [(3 * m / (m + 2)) ** 2 for m in sizes]
        axes.semilogy(saved, errors, "o-", color=colour, label=name, markersize=5)
    exact = measure(Direct(4, 3), trials=2000).mean
    axes.axhline(exact, color=QUIET, linestyle=":", linewidth=1)
    axes.text(5.9, exact * 0.85, "direct", color=QUIET, fontsize=9, ha="right", va="top")
    for m, x, y in zip(sizes, saved, errors):
        axes.annotate(
            f"m = {m}",
            (x, y),
            (0, -14),
            textcoords="offset points",
            color=INK,
            fontsize=9,
            ha="center",
        )
    axes.set_xlabel("times fewer multiplications than direct", color=INK, fontsize=10)
    axes.set_ylabel("mean error", color=INK, fontsize=10)
    axes.set_ylim(1e-8, 2e-2)
    axes.set_xlim(2.05, 5.95)
    axes.tick_params(colors=INK, labelsize=9, which="both")
    axes.grid(color="#33363d", linewidth=0.6)
    axes.spines[:].set_color("#55585f")
    axes.legend(frameon=False, labelcolor=INK, fontsize=10, loc="upper left")


def integers(count: int) -> str:
    """The points of the textbooks: 0, 1, -1, 2, -2, ..., inf."""
    finite = [k // 2 if k % 2 == 0 else -(k // 2) for k in range(1, count)]
    return ",".join([*map(str, finite), "inf"])


def title(figure, x: float, y: float, text: str) -> None:
    """A heading."""
    figure.text(x, y, text, color=INK, fontsize=13, weight="bold", va="bottom")


def shrink(path: Path) -> None:
    """Save again with 256 colours, which is all that can be told apart here."""
    from PIL import Image

    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("overview.png"))
