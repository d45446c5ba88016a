"""The fewest bits of products, transforms and sums that keep a net as good as int8 keeps it.

Each kind of words is shortened alone, by bisection; then all three together, products first. What
was computed is kept as results of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winogen.codegen.fixed_planner import of_catalog
from winogen.columns import aligned
from winogen.errors import InvalidValue
from winogen.fixed.words import Widths
from winogen.tasks.results import Results
from winogen_lab.nets import NotInstalled
from winogen_lab.nets.word_nets import DIGITS, RESIDUAL, WordNet, judged_nets, subject

if TYPE_CHECKING:
    from winogen.fixed.integral import Integral

USUAL = "animevideov3", DIGITS, RESIDUAL
TILES = (2, 4, 6)
KINDS = "products", "transforms", "sums"
LOSS = 1.0  # dB or percentage points below int8 direct convolution
_LEAST = {"products": 3, "transforms": 4, "sums": 4}  # bits that are tried
_MOST_ROOM = 16
_AROUND = 2  # bits of a curve on both sides of the fewest

Say = Callable[[str], None]


def names_of(nets: Sequence[str]) -> list[str]:
    """Return names that may have commas between, each once; raises InvalidValue."""
    names = dict.fromkeys(p.strip() for name in nets for p in name.split(",") if p.strip())
    for name in names:
        if name not in judged_nets():
            raise InvalidValue(f"nets: got {name!r}; allowed: {', '.join(judged_nets())}")
    return list(names)


def word_lengths(
    nets: Sequence[str] = (),
    tiles: Sequence[int] = TILES,
    loss: float = LOSS,
    results: str | Path | None = None,
    say: Say = lambda text: None,
    room: float = 1.0,
) -> dict[str, Any]:
    """Return, for every net and tile, the fewest bits, as plain data ready for JSON.

    ``nets``: names; the usual ones if there are none, as far as they are installed. ``tiles``: m of
    F(m x m, r x r), with every algorithm of the catalog whose coefficients are fractions. ``loss``:
    of quality, in its unit. ``results``: a file that keeps what was computed. ``room``: by what
    values may be larger than any that a net was calibrated on, 1 to 16.

    Raises InvalidValue, NotInstalled, MissingPackage.
    """
    names = names_of(nets)
    for m in tiles:
        if m not in TILES:
            raise InvalidValue(f"tiles: got {m}; allowed: {', '.join(map(str, TILES))}")
    if not 0 < loss < 100:
        raise InvalidValue(f"loss: got {loss}; allowed: above 0, below 100")
    if not 1 <= room <= _MOST_ROOM:
        raise InvalidValue(f"room: got {room:g}; allowed: 1 to {_MOST_ROOM}")
    kept = Results(results, _check)
    try:
        found = [_of_net(net, tiles, loss, kept, say) for net in _built(names, room, say)]
    finally:
        kept.close()
    return {"kind": "word lengths", "loss": loss, "room": room, "nets": found}


def _built(names: Sequence[str], room: float, say: Say) -> Iterator[WordNet]:
    for name in names or USUAL:
        try:
            yield WordNet(subject(name), room)
        except NotInstalled as problem:
            if names:
                raise
            say(f"{name} is left out: {problem}")


def _check(entry: Any) -> None:
    if not isinstance(entry["task"]["net"], str) or not isinstance(entry["result"], float):
        raise InvalidValue("no quality of a net")


@dataclass(frozen=True)
class _Search:
    """One net by one algorithm."""

    net: WordNet
    name: str
    made: Integral
    kept: Results

    def quality(self, **bits: int) -> float:
        """Return the quality with so many bits of these kinds, as many as needed of others."""
        task: dict[str, Any] = {"net": self.net.net.name, "algorithm": self.name, **bits}
        if self.net.room != 1:
            task["room"] = self.net.room
        if task not in self.kept:
            self.kept.add(task, self.net.quality(self.name, self.made, widths_of(bits)))
        return float(self.kept[task])

    def fewest(self, kind: str, enough: float, most: int) -> int:
        """Return the fewest bits of one kind that are enough, by bisection; ``most`` are."""
        low, high = _LEAST[kind], most
        while low < high:
            middle = min((low + high) // 2, low + 8)  # words are short, and full widths are not
            if self.quality(**{kind: middle}) >= enough:
                high = middle
            else:
                low = middle + 1
        return low

    def together(self, alone: dict[str, int], enough: float, most: dict[str, int]) -> dict:
        """Return the fewest bits that are enough at once: of products, then with these, …"""
        bits: dict[str, int] = {}
        for kind in KINDS:
            bits[kind] = alone[kind]
            while self.quality(**bits) < enough and bits[kind] < most[kind]:
                bits[kind] += 1
        return bits

    def curve(self, kind: str, fewest: int) -> list[list[float]]:
        """Return bits and quality on both sides of the fewest bits."""
        some = range(max(fewest - _AROUND, _LEAST[kind]), fewest + _AROUND + 1)
        return [[bits, self.quality(**{kind: bits})] for bits in some]


def widths_of(bits: dict[str, int]) -> Widths:
    """Return the widths of a layer for bits of some of `KINDS`.

    >>> widths_of({"products": 8, "sums": 20})
    Widths(filters=8, tiles=8, transforms=None, sums=20)
    """
    products = bits.get("products")
    return Widths(products, products, bits.get("transforms"), bits.get("sums"))


def _of_net(
    net: WordNet, tiles: Sequence[int], loss: float, kept: Results, say: Say
) -> dict[str, Any]:
    rows = []
    for m in tiles:
        for name, made in of_catalog(m, net.taps):
            say(f"{net.net.name}, {name}")
            rows.append(_row(_Search(net, name, made, kept), net.direct - loss))
    return {
        "name": net.net.name,
        "title": net.net.title,
        "unit": net.net.unit,
        "direct": net.direct,
        "layers": len(net.fast),
        "channels": net.channels,
        "rows": rows,
    }


def _row(search: _Search, enough: float) -> dict[str, Any]:
    made, full = search.made, search.net.full(search.made)
    operands = [int(full.filters or 0), int(full.tiles or 0)]
    most = {
        "products": max(operands),
        "transforms": int(full.transforms or 0),
        "sums": int(full.sums or 0),
    }
    alone = {kind: search.fewest(kind, enough, most[kind]) for kind in KINDS}
    together = search.together(alone, enough, most)
    algorithm = made.algorithm
    by = algorithm.moduli or algorithm.points or ()
    return {
        "algorithm": search.name,
        "tile": algorithm.m,
        "taps": algorithm.r,
        "made of": ", ".join(str(one).replace(" ", "") for one in by),
        "products": algorithm.products**2,
        "exact": {**most, "products": operands},
        "alone": alone,
        "together": together,
        "quality": search.quality(**together),
        "curves": {kind: search.curve(kind, alone[kind]) for kind in KINDS},
    }


def table(found: dict[str, Any]) -> str:
    """Return what was found for people to read."""
    parts = []
    for net in found["nets"]:
        unit = net["unit"]
        head = ["", "F(m, r)", *KINDS, "together", unit]
        lines = [head]
        for row in net["rows"]:
            filters, tiles = row["exact"]["products"]
            exact = {**row["exact"], "products": f"{filters}x{tiles}"}
            lines.append([
                row["algorithm"], f"F({row['tile']}, {row['taps']})",
                *(f"{exact[kind]} > {row['alone'][kind]}" for kind in KINDS),
                ", ".join(str(row["together"][kind]) for kind in KINDS), f"{row['quality']:g}",
            ])  # fmt: skip
        parts.append(
            f"{net['name']}: {net['title']}; int8 direct {net['direct']:g} {unit}, allowed "
            f"{net['direct'] - found['loss']:g}\n\n" + "\n".join(aligned(lines, 2, "  "))
        )
    return "\n\n".join([
        *parts,
        "Bits that lose nothing > the fewest of one kind alone that are enough; together: of "
        "products,\ntransforms and sums, all at once, and the quality with them.",
    ])  # fmt: skip
