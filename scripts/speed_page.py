"""Put the speed of whole networks into README.md, docs/benchmark.md and their picture.

winogen bench --nets --json nets.json
python scripts/speed_page.py nets.json --date "23 November 2026" [--root FOLDER]

Writes docs/images/speed.json and docs/images/speed.png. A sentence below the picture in README.md
and a table in docs/benchmark.md replace what stands between the two marks of each page.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from winogen.lab.nets import report
from winogen.lab.nets.plot import save_plot
from winogen.lab.peers import OUR_NETS

BEGIN, END = "<!-- speed: begin -->\n", "<!-- speed: end -->\n"


def main() -> None:
    """Read the document, and write pages, picture and its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("document", type=Path)
    parser.add_argument("--date", required=True, help="of the measurement")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()
    document = {**report.load(options.document), "date": options.date}
    images = options.root / "docs" / "images"
    report.save(document, images / "speed.json")
    save_plot(document, images / "speed.png")
    put(options.root / "README.md", caption(document))
    put(options.root / "docs" / "benchmark.md", f"\n{setting(document)}\n\n{table(document)}\n\n")


def put(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}{text}{END}{after}", "utf-8")


def caption(document: dict) -> str:
    """Return what README.md says below the picture."""
    dense = document["summary"]["dense"]
    text = (
        f"*Whole networks, images per second over torch's. {setting(document)} "
        f"On the {dense['nets']} networks of 3×3 convolutions, the fastest rival takes "
        f"{dense['ratio']:.2f} times as long as the faster of winogen's two (geometric mean). "
        "For networks of 1×1 and "
        "depthwise layers, as ResNet-50 and MobileNet-v2, winogen has no better algorithm than "
        "others.*"
    )
    return wrapped(text) + "\n"


def setting(document: dict) -> str:
    """Return where, when and with which versions the networks were measured."""
    machine, versions = document["machine"], document["contestants"]
    rivals = ", ".join(f"{name} {versions[name]['version']}" for name in present(document)[0])
    threads = "One thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    return wrapped(
        f"{threads} of an {machine['cpu']} with {machine['cores']} cores and "
        f"{machine['isa'].upper()}, {document['date']}; {rivals}; medians of "
        f"{document['settings']['rounds']} turns."
    )


def table(document: dict) -> str:
    """Return the nets as a table in Markdown: milliseconds of everybody, and the ratio."""
    names = [name for side in present(document) for name in side]
    rows = [["net", "3×3", *names, "ratio"], ["---"] * (len(names) + 3)]
    for net in document["nets"]:
        seconds = [net["contestants"].get(name, {}).get("median_s") for name in names]
        times = [f"{1e3 * s:.3g}" if s else "–" for s in seconds]
        ratio = f"{net['ratio']:.2f}" if net["ratio"] else "–"
        rows.append([net["name"], f"{net['share_3x3']:.0%}".replace("%", " %"), *times, ratio])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def present(document: dict) -> tuple[list[str], list[str]]:
    """Return the rivals that took part, and ours."""
    names = [name for name, row in document["contestants"].items() if "absent" not in row]
    return [n for n in names if n not in OUR_NETS], [n for n in names if n in OUR_NETS]


def wrapped(text: str) -> str:
    """Return text in lines of the pages' width."""
    return textwrap.fill(text, 116, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    main()
