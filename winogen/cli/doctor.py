"""`winogen doctor`: what is there of all that winogen needs, and what to do about the rest."""

from __future__ import annotations

import typer

EXAMPLE = "Example: winogen doctor --json"


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of lines."),
) -> None:
    """Look at all that winogen needs here, try it, and say what to do where something is missing.

    Marks: ! could be better, X stops winogen (and exit status 1), - is an extra that is not
    installed. Names and homes of users are left out: paste it as it is.
    """
    import json
    from dataclasses import asdict

    from winogen.cli.findings import STATES, findings
    from winogen.progress import working

    with working("trying a layer, and the packages that are installed"):
        found = [*findings()]
    stops = any(one.state == "wrong" for one in found)
    if as_json:
        document = {"stops": stops, "findings": [asdict(one) for one in found]}
        typer.echo(json.dumps(document, indent=1))
    else:
        for one in found:
            typer.echo(f"{STATES[one.state]} {one.topic:<13} {one.text}")
            if one.cure:
                typer.echo(f"{'':<16}→ {one.cure}")
        typer.echo("X: something stops winogen" if stops else "nothing stops winogen")
    if stops:
        raise typer.Exit(1)
