"""`winogen transforms`: the committed headers, regenerated or compared with what they should be."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.options import App

app = App(
    help="Write or check the generated headers of the catalog.",
    epilog="Example: winogen transforms check",
    no_args_is_help=True,
)

_FOLDER = typer.Option(
    None, "--dir", help="Folder with catalog.toml and the headers (default: the one that ships)."
)


@app.command(epilog="Example: winogen transforms write --dir transforms")
def write(dir: Path = _FOLDER) -> None:
    """Regenerate every header of the catalog and the index; print what changed."""
    from winogen.codegen import catalog
    from winogen.progress import counting

    with counting("deriving") as step:
        changed = catalog.write(dir, step)
    for path in changed:
        typer.echo(path)
    typer.echo(f"{len(changed)} files changed" if changed else "nothing changed")


@app.command(epilog="Example: winogen transforms check --dir transforms")
def check(dir: Path = _FOLDER) -> None:
    """Compare the headers and the index with the catalog; exit with 1 if a byte differs."""
    from winogen.codegen import catalog
    from winogen.progress import counting

    with counting("deriving") as step:
        problems = catalog.check(dir, step)
    for problem in problems:
        typer.echo(problem)
    if problems:
        typer.echo("run `winogen transforms write` to regenerate them", err=True)
        raise typer.Exit(1)
    typer.echo("every header is as generated")
