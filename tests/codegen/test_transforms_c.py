"""The emitted headers in plain C: they compile, they are right, they stay in registers."""

import ctypes
import os
import platform
import re
import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from winogen import resources
from winogen.algebra import cook_toom
from winogen.codegen import transforms
from winogen.codegen.ctext import routine
from winogen.codegen.shipped import catalog
from winogen.codegen.transforms import from_algorithm, load
from winogen.program import Program, Statement, Term
from winogen.program.summation import shorten

HEADERS = resources.folder("transforms")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
CC = os.environ.get("CC") or next((c for c in ("cc", *COMPILERS) if shutil.which(c)), None)
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror")

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")


def compile_c(folder, source, *flags, cc=CC, output="out"):
    (folder / "source.c").write_text(source)
    command = [*cc.split(), "source.c", "-o", output, f"-I{HEADERS}", *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / output


PLAIN = """
#include "f4_3.h"

int main(void)
{
    float image[6][6], kernel[3][3], V[6][6], U[6][6], P[6][6], Y[4][4];
    for (int i = 0; i < 36; i++) image[i / 6][i % 6] = (float)((i * 7) % 11 - 5);
    for (int i = 0; i < 9; i++) kernel[i / 3][i % 3] = (float)((i * 5) % 7 - 3);

    float v[6], u[6], p[6], y[4]; /* 1D: the first rows */
    winogen_f4_3_input(image[0], v);
    winogen_f4_3_filter(kernel[0], u);
    for (int a = 0; a < WINOGEN_F4_3_PRODUCTS; a++) p[a] = u[a] * v[a];
    winogen_f4_3_output(p, y);
    for (int i = 0; i < WINOGEN_F4_3_M; i++) {
        float direct = 0;
        for (int k = 0; k < WINOGEN_F4_3_R; k++) direct += kernel[0][k] * image[0][i + k];
        if (y[i] - direct > 1e-4f || direct - y[i] > 1e-4f) return 1;
    }

    winogen_f4_3_input_2d(image[0], 6, 1, V[0], 6, 1);
    winogen_f4_3_filter_2d(kernel[0], 3, 1, U[0], 6, 1);
    for (int a = 0; a < 36; a++) P[a / 6][a % 6] = U[a / 6][a % 6] * V[a / 6][a % 6];
    winogen_f4_3_output_2d(P[0], 6, 1, Y[0], 4, 1);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            float direct = 0;
            for (int k = 0; k < 9; k++)
                direct += kernel[k / 3][k % 3] * image[i + k / 3][j + k % 3];
            if (Y[i][j] - direct > 1e-3f || direct - Y[i][j] > 1e-3f) return 2;
        }
    return 0;
}
"""


def test_a_header_serves_a_plain_c_program(tmp_path):
    program = compile_c(tmp_path, PLAIN, *STRICT, "-pedantic")
    assert subprocess.run([program]).returncode == 0


@pytest.mark.parametrize("cc", COMPILERS)
@pytest.mark.parametrize(
    "vec, real",
    [
        ("float", "float"),
        ("double", "double"),
        ("float __attribute__((vector_size(16)))", "float"),
        ("float __attribute__((vector_size(32)))", "float"),
        ("double __attribute__((vector_size(64)))", "double"),
    ],
)
def test_every_header_compiles_without_a_warning(tmp_path, cc, vec, real):
    lines = [f"typedef {real} vec{vec[len(real) :]};", "#define WINOGEN_VEC vec"]
    lines += [f"#define WINOGEN_REAL {real}"]
    # The mixed use: filters transformed one by one in double, tiles as vectors.
    lines += ["#define WINOGEN_FILTER_VEC double", "#define WINOGEN_FILTER_REAL double"]
    lines += [f'#include "{name}.h"\n#include "{name}.h"' for name in catalog()]
    compile_c(tmp_path, "\n".join(lines) + "\n", *STRICT, "-c", cc=cc, output="out.o")


def test_headers_are_valid_cplusplus(tmp_path):
    if not shutil.which("g++"):
        pytest.skip("no g++")
    source = "".join(f'#include "{name}.h"\n' for name in ("f4_3", "f6_3", "f4_3_gaussian"))
    compile_c(tmp_path, source, "-x", "c++", "-Wall", "-Wextra", "-Werror", "-c", cc="g++")


# ---- the emitted C and Program.run round alike ---------------------------------------------------

BITS = """
#define WINOGEN_VEC vec
#define WINOGEN_REAL {real}
typedef {real} vec __attribute__((vector_size(32), aligned(8)));
{header}
void {real}_input(const vec *d, vec *v) {{ winogen_{name}_input(d, v); }}
void {real}_filter(const vec *g, vec *u) {{ winogen_{name}_filter(g, u); }}
void {real}_output(const vec *p, vec *y) {{ winogen_{name}_output(p, y); }}
"""

fractions = st.fractions(min_value=-4, max_value=4, max_denominator=9)


@st.composite
def algorithms(draw):
    m, r = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    count = m + r - 1
    infinite = draw(st.booleans())
    points = draw(
        st.lists(fractions, min_size=count - infinite, max_size=count - infinite, unique=True)
    )
    return cook_toom(m, r, [*points, *(["inf"] if infinite else [])])


# 1 + 2^-24 + 2^-60: rounding to double first and to float then goes the wrong way.
TIE = Fraction(2**60 + 2**36 + 1, 2**60)


@pytest.mark.thorough
@settings(max_examples=8)
@given(algorithms(), st.integers(0, 2**32 - 1))
@example(cook_toom(1, 3, [0, TIE, "inf"]), 1)
@example(cook_toom(4, 3, "0,sqrt(2)/2,-sqrt(2)/2,sqrt(2),-sqrt(2),inf"), 2)
def test_c_without_contraction_equals_the_evaluator_bit_for_bit(tmp_path_factory, algorithm, seed):
    folder = tmp_path_factory.mktemp("bits")
    programs = shorten(algorithm.matrices)
    with pytest.MonkeyPatch.context() as patch:  # the search for them takes seconds
        patch.setattr(transforms, "programs_of", lambda *_: programs)
        t = from_algorithm(algorithm, scale=False)
    for real in ("float", "double"):
        (folder / f"{real}.c").write_text(BITS.format(real=real, header=t.header, name=t.name))
    source = '#include "float.c"\n'
    (folder / "other.c").write_text('#include "double.c"\n')
    flags = ("other.c", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-w")
    library = ctypes.CDLL(str(compile_c(folder, source, *flags, output="bits.so")))
    rng = np.random.default_rng(seed)
    for real, dtype in (("float", np.float32), ("double", np.float64)):
        lanes = 32 // np.dtype(dtype).itemsize
        for kind, program in programs.items():
            values = rng.standard_normal((len(program.inputs), lanes)).astype(dtype)
            found = np.full((len(program.outputs), lanes), np.nan, dtype)
            function = getattr(library, f"{real}_{kind}")
            function(values.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p))
            wanted = program.run(values)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{t.name} {kind} {real}")


def test_every_statement_shape_has_its_own_text():
    one, k = Fraction(1), Fraction(5, 4)
    program = Program(
        ("d0", "d1"),
        (
            Statement("a", (Term(-one, "d0"),)),
            Statement("b", (Term(-k, "d1"), Term(-one, "a"))),
            Statement("c", (Term(-k, "a"), Term(one, "b"))),
            Statement("e", (Term(3, "c"),)),
        ),
        ("b", "d1", "b", "0", "e"),
    )
    text = routine(program, "d", "v")
    assert [(c.name, c.initialiser) for c in text.constants] == [("k5_4", "5.0 / 4"), ("k3", "3")]
    assert text.lines == (
        "const WINOGEN_VEC t0 = -d[0];",
        "const WINOGEN_VEC v0 = -k5_4 * d[1] - t0;",
        "v[0] = v0;",
        "const WINOGEN_VEC t1 = v0 - k5_4 * t0;",
        "v[4] = k3 * t1;",
        "v[1] = d[1];",
        "v[2] = v0;",
        "v[3] = (WINOGEN_VEC){0};",
    )
    assert text.equations == (
        "t0 = -d0",
        "v0 = -5/4 d1 - t0",
        "v4 = 3 (v0 - 5/4 t0)",
        "v1 = d1",
        "v2 = v0",
        "v3 = 0",
    )


def test_the_equations_are_the_program():
    """The head comment, read as Python, computes what the matrices say."""
    for name in ("f4_3", "f6_3", "f3_5", "f4_3_gaussian"):
        t = load(catalog()[name]["m"], catalog()[name]["r"], name=name)
        for letter, out, matrix in (("d", "v", t.bt), ("g", "u", t.g), ("p", "y", t.at)):
            values = [Fraction(3 * j * j + 7 * j + 1, j + 2) for j in range(len(matrix[0]))]
            scope = {f"{letter}{j}": value for j, value in enumerate(values)} | {"F": Fraction}
            for line in re.findall(rf"^ \*     ([t{out}]\d+ = .*)$", block(t.header, letter), re.M):
                line = re.sub(
                    r"(?<!\w)(\d+)(?:/(\d+))? (?=[a-z(])",
                    lambda k: f"F({k[1]}, {k[2] or 1}) * ",
                    line,
                )
                exec(line, scope)
            found = [scope[f"{out}{i}"] for i in range(len(matrix))]
            assert found == [sum(c * x for c, x in zip(row, values)) for row in matrix], name


def block(header, letter):
    """The comment in front of the 1D function that reads ``letter``."""
    return re.search(rf"/\* \w = \S+ {letter}:.*?\*/", header, re.S).group()


# ---- registers -----------------------------------------------------------------------------------

MEMORY = """
typedef float vec __attribute__((vector_size({bytes})));
#define WINOGEN_VEC vec
#include "f6_3.h"
void input(const vec *d, vec *v) {{ winogen_f6_3_input(d, v); }}
void filter(const vec *g, vec *u) {{ winogen_f6_3_filter(g, u); }}
void output(const vec *p, vec *y) {{ winogen_f6_3_output(p, y); }}
"""


def stack_references(folder, cc, size, *flags):
    """Function -> instructions that touch the stack, read from the compiler's assembly."""
    source = MEMORY.format(bytes=size)
    path = compile_c(folder, source, "-O3", "-S", "-fomit-frame-pointer", *flags, cc=cc)
    found, current = {}, None
    for line in path.read_text().splitlines():
        if label := re.match(r"(input|filter|output):", line):
            current = found[label[1]] = []
        elif current is not None and re.search(r"%[er][sb]p\b", line) and ".cfi" not in line:
            current.append(line.strip())
    assert set(found) == {"input", "filter", "output"}
    return found


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
@pytest.mark.parametrize("cc", COMPILERS)
def test_f6_3_spills_no_register(tmp_path, cc):
    none = {"input": [], "filter": [], "output": []}
    assert stack_references(tmp_path, cc, 32, "-mavx2", "-mfma") == none
    assert stack_references(tmp_path, cc, 64, "-mavx512f", "-mfma") == none


@pytest.mark.skipif("gcc" not in COMPILERS, reason="only gcc can be denied registers")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
def test_a_spill_would_be_seen(tmp_path):
    denied = [f"-ffixed-xmm{i}" for i in range(5, 16)]
    assert stack_references(tmp_path, "gcc", 32, "-mavx2", "-mfma", *denied)["input"]


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("real", ["float", "double", "int", "short"])
def test_integer_types_are_refused_by_the_compiler(tmp_path, language, real):
    text = f"#define WINOGEN_VEC {real}\n#define WINOGEN_REAL {real}\n{load(4, 3).header}"
    path = tmp_path / "header.c"
    path.write_text(text)
    standard = "-std=c11" if language == "c" else "-std=c++17"
    words = [CC, "-x", language, standard, "-Wall", "-Wextra", "-Wpedantic",
             "-Werror", "-fsyntax-only", str(path)]  # fmt: skip
    result = subprocess.run(words, capture_output=True, text=True)
    if language == "c++" and "c++" in result.stderr and "static assertion" not in result.stderr:
        pytest.skip("no C++ compiler")
    assert (result.returncode == 0) == (real in ("float", "double")), result.stderr
    if result.returncode:
        assert "WINOGEN_REAL: a floating type" in result.stderr


@pytest.mark.parametrize("name", ["f4_3", "f8_3_gaussian"])
def test_constants_convert_without_a_warning(tmp_path, name):
    path = tmp_path / "header.c"
    entry = catalog()[name]
    path.write_text(load(entry["m"], entry["r"], name=name).header)
    words = [CC, "-x", "c", "-fsyntax-only", "-Wall", "-Wconversion",
             "-Wfloat-conversion", "-Wsign-conversion", "-Werror", str(path)]  # fmt: skip
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
