"""`winogen cache`: where kernels are kept, how much there is, and getting rid of it."""

from __future__ import annotations

import typer

EXAMPLE = "Example: WINOGEN_CACHE_LIMIT=200M winogen cache --prune"


def cache(
    prune: bool = typer.Option(
        False, "--prune", help="Remove what was not used for longest, down to the limit."
    ),
    clear: bool = typer.Option(
        False, "--clear", help="Remove all but what was measured about this machine."
    ),
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
    if (prune or clear) and root.is_dir():
        # Not what is being built, which is no older than a build takes.
        removed = pruning.prune(root, -1 if clear else limit, recent=0)
        typer.echo(f"{'removed':<10} {removed:>14,} bytes")
    items = pruning.census(root)
    size = sum(item.size for item in items)
    typer.echo(f"{'folder':<10} {root}")
    typer.echo(f"{'size':<10} {size:>14,} bytes of at most {limit:,}")
    where = wisdom.path()
    if where is not None and where.is_file():
        count = len(wisdom.read(where)[0])
        typer.echo(f"{'wisdom':<10} {where.stat().st_size:>14,} bytes in {count:,} ({where})")
    typer.echo(f"{'machine':<10} {machine.described(root)}")
    for kind in pruning.KINDS:
        sizes = [item.size for item in items if item.kind == kind]
        typer.echo(f"{kind:<10} {sum(sizes):>14,} bytes in {len(sizes):,}")
