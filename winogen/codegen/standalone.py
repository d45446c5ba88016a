"""One layer as a pair of C files that need no header, library or flag of winogen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from winogen.codegen.render import render
from winogen.codegen.templates import environment
from winogen.errors import InvalidValue
from winogen.kernels.spec import KernelSpec
from winogen.records import Target


def render_pair(
    name: str, spec: KernelSpec, sizes: Mapping[str, Any], about: Sequence[str], command: str
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text}.

    ``sizes``: the fields of `winogen_conv`. ``about``: what the head comment says of the layer.
    ``command``: what regenerates the files. Raises InvalidValue if ``name`` is no C identifier.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidValue(f"name: got {name!r}; allowed: a C identifier, such as conv1_1")
    prefix = f"{name}_kernel"
    fields = {
        "name": name,
        "guard": f"{name.upper()}_H",
        "prefix": prefix,
        "kernel": render(spec, prefix),
        "real": spec.precision.real.c,
        "isa": spec.target.name,
        "sizes": {field: _initialiser(value) for field, value in sizes.items()},
        "filters": sizes["groups"] * sizes["filters"],
        "about": about,
        "command": command,
        **_target_text(spec.target),
    }
    templates = environment()
    return {
        f"{name}.{suffix}": templates.get_template(f"standalone.{suffix}.j2").render(fields)
        for suffix in ("c", "h")
    }


def _initialiser(value: Any) -> str:
    """How C spells the value of a field; structs are tuples.

    >>> _initialiser((64, 0))
    '{ 64, 0 }'
    """
    if isinstance(value, tuple):
        return "{ " + ", ".join(map(_initialiser, value)) + " }"
    return repr(value)


def _target_text(target: Target) -> dict[str, str]:
    """How the C says which instructions it needs: as flags, gcc features, and a test by macros."""
    features = [flag.removeprefix("-m") for flag in target.flags]
    macros = [f"__{name.upper()}__" for name in features if "=" not in name]
    return {
        "flags": " ".join(target.flags),
        "features": ",".join(features),
        "missing": "!(" + " && ".join(f"defined({macro})" for macro in macros) + ")",
    }
