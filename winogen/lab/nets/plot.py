"""The report on whole nets as a picture: how many times as fast as torch everybody is."""

from __future__ import annotations

from pathlib import Path

from winogen.lab.bench.plot import title_of
from winogen.lab.charts import save_bars
from winogen.lab.peers import OUR_NETS


def save_plot(document: dict, path: str | Path) -> None:
    """Draw images per second over those of torch, or of the first who ran; by ``path``'s suffix."""
    nets = document["nets"]
    names = [name for name, row in document["contestants"].items() if "absent" not in row]
    names.sort(key=lambda name: name in OUR_NETS)
    base = next((name for name in names if name not in OUR_NETS), names[0])
    save_bars(
        path,
        title_of(document),
        f"images per second over {base}'s",
        [_label(net, base) for net in nets],
        {name: [_speed(net, name, base) for net in nets] for name in names},
        (1.0, base),
    )


def _speed(net: dict, name: str, base: str) -> float:
    rows = net["contestants"]
    seconds, reference = (rows.get(n, {}).get("median_s") for n in (name, base))
    return reference / seconds if seconds and reference else 0.0


def _label(net: dict, base: str) -> str:
    seconds = net["contestants"].get(base, {}).get("median_s")
    return f"{net['name']}, {net['input'][0] / seconds:.3g}/s" if seconds else net["name"]
