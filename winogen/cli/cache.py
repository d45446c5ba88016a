"""`winogen cache`: where kernels are kept, how much there is, and getting rid of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import typer

EXAMPLE = "Example: WINOGEN_CACHE_LIMIT=200M winogen cache --prune"


def cache(
    prune: bool = typer.Option(
        False, "--prune", help="Remove what was not used for longest, down to the limit."
    ),
    clear: bool = typer.Option(
        False, "--clear", help="Remove all but what was measured about this machine."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of lines."),
) -> None:
    """Show the folder of compiled kernels: its size, its limit and what is in it.

    With the record of this machine, which the planner plans for.
    """
    from winogen.conv import wisdom
    from winogen.errors import InvalidValue
    from winogen.toolchain import cache_dir, machine, pruning, trust

    if prune and clear:
        raise InvalidValue("--prune: got --clear as well; allowed: one of them")
    root, limit = cache_dir(), pruning.limit()
    trust.check_folder(root)
    found: dict[str, Any] = {"folder": str(root), "limit": limit}
    if (prune or clear) and root.is_dir():
        # Not what is being built, which is no older than a build takes.
        found["removed"] = pruning.prune(root, -1 if clear else limit, recent=0)
    items = pruning.census(root)
    found["size"] = sum(item.size for item in items)
    where = wisdom.path()
    if where is not None and where.is_file():
        count = len(wisdom.read(where)[0])
        found["wisdom"] = {"file": str(where), "size": where.stat().st_size, "count": count}
    found["machine"] = machine.described(root)
    for kind in pruning.KINDS:
        sizes = [item.size for item in items if item.kind == kind]
        found[kind] = {"size": sum(sizes), "count": len(sizes)}
    typer.echo(json.dumps(found, indent=1) if as_json else _lines(found, pruning.KINDS))


def _lines(found: dict[str, Any], kinds: Iterable[str]) -> str:
    """What was found, one line for each kind of it."""
    lines = {"folder": found["folder"]}
    lines["size"] = f"{found['size']:>14,} bytes of at most {found['limit']:,}"
    if "removed" in found:
        lines = {"removed": f"{found['removed']:>14,} bytes", **lines}
    for kind in ("wisdom", *kinds):
        if kind in found:
            one = found[kind]
            lines[kind] = f"{one['size']:>14,} bytes in {one['count']:,}"
        if kind == "wisdom":
            if kind in found:
                lines[kind] += f" ({found[kind]['file']})"
            lines["machine"] = found["machine"]
    return "\n".join(f"{name:<10} {text}" for name, text in lines.items())
