"""A layer for C++20: a header without warnings, that refuses sizes, and parts on jthreads."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from winogen import conv2d
from winogen.conv.standalone import standalone
from winogen.conv.standalone_quantized import standalone_quantized
from winogen.conv.standalone_transposed import standalone_transposed
from winogen.errors import InvalidValue
from winogen.toolchain import find_compiler, host_target

PROGRAM = Path(__file__).parent / "layer_in_parts.cpp"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
REFUSED = """\
parts: got 0; allowed: 1 or more
weight: got 5 numbers; allowed: 1296
input: got 5 numbers; allowed: 1352
bias: got 5 numbers; allowed: 18
add: got 5 numbers; allowed: 3042
part: got 2; allowed: from 0 to 1
"""

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def written(folder, *shapes, write=standalone, **options):
    for file, text in write(*shapes, name="tiny", host="c++", **options).items():
        (folder / file).write_text(text)


@pytest.mark.parametrize("algorithm", ["mcmr", "direct"])
def test_parts_run_on_threads_and_bad_sizes_are_refused(tmp_path, algorithm):
    rng = np.random.default_rng(0)
    x, w, bias, add = (
        rng.standard_normal(shape, np.float32)
        for shape in ((1, 8, 13, 13), (18, 8, 3, 3), 18, (1, 18, 13, 13))
    )
    target = host_target()
    options = {"padding": 1, "algorithm": algorithm, "threads": 4}
    written(tmp_path, x.shape, w.shape, isa=target.name, add=True, **options)
    for name, array in (("input", x), ("weight", w), ("bias", bias), ("add", add)):
        array.tofile(tmp_path / f"{name}.bin")
    for command in (
        [*find_compiler().command, "-std=c11", "-O1", "-c", "tiny.c", *target.flags],
        ["g++", "-std=c++20", "-O1", *WARNINGS, "-I.", PROGRAM, "tiny.o", "-pthread", "-o", "main"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == REFUSED
    y = np.fromfile(tmp_path / "output.bin", np.float32).reshape(add.shape)
    wanted = conv2d(x, w, bias, padding=1, add=add, algorithm="direct")
    assert np.abs(y - wanted).max() < 1e-4


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("activation", ["prelu", None])
def test_headers_of_all_arrays_compile(tmp_path, dtype, activation):
    slopes = {"activation": ("prelu", 0.1)} if activation else {"padding_mode": "reflect"}
    shapes = (2, 3, 9, 8), (5, 3, 3, 3)
    written(tmp_path, *shapes, dtype=dtype, add_after=True, isa="generic", **slopes)
    program = '#include "tiny.hpp"\nint main() { return tiny::output_numbers != 2 * 5 * 7 * 6; }\n'
    (tmp_path / "main.cpp").write_text(program)
    compile_ = ["g++", "-std=c++20", *WARNINGS, "-I.", "main.cpp", "-o", "main"]
    subprocess.run(compile_, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)


# Each output is a sum of so many products alike, with a bias.
OTHERS = {
    "transposed": (standalone_transposed, (1, 8, 5, 6), (8, 3, 2, 2), {"stride": 2},
                   ("float", "float", 1, 0.5, "std::vector<float>(bias_numbers, 1),", "", 5)),
    "bytes": (standalone_quantized, (1, 6, 5, 6), (3, 6, 3, 3), {"y_zero": 3},
              ("uint8_t", "int8_t", 2, 1, "", ", std::vector<int32_t>(bias_numbers, 4), "
               "std::vector<float>(multiplier_numbers, 0.5f)", 59)),
}  # fmt: skip
EVERYWHERE = """
#include <cstdio>
#include <vector>
#include "tiny.hpp"

using namespace tiny;

int main()
{{
    const std::vector<{1}> weight(weight_numbers, {1}({3}));
    const std::vector<{0}> input(input_numbers, {0}({2}));
    std::vector<{0}> output(output_numbers);
    const tiny::layer conv(weight{5});
    conv.run(input, {4} output, tiny::workspace(3));
    for (const {0} one : output)
        if (one != {0}({6})) return 1;
    try {{
        tiny::layer{{std::span<const {1}>(){5}}};
    }} catch (const std::invalid_argument &problem) {{
        std::puts(problem.what());
    }}
}}
"""


@pytest.mark.parametrize("kind", OTHERS)
def test_layers_of_other_kinds(tmp_path, kind):
    write, *shapes, options, words = OTHERS[kind]
    written(tmp_path, *shapes, write=write, isa="generic", **options)
    (tmp_path / "main.cpp").write_text(EVERYWHERE.format(*words))
    for command in (
        [*find_compiler().command, "-std=c11", "-O1", "-c", "tiny.c"],
        ["g++", "-std=c++20", "-O1", *WARNINGS, "-I.", "main.cpp", "tiny.o", "-o", "main"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True)
    count = np.prod(shapes[1])
    assert done.stdout == f"weight: got 0 numbers; allowed: {count}\n"


@pytest.mark.parametrize("name", ["std", "layer", "class"])
def test_names_that_the_header_needs_are_refused(name):
    with pytest.raises(InvalidValue, match=f"name: got '{name}'"):
        standalone((1, 3, 9, 8), (5, 3, 3, 3), name=name, host="c++")
