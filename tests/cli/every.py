"""All commands with all of their options, read from the app and from entry points: `commands()`."""

import inspect
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from winogen.cli.app import app
from winogen.cli.convolution import _names
from winogen.conv.options import NAMES
from winogen.plugins import offered

LAYOUTS = ("NCHW", "NHWC")


@dataclass(frozen=True)
class Parameter:
    """An option, or an argument, which has no flag."""

    name: str
    flag: str
    kind: type
    metavar: str
    choices: tuple[str, ...]

    @property
    def is_file(self) -> bool:
        """Whether it names a file or a folder."""
        return self.kind is Path or bool(re.search("FILE|SAMPLES|DATA", self.metavar))

    @property
    def is_switch(self) -> bool:
        """Whether it has no value."""
        return self.kind is bool


def commands() -> dict[str, list[Parameter]]:
    """Every command by its words, as "lab ways", with its parameters."""
    found, rest = {}, [("", app)]
    for name, entry in offered("winogen.commands").items():
        group = entry.load()
        rest.append((name if len(group.registered_commands) > 1 else "", group))
    while rest:
        words, group = rest.pop()
        for one in group.registered_commands:
            name = one.name or one.callback.__name__.replace("_", "-")
            found[f"{words} {name}".strip()] = parameters(one.callback)
        rest += [(f"{words} {one.name}".strip(), one.typer_instance)
                 for one in group.registered_groups]  # fmt: skip
    return dict(sorted(found.items()))


def parameters(callback: Any) -> list[Parameter]:
    """The parameters of a command."""
    signature = inspect.signature(callback, eval_str=True).parameters.values()
    return [_parameter(one) for one in signature]


def _parameter(one: inspect.Parameter) -> Parameter:
    kinds = [kind for kind in (one.annotation, *get_args(one.annotation)) if isinstance(kind, type)]
    kind = next((kind for kind in kinds if kind not in (list, type(None))), str)
    flags = [flag for flag in one.default.param_decls or () if flag.startswith("--")]
    is_argument = type(one.default).__name__ == "ArgumentInfo"
    flag = "" if is_argument else flags[0] if flags else f"--{one.name.replace('_', '-')}"
    metavar = one.default.metavar or ""
    words = metavar.split("|") if "|" in metavar else ()
    choices = tuple(word for word in words if word.islower() or word.isdigit() or word in LAYOUTS)
    if issubclass(kind, Enum):
        choices = tuple(str(value.value) for value in kind)
    elif one.name in NAMES and not is_argument and kind is str and not choices:
        choices = _names(one.name)
    return Parameter(one.name, flag.partition("/")[0], kind, metavar, choices)
