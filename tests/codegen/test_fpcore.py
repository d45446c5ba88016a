"""FPCores are read back: exact, they are the matrices and the convolution."""

import re
from fractions import Fraction
from functools import partial

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.codegen.ctext import names_of
from winogen.codegen.fpcore import render
from winogen.codegen.transforms import load
from winogen.program.kinds import KINDS

SETS = {
    "f2_3": partial(load, 2, 3),
    "f4_3": partial(load, 4, 3),
    "complex": partial(load, 3, 3, moduli="x,x-1,x+1,x^2+1"),
    "strided": partial(load, 2, 3, stride=2),
    "huffman": partial(load, 2, 4, order="huffman"),
    "one": partial(load, 1, 1),
}


# ---- a reader of FPCore: lists, symbols, rational numbers ----------------------------------------


def read(text):
    """All expressions of a file, as nested lists of words."""
    code = "\n".join(line for line in text.splitlines() if not line.startswith(";"))
    words = re.findall(r'"[^"]*"|[()\[\]]|[^\s()\[\]"]+', code)
    stack = [[]]
    for word in words:
        if word in "([":
            stack.append([])
        elif word in ")]":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    (cores,) = stack
    return cores


OPERATORS = {"+": lambda a, b: a + b, "-": lambda a, b=None: -a if b is None else a - b,
             "*": lambda a, b: a * b}  # fmt: skip


def value(expression, names):
    if isinstance(expression, str):
        return names[expression] if expression in names else Fraction(expression)
    head, *rest = expression
    if head == "let*":
        pairs, body = rest
        names = dict(names)
        for name, bound in pairs:
            assert name not in names  # nothing is bound twice
            names[name] = value(bound, names)
        return value(body, names)
    return OPERATORS[head](*(value(one, names) for one in rest))


def cores_of(text):
    """{name: (arguments, properties, body)}."""
    found = {}
    for keyword, name, arguments, *rest in read(text):
        assert keyword == "FPCore" and name not in found
        *properties, body = rest
        found[name] = arguments, dict(zip(properties[::2], properties[1::2])), body
    return found


# ---- tests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_every_core_is_its_row(name):
    transform = SETS[name]()
    text = render(transform)
    assert text == render(transform) and text.endswith(")\n")
    assert all(line == line.rstrip() and len(line) <= 120 for line in text.splitlines())
    cores = cores_of(text)
    outputs = sum(len(rows) for rows in transform.matrices.values())
    assert len(cores) == outputs + transform.m
    for kind, rows in transform.matrices.items():
        letter = KINDS[kind].source
        for i, row in enumerate(rows):
            arguments, properties, body = cores[f"winogen_{transform.name}_{kind}_{i}"]
            assert arguments == [f"{letter}{k}" for k in range(len(row))]
            assert properties[":precision"] == "binary32"
            assert properties[":pre"] == ["and", *(["<=", "-1", a, "1"] for a in arguments)]
            units = ({a: Fraction(a == b) for a in arguments} for b in arguments)
            assert [value(body, unit) for unit in units] == list(row)


@pytest.mark.parametrize("name", SETS)
def test_whole_tiles_are_the_convolution(name):
    transform = SETS[name]()
    cores = cores_of(render(transform))
    inputs = len(transform.matrices["input"][0])
    d = {f"d{k}": Fraction((7 * k + 3) % 11 - 5, 3) for k in range(inputs)}
    g = {f"g{k}": Fraction((5 * k + 2) % 7 - 3, 2) for k in range(transform.r)}
    for i in range(transform.m):
        arguments, _, body = cores[f"winogen_{transform.name}_y{i}"]
        assert arguments == [*d, *g]
        first = transform.stride * i
        expected = sum(g[f"g{k}"] * d[f"d{first + k}"] for k in range(transform.r))
        assert value(body, d | g) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_statements_stand_in_the_order_of_the_program(kind):
    transform = load(4, 3)
    program, target = transform.programs[kind], KINDS[kind].target
    letter = {"input": "r", "filter": "s", "output": "t"}[kind]
    written = [names_of(program, target)[s.target] for s in program.statements]
    order = {name.replace("t", letter): place for place, name in enumerate(written)}
    longest = 0
    for _, _, body in cores_of(render(transform)).values():
        bound = [name for name, _ in body[1]] if body[0] == "let*" else []
        places = [order[name] for name in bound if name in order]
        assert places == sorted(places)
        longest = max(longest, len(places))
    assert longest > 1


def test_the_command_writes_it():
    made = CliRunner().invoke(app, ["derive", "2", "3", "--format", "fpcore"])
    assert made.exit_code == 0
    assert made.stdout == render(load(2, 3))
    assert made.stdout.startswith(";; Generated by `winogen derive 2 3 --format fpcore`")
