"""Transforms in other languages: read back they are their matrices, and they run where they can."""

import re
import shutil
import subprocess
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from winogen.cli.derive import OutputFormat
from winogen.codegen.dialects import DIALECTS, render
from winogen.codegen.transforms import load
from winogen.errors import InvalidValue
from winogen.program.kinds import KINDS

SETS = {
    "f4_3": partial(load, 4, 3),
    "complex": partial(load, 3, 3, moduli="x,x-1,x+1,x^2+1"),
    "strided": partial(load, 2, 3, stride=2),
    "huffman": partial(load, 2, 4, order="huffman"),
    "one": partial(load, 1, 1),
}


# ---- read back -----------------------------------------------------------------------------------

LINE = re.compile(
    r"\s*(?:(?:const|let|var|mut) )*(?:[A-Za-z_]\w* )?(?P<target>\w+)(?:\[(?P<index>\d+)\])?"
    r"(?:: \w+)? = (?P<value>[^;#]+?);?(?:\s*(?://|#) (?P<exact>.*))?"
)
NUMBER = re.compile(r"(?<![\w.\[])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)f?(?![\w.\]])")


def same(value):
    return value


NAMES = {
    "F": Fraction,
    **dict.fromkeys(("T", "real", "WINOGEN_VEC"), same),
    "vaddq_f32": lambda x, y: x + y,
    "vsubq_f32": lambda x, y: x - y,
    "vnegq_f32": lambda x: -x,
    "vmulq_n_f32": lambda x, k: k * x,
    "winogen_fma": lambda y, x, k: y + k * x,
    "winogen_fms": lambda y, x, k: y - k * x,
}


def matrix_of(text, transform, kind, dialect):
    """The matrix that a 1D function of a file computes, by its statements."""
    _, _, source, target = KINDS[kind]
    lines = text.splitlines()
    head = re.compile(rf"winogen_{transform.name}_{kind}\(")
    start = next(i for i, line in enumerate(lines) if head.search(line))
    first = dialect.spelling.first
    inputs, outputs = len(transform.matrices[kind][0]), len(transform.matrices[kind])
    unit = np.array([[Fraction(i == j) for j in range(inputs)] for i in range(inputs)], object)
    values = {source: dict(enumerate(unit, first)), target: {}, **NAMES}
    for line in lines[start:]:
        if line.strip() in ("}", "end") or line.strip().startswith("return"):
            break
        found = LINE.fullmatch(line)
        if not found or "undef" in line or "None" in line or "[0.0;" in line:
            continue
        at, index, code, exact = found["target"], found["index"], found["value"], found["exact"]
        code = NUMBER.sub(r'F("\1")', code.replace("(float32_t)", ""))
        value = eval(code, {}, values)
        if exact:
            assert np.float32(float(value)) == np.float32(float(Fraction(exact)))
            value = Fraction(exact)
        if index is None:
            values[at] = value
        else:
            assert int(index) not in values[at]
            values[at][int(index)] = value
    return [list(values[target][first + i]) for i in range(outputs)]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("name", SETS)
def test_every_function_is_its_matrix(dialect, name):
    transform = SETS[name]()
    text = render(transform, dialect.name)
    assert text == render(transform, dialect.name) and text.endswith("\n")
    assert all(line == line.rstrip() for line in text.splitlines())
    for kind, matrix in transform.matrices.items():
        assert matrix_of(text, transform, kind, dialect) == list(map(list, matrix))


def test_constants_beyond_single_precision():
    text = render(load(2, 2, "0,123456789/1000,inf"), "rust")
    found = dict(re.findall(r"= ([\d.e-]+); // ([\d/]+)", text))
    assert found
    for decimal, exact in found.items():
        assert abs(Fraction(decimal) / Fraction(exact) - 1) < 1e-24


def test_formats_of_derive_are_the_dialects():
    compiled = {"c", "fixed", "verilog", "hls", "fpcore"}
    others = {"text", "json", "latex", "numpy", *compiled}
    assert {one.value for one in OutputFormat} == {*DIALECTS, *others}
    assert {one.value for one in OutputFormat if one.has_programs_only} == {*compiled, *DIALECTS}
    with pytest.raises(InvalidValue, match="dialect: got 'cobol'; allowed: neon, cuda, opencl"):
        render(SETS["f4_3"](), "cobol")


