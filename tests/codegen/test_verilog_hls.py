"""The header for high-level synthesis, compiled with types that wrap as ap_int and ac_int do."""

import subprocess
from pathlib import Path

import pytest

from winogen.algebra import cook_toom, winograd
from winogen.codegen.verilog.bench import expected, tiles
from winogen.codegen.verilog.files import ModuleOptions, header, transforms
from winogen.toolchain import find_compiler

CASES = {
    "one axis": (lambda: cook_toom(4, 3, "0,1,-1,2,-2,inf"), ModuleOptions(bits=8)),
    "tiles": (lambda: winograd(4, 3, "x,x-1,x+1,x^2+1,inf"), ModuleOptions(bits=8, axes=2)),
    "rounded": (lambda: cook_toom(2, 3, "0,sqrt(2),-sqrt(2),inf"), ModuleOptions(fraction=6)),
    "tiles, rounded": (lambda: cook_toom(2, 3, "0,1,-1/3,inf"), ModuleOptions(axes=2, fraction=5)),
}
MAIN = """#include <cstdio>
#include "{shim}"
#include "{header}"
template <int W> using Integer = ap_int<W>;
int main() {{
    long long x;
{body}
    return 0;
}}
"""


def body(transform, count):
    """Statements that read so many tiles and print their transforms."""
    source, target = transform.inputs, transform.half if transform.axes == 2 else None
    lines = [f"for (int tile = 0; tile < {count}; tile++) {{"]
    if transform.axes == 1:
        made = transform.after(source[0])
        inputs = [f"d{k}" for k in range(len(source[0]))]
        outputs = [f"v{k}" for k in range(len(made))]
        for name, one in zip(inputs, source[0]):
            lines += [f'if (scanf("%lld", &x) != 1) return 1; Integer<{one.bits}> {name}(x);']
        lines += [f"Integer<{one.bits}> {name};" for name, one in zip(outputs, made)]
        lines += [f"{transform.name}<Integer>({', '.join([*inputs, *outputs])});"]
        lines += [f'printf("%lld\\n", (long long){name}.value);' for name in outputs]
    else:
        n, rows = len(source), [transform.after(row) for row in target]
        bits = max(one.bits for row in source for one in row)
        wide = max(one.bits for row in rows for one in row)
        lines += [
            f"Integer<{bits}> d[{n}][{n}]; Integer<{wide}> v[{len(rows)}][{len(rows)}];",
            "for (auto &row : d) for (auto &one : row) {",
            'if (scanf("%lld", &x) != 1) return 1; one = x; }',
            f"{transform.name}<Integer>(d, v);",
            'for (auto &row : v) for (auto &one : row) printf("%lld\\n", (long long)one.value);',
        ]
    return "\n".join([*lines, "}"])


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_python_computes(tmp_path, name):
    algorithm, options = CASES[name]
    algorithm = algorithm()
    text = header(algorithm, "t", "winogen derive", options)
    assert text == header(algorithm, "t", "winogen derive", options)
    assert all(len(line) <= 100 and line == line.rstrip() for line in text.splitlines())
    (tmp_path / "t.h").write_text(text)
    given, results, parts = [], [], []
    for transform, _ in transforms(algorithm, "winogen_t", options).values():
        some = tiles(transform, 50)
        parts.append(body(transform, len(some)))
        given += [x for tile in some for row in tile for x in row]
        results += [x for tile in some for row in expected(transform, tile) for x in row]
    shim = Path(__file__).with_name("hls.h")
    (tmp_path / "t.cpp").write_text(MAIN.format(shim=shim, header="t.h", body="\n".join(parts)))
    command = [
        *find_compiler().command,
        "-x",
        "c++",
        "-std=c++14",
        "-Wall",
        "-Wextra",
        "t.cpp",
        "-lstdc++",
    ]
    subprocess.run([*command, "-o", "t"], cwd=tmp_path, check=True)
    run = subprocess.run(
        [tmp_path / "t"],
        input=" ".join(map(str, given)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert list(map(int, run.stdout.split())) == results
