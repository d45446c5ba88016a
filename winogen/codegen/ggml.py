"""A layer as a node of a graph of ggml: one C file, and a header that declares what it has.

ggml calls the function of a `ggml_custom_4d` node on each of its threads, as `(dst, ith, nth,
userdata)`, and waits for all of them behind it. So a layer runs on ggml's threads, in parts that
wait for none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from winogen.codegen.both_languages import both_languages
from winogen.codegen.calls import used_only
from winogen.codegen.compact import compact
from winogen.codegen.compiling import spelled_target
from winogen.codegen.interface import Interface
from winogen.codegen.render import render
from winogen.codegen.standalone import (
    check_free,
    check_name,
    comment,
    initialisers,
    prototype,
    sliced,
)
from winogen.codegen.templates import Context
from winogen.errors import InvalidValue
from winogen.kernels.kind import fields_for, wishes_of
from winogen.kernels.spec import KernelSpec

# By the type of arrays, as ggml calls it.
TYPES = {"float32": "GGML_TYPE_F32", "float16": "GGML_TYPE_F16", "bfloat16": "GGML_TYPE_BF16"}

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TENSOR = "struct ggml_tensor *"
_BELOW = (
    "{0}.h says how to use it. The kernel below serves any sizes; those of the layer follow it."
)
_LICENCE = ("SPDX-License-Identifier: MIT", "Copyright (c) 2026 winogen contributors")
_COMPILE = (
    "Compile {0}.c as C11 or C++17 with -O3 and the include path of ggml, beside the files that "
    "use it."
)
# What its functions do, by the end of their names.
_MEANS = {
    "fits": "Whether the layer is for such an input: {input} numbers of {type}.",
    "packed": "A tensor for the packed weights, {bytes:,} bytes, in the memory of `ctx`. Any "
    "number of graphs may read it. Once it is packed, its data must stay where it lies.",
    "pack": "Packs the weights once they are loaded: {weight} numbers of F32, F16 or BF16, which "
    "are not read again.",
    "workspace_bytes": "Bytes of the node's workspace for so many threads. The workspace is a node "
    "before it, so that allocators of graphs give its memory to others afterwards.",
    "": "The layer as a node of {output} numbers; bias may be NULL. Its parts run on ggml's "
    "threads, up to n_threads of them, and the result does not depend on how many these are. It "
    "takes two tensors of `ctx`, one more where the input is not contiguous.",
}


@dataclass(frozen=True)
class Source:
    """A tensor that a node reads besides its input, the packed weights and the workspace."""

    name: str
    test: str  # what it must be, in C
    field: str  # of the kernel's call, from the node's sources


@dataclass(frozen=True, kw_only=True)
class NodeContext(Context, templates=("hosts/ggml.c.j2", "hosts/ggml.h.j2")):
    """What the templates of a node know; comments are lists of lines."""

    name: str
    guard: str
    large_pages: bool  # whether packed filters may lie in some
    kernel: str
    command: Sequence[str]
    about: Sequence[str]
    below: Sequence[str]
    compile: Sequence[str]
    means: Mapping[str, Sequence[str]]  # of each function, by the end of its name
    layer: str  # the initialisers of the layer's struct
    shapes: Mapping[str, Sequence[int]]  # of arrays, as ggml counts axes
    array_type: str  # of input and output, as ggml calls it
    number: str  # the same in C
    sources: Sequence[Source]
    maker: str  # the head of the function that makes a node, without a semicolon
    usage: Sequence[str]  # its call, in lines
    both_languages: bool = True
    # How the file says what it is compiled for, see `PairContext`.
    isa: str
    only: str
    licences: Sequence[str]
    flags: str
    oldest: int
    newest: str
    features: Sequence[str]
    missing: str
    refused: tuple[str, str] | None


def render_node(
    name: str,
    spec: KernelSpec,
    fields: Mapping[str, Any],
    interface: Interface,
    about: Sequence[str],
    command: str,
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} of a layer as a node of ggml's graphs.

    Takes what `render_pair` takes. The files compile as C11 and as C++17, against ggml.h alone.
    Raises InvalidValue if ``name`` is no C identifier, or one that C or the kernel has other uses
    for.
    """
    check_name(name)
    made = {f"{name}_{end}" if end else name for end in _MEANS} | {f"{name}_H".upper()}
    if name.startswith("ggml"):
        raise InvalidValue(f"name: got {name!r}, which is ggml's; allowed: another C identifier")
    (fields,) = sliced(fields)
    kernel = render(spec, call=fields, alone=True)
    check_free(name, made, (*_OWN, *re.findall(r"\w+", _COMMENT.sub("", kernel))))
    shapes = {array: tuple(shape)[::-1] for array, shape in interface.shapes.items()}
    array_type = TYPES[spec.precision.arrays]
    sources = [
        _source(array, place, shapes["output"], array_type, interface.reading[array])
        for place, array in enumerate((a for a in interface.reading if a not in _FIRST), 3)
    ]
    tensors = [f"{_TENSOR}{one}" for one in ("input", "packed", *(one.name for one in sources))]
    given = ("ctx", "x", "packed", *(one.name for one in sources), "n_threads")
    words = {array: " x ".join(map(str, shape)) for array, shape in shapes.items()}
    words |= {"type": array_type.rpartition("_")[2], "bytes": fields["packed_bytes"]}
    known = NodeContext(
        name=name,
        guard=f"{name.upper()}_H",
        large_pages=fields["packed_bytes"] >= _LARGE_PAGE,
        kernel=kernel,
        command=comment([f"Generated by `{command}`; do not edit."]),
        about=comment(about),
        below=comment([*_LICENCE, _BELOW.format(name)]),
        compile=comment([_COMPILE.format(name)]),
        means={end: comment([text.format(**words)]) for end, text in _MEANS.items()},
        layer=initialisers(fields_for(spec.fields, wishes_of(fields)), fields),
        shapes=shapes,
        array_type=array_type,
        number=interface.reading["input"],
        sources=sources,
        maker=prototype(
            name, ["struct ggml_context *ctx", *tensors, "int n_threads"], returns=_TENSOR
        ),
        usage=[f"x = {name}({', '.join(given)});"],
        **spelled_target(spec.target),
        isa=spec.target.name,
    )
    return {
        f"{name}.c": used_only(compact(both_languages(known.render("hosts/ggml.c.j2")))),
        f"{name}.h": known.render("hosts/ggml.h.j2"),
    }


# What else the file calls its own.
_OWN = ("aligned", "has_shape", "holds", "leave_alone", "compute")
# The sources that every node has, in this order, and the workspace behind them.
_LARGE_PAGE = 2 << 20  # bytes, of most systems
_FIRST = ("input", "packed")


def _source(array: str, place: int, output: Sequence[int], array_type: str, number: str) -> Source:
    """What is read besides: numbers for every filter, or for every output."""
    numbers = output[2]
    kind, shaped = TYPES["float32"], ""
    if array.startswith("add"):
        kind, numbers = array_type, prod(output)
        shaped = f" && has_shape({array}, {', '.join(map(str, output))})"
    test = f"holds({array}, {kind}, {numbers}){shaped}"
    data = f"(const {number} *)dst->src[{place}]->data"
    if array != "bias":
        return Source(array, test, data)
    return Source(array, f"!bias || {test}", f"dst->src[{place}] ? {data} : NULL")
