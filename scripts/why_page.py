"""Put measured tables and their picture into docs/why.md.

winogen lab explain --results nchw.json
winogen lab explain --layout NHWC --results nhwc.json
python scripts/why_page.py nchw.json nhwc.json [--docs FOLDER]

The tables have a row for each layer, where the command prints one for each stage, too. They replace
what stands between the two marks of the page; the picture shows the first file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from winogen_lab.bench.explain_plot import save_plot
from winogen_lab.bench.explain_tables import closing_lines, markdown
from winogen_lab.bench.profile import STAGES
from winogen_lab.bench.report import save
from winogen_lab.bench.texts import how

BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
LIMITED = STAGES[:3]  # what is left over has no limit


def main() -> None:
    """Read the documents, and write the page, the picture and what it is drawn from."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("documents", nargs="+", type=Path)
    parser.add_argument("--docs", type=Path, default=Path(__file__).parents[1] / "docs")
    options = parser.parse_args()
    documents = [json.loads(path.read_text("utf-8")) for path in options.documents]
    page = options.docs / "why.md"
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(table(document) for document in documents)
    page.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", "utf-8")
    drawn = for_the_picture(documents[0])
    images = options.docs / "images"
    images.mkdir(exist_ok=True)
    save(drawn, images / "why.json")
    save_plot(drawn, images / "why.png")


def table(document: dict) -> str:
    """Return the machine, a row for each layer, and the summary."""
    machine, *_ = markdown(document).splitlines()
    titles = ["layer", "ms", "predicted", "roofline", "reached", "algorithm", *LIMITED]
    rows = [titles, ["---", *["---:"] * 4, *["---"] * 4], *map(row, document["layers"])]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines += ["", *(f"- {line}" for line in closing_lines(document["summary"]))]
    return f"{machine}\n\n" + "\n".join(lines).replace("%", " %") + "\n"


def row(layer: dict) -> list[str]:
    """Return the cells of a layer."""
    if "error" in layer:
        return [layer["name"], "", "", "", "", layer["error"], "", "", ""]
    roof, stages = layer["roofline"], {stage["name"]: stage for stage in layer["stages"]}
    seconds = (layer["seconds"], layer["predicted_s"], roof["seconds"])
    times = [f"{1e3 * time:.3f}" for time in seconds]
    cells = [cell(stages[name]) for name in LIMITED]
    return [layer["name"], *times, f"**{roof['reached']:.0%}**", how(layer), *cells]


def cell(stage: dict) -> str:
    """Return a stage's share of the time, how much of its limit it reaches, and this limit."""
    if "limit" not in stage:
        return ""
    limit = stage["limit"]
    binds = limit["binds"]
    if binds == "traffic":
        slowest = max(limit["moves"], key=lambda move: move["seconds"])
        binds = f"{slowest['what']} {'to' if slowest['writes'] else 'from'} {slowest['level']}"
    elif binds == "arithmetic":
        binds = "peak" if stage["name"] == "multiply" else "instructions"
    return f"{stage['share']:.0%}; {stage['reached']:.0%} of {binds}"


def for_the_picture(document: dict) -> dict:
    """Return what the picture shows of a document."""
    layers = [
        {
            **{key: layer[key] for key in ("name", "input", "weight", "stride")},
            "seconds": rounded(layer["seconds"]),
            "roofline": {"reached": rounded(layer["roofline"]["reached"])},
            "stages": [
                {
                    "name": stage["name"],
                    "share": rounded(stage["share"]),
                    **(
                        {"limit": {"seconds": rounded(stage["limit"]["seconds"])}}
                        if "limit" in stage
                        else {}
                    ),
                }
                for stage in layer["stages"]
            ],
        }
        for layer in document["layers"]
        if "seconds" in layer
    ]
    return {
        "machine": {key: document["machine"][key] for key in ("cpu", "threads")},
        "settings": {"layout": document["settings"]["layout"]},
        "layers": layers,
    }


def rounded(number: float) -> float:
    """Four digits: a picture has no more."""
    return float(f"{number:.4g}")


if __name__ == "__main__":
    main()
