"""`winogen bundle`: a model with its kernels, for an image without a compiler."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.onnx import INPUT, OUTPUT_TOLERANCE, TOLERANCE, shapes_of

EXAMPLE = "Example: winogen bundle model.onnx --input x=1,3,224,224 -o served"


def bundle(
    model: Path = typer.Argument(
        metavar="MODEL",
        help="An ONNX file, optimized before or not, or what torch.export.save wrote (.pt2).",
    ),
    output: Path = typer.Option(..., "--output", "-o", metavar="DIR", help="Folder to write."),
    tolerance: float = TOLERANCE,
    output_tolerance: float = OUTPUT_TOLERANCE,
    threads: int = typer.Option(
        None, min=1, max=1024, help="Threads of a call (default: onnxruntime's or torch's)."
    ),
    input: list[str] = INPUT,
) -> None:
    """Write a folder with a model and its kernels, which runs where no compiler is.

    There, set WINOGEN_PREBUILT to the folder, and run its model.onnx, or torch.load its model.pt,
    as on any machine. The folder was tried so before it is there.
    """
    from importlib import import_module

    from winogen.progress import working

    shapes = shapes_of(input)
    kind = import_module(f"winogen.{'torch' if model.suffix == '.pt2' else 'onnx'}.bundling")
    with working("bundling"):
        errors = {"tolerance": tolerance, "output_tolerance": output_tolerance}
        folder = kind.bundle(model, output, input_shapes=shapes, threads=threads, **errors)
    size = sum(path.stat().st_size for path in folder.iterdir())
    typer.echo(f"{folder}: {size >> 10:,} kB, without a compiler the same result")
    typer.echo(f"run it by WINOGEN_PREBUILT={folder} and {kind.MODEL} there")
