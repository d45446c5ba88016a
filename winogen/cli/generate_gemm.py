"""`winogen generate-gemm`: one product of matrices as a pair of C files that need nothing else."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.options import ACTIVATION_WORDS, parsed_activation

EXAMPLE = "Example: winogen generate-gemm --m 3136 --n 16 --k 64 --isa neon -o firmware"


def generate_gemm(
    m: int = typer.Option(help="Rows of a and of the output."),
    n: int = typer.Option(help="Columns of b and of the output."),
    k: int = typer.Option(help="Columns of a, rows of b."),
    output: Path = typer.Option(..., "--output", "-o", metavar="DIR", help="Folder to write to."),
    isa: str = typer.Option(
        None,
        metavar="ISA",
        help="avx512, avx2, sse2, neon or generic (default: what this CPU has).",
    ),
    dtype: str = typer.Option(
        None, metavar="float32|float64", help="float32 or float64 (default: float32)."
    ),
    activation: str = typer.Option(
        None,
        metavar="NAME[:A[:B]]",
        help=f"{ACTIVATION_WORDS}.",
    ),
    transpose_a: bool = typer.Option(False, "--transpose-a", help="a lies in memory as k x m."),
    transpose_b: bool = typer.Option(False, "--transpose-b", help="b lies in memory as n x k."),
    threads: int = typer.Option(None, min=1, help="Threads to cut the work for (default: 1)."),
    name: str = typer.Option(
        None, metavar="NAME", help="Prefix of files and functions (default: from sizes)."
    ),
) -> None:
    """Write a product of matrices as a .c and a .h that compile with `cc -O3` and nothing else."""
    # By identity: 0 is a size, if a wrong one.
    given = {key: one for key, one in locals().items() if one is not None and one is not False}
    del given["output"]  # what is written does not depend on where
    from winogen.codegen.standalone import check_name
    from winogen.conv.standalone import command_line
    from winogen.conv.standalone_gemm import standalone_gemm

    command = command_line(given, "generate-gemm")
    if activation is not None:
        given["activation"] = parsed_activation(activation)
    if name is not None:
        check_name(name)
    files = standalone_gemm(**given, command=command)
    output.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (output / file).write_text(text)
        typer.echo(output / file)
