"""The page on a net: what number formats do to its output, from the document."""

from __future__ import annotations

from functools import partial

from winogen.reports.catalog_page import dots
from winogen.reports.page import Section


def page(document: dict) -> tuple[str, list[Section]]:
    """Return the title and the sections."""
    net, columns = document["net"], document["columns"]
    rows = [
        {"numbers": row["numbers"], **{name: row["psnr"].get(name) for name in columns}}
        for row in document["rows"]
    ]
    by_numpy = sorted(
        f"{row['numbers']} in {name}"
        for row in document["rows"]
        for name, by in row["by"].items()
        if by == "numpy"
    )
    lines = [
        f"How far the output is from that of the same net in float64, when its {net['layers']} "
        "dense 3×3 layers are computed in narrow numbers: PSNR in dB, 10 log10(peak² / mean squared"
        f" error), peak = {document['peak']:g}. The input is part of a photograph.",
        "Filters: only packed filters are narrow; cut: bits are cut off, not rounded; tiles: "
        "transformed inputs are narrow, too; products: factors are integers, scaled as they come; "
        "arrays: inputs and outputs of layers are narrow.",
    ]
    if by_numpy:
        lines.append(f"By numpy, for no kernel does that: {', '.join(by_numpy)}.")
    paint = partial(
        dots,
        names=[row["numbers"] for row in rows],
        series={name: [row[name] for row in rows] for name in columns},
        label="dB",
    )
    section = Section("Quality", lines, paint, rows, 1.6 + 0.28 * len(rows))
    return f"What number formats do to {net['title']}", [section]
