"""`winogen lab explain`: why layers take as long as they do, stage by stage beside its limits."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.bench import Layout, check_outputs, print_wide
from winogen.cli.contestants import named, tile_of, tolerance_of

EXAMPLE = "Example: winogen lab explain thesis27 --only 56x56 --plot why.png"


def explain(
    layers: str = typer.Argument(
        "thesis27", metavar="SET|FILE", help="A layer set as for bench, or a JSON file of layers."
    ),
    only: str = typer.Option(None, metavar="TEXT", help="Only layers with this in their names."),
    batch: int = typer.Option(None, min=1, help="Images per call, instead of the set's."),
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of a call."),
    layout: Layout = typer.Option(Layout.NCHW, help="Of input and output."),
    algorithm: str = typer.Option(
        "auto", metavar="NAME", help="auto, direct, im2col, winograd2d, ..."
    ),
    tile: str = typer.Option(None, metavar="M|MH,MW", help="Outputs of one Winograd tile."),
    tolerance: float = typer.Option(None, help="Error that suffices, as for bench: 1e-5."),
    markdown: bool = typer.Option(False, "--markdown", help="Print the table as Markdown."),
    json: Path = typer.Option(None, help="Write the results here."),
    plot: Path = typer.Option(None, help="Draw the stages and their limits (.png, .svg, .pdf)."),
) -> None:
    """Show what binds each layer, and how far each of its stages is from its own limits.

    Every layer runs with a clock in its kernel, alone: nothing is compared with other libraries.
    """
    from winogen.cli.progress import telling
    from winogen.lab.bench import explain as why
    from winogen.lab.bench import explain_tables, report
    from winogen.lab.bench.own import ALGORITHMS
    from winogen.tuning.layers import chosen_layers

    check_outputs(json, plot)
    settings = why.Settings(
        threads=threads,
        layout=layout.value,
        algorithm=named("algorithm", algorithm, ("auto", *ALGORITHMS)),
        tile=tile_of(tile, algorithm),
        tolerance=tolerance_of(tolerance),
    )
    chosen = chosen_layers(layers, only)
    if batch is not None:
        chosen = [layer.with_batch(batch) for layer in chosen]
    with telling("measuring") as say:
        document = why.explain(chosen, settings, say)
    if json is not None:
        report.save(document, json)
    if markdown:
        typer.echo(explain_tables.markdown(document), nl=False)
    else:
        print_wide(explain_tables.render(document))
    if plot is not None:
        from winogen.lab.bench.explain_plot import save_plot

        save_plot(document, plot)
