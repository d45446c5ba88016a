"""What all reports for people share: figures as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.markup import escape

from winogen.records import FILTER_TYPES, PRODUCT_TYPES
from winogen_lab.bench import report


def machine_title(machine: dict) -> str:
    """Return the line about CPU, cores and compiler."""
    names = ", ".join(machine["extensions"])
    extensions = f" with {names}" if names else ""
    return (
        f"{escape(machine['cpu'])}, {machine['cores']} cores, kernels for {machine['isa']}"
        f"{extensions} by {escape(str(machine['compiler']))}"
    )


def speed_lines(machine: dict) -> Iterator[str]:
    """The speeds of reading and writing, by level; ``machine``: as in the JSON document."""
    for title, key in (("reading", "read_gbytes_per_s"), ("writing", "write_gbytes_per_s")):
        if key in machine:  # writing is not always measured
            levels = ", ".join(
                f"{level} {row['gbytes_per_s']:.0f} ({size_text(row['bytes'])})"
                for level, row in machine[key].items()
            )
            yield f"{title}, GB/s: {levels}"


def how(row: dict) -> str:
    """Return an algorithm, its F(m, r) and its narrow numbers as short text.

    >>> how({"algorithm": "mcmr", "tile": [4, 6], "weight": [8, 8, 3, 3]})
    'mcmr F(4x6,3x3)'
    """
    narrow = ""
    if row.get("product_dtype") in PRODUCT_TYPES:
        narrow = f", {row['product_dtype']}"
    elif row.get("filter_dtype") in FILTER_TYPES:
        narrow = f", {row['filter_dtype']} filters"
    if row["tile"] is None:
        return f"{row['algorithm']}{narrow}"
    along = slice(-1, None) if row["algorithm"] == "winograd1d" else slice(None)
    tile, taps = ("x".join(map(str, sizes[along])) for sizes in (row["tile"], _taps(row)))
    return f"{row['algorithm']} F({tile},{taps}){narrow}"


def kernel_of(layer: dict) -> dict:
    """Return what `how` reads of a layer, for a row that somebody else has."""
    return {name: layer[name] for name in ("weight", "stride", "transposed") if name in layer}


def _taps(row: dict) -> list[int]:
    """Taps along each axis; of a transposed layer those of a phase."""
    taps = row["weight"][2:]
    if not row.get("transposed"):
        return list(taps)
    stride = row["stride"]
    steps = stride if isinstance(stride, list) else [stride] * len(taps)
    return [-(-kernel // step) for kernel, step in zip(taps, steps)]


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds in three digits."""
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def size_text(size: float) -> str:
    """Return bytes as text.

    >>> size_text(3 << 20)
    '3 MiB'
    """
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            break
        size, unit = size / 1024, {"bytes": "KiB", "KiB": "MiB", "MiB": "GiB"}[unit]
    return f"{size:.3g} {unit}"


def threads_text(machine: dict) -> str:
    """Return how many threads everybody had."""
    return "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"


def doubts(rows: Iterable[dict]) -> Iterator[str]:
    """Name the layers, or nets, beside which other programs computed."""
    for row in rows:
        if row.get("disturbed"):
            why = " and ".join(row["disturbed"])
            yield f"[yellow]{escape(row['name'])}: {why}: its times are doubtful[/]"


def against(row: dict, what: str) -> str:
    """Return what was predicted of a row, "error" or "time", and what was measured of it.

    >>> against({"predicted_s": 0.002, "median_s": 0.003}, "time")
    '2 x1.50'
    """
    share = report.over_predicted(row, what)
    if share is None:
        return ""
    expected = f"{row['predicted_error']:.0e}" if what == "error" else None
    return f"{expected or milliseconds(row['predicted_s'])} x{share:.2f}"
