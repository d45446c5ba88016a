"""The C that runs segments, in ``csrc/runtime/``: declared once, in headers for cffi, too."""

from __future__ import annotations

from winogen import resources
from winogen.records import Target
from winogen.toolchain import Library, load


def library(name: str, target: Target, *, real: str = "") -> Library:
    """Return the compiled ``<name>.c``, with its header in it; raises BuildError.

    ``real``: the C type of numbers, for those that need one.
    """
    folder = resources.folder("csrc") / "runtime"
    source, header = ((folder / f"{name}.{end}").read_text("utf-8") for end in ("c", "h"))
    text = source.replace(f'#include "{name}.h"\n', header)
    if real:
        text = f"#define real {real}\n{text}"
    return load(text, header, target, name=f"{name}_{real}" if real else name)
