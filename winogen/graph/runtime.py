"""The C that runs segments, in ``csrc/runtime/``: declared once, in headers for cffi, too."""

from __future__ import annotations

from winogen import resources
from winogen.records import Target
from winogen.toolchain import Library, load


def text(name: str) -> str:
    """Return one of its files."""
    return (resources.folder("csrc") / "runtime" / name).read_text("utf-8")


def library(name: str, target: Target, *, real: str = "") -> Library:
    """Return the compiled ``<name>.c``, with its header before it; raises BuildError.

    ``real``: the C type of numbers, for those that need one.
    """
    header = text(f"{name}.h")
    begin = "#include <stdint.h>\n" + (f"#define real {real}\n" if real else "")
    source = f"{begin}{header}{text(f'{name}.c')}"
    return load(source, header, target, name=f"{name}_{real}" if real else name)
