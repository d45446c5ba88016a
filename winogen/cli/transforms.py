"""`winogen transforms`: the committed headers, regenerated or compared with what they should be."""

from __future__ import annotations

import typer

from winogen.cli.options import App

app = App(
    help="Write or check the generated headers of the catalog.",
    epilog="Example: winogen transforms check",
    no_args_is_help=True,
)


@app.command(epilog="Example: winogen transforms write")
def write() -> None:
    """Regenerate every header of the catalog and the index; print what changed."""
    from winogen.codegen import catalog
    from winogen.progress import counting

    with counting("deriving") as step:
        changed = catalog.write(progress=step)
    for path in changed:
        typer.echo(path)
    typer.echo(f"{len(changed)} files changed" if changed else "nothing changed")


@app.command(epilog="Example: winogen transforms check")
def check() -> None:
    """Compare the headers and the index with the catalog; exit with 1 if a byte differs."""
    from winogen.codegen import catalog
    from winogen.progress import counting

    with counting("deriving") as step:
        problems = catalog.check(progress=step)
    for problem in problems:
        typer.echo(problem)
    if problems:
        typer.echo("run `winogen transforms write` to regenerate them", err=True)
        raise typer.Exit(1)
    typer.echo("every header is as generated")
