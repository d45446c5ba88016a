"""The report on whole nets as a picture: how many times as fast as torch everybody is."""

from __future__ import annotations

from pathlib import Path

from winogen.lab.bench.plot import COLORS, OUR_COLOR, new_figure, title_of
from winogen.lab.nets.contestants import OURS

_SECOND = "#f28e8e"  # the other one of ours


def save_plot(document: dict, path: str | Path) -> None:
    """Draw images per second over those of torch, or of the first who ran; by ``path``'s suffix."""
    nets = document["nets"]
    names = [name for name, row in document["contestants"].items() if "absent" not in row]
    names.sort(key=lambda name: name in OURS)
    base = next((name for name in names if name not in OURS), names[0])
    width = 0.84 / len(names)
    figure, axes = new_figure(max(8.0, 2.0 + 1.1 * len(nets)))
    ours = iter((OUR_COLOR, _SECOND))
    for number, name in enumerate(names):
        heights = [_speed(net, name, base) for net in nets]
        places = [at + (number - (len(names) - 1) / 2) * width for at in range(len(nets))]
        color = next(ours) if name in OURS else COLORS[number % len(COLORS)]
        axes.bar(places, heights, width, label=name, color=color)
    axes.axhline(1, color="black", linewidth=1, linestyle="--")
    axes.set_xticks(range(len(nets)), [_label(net, base) for net in nets], fontsize=8)
    axes.set_xlim(-0.6, len(nets) - 0.4)
    axes.set_ylabel(f"images per second over {base}'s")
    axes.set_title(title_of(document), loc="left", fontsize=10)
    figure.legend(loc="outside lower center", ncols=min(len(names), 5), frameon=False, fontsize=8.5)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _speed(net: dict, name: str, base: str) -> float:
    rows = net["contestants"]
    seconds, reference = (rows.get(n, {}).get("median_s") for n in (name, base))
    return reference / seconds if seconds and reference else 0.0


def _label(net: dict, base: str) -> str:
    seconds = net["contestants"].get(base, {}).get("median_s")
    return f"{net['name']}\n{net['input'][0] / seconds:.3g}/s" if seconds else net["name"]
