"""Whoever reads a struct, in a template or in generated C, finds a sentence on every field."""

import re
from functools import cache

import pytest
from kernels.test_golden import everything

from winogen import resources
from winogen.kernels.kind import declaration
from winogen.onnx.library import source

CSRC = resources.folder("csrc")
_NAME = r"(?:\{\{[^}]*\}\}|[^;{}()\n])*"
_STRUCT = re.compile(rf"^(?:typedef )?struct{_NAME}\{{\n(.*?)^\}}([^;\n]*);", re.M | re.S)
_COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
# A sentence begins with a capital letter or a number, and says it by itself.
_SENTENCE = re.compile(r"(?:[A-Z0-9]|\{\{ \")[^.]*(?:\.\w[^.]*)*\.(?: [A-Z].*\.)?", re.S)
_SILENT = ("...", "likewise", "see the end")


def fields_of(text):
    """Yield (struct, declaration, comment) of all fields: beside it, or above it and its like."""
    for body, name in _STRUCT.findall(text):
        above = comment = None
        for line in re.split(r"\n(?! *\*)", body):
            code = re.sub(r"\{[{%].*?[}%]\}", "_", _COMMENT.sub("", line)).strip()
            comment = _COMMENT.search(line)
            if not code or code == "_":
                above = comment or above
            elif code.endswith(";") or "\n" not in line:
                yield name.strip(), code, comment or above
                above = above if comment is None else None


def flaws(text):
    """What is wrong with the comments on fields."""
    for name, code, comment in fields_of(text):
        words = comment and " ".join(re.sub(r"\n *\*", " ", comment[1]).split())
        if words is None:
            yield f"{name}: {code} has no comment"
        elif not _SENTENCE.fullmatch(words) or any(one in words for one in _SILENT):
            yield f"{name}: {code} has no sentence, but: {words}"


@cache
def files():
    return [
        path
        for path in sorted(CSRC.rglob("*"))
        if path.suffix in (".h", ".c", ".j2") and "verilog" not in path.parts
    ]


def test_every_field_of_a_template_has_a_sentence():
    found = {path.relative_to(CSRC): list(flaws(path.read_text())) for path in files()}
    assert not {path: some for path, some in found.items() if some}
    counted = sum(len(list(fields_of(path.read_text()))) for path in files())
    assert counted > 300


@cache
def generated():
    return {**everything(), "onnx": source(), "volumes": declaration((), rank=3)}


def test_every_field_of_generated_c_has_a_sentence():
    found = {name: list(flaws(text)) for name, text in generated().items()}
    assert not {name: some for name, some in found.items() if some}


def test_comments_beside_fields_begin_in_one_column():
    for name, text in generated().items():
        for body, struct in _STRUCT.findall(text):
            lines = [line for line in body.split("\n") if re.search(r"; +/\*", line)]
            columns = {line.index("/*") for line in lines}
            assert len(columns) < 2, (name, struct, body)


@pytest.mark.parametrize(
    "line, wrong",
    [
        ("int a;", "has no comment"),
        ("int a;    /* of rows */", "but: of rows"),
        ("int a;    /* ... and rows. */", "but: ..."),
        ("int a;    /* Rows */", "but: Rows"),
        ("int a;    /* From one row to the\n              * next, likewise. */", "likewise"),
    ],
)
def test_what_is_no_sentence_is_found(line, wrong):
    (found,) = flaws(f"typedef struct {{\n    {line}\n}} some;\n")
    assert wrong in found


def test_sentences_beside_and_above_are_found():
    text = "struct {{ name }}_one {\n    /* Two\n     * numbers. */\n    int a;\n    int b;\n"
    assert not list(flaws(f"typedef {text}    int c;    /* Three. */\n}} one;\n"))
    assert len(list(fields_of(f"{text}}} one;\n"))) == 2
