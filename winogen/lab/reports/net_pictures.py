"""The picture of the report on a net, drawn from its document."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winogen.lab.reports.charts import Sheet

from winogen.lab.reports.charts import COLORS, GREY, INK, MARKERS, draw

_LEAST = 0.0  # dB; what is worse stands at the edge


def pictures(document: dict) -> dict[str, dict[str, str]]:
    """Return name -> {"wide": svg, "narrow": svg}."""
    height = 0.4 + 0.06 * len(document["rows"])
    return {"quality": draw(partial(quality, document=document), "quality", height=height)}


def quality(sheet: Sheet, document: dict) -> None:
    """PSNR, one row per number format, one mark per algorithm."""
    (axes,) = sheet.axes()
    rows = document["rows"][::-1]
    colors = (INK, *COLORS)
    for column, color, marker in zip(document["columns"], colors, MARKERS):
        found = [
            (max(row["psnr"][column], _LEAST), k)
            for k, row in enumerate(rows)
            if row["psnr"].get(column) is not None
        ]
        if found:
            axes.plot(*zip(*found), linestyle="none", marker=marker, color=color, label=column)
    axes.axvline(_LEAST, color=GREY, linewidth=0.8)
    sheet.name_rows(axes, [row["numbers"] for row in rows])
    axes.set_xlabel(sheet.wrap("PSNR of the output against the net in float64, dB"))
    sheet.legend()
