"""One layer or product of matrices as a pair of C files that need no part of winogen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from winogen.codegen.ctext import commented
from winogen.codegen.render import render
from winogen.codegen.templates import environment
from winogen.errors import InvalidValue
from winogen.kernels.gemm import GemmSpec
from winogen.kernels.quantized import QuantizedSpec
from winogen.kernels.spec import KernelSpec
from winogen.records import ACTIVATIONS, NUMBERS, Precision, Target


def render_pair(
    name: str, spec: KernelSpec, sizes: Mapping[str, Any], about: Sequence[str], command: str
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text}.

    ``sizes``: the fields of `winogen_conv`. ``about``: what the head comment says of the layer.
    ``command``: what regenerates the files. Raises InvalidValue if ``name`` is no C identifier, or
    one that C or the kernel has other uses for.
    """
    names = _after_store(sizes)
    extra = [what for what, used in (
        ("slopes", any(ACTIVATIONS[known].per_filter for known in names)),
        ("add", sizes["add"][0] > 0),
        ("add_after", sizes["add_after"][0] > 0),
    ) if used]  # fmt: skip
    words = {
        "left": "input",
        "right": "weight",
        "whole": "layer",
        "packs": "the weights",
        "does": "the convolution",
        "filters": sizes["groups"] * sizes["filters"],
    }
    kernel = render(spec, _prefix(name), names)
    return _pair(name, kernel, spec.precision, spec.target, sizes, extra, words, about, command)


def render_gemm_pair(
    name: str, spec: GemmSpec, sizes: Mapping[str, Any], about: Sequence[str], command: str
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for one product of matrices, as `render_pair`."""
    names = _after_store(sizes)
    extra = ["slopes"] if any(ACTIVATIONS[known].per_filter for known in names) else []
    words = {
        "left": "a",
        "right": "b",
        "whole": "product",
        "packs": "b",
        "does": "a * b",
        "filters": sizes["n"],
    }
    kernel = render(spec, _prefix(name), names)
    return _pair(name, kernel, spec.precision, spec.target, sizes, extra, words, about, command)


def render_quantized_pair(
    name: str,
    spec: QuantizedSpec,
    types: tuple[str, str],
    sizes: Mapping[str, Any],
    about: Sequence[str],
    command: str,
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for one convolution of bytes, as `render_pair`.

    ``types``: of input and output.
    """
    read, written = (NUMBERS[dtype].c for dtype in types)
    fields = {
        "sums": spec.sums,
        "filters": sizes["groups"] * sizes["filters"],
        "arguments": (
            f"const {read} *input, const void *packed, {written} *output,\n"
            "    void *workspace, int threads"
        ),
    }
    kernel = render(spec, _prefix(name))
    return _files("standalone_quantized", name, kernel, spec.target, sizes, fields, about, command)


def _prefix(name: str) -> str:
    return f"{check_name(name)}_kernel"


def _after_store(sizes: Mapping[str, Any]) -> list[str]:
    """The activations that the kernel has to know: that which follows the store, if one does."""
    return [activation.name for activation in ACTIVATIONS.values()
            if activation.code == sizes["activation"] and sizes["after_store"]]  # fmt: skip


def _pair(
    name: str,
    kernel: str,
    precision: Precision,
    target: Target,
    sizes: Mapping[str, Any],
    extra: list[str],
    words: Mapping[str, Any],
    about: Sequence[str],
    command: str,
) -> dict[str, str]:
    """The kernel with the sizes of one call. ``words``: what operands and the whole are called."""
    fields = {
        "real": precision.real.c,
        "packed_as": _packed_as(precision),
        "number": _array_number(precision),
        "arrays": precision.arrays if precision.narrow else "",
        "extra": extra,
        "arguments": _arguments(precision, words["left"], ["bias", *extra]),
        **words,
    }
    return _files("standalone", name, kernel, target, sizes, fields, about, command)


def _files(
    template: str,
    name: str,
    kernel: str,
    target: Target,
    sizes: Mapping[str, Any],
    fields: Mapping[str, Any],
    about: Sequence[str],
    command: str,
) -> dict[str, str]:
    """Both files. ``fields``: what their templates know besides."""
    exported = {f"{name}_{what}" for what in ("packed_bytes", "pack", "workspace_bytes", "run")}
    if taken := exported & set(re.findall(r"\w+", kernel)):
        raise InvalidValue(
            f"name: got {name!r}, of which the kernel itself has {', '.join(sorted(taken))}; "
            "allowed: another C identifier"
        )
    known = {
        "name": name,
        "guard": f"{name.upper()}_H",
        "prefix": _prefix(name),
        "kernel": kernel,
        "isa": target.name,
        "sizes": {field: _initialiser(value) for field, value in sizes.items()},
        "about": list(map(commented, about)),
        "command": commented(command),
        "whole": "layer",
        **fields,
        **_target_text(target),
    }
    templates = environment()
    return {
        f"{name}.{suffix}": templates.get_template(f"{template}.{suffix}.j2").render(known)
        for suffix in ("c", "h")
    }


def _packed_as(precision: Precision) -> str:
    """The C type of packed numbers as users see them."""
    return precision.real.c if precision.filters == precision.real.name else "void"


def _array_number(precision: Precision) -> str:
    """The C type of a number of the arrays."""
    return NUMBERS[precision.arrays].c if precision.narrow else precision.real.c


def _arguments(precision: Precision, left: str, others: Sequence[str]) -> str:
    real, number = precision.real.c, _array_number(precision)
    read = [f"const {number} *{left}", f"const {_packed_as(precision)} *packed"]
    read += [f"const {number if name.startswith('add') else real} *{name}" for name in others]
    return f"{', '.join(read)},\n    {number} *output, void *workspace, int threads"


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


def check_name(name: str) -> str:
    """Return ``name`` if files and functions can be called after it; raises InvalidValue."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidValue(f"name: got {name!r}; allowed: a C identifier, such as conv1_1")
    if name in _RESERVED or re.match(r"_[_A-Z]", name):
        raise InvalidValue(
            f"name: got {name!r}, which C or the generated code uses; "
            "allowed: another identifier, such as conv1_1"
        )
    return name


# Keywords of C and C++, ``main``, and what the kernels call their own.
_RESERVED = frozenset(
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


def _target_text(target: Target) -> dict[str, str]:
    """How the C says which instructions it needs: as flags, gcc features, and a test by macros."""
    features = [flag.removeprefix("-m") for flag in target.flags]
    macros = [f"__{name.upper().replace('-', '_')}__" for name in features if "=" not in name]
    # Of 64-bit ARM, where extensions are part of the architecture: arch=armv8.2-a+dotprod.
    arm = [name for name in features if name.startswith("arch=")]
    macros += [f"__ARM_FEATURE_{one.upper()}" for name in arm for one in name.split("+")[1:]]
    return {
        "flags": " ".join(target.flags),
        "features": ",".join(features),
        "missing": "!(" + " && ".join(f"defined({macro})" for macro in macros) + ")",
    }
