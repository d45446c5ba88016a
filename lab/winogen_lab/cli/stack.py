"""`winogen lab stack`: which inner loops of kernels keep vectors on the stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from winogen.cli.convolution import takes
from winogen.cli.options import AS_JSON, LAYERS, ONLY, RESULTS, give
from winogen.cli.outputs import check_outputs
from winogen_lab.cli.contestants import ours

EXAMPLE = "Example: winogen lab stack thesis27 --only 56x56 --algorithm mcmr --tile 4,4"


@takes("layout algorithm tile tolerance")
def stack(
    layers: str = LAYERS,
    only: str = ONLY,
    all_loops: bool = typer.Option(False, "--all", help="Loops without such accesses, too."),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
    **options: Any,
) -> None:
    """List the inner loops of the layers' kernels that load vectors from the stack or store them.

    It reads what objdump or llvm-objdump says of the compiled kernels. WINOGEN_ISA chooses the
    instruction set.
    """
    from winogen.tuning.chosen import chosen_layers
    from winogen_lab.bench.stack import of_layers

    check_outputs(results, None)
    chosen = chosen_layers(layers, only)
    asked = dict(ours(chosen, **options).options)
    kernels = of_layers(chosen, asked.pop("layout", "NCHW"), **asked)
    give({"kernels": kernels}, results, as_json, lambda: _show(kernels, all_loops))


def _show(kernels: list[dict[str, Any]], all_loops: bool) -> None:
    """Print a table for each kernel."""
    from rich.console import Console

    from winogen.tables import plain_table

    for kernel in kernels:
        rows = [row for row in kernel["loops"] if all_loops or row["loads"] + row["stores"]]
        table = plain_table(f"{kernel['kernel']}: {', '.join(kernel['layers'])}", "")
        for number, title in enumerate(
            ("loop in", "instructions", "arithmetic", "loads", "stores")
        ):
            table.add_column(title, justify="right" if number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*map(str, row.values()))
        Console().print(table if rows else f"{kernel['kernel']}: no vectors on the stack")
