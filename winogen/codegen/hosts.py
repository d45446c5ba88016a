"""Whose program calls what is generated: a register with a row for each host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from winogen.errors import Unsupported

KINDS = "convolution", "transposed convolution", "convolution of bytes"
PLAIN = KINDS[:1]
# What its own language has a type for.
_TYPED = ("float32", "float64", "float16", "bfloat16", "int8")


@dataclass(frozen=True)
class Host:
    """A program, or a library of one, that layers are written for."""

    name: str
    means: str  # what is written, in the help of `--host`
    render: str  # module:function, which takes and returns what `render_pair` does
    # What it holds arrays of; nothing: everything.
    dtypes: Sequence[str] = ()
    layouts: Sequence[str] = ()
    in_parts: bool = False  # whether its own threads run parts, which do not wait for each other
    kinds: Sequence[str] = PLAIN  # of layers
    carries: bool = False  # whether its files may carry weights

    def check(
        self, dtype: str, layout: str, kind: str = "convolution", carries: bool = False
    ) -> None:
        """Raise Unsupported for a layer that the host does not have, or whose arrays it has not.

        ``kind``: one of `KINDS`. ``carries``: whether files are to carry weights.
        """
        if carries and not self.carries:
            able = ", ".join(one.name for one in HOSTS.values() if one.carries)
            raise Unsupported(f"weights: got some with --host {self.name}; allowed: --host {able}")
        if kind not in self.kinds:
            able = ", ".join(one.name for one in HOSTS.values() if kind in one.kinds)
            raise Unsupported(f"host: got {self.name!r} for a {kind}; allowed: {able}")
        taken = ("dtype", dtype, self.dtypes), ("layout", layout, self.layouts)
        for argument, value, allowed in taken:
            if allowed and value not in allowed:
                raise Unsupported(
                    f"{argument}: got {value!r}; allowed: {', '.join(allowed)}, "
                    f"as --host {self.name} has it"
                )

    def files(self, *given: Any, constants: Sequence[Any] = (), **named: Any) -> dict[str, str]:
        """Return the files of a layer, by name; takes what `render_pair` takes."""
        if self.carries:
            named["constants"] = constants
        module, function = self.render.split(":")
        files: dict[str, str] = getattr(import_module(module), function)(*given, **named)
        return files


HOSTS = {
    host.name: host
    for host in (
        Host(
            "c",
            "anyone's C",
            "winogen.codegen.standalone:render_pair",
            kinds=KINDS,
            carries=True,
        ),
        Host(
            "c++",
            "spans and parts in C++20",
            "winogen.codegen.cpp:render_cpp",
            dtypes=_TYPED,
            in_parts=True,
            kinds=KINDS,
        ),
        Host(
            "rust",
            "a crate of Rust with a safe wrapper and a test",
            "winogen.codegen.rust:render_crate",
            dtypes=_TYPED,
            in_parts=True,
            kinds=KINDS,
        ),
        Host(
            "ggml",
            "a node of a graph of ggml",
            "winogen.codegen.ggml:render_node",
            dtypes=("float32", "float16", "bfloat16"),
            layouts=("NCHW",),
            in_parts=True,
        ),
    )
}
