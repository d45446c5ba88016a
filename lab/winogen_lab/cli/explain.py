"""`winogen lab explain`: why layers take as long as they do, stage by stage beside its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from winogen.cli.convolution import takes
from winogen.cli.options import AS_JSON, LAYERS, ONLY, RESULTS, give
from winogen.cli.outputs import check_outputs, print_wide
from winogen_lab.cli.contestants import ours

EXAMPLE = "Example: winogen lab explain thesis27 --only 56x56 --plot why.png"


@takes("layout algorithm tile tolerance")
def explain(
    layers: str = LAYERS,
    only: str = ONLY,
    batch: int = typer.Option(
        None, min=1, max=1_000_000, help="Images per call, instead of the set's."
    ),
    dtype: str = typer.Option("float32", metavar="float32|int8", help="Of the arrays."),
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of a call."),
    markdown: bool = typer.Option(False, "--markdown", help="Print the table as Markdown."),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
    plot: Path = typer.Option(None, help="Draw the stages and their limits (.png, .svg, .pdf)."),
    **options: Any,
) -> None:
    """Show what binds each layer, and how far each of its stages is from its own limits.

    Every layer runs with a clock in its kernel, alone: nothing is compared with other libraries.
    """
    from winogen.conv import arguments
    from winogen.progress import telling
    from winogen.tuning.chosen import chosen_layers
    from winogen_lab.bench import explain as why
    from winogen_lab.bench import explain_tables

    check_outputs(results, plot)
    chosen = chosen_layers(layers, only)
    arguments.choice("dtype", dtype, ("float32", "int8"))
    if dtype == "int8":
        arguments.choice(
            "algorithm", options.get("algorithm", "auto"), ("auto", "direct", "im2col")
        )
    settings = why.Settings(threads=threads, dtype=dtype, **ours(chosen, dtype, **options).options)
    if batch is not None:
        chosen = [layer.with_batch(batch) for layer in chosen]
    with telling("measuring") as say:
        document = why.explain(chosen, settings, say)

    def show() -> None:
        if markdown:
            typer.echo(explain_tables.markdown(document), nl=False)
        else:
            print_wide(explain_tables.render(document))

    give(document, results, as_json, show)
    if plot is not None:
        from winogen_lab.bench.explain_plot import save_plot

        save_plot(document, plot)
