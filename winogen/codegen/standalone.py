"""One layer as a pair of C files that need no header, library or flag of winogen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from winogen.codegen.kernels import KernelSpec, render
from winogen.records import Target
from winogen.codegen.templates import environment
from winogen.errors import InvalidValue


def render_pair(
    name: str, spec: KernelSpec, sizes: Mapping[str, int], about: Sequence[str], command: str
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
        "real": {"float32": "float", "float64": "double"}[spec.dtype],
        "isa": spec.target.name,
        "sizes": sizes,
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


def _target_text(target: Target) -> dict[str, str]:
    """How the C says which instructions it needs: as flags, gcc features, and a test by macros."""
    features = [flag.removeprefix("-m") for flag in target.flags]
    macros = [f"__{name.upper()}__" for name in features if "=" not in name]
    return {
        "flags": " ".join(target.flags),
        "features": ",".join(features),
        "missing": "!(" + " && ".join(f"defined({macro})" for macro in macros) + ")",
    }
