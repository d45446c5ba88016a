"""One call of a kernel as a pair of C files that need no part of winogen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from winogen.codegen.calls import used_only
from winogen.codegen.compiling import compiling, spelled_target
from winogen.codegen.constants import Constant
from winogen.codegen.ctext import commented
from winogen.codegen.interface import Interface, Transposed
from winogen.codegen.render import render
from winogen.codegen.templates import Context, wrapped
from winogen.errors import InvalidValue
from winogen.kernels.kind import Fields, Spec, fields_for, wishes_of
from winogen.kernels.work import round_up
from winogen.records.machine import LINE

_COLUMNS = 100
_BELOW = (
    "the {0} and how to use it. The kernel below serves any sizes; those of the {0} are set at the "
    "end."
)


_LONGEST = 230  # letters of a name
_SUGGESTED = 60  # of one that nobody asked for


@dataclass(frozen=True, kw_only=True)
class PairContext(
    Context,
    templates=(
        "standalone.c.j2",
        "standalone_call.c.j2",
        "standalone.h.j2",
        "standalone_weights.c.j2",
    ),
):
    """What the templates of a pair of files know; comments are lists of lines."""

    name: str
    NAME: str  # how the names of its macros begin
    guard: str
    kernel: str  # the C of it
    packs: Sequence[str]  # the arrays that it can pack
    isa: str
    whole: str  # "layer" or "product"
    interface: Interface
    about: Sequence[str]
    command: Sequence[str]
    usage: Sequence[Sequence[str]]
    below: Sequence[str]
    compile: Sequence[str]
    note: Sequence[str]
    fixed_width: bool  # whether <stdint.h> is needed
    pack: str  # the heads of the functions, without a semicolon
    run: str
    pack_means: Sequence[str]
    run_means: Sequence[str]
    call: Mapping[str, str]  # the fields of a call, and their values
    constants: Sequence[Constant]  # the packed weights, and what else files carry of a layer
    count: str  # "threads", or "parts" where threads are the caller's
    packed_bytes: int
    workspace: tuple[int, int]  # bytes that all threads share, and those of each
    scratch_bytes: int = 0  # that packing needs
    # Of a file for any call with these sizes; a transposed layer has sizes of its own for each.
    sizes: str = ""
    packing: Sequence[str] = ()  # the arguments of the kernel that packs
    both_languages: bool = False  # whether it compiles as C++, too
    # How the file says what it is compiled for.
    only: str  # the CPU, as a condition of macros
    licences: Sequence[str]  # -f... of the flags
    flags: str
    oldest: int  # version of gcc; 0: any
    newest: str  # extensions that ask for it
    features: Sequence[str]  # as gcc takes them in a pragma
    missing: str  # the condition that flags are missing
    refused: tuple[str, str] | None  # when a file cannot be compiled, and why


@dataclass(frozen=True, kw_only=True)
class TransposedPairContext(
    PairContext, templates=("standalone_transposed.c.j2", "standalone.h.j2")
):
    """What the template of a transposed layer knows besides."""

    layer: Transposed
    calls: Sequence[Mapping[str, Any]]
    number: str  # the type that is computed with, in C
    zeros: int  # bytes of zeros that calls read


def render_pair(
    name: str,
    spec: Spec,
    fields: Mapping[str, Any],
    interface: Interface,
    about: Sequence[str],
    command: str,
    transposed: Transposed | None = None,
    constants: Sequence[Constant] = (),
    beside: tuple[str, str] | None = None,
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for one call, or those of a transposed layer.

    With ``constants``, which begin with the packed weights, there is a "<name>_weights.c" of them.
    Where the interface packs nothing, no C does. ``beside``: a file of another call of the same
    kernel, by its name and its text, which this call joins instead of a "<name>.c" of its own.

    The .c file is a kernel of these calls alone, whose functions nobody else sees, and the four
    functions of the .h file around it. Those of a transposed layer have a fifth, which says how
    much memory packing needs.

    ``fields``: of its `winogen_conv`; of a transposed layer, those of its first call. ``about``:
    what the head comment says of it. ``command``: what regenerates the files. Raises InvalidValue
    if ``name`` is no C identifier, or one that C or the kernel has other uses for.
    """
    shared = interface.shared
    if shared:
        (fields,) = sliced(fields)
    kernel = render(spec, call=fields, alone=shared)
    runs, shares = ("run_part", ["part", "parts"]) if shared else ("run", ["threads"])
    scratch = ["scratch"] * interface.scratch
    functions = ["workspace_bytes", runs, *(f"{one}_bytes" for one in scratch)]
    functions += ["packed_bytes", "pack"] if interface.packing else []
    exported = {f"{check_name(name)}_{what}" for what in functions}
    exported |= {f"{name}_{one}_bytes".upper() for one in ("packed", "workspace", "scratch")}
    exported.add(f"{name}_H".upper())  # the guard of the header
    exported |= {one.name for one in constants}
    check_free(name, exported, re.findall(r"\w+", kernel))
    packs = [] if shared else shares
    there = {one.name for one in constants}
    run = [
        f"{name}_{one}" if f"{name}_{one}" in there else one
        for one in (*interface.reading, spec.output, "workspace", *shares)
    ]
    usage = (f"{name}_pack({', '.join([*interface.packing, 'packed', *scratch, *packs])});",
             f"{name}_{runs}({', '.join(run)});")  # fmt: skip
    more = [f"{name}_weights.c"] * bool(constants)
    known: dict[str, Any] = {
        "name": name,
        "NAME": name.upper(),
        "guard": f"{name.upper()}_H",
        "kernel": kernel,
        "packs": spec.packs,
        "isa": spec.target.name,
        "about": comment(about),
        "command": comment([f"Generated by `{command}`; do not edit."]),
        "interface": interface,
        "whole": interface.whole,
        "usage": [textwrap.wrap(text, 93, subsequent_indent="    ") for text in usage],
        "below": comment([f"{name}.h describes {_BELOW.format(interface.whole)}"]),
        "compile": comment(
            [f"Compile {' and '.join([f'{name}.c', *more])} {compiling(spec.target, shared)}"]
        ),
        "note": comment([interface.note] * bool(interface.note)),
        "fixed_width": any(
            c_type.endswith("_t")
            for c_type in (
                *interface.packing.values(),
                *interface.reading.values(),
                *(one.type for one in constants),
            )
        ),
        "pack": prototype(
            f"{name}_pack",
            [
                *_inputs(interface.packing),
                f"{interface.packed} *packed",
                *(f"void *{one}" for one in scratch),
                *(f"int {one}" for one in packs),
            ],
        ),
        "run": prototype(
            f"{name}_{runs}",
            [
                *_inputs(interface.reading),
                f"{interface.writing} *{spec.output}",
                "void *workspace",
                *(f"int {one}" for one in shares),
            ],
        ),
        "call": {
            array: f"({interface.casts[array]}){array}" if array in interface.casts else array
            for array in (*interface.reading, spec.output, "workspace")
        },
        "pack_means": comment([interface.pack_means]),
        "run_means": comment([interface.run_means]),
        "constants": constants,
        "count": "parts" if shared else "threads",
        **spelled_target(spec.target),
    }
    pair: PairContext
    if transposed is None:
        pair = PairContext(
            **known,
            **_room([fields]),
            sizes=initialisers(fields_for(spec.fields, wishes_of(fields)), fields),
            packing=[one if one in interface.packing else "NULL" for one in spec.packs],
        )
    else:
        calls = transposed.calls
        if shared:
            own = sliced(*(one.fields for one in calls))
            calls = tuple(replace(one, fields=some) for one, some in zip(calls, own))
        of_phases = _of_phases(spec, replace(transposed, calls=calls))
        room = _room([one.fields for one in calls], of_phases["zeros"], shared)
        pair = TransposedPairContext(**known, **room, **of_phases)
    if beside is None:
        text = pair.render(f"standalone{'_transposed' * bool(transposed)}.c.j2")
        beside = f"{name}.c", used_only(text)
    else:
        file, text = beside
        beside = file, f'{text}\n#include "{name}.h"\n\n{pair.render("standalone_call.c.j2")}'
    return {
        beside[0]: beside[1],
        f"{name}.h": pair.render("standalone.h.j2"),
        **{file: pair.render("standalone_weights.c.j2") for file in more},
    }