# ---- run -----------------------------------------------------------------------------------------

HERE = Path(__file__).parent / "dialects"
M, R, N = 4, 3, 6
IMAGE = [[(6 * i + j) * 7 % 11 - 5 for j in range(N)] for i in range(N)]
KERNEL = [[(3 * i + j) * 5 % 7 - 3 for j in range(R)] for i in range(R)]
EXPECTED = [
    [sum(KERNEL[y][x] * IMAGE[i + y][j + x] for y in range(R) for x in range(R)) for j in range(M)]
    for i in range(M)
]


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


def run(folder, dialect, driver, *commands):
    """Run commands on a driver and the file it includes; return what the last one prints."""
    name = f"f4_3.{DIALECTS[dialect].suffix}"
    (folder / name).write_text(render(SETS["f4_3"](), dialect))
    shutil.copy(HERE / driver, folder)
    for command in commands:
        done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout
        assert not done.stderr
    return done.stdout


def check(printed):
    made = [float(word) for word in printed.split()]
    np.testing.assert_allclose(made, np.ravel(EXPECTED), rtol=0, atol=1e-4)


def test_python_is_exact():
    made = {}
    exec(render(SETS["f4_3"](), "python"), made)
    v_of, u_of, y_of = (made[f"winogen_f4_3_{kind}_2d"] for kind in KINDS)
    image, kernel = ([list(map(Fraction, row)) for row in rows] for rows in (IMAGE, KERNEL))
    v, u = v_of(image, Fraction), u_of(kernel, Fraction)
    assert y_of([[a * b for a, b in zip(*rows)] for rows in zip(v, u)], Fraction) == EXPECTED


def test_python_takes_arrays():
    made = {}
    exec(render(SETS["f4_3"](), "python"), made)
    v_of, u_of, y_of = (made[f"winogen_f4_3_{kind}_2d"] for kind in KINDS)
    v, u = v_of([[np.full(3, x, np.float32) for x in row] for row in IMAGE]), u_of(KERNEL)
    y = np.array(y_of([[a * b for a, b in zip(*rows)] for rows in zip(v, u)]))
    np.testing.assert_allclose(y, np.array(EXPECTED)[..., None] * np.ones(3), rtol=0, atol=1e-4)


def test_rust_runs(tmp_path):
    need("rustc")
    check(run(tmp_path, "rust", "main.rs", "rustc -O -D warnings main.rs", "./main"))


def test_julia_runs(tmp_path):
    need("julia")
    check(run(tmp_path, "julia", "main.jl", "julia main.jl"))


def test_opencl_runs_as_c(tmp_path):
    need("cc")
    build = "cc -DOPENCL -Wall -Wextra main.c -o main"
    check(run(tmp_path, "opencl", "main.c", build, "./main"))


@pytest.mark.parametrize("build", ("nvcc", "c++ -x c++ -Wall -Wextra -Wno-unknown-pragmas"))
def test_cuda_runs_on_the_host(tmp_path, build):
    need(build.split()[0])
    check(run(tmp_path, "cuda", "main.cu", f"{build} main.cu -o main", "./main"))


@pytest.mark.parametrize(
    "compiler, emulator",
    (("aarch64-linux-gnu-gcc", "qemu-aarch64"), ("arm-linux-gnueabihf-gcc -mfpu=neon", "qemu-arm")),
)
def test_neon_runs(tmp_path, compiler, emulator):
    need(compiler.split()[0], emulator)
    build = f"{compiler} -static -O2 -Wall -Wextra main.c -o main"
    check(run(tmp_path, "neon", "main.c", build, f"{emulator} ./main"))


def test_glsl_is_compiled(tmp_path):
    need("glslangValidator")
    run(tmp_path, "glsl", "main.comp", "glslangValidator -V main.comp")


def test_wgsl_is_parsed(tmp_path):
    need("naga")
    (tmp_path / "f4_3.wgsl").write_text(render(SETS["f4_3"](), "wgsl"))
    subprocess.run(["naga", "f4_3.wgsl"], cwd=tmp_path, check=True)
