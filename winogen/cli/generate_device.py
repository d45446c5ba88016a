"""`winogen generate --backend opencl|cuda|wgsl`: a layer as kernels, and programs that run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from winogen.cli.convolution import read, shapes, transposed_options
from winogen.errors import InvalidValue

# Options of layers that mean something there.
_TAKEN = (
    "stride", "padding", "dilation", "groups", "layout", "activation", "algorithm", "padding_mode",
    "tile", "points", "moduli", "order", "workspace_limit", "tolerance", "dtype", "transposed",
    "output_padding",
)  # fmt: skip


def generate_device(output: Path, backend: str, name: str | None, asked: dict[str, Any]) -> None:
    """Write the files; ``asked``: what the user gave, by the names of options, as texts.

    Raises InvalidValue and Unsupported.
    """
    from winogen.codegen.standalone import check_name
    from winogen.conv.standalone import command_line
    from winogen.files import check_folder
    from winogen.opencl.standalone import standalone
    from winogen.progress import working

    for other, value in asked.items():
        if other not in ("input", "weight", *_TAKEN):
            raise InvalidValue(
                f"--{other.replace('_', '-')}: got {value!r}; allowed: only without "
                f"--backend {backend}"
            )
    for what in ("input", "weight"):
        if what not in asked:
            raise InvalidValue(f"{what}: got none; allowed: --input and --weight of a layer")
    if name is not None:
        check_name(name)
    own = ("dtype", "transposed", "output_padding")
    options = {key: asked[key] for key in _TAKEN if key in asked and key not in own}
    transposed = bool(asked.get("transposed"))
    more = transposed_options(transposed, asked.get("output_padding"), options)
    sizes, layout = shapes(asked["input"], asked["weight"], options)
    words = {"backend": backend, **asked, "name": name}
    taken: dict[str, Any] = {**read(options), "layout": layout, "transposed": transposed, **more}
    if "dtype" in asked:
        taken["dtype"] = asked["dtype"]
    check_folder(output)
    with working("choosing and writing kernels"):
        files = standalone(*sizes, backend=backend, name=name, command=command_line(words), **taken)
    output.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (output / file).write_bytes(data)
        typer.echo(output / file)
