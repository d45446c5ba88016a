"""`winogen lab temporaries`: bytes that loop nests need beside the patch matrix of im2col."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from winogen.cli.options import AS_JSON, ISA, LAYERS, ONLY, RESULTS, give

if TYPE_CHECKING:
    from winogen_lab.loops.temporaries import Temporaries

EXAMPLE = "Example: winogen lab temporaries thesis27 --layout NHWC"


def temporaries(
    layers: str = LAYERS,
    only: str = ONLY,
    layout: str = typer.Option("NCHW", metavar="NCHW|NHWC", help="How arrays lie."),
    isa: str = ISA,
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
) -> None:
    """Print the temporary bytes of loop nests beside those of im2col: Keane's Tables 4.1 to 4.3.

    Of the usual nest of a layer, of the usual ones of all micro-kernels, and of a nest that copies
    nothing. Packed filters are not counted, nor the arrays.
    """
    from winogen.cli.outputs import check_outputs
    from winogen.conv import arguments
    from winogen.records import TARGETS
    from winogen.toolchain import host_target
    from winogen.tuning.chosen import chosen_layers
    from winogen_lab.loops import temporaries as counts

    check_outputs(results, None)
    arguments.choice("layout", layout, ("NCHW", "NHWC"))
    target = host_target() if isa is None else TARGETS[arguments.choice("isa", isa, tuple(TARGETS))]
    rows = list(counts.temporaries(chosen_layers(layers, only), layout, target))
    document = {"kind": "temporaries", "layout": layout, "isa": target.name,
                "layers": [row.to_dict() for row in rows]}  # fmt: skip
    give(document, results, as_json, lambda: _show(rows))


def _show(rows: list[Temporaries]) -> None:
    from winogen.columns import aligned

    lines = [["layer", "im2col", "usual nest", "%", "least", "most", "no copies"]]
    for row in rows:
        share = f"{100 * row.usual / row.im2col:.2f}"
        sizes = (f"{size:,}" for size in (row.least, row.most, row.bare))
        lines.append([row.layer, f"{row.im2col:,}", f"{row.usual:,}", share, *sizes])
    typer.echo("\n".join(aligned(lines, left=1)))
