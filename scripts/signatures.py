"""Write the options of a convolution into the functions that take them, and into their docstrings.

python scripts/signatures.py [--check]

`Options` in winogen/conv/options.py lists names, types, defaults and meanings, `ACTIVATIONS` in
winogen/records/epilogue.py the activations. Editors and type checkers read neither, so that both
are copied to wherever a comment asks for it, up to the next comment "end":

    # parameters: stride ... activation    names, types and defaults, of layers with two axes
    # parameters of 3: stride ... tile     the same, of layers with three
    # fields: stride ... activation        the same, in a class
    # arguments: algorithm tile threads    names, in a call
    # activations:                         the type of `activation=`

In docstrings, a section that is titled as a group of options explains the options of that group.
--check writes nothing, and fails if a file would change.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from winogen.records import ACTIVATIONS

ROOT = Path(__file__).parents[1]
OPTIONS = Path("winogen/conv/options.py")
FOLDERS = (
    *("winogen/conv", "winogen/torch", "winogen/lowrank", "winogen/opencl"),
    "winogen/typing.py",
)
WIDTH = 100
POSITIONAL = ("stride", "padding", "dilation", "groups")
# By the number of axes: the type of layouts, and the usual one.
LAYOUTS = {
    "1": ("Layout1d", '"NCW"'),
    "2": ("Layout2d", '"NCHW"'),
    "3": ("Layout3d", '"NCDHW"'),
}
# The schema of torch's operator has texts where numpy's functions take exact numbers, too.
TYPES = {"winogen/torch": {"points": "Texts | None", "moduli": "Texts | None"}}

_REGION = re.compile(
    r"^( *)# (parameters|fields|arguments|activations)(?: of (\d))?:(.*)\n(?:.*\n)*? *# end\n",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Option:
    """An option, as its line in `Options` and the text below it say."""

    name: str
    type: str
    default: str
    text: str
    group: str


def options(source: str) -> dict[str, Option]:
    """Return the options that a file declares, by name."""
    lines = source.splitlines()
    (listed,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Options"
    )
    found = {}
    for node, below in zip(listed.body, listed.body[1:]):
        if not isinstance(node, ast.AnnAssign):
            continue
        titles = [line[6:] for line in lines[: node.lineno] if line.startswith("    # ")]
        assert isinstance(below, ast.Expr), f"{ast.unparse(node)} has no text below it"
        text = inspect.cleandoc(ast.literal_eval(below.value))
        parts = (ast.get_source_segment(source, part) for part in (node.target, node.annotation))
        default = ast.get_source_segment(source, node.value)
        option = Option(*parts, default, text, titles[-1])
        found[option.name] = option
    return found


def written(text: str, known: dict[str, Option], types: dict[str, str]) -> str:
    """Return the text of a file with everything in it that is made of options.

    ``types``: of options that have another type in this file.
    """

    def region(match: re.Match) -> str:
        indent, kind, rank, asked = match.groups()
        if kind == "activations":
            made = activation_type()
        elif kind == "arguments":
            made = textwrap.fill(", ".join(named(asked, known)) + ",", WIDTH - len(indent))
        else:
            type_, default = LAYOUTS[rank or "2"]
            layout = replace(known["layout"], type=type_, default=default)
            chosen = [({**known, "layout": layout})[name] for name in named(asked, known)]
            made = (parameters if kind == "parameters" else fields)(chosen, types)
        body = textwrap.indent(made, indent)
        of = f" of {rank}" if rank else ""
        return f"{indent}# {kind}{of}:{asked}\n{body}\n{indent}# end\n"

    text = _REGION.sub(region, text)
    groups: dict[str, list[Option]] = {option.group: [] for option in known.values()}
    for option in known.values():
        groups[option.group].append(option)
    for title, chosen in groups.items():
        for match in reversed([*section(title).finditer(text)]):
            body = explained(chosen, len(match[2]))
            text = text[: match.start()] + match[1] + body + text[match.end() :]
    return text


def named(asked: str, known: dict[str, Option]) -> list[str]:
    """Return the options that a comment names: "a ... d e" is a, all up to d, and e."""
    order, found = list(known), []
    words = asked.split()
    for before, word in zip(["", *words], words):
        if before == "...":
            found += order[order.index(found[-1]) + 1 : order.index(word) + 1]
        elif word != "...":
            found.append(known[word].name)
    return found


def parameters(chosen: list[Option], types: dict[str, str]) -> str:
    """Return lines of a signature. Those behind `POSITIONAL` are given by name."""
    lines = [f"{line}," for line in fields(chosen, types).splitlines()]
    positional = sum(option.name in POSITIONAL for option in chosen)
    if 0 < positional < len(chosen):
        lines.insert(positional, "*,")
    return "\n".join(lines)


def fields(chosen: list[Option], types: dict[str, str]) -> str:
    """Return lines of a class with fields."""
    return "\n".join(
        f"{option.name}: {types.get(option.name, option.type)} = {option.default}"
        for option in chosen
    )


def section(title: str) -> re.Pattern:
    """Return what matches a section of a docstring, up to the next one: its head and its body."""
    rule = "-" * len(title)
    return re.compile(rf"^(( *){title}\n *{rule}\n)(?:.*\n)*?(?=\n\2\S.*\n\2---)", re.MULTILINE)


def explained(chosen: list[Option], indent: int) -> str:
    """Return entries of a docstring."""
    entries = []
    for option in chosen:
        filled = (
            textwrap.fill(paragraph, WIDTH - indent - 4, break_on_hyphens=False)
            for paragraph in option.text.split("\n\n")
        )
        text = "\n\n".join(filled).replace("{activations}", activation_table())
        entries.append(option.name + "\n" + textwrap.indent(text, "    ") + "\n")
    return textwrap.indent("".join(entries), " " * indent)


def activation_table() -> str:
    """Return how each activation is asked for, and what it means."""
    lines = []
    for known in ACTIVATIONS.values():
        numbers = (Fraction(value).limit_denominator(100) for value in known.defaults)
        defaults = ", ".join(f"{name} {value}" for name, value in zip(known.parameters, numbers))
        asked = " or ".join(known.spellings) + f" ({defaults} by default)" * bool(defaults)
        lines += textwrap.wrap(f"{asked}: {known.means}", WIDTH - 16, subsequent_indent="    ")
    return textwrap.indent("\n".join(lines), "    ")


def activation_type() -> str:
    """Return the alias `Activation`, a line for each."""
    made = []
    for one in ACTIVATIONS.values():
        items = [f'Literal["{word}"]' for word in one.spelling or (one.name,)]
        items += ["Array | float" if one.per_filter else "float"] * len(one.parameters)
        if one.defaults:
            made.append(items[0])
        made.append(items[0] if len(items) == 1 else f"tuple[{', '.join(items)}]")
    return "Activation: TypeAlias = (\n    " + "\n    | ".join(made) + "\n)"


def changes(root: Path) -> dict[Path, str]:
    """Return the files below ``root`` that are not as they should be, and what they should be."""
    known = options((root / OPTIONS).read_text("utf-8"))
    found = {}
    for folder in FOLDERS:
        top = root / folder
        for path in [top] if top.is_file() else sorted(top.glob("*.py")):
            text = path.read_text("utf-8")
            made = written(text, known, TYPES.get(folder, {}))
            if made != text:
                found[path] = made
    return found


def main() -> int:
    """Write or check; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    asked = parser.parse_args()
    found = changes(asked.root)
    for path, text in found.items():
        print(f"{path}: not as python scripts/signatures.py writes it" if asked.check else path)
        if not asked.check:
            path.write_text(text, "utf-8")
    return int(asked.check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
