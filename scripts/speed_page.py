"""Put the speed of whole networks wherever it is told: three pages and their picture.

winogen bench --nets --results nets.json
python scripts/speed_page.py nets.json --date "23 November 2026" [--root FOLDER]
python scripts/speed_page.py [--root FOLDER]        # the figures that are kept, once more

Writes docs/images/speed.json and docs/images/speed.png. A sentence below the picture in README.md,
and tables in docs/faster-models.md and docs/benchmark.md, replace what stands between the two marks
of each page.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from winogen_lab.nets import report
from winogen_lab.nets.plot import listed, rivals, save_plot
from winogen_lab.peers import OUR_NETS

BEGIN, END = "<!-- speed: begin -->\n", "<!-- speed: end -->\n"


def main() -> None:
    """Read the document, and write pages, picture and its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "document", type=Path, nargs="?", help="default: the figures of the picture"
    )
    parser.add_argument("--date", help="of the measurement; needed with a document")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()
    images = options.root / "docs" / "images"
    document = report.load(options.document or images / "speed.json")
    if options.document and not options.date:
        parser.error("--date: got none; allowed: the day of the measurement")
    document |= {"date": options.date or document["date"]}
    for part in (document, document["summary"], *document["nets"]):  # other versions of winogen
        part.pop("beside", None)
    report.save(document, images / "speed.json")
    save_plot(document, images / "speed.png")
    put(options.root / "README.md", caption(document))
    put(options.root / "docs" / "faster-models.md", gains(document))
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
        "*How many times as fast whole networks run by winogen as by the fastest of "
        f"{listed(rivals(document))}: {dense['ratio']:.2f} times on the {dense['nets']} networks "
        f"of 3×3 convolutions (geometric mean). {setting(document)}*"
    )
    return wrapped(text) + "\n"


# Networks by the share of their products in 3×3 layers of stride 1, and what such layers are.
KINDS = (
    (0.9, "3×3 layers of stride 1, nearly all", "super-resolution, denoising, segmentation, VGG"),
    (0.2, "3×3 layers, some", "ResNet, Inception, DenseNet"),
    (0.0, "1×1 and depthwise layers", "MobileNet"),
)


def gains(document: dict) -> str:
    """Return the table of docs/faster-models.md: which networks gain, and how much."""
    rows = [["multiplications are in", "networks", "measured"], ["---"] * 3]
    nets = [net for net in document["nets"] if net["ratio"]]
    most = float("inf")
    for least, layers, examples in KINDS:
        of_kind = [net for net in nets if least <= net["share_3x3"] < most]
        most = least
        if of_kind:
            told = ", ".join(f"{net['name']} {net['ratio']:.2f}" for net in of_kind)
            rows.append([layers, examples, told])
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    text = (
        f"*Measured*: how many times as fast as by the fastest of {listed(rivals(document))}. "
        f"Layers that a framework computes faster stay with it. {setting(document)}"
    )
    return f"\n{lines}\n\n{wrapped(text)}\n\n"


def setting(document: dict) -> str:
    """Return where, when and with which versions the networks were measured."""
    machine, versions = document["machine"], document["contestants"]
    peers = ", ".join(f"{name} {versions[name]['version']}" for name in rivals(document))
    threads = "One thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    return wrapped(
        f"{threads} of an {machine['cpu']} with {machine['cores']} cores and "
        f"{machine['isa'].upper()}, {document['date']}; {peers}; medians of "
        f"{document['settings']['rounds']} turns."
    )


def table(document: dict) -> str:
    """Return the nets as a table in Markdown: milliseconds of everybody, and the ratio."""
    names = rivals(document)
    names += [name for name in OUR_NETS if name in document["contestants"]]
    rows = [["net", "3×3", *names, "ratio"], ["---"] * (len(names) + 3)]
    for net in document["nets"]:
        seconds = [net["contestants"].get(name, {}).get("median_s") for name in names]
        times = [f"{1e3 * s:.3g}" if s else "–" for s in seconds]
        ratio = f"{net['ratio']:.2f}" if net["ratio"] else "–"
        rows.append([net["name"], f"{net['share_3x3']:.0%}".replace("%", " %"), *times, ratio])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def wrapped(text: str) -> str:
    """Return text in lines of the pages' width."""
    return textwrap.fill(text, 116, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    main()
