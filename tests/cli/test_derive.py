"""winogen derive: four formats of one algorithm."""

import json
import subprocess

import numpy as np
import pytest
import sympy
from kernels.turns import first

from winogen.algebra import BilinearAlgorithm, cook_toom, winograd
from winogen.codegen.transforms import load
from winogen.program.summation import summation
from winogen.toolchain import find_compiler

GAUSSIAN = "x,x-1,x+1,x^2+1,inf"


def as_json(winogen, *words) -> dict:
    result = winogen("derive", *words, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_has_exactly_the_documented_fields(winogen):
    data = as_json(winogen, 4, 3)
    assert list(data) == ["m", "r", "n", "points", "AT", "G", "BT", "ops"]
    assert (data["m"], data["r"], data["n"]) == (4, 3, 6)
    assert list(data["ops"]) == ["input", "filter", "output"]
    for ops in data["ops"].values():
        assert list(ops) == ["add", "mul", "fma", "instructions", "registers"]
        assert all(isinstance(count, int) for count in ops.values())
        assert ops["instructions"] == ops["add"] + ops["mul"] - ops["fma"]


def test_json_is_the_textbook_f23(winogen):
    data = as_json(winogen, 2, 3)
    assert data["points"] == ["0", "1", "-1", "inf"]
    assert data["G"] == [
        ["1", "0", "0"], ["1/2", "1/2", "1/2"], ["1/2", "-1/2", "1/2"], ["0", "0", "1"]
    ]  # fmt: skip
    assert data["ops"]["input"]["instructions"] == 4


@pytest.mark.parametrize(
    "words",
    first(
        5,
        zip(
            [
                (4, 3, "--moduli", GAUSSIAN),
                (1, 1),
                (1, 5),
                (6, 3),
                (2, 3, "--points", "-1,0,1,2"),
                (5, 1),
                (4, 3, "--points", "0,1,-1,1/2,-2,inf"),
                (2, 3, "--points", "0,sqrt(2)/2,-sqrt(2)/2,inf"),
            ]
        ),
    ),
    ids=str,
)
def test_json_matrices_verify(winogen, words):
    assert BilinearAlgorithm.from_dict(as_json(winogen, *words)).verify()


@pytest.mark.thorough
def test_json_keeps_the_order_of_the_points(winogen):
    given = "inf,-2,0,1/2,1,-1"
    assert as_json(winogen, 4, 3, "--points", given)["points"] == given.split(",")


def test_json_names_the_moduli(winogen):
    data = as_json(winogen, 4, 3, "--moduli", GAUSSIAN)
    assert data["moduli"] == ["x", "x - 1", "x + 1", "x^2 + 1", "inf"]
    assert data["points"] == [] and len(data["G"]) == 7


def test_text_shows_points_counts_and_programs(winogen):
    output = winogen("derive", 2, 3).stdout
    assert "F(2, 3): 2 outputs of a 3-tap filter from 4 inputs" in output
    assert "0, 1, -1, inf" in output
    assert "4 instead of 6 in 1D, 16 instead of 36 in 2D" in output
    assert "\nB^T (4 x 4)\n  1   0  -1  0\n" in output
    assert "  input        4    0    0             4" in output
    assert "v0 = d0 - d2" in output


def test_programs_are_shown_as_factored_equations(winogen):
    printed = winogen("derive", 4, 3, "--points", "0,1,-1,2,-2,inf").stdout
    block = printed.partition("input transform: v = B^T d\n")[2].partition("\n\n")[0]
    assert "  v0 = d4 + 4 d0 - 5 d2" in block.splitlines()


def test_an_order_of_summation_is_shown_and_used(winogen):
    data = as_json(winogen, 4, 3, "--order", "huffman")
    matrix = cook_toom(4, 3).bt
    assert data["order"] == "huffman"
    assert data["ops"]["input"] == summation(matrix, "huffman").counts().to_dict()
    text = winogen("derive", 2, 3, "--order", "pairwise").stdout
    assert "order            pairwise" in text and "hierarchy" not in text


def test_latex_holds_the_matrices(winogen):
    text = winogen("derive", 2, 3, "--format", "latex").stdout
    f = cook_toom(2, 3)
    bodies = text.split(r"\begin{bmatrix}")[1:]
    assert len(bodies) == 3
    for body, matrix in zip(bodies, (f.AT, f.G, f.BT)):
        body = body.split(r"\end{bmatrix}")[0]
        rows = [row.split("&") for row in body.split(r"\\")]
        assert sympy.Matrix([[number(entry) for entry in row] for row in rows]) == matrix


@pytest.mark.parametrize("m,r,noted", [(4, 3, False), (7, 3, True)])
def test_derive_says_what_float16_has_no_room_for(winogen, m, r, noted):
    lines = winogen("derive", m, r, "--matrices").stdout.splitlines()
    notes = [line for line in lines if line.startswith("  in float16       transformed filter:")]
    assert bool(notes) == noted and max(map(len, lines)) <= 120


def number(text: str) -> sympy.Rational:
    return sympy.Rational(
        text.replace(r"\frac{", "").replace("}{", "/").strip("} ").replace(" ", "")
    )


@pytest.mark.parametrize(
    "words", [(4, 3), (2, 3, "--points", "0,1,2,inf"), (4, 3, "--order", "huffman")], ids=str
)
def test_c_is_a_header_that_compiles_by_itself(winogen, words, tmp_path):
    header = winogen("derive", *words, "--format", "c").stdout
    (tmp_path / "transform.h").write_text(header)
    (tmp_path / "use.c").write_text('#include "transform.h"\nint main(void) { return 0; }\n')
    subprocess.run(
        [*find_compiler().command, "-Wall", "-Wextra", "-Werror", "-c", "use.c"],
        cwd=tmp_path,
        check=True,
    )


def test_c_of_the_catalog_is_the_header_that_ships(winogen):
    assert winogen("derive", 4, 3, "--format", "c").stdout == load(4, 3).header


@pytest.mark.parametrize(
    "words, message",
    [
        ((0, 3), "m: got 0"),
        ((2, 0), "r: got 0"),
        ((2, 3, "--points", "0,1,1,inf"), "points: got 1 twice"),
        ((2, 3, "--points", "0,1,inf"), "allowed: 4"),
        ((2, 3, "--points", "0,1,-1,pi"), "pi"),
        ((2, 3, "--moduli", "x,x,x-1,inf"), "moduli"),
        ((2, 3, "--moduli", "x,x-1,x+1,inf", "--points", "0,1,-1,inf"), "one of them"),
        ((60, 3), "allowed"),
        ((2, 3, "--order", "sorted"), "order: got 'sorted'"),
    ],
)
@pytest.mark.parametrize("format", ["text", "c"])
def test_wrong_values_are_named(refused, words, message, format):
    assert message in refused("derive", *words, "--format", format)


class _Searched(Exception):
    pass


@pytest.fixture
def no_search(monkeypatch):
    """Any search for programs fails."""
    from winogen.program.search import scaling, simplify

    def fail(*arguments, **options):
        raise _Searched

    for module in (scaling, simplify):
        monkeypatch.setattr(module, "candidates", fail)


@pytest.mark.parametrize("words", [(4, 3), (3, 7), (8, 3), (6, 3, "--format", "json")], ids=str)
def test_what_ships_needs_no_search(winogen, no_search, monkeypatch, tmp_path, words):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    result = winogen("derive", *words)
    assert result.exit_code == 0 and ("y0" in result.output or '"ops"' in result.output)


def test_matrices_alone_need_no_search(winogen, no_search):
    text = winogen("derive", 4, 3, "--points", "0,1,-1,7,-7,inf", "--matrices").stdout
    assert "A^T (4 x 6)" in text and "instructions" not in text
    data = as_json(winogen, 4, 3, "--points", "0,1,-1,7,-7,inf", "--matrices")
    assert "ops" not in data and BilinearAlgorithm.from_dict(data).verify()


@pytest.mark.parametrize("format", ["text", "json", "c"])
def test_programs_are_kept_until_they_are_damaged(winogen, monkeypatch, tmp_path, format):
    from winogen.codegen import textbook, transforms

    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    words = ("derive", 2, 2, "--points", "0,3,inf", "--format", format)
    first = winogen(*words).stdout
    (path,) = (tmp_path / "derived").iterdir()

    def fail(*arguments, **options):
        raise _Searched

    with monkeypatch.context() as patch:
        patch.setattr(textbook, "search", fail)
        patch.setattr(transforms, "_searched", fail)
        transforms._load.cache_clear()
        assert winogen(*words).stdout == first
        path.write_text(path.read_text()[:-20])
        transforms._load.cache_clear()
        assert isinstance(winogen(*words).exception, _Searched)
    assert winogen(*words).stdout == first


def test_large_tiles_say_that_they_have_moduli(winogen):
    printed = winogen("derive", 12, 3, "--matrices").stdout
    assert "  moduli           x, inf, x - 5/12, x + 5/12, x - 1, x + 1" in printed
    assert "from Cook-Toom to Fourier" in printed and "17 instead of 36 in 1D" in printed
    data = as_json(winogen, 6, 3, "--moduli", "fourier", "--matrices")
    assert data["moduli"][2] == "x^2 - (sqrt(2))*x + 1" and len(data["G"]) == 11


def test_too_many_default_points_name_the_options(refused):
    line = refused("derive", 50, 3)
    assert "n = m + r - 1 = 52; allowed: n <= 48" in line
    assert "--points or --moduli" in line and "points=" not in line


@pytest.mark.parametrize(
    "words", [(4, 3), (2, 3, "--moduli", "x,x-1,x^2+1"), (2, 3, "--points", "0,sqrt(2),-1,inf")]
)
def test_numpy_is_a_program_with_the_rounded_matrices(winogen, words):
    made = {}
    exec(winogen("derive", *words, "--format", "numpy").stdout, made)
    option = {words[k][2:]: words[k + 1] for k in range(2, len(words), 2)}
    f = (winograd if "moduli" in option else cook_toom)(*words[:2], **option)
    for name, wanted in zip(("AT", "G", "BT"), f.arrays()):
        assert made[name].dtype == np.float64 and np.array_equal(made[name], wanted)
    g, d = np.arange(3.0), np.arange(float(f.n))
    y = made["AT"] @ ((made["G"] @ g) * (made["BT"] @ d))
    assert np.allclose(y, np.correlate(d, g, "valid"))