def sliced(*calls: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of calls whose parts have all buffers for themselves, one slice each.

    Slices are as large in one call as in the others, as a part may be ahead of the others by calls.
    """
    each = max(fields["shared_bytes"] + fields["thread_bytes"] for fields in calls)
    return [{**fields, "shared_bytes": 0, "thread_bytes": each} for fields in calls]


def _room(
    calls: Sequence[Mapping[str, Any]], zeros: int = 0, shared: bool = False
) -> dict[str, Any]:
    """Return how many bytes calls need that follow one another; ``zeros``: that they read besides.

    Where threads are the caller's, each has zeros of its own.
    """
    common, each = (
        max(round_up(fields[name], LINE) for fields in calls)
        for name in ("shared_bytes", "thread_bytes")
    )
    if shared:
        each += zeros
    else:
        common += zeros
    return {
        "packed_bytes": sum(max(round_up(one["packed_bytes"], LINE), LINE) for one in calls),
        "workspace": (common or LINE * (each == 0), each),
    }


def _of_phases(spec: Any, layer: Transposed) -> dict[str, Any]:
    """What the template of a transposed layer knows besides what all know."""
    known = fields_for(spec.fields, wishes_of(layer.calls[0].fields))
    real = spec.precision.real
    filters = max(len(one.taps) * len(one.taps[0]) * one.filters for one in layer.calls)
    return {
        "layer": layer,
        "calls": [
            {
                "sizes": initialisers(known, one.fields, 8),
                "input": one.input,
                "output": one.output,
                "filters": one.filters,
                "phases": len(one.taps),
                "taps": len(one.taps[0]),
                "numbers": [tap for taps in one.taps for tap in taps],
            }
            for one in layer.calls
        ],
        "number": real.c,
        "scratch_bytes": round_up(filters * layer.groups * layer.channels * real.itemsize, LINE),
        "zeros": max(one.zeros for one in layer.calls),
    }


def _inputs(arrays: Mapping[str, str]) -> list[str]:
    return [f"const {c_type} *{name}" for name, c_type in arrays.items()]


def prototype(function: str, parameters: Sequence[str], returns: str = "void ") -> str:
    """Return the head of a function, in lines of at most 100 columns."""
    line = f"{returns}{function}({', '.join(parameters)})"
    if len(line) < _COLUMNS:  # with a semicolon
        return line
    return f"{returns}{function}(\n{wrapped(parameters, 4, ', ')})"


def comment(paragraphs: Sequence[str], begins: str = " * ") -> list[str]:
    """Return the lines of a comment, each of which begins with " * ", or as other languages do."""
    return [
        line
        for text in paragraphs
        for line in textwrap.wrap(
            commented(text),
            _COLUMNS - len(begins),
            subsequent_indent="    " if text.startswith(" ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def initialisers(fields: Fields, values: Mapping[str, Any], indent: int = 4) -> str:
    """Return the initialisers of the fields of a struct, in its rows."""
    rows = ([f".{name} = {_initialiser(values[name])}" for name in names] for *_, names in fields)
    return "\n".join(wrapped(row, indent, ", ", ",") for row in rows)


def _initialiser(value: Any) -> str:
    """How C spells the value of a field; structs are tuples.

    >>> _initialiser((64, 0))
    '{ 64, 0 }'
    """
    if isinstance(value, tuple):
        return "{ " + ", ".join(map(_initialiser, value)) + " }"
    if value in (float("inf"), float("-inf")):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return repr(value)


def check_name(name: str, longest: int = _LONGEST) -> str:
    """Return ``name`` if files and functions can be called after it; raises InvalidValue.

    Names of files have 255 letters at most, of which endings take some.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidValue(f"name: got {name!r}; allowed: a C identifier, such as conv1_1")
    if len(name) > longest:
        raise InvalidValue(f"name: got {len(name)} letters; allowed: {longest} at most")
    if name in RESERVED or re.match(r"_[_A-Z]", name):
        raise InvalidValue(
            f"name: got {name!r}, which C or the generated code uses; "
            "allowed: another identifier, such as conv1_1"
        )
    return name


def check_free(name: str, made: Collection[str], words: Iterable[str]) -> None:
    """Raise InvalidValue if one of the names ``made`` of a layer's is among a kernel's words."""
    if taken := {*made} & {*words}:
        raise InvalidValue(
            f"name: got {name!r}, of which the kernel itself has {', '.join(sorted(taken))}; "
            "allowed: another C identifier"
        )


def name_after(path: str | PurePath) -> str:
    """Return a name for files and functions that a file suggests by its own.

    >>> name_after("models/up-scaler.v2.onnx"), name_after("7.onnx"), name_after("int.onnx")
    ('up_scaler_v2', 'net_7', 'net_int')
    """
    stem = re.sub(r"\W+", "_", PurePath(path).stem, flags=re.ASCII).strip("_")[:_SUGGESTED]
    try:
        return check_name(stem)
    except InvalidValue:
        return check_name(f"net_{stem}" if stem else "net")


# Keywords of C and C++, ``main``, and what the kernels call their own.
RESERVED = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
    const constexpr const_cast continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast restrict return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename typeof union
    unsigned using virtual void volatile wchar_t while xor xor_eq main real vec load store call
    block at window scratch layer words winogen winogen_conv size_t ptrdiff_t int64_t memcpy memset
    """.split()
)
