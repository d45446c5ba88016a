"""What `winogen_lab.bench.ways` found, as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from winogen.columns import aligned
from winogen_lab.bench.report import geometric_mean
from winogen_lab.bench.texts import how, milliseconds
from winogen_lab.bench.ways import correlations, shape_of

NOTICED = 0.02  # of the time: what counts as a gain
_SHAPE = "HW/CM"

Row = dict[str, Any]


def render(rows: Sequence[Row], markdown: bool = False) -> str:
    """Return all tables and the lines below them; of times only where the rows have them."""
    names = list(dict.fromkeys(name for row in rows for name in row["ways"]))
    timed = all(way["seconds"] is not None for row in rows for way in row["ways"].values())
    tables: list[tuple[str, Callable[[Row, str], str]]] = [
        ("tile, multiplications per output and pair of channels", _count),
        ("packed filters, workspace, kB", _bytes),
    ]
    if timed:
        base = "im2col" if "im2col" in names else names[0]
        tables.append((f"ms, and its multiple of {names[0]}", _time))
        factors = f"factors beside {base}: multiplications in theory, time as measured"
        tables.append((factors, partial(_factors, base)))
    parts = []
    for title, cell in tables:
        head = ["layer", _SHAPE, *names]
        cells = [
            [row["name"], f"{shape_of(row):.3g}", *(_cell(cell, row, name) for name in names)]
            for row in rows
        ]
        parts.append("\n".join([title, "", *table([head, *cells], markdown), ""]))
    if timed:
        parts.append("\n".join([*_gains(rows, names), *_ranks(rows)]))
    return "\n".join(parts)


def _cell(cell: Callable[[Row, str], str], row: Row, name: str) -> str:
    return cell(row, name) if name in row["ways"] else "–"


def _count(row: Row, name: str) -> str:
    way = row["ways"][name]
    text = f"{way['multiplications_per_output']:.3f}"
    if way["tile"] is None:
        return text
    tile = how({**way, "weight": row["weight"]}).removeprefix(f"{way['algorithm']} ")
    return f"{tile.split(',')[0].removeprefix('F(')} {text}"


def _bytes(row: Row, name: str) -> str:
    way = row["ways"][name]
    packed, workspace = way["packed_weight_bytes"], way["workspace_bytes"]
    return f"{packed / 1e3:,.0f} + {workspace / 1e3:,.0f}"


def _time(row: Row, name: str) -> str:
    text = milliseconds(row["ways"][name]["seconds"])
    ratio = _ratio(row, name)
    return text if ratio is None else f"{text} x{ratio:.2f}"


def _factors(base: str, row: Row, name: str) -> str:
    """How many times fewer multiplications, and how many times less time."""
    way, other = row["ways"][name], row["ways"].get(base)
    if other is None or name == base:
        return "–"
    theory, measured = (other[one] / way[one] for one in ("multiplications_per_output", "seconds"))
    return f"{theory:.2f} {measured:.2f}"


def _ratio(row: Row, name: str) -> float | None:
    """The time of a way over that of the first; None for the first, and for a way that lacks."""
    first = next(iter(row["ways"]))
    if name == first or name not in row["ways"]:
        return None
    return float(row["ways"][name]["seconds"] / row["ways"][first]["seconds"])


def _gains(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    for name in names[1:]:
        ratios = {row["name"]: ratio for row in rows if (ratio := _ratio(row, name)) is not None}
        if not ratios:
            continue
        least = min(ratios, key=lambda layer: ratios[layer])
        faster = sum(ratio < 1 - NOTICED for ratio in ratios.values())
        yield (
            f"{name}: {geometric_mean(ratios.values()):.3f} times as long as {names[0]} on "
            f"average, at best {ratios[least]:.3f} ({least}); more than {NOTICED:.0%} faster on "
            f"{faster} of {len(ratios)} layers"
        )


def _ranks(rows: Sequence[Row]) -> Iterator[str]:
    for way, other, count, rank in correlations(rows):
        yield (
            f"log({_SHAPE}) and log(time of {other} / time of {way}): rank correlation "
            f"{rank:+.2f} over {count} layers"
        )


def table(cells: list[list[str]], markdown: bool) -> list[str]:
    """Return the lines of a table whose first row is the head, as text or as Markdown."""
    if not markdown:
        return aligned(cells, left=1)
    rule = ["---", *["---:"] * (len(cells[0]) - 1)]
    return [f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:])]
