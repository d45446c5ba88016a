"""Options of a command from a file in TOML: those that are typed count more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

_LARGEST = 1 << 20


def take(context: typer.Context, path: Path | None) -> Path | None:
    """Let the options that a file names be the defaults of the command that is called.

    Names are those of the options, without the two dashes; lists are what is typed with commas. A
    table ``[ranges]`` has a list for each ``--range``. Raises InvalidValue for all that is neither.
    """
    from winogen.errors import InvalidValue
    from winogen.files import parse_toml, read_bytes

    if path is None:
        return None
    given = parse_toml("config", read_bytes("config", path, "a TOML file", _LARGEST), path)
    known = {
        option[2:]: parameter.name
        for parameter in context.command.params
        for option in parameter.opts
        if option.startswith("--") and parameter.name not in ("config", "help", "range_")
    }
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name == "ranges" and isinstance(value, Mapping):
            found["range_"] = [f"{one}={_text(one, values)}" for one, values in value.items()]
        elif name.replace("_", "-") in known:
            found[str(known[name.replace("_", "-")])] = _text(name, value)
        else:
            allowed = ", ".join(sorted(known))
            raise InvalidValue(f"config: got {name!r}; allowed: {allowed}, and a table [ranges]")
    context.default_map = {**(context.default_map or {}), **found}
    return path


def _text(name: str, value: Any) -> Any:
    """What would be typed; switches and numbers are those of TOML."""
    from winogen.errors import InvalidValue

    if isinstance(value, list):
        return ",".join(str(_text(name, one)) for one in value)
    if isinstance(value, (str, int, float)):
        return value
    raise InvalidValue(f"config, {name}: got {value!r}; allowed: text, a number, or a list of them")
