"""Labels beside the points of a picture, clear of each other and of the points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

from itertools import pairwise

from winogen.lab.reports.charts import GREY

# Where a label may stand, in its own heights from the point: near ones first.
_PLACES = tuple(
    place
    for far in (0.95, 1.6, 2.4, 3.4)
    for place in (
        *((far, 0.0), (far, 0.7 * far), (far, -0.7 * far), (0.0, far), (0.0, -far)),
        *((-far, 0.0), (-far, 0.7 * far), (-far, -0.7 * far)),
    )
)
_DESCENT = 0.2  # baselines stand this many heights above the bottom of a box
_GAP = 0.25  # heights that are left free at either end
_MARK = 0.4  # half the height of a mark
_LEADER = 2.0  # heights; a label farther from its point gets a line to it

Spot = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top


def label(
    axes: Axes,
    points: list[tuple[float, float, str]],
    others: Sequence[Spot] = (),
    steps: Sequence[Spot] = (),
) -> list[str]:
    """Write each text beside its point (x, y, text); return those that fitted nowhere.

    ``others``: further points (x, y) to keep clear of. ``steps``: the corners (x, y) of a staircase
    that must not be crossed. The limits of the axes must be final.
    """
    _figure(axes).draw_without_rendering()  # settles the layout that the places are computed in

    def transform(place: Spot) -> Spot:
        x, y = axes.transData.transform(place)
        return float(x), float(y)

    height = _text_height(axes)
    spots = [transform((x, y)) for x, y in [*((x, y) for x, y, _ in points), *others]]
    taken = [_around(spot, height) for spot in spots]
    corners = [transform(corner) for corner in steps]
    for (x0, y0), (x1, y1) in pairwise(corners):  # across at y0, then up or down at x1
        taken += [(min(x0, x1), y0 - 1, max(x0, x1), y0 + 1)]
        taken += [(x1 - 1, min(y0, y1), x1 + 1, max(y0, y1))]
    return [
        text
        for (x, y, text), spot in zip(points, spots)
        if not _place(axes, (x, y), spot, text, taken)
    ]


def _place(axes: Axes, at: Spot, spot: Spot, text: str, taken: list[Box]) -> bool:
    height = _text_height(axes)
    width = _text_width(axes, text)
    frame = axes.get_window_extent().extents
    own = taken.index(_around(spot, height))
    for across, up in _PLACES:
        side = 0.0 if across > 0 else 1.0 if across < 0 else 0.5
        left = spot[0] + across * height - side * width
        bottom = spot[1] + up * height - height / 2
        gap = _GAP * height
        box = (left - gap, bottom, left + width + gap, bottom + height)
        end = (spot[0] + across * height, spot[1] + up * height)
        leader = _between(spot, end) if abs(across) + abs(up) > _LEADER else []
        free = not any(_overlap(box, other) for other in taken) and not any(
            _overlap(piece, other) for piece in leader for k, other in enumerate(taken) if k != own
        )
        if free and _within(box, frame):
            taken += [box, *leader]
            axes.annotate(
                text,
                at,
                xytext=(left - spot[0], bottom - spot[1] + _DESCENT * height),
                textcoords="offset points",
                va="baseline",
                arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.6} if leader else None,
            ).set_in_layout(False)
            return True
    return False


def _around(spot: Spot, height: float) -> Box:
    """What the mark of a point covers."""
    half = _MARK * height
    return (spot[0] - half, spot[1] - half, spot[0] + half, spot[1] + half)


def _between(start: Spot, end: Spot) -> list[Box]:
    """Small boxes along the second half of a line: near its point it may cross other marks."""
    steps = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    spots = [
        (start[0] + t * (end[0] - start[0]), start[1] + t * (end[1] - start[1])) for t in steps
    ]
    return [(x - 1, y - 1, x + 1, y + 1) for x, y in spots]


def _figure(axes: Axes) -> Figure:
    return cast("Figure", axes.figure)  # no part of one here


def _text_height(axes: Axes) -> float:
    return 1.15 * float(axes.xaxis.label.get_fontsize()) * axes.figure.dpi / 72


def _text_width(axes: Axes, text: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=axes.xaxis.label.get_fontsize())
    return float(TextPath((0, 0), text, prop=font).get_extents().width) * axes.figure.dpi / 72


def _within(box: Box, frame: Sequence[float]) -> bool:
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
