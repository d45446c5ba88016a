"""Put measured tables and their picture into docs/why.md.

winogen lab explain --results nchw.json
winogen lab explain --layout NHWC --results nhwc.json
python scripts/why_page.py nchw.json nhwc.json [--docs FOLDER]

The tables replace what stands between the two marks of the page; the picture shows the first file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from winogen_lab.bench.explain_plot import save_plot
from winogen_lab.bench.explain_tables import markdown
from winogen_lab.bench.report import save

BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


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
    tables = "\n".join(markdown(document) for document in documents)
    page.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", "utf-8")
    drawn = for_the_picture(documents[0])
    images = options.docs / "images"
    images.mkdir(exist_ok=True)
    save(drawn, images / "why.json")
    save_plot(drawn, images / "why.png")


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
