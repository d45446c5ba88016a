"""Generated C for microcontrollers: it links with nothing but what its page says, and runs."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from network.test_network import net_of

from winogen import conv2d
from winogen.conv.standalone import standalone
from winogen.conv.standalone_gemm import standalone_gemm
from winogen.conv.standalone_quantized import standalone_quantized
from winogen.conv.standalone_transposed import standalone_transposed
from winogen.network import generate
from winogen.records import ACTIVATIONS
from winogen.records.activations import spelled
from winogen.records.target import MICROCONTROLLERS

STRICT = "-Wall -Wextra -Wconversion -Wpedantic -Wshadow -Werror".split()
LAYER = ((1, 5, 9, 10), (6, 5, 3, 3))
# What a layer may call: see docs/standalone.md. These begin the names of what compilers of
# ARM have for arithmetic and jumps that the CPU does not have.
ALLOWED = {"memcpy", "memset"}
OWN = ("__aeabi_", "__gnu_thumb1_case_")

KINDS = {
    "tiles": lambda isa: standalone(*LAYER, padding=1, algorithm="mcmr", isa=isa, name="made"),
    "tiles2d": lambda isa: standalone(*LAYER, algorithm="winograd2d", isa=isa, name="made"),
    "tiles1d": lambda isa: standalone(
        *LAYER, algorithm="winograd1d", layout="NCHW", isa=isa, name="made"
    ),
    "direct": lambda isa: standalone(
        *LAYER, padding=1, stride=2, algorithm="direct", isa=isa, name="made"
    ),
    "depthwise": lambda isa: standalone(
        (1, 5, 9, 10), (5, 1, 3, 3), groups=5, isa=isa, name="made"
    ),
    "transposed": lambda isa: standalone_transposed(
        (1, 4, 6, 7), (4, 6, 4, 4), stride=2, padding=1, isa=isa, name="made"
    ),
    "product": lambda isa: standalone_gemm(7, 9, 11, isa=isa, name="made"),
    "bytes": lambda isa: standalone_quantized(*LAYER, padding=1, isa=isa, name="made"),
    "reals": lambda isa: standalone_quantized(
        *LAYER, activation="silu", y_scale=0.05, isa=isa, name="made"
    ),
    **{
        name: lambda isa, name=name: standalone(
            *LAYER, activation=spelled(name, ()), isa=isa, name="made"
        )
        for name, one in ACTIVATIONS.items()
        if not one.defaults and not one.parameters and not one.per_filter
    },
}


def compiled(folder, cpu, flags, *sources):
    """Compile files, all their warnings errors."""
    if not shutil.which("arm-none-eabi-gcc"):
        pytest.skip("needs arm-none-eabi-gcc")
    words = ["arm-none-eabi-gcc", *MICROCONTROLLERS[cpu], "-std=c11", *flags, *STRICT, *sources]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr[:3000]


def wanted(path):
    """Names that an object file wants of others."""
    words = ["arm-none-eabi-nm", "-u", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(re.findall(r"U (\S+)", done.stdout))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind, cpu",
    [
        (kind, cpu)
        for kind in KINDS
        for cpu in ("cortex-m0", "cortex-m4", "cortex-m7")
        if kind not in ACTIVATIONS or cpu == "cortex-m4"
    ],
)
def test_a_layer_calls_nothing_else(kind, cpu, tmp_path):
    for name, text in KINDS[kind](cpu).items():
        (tmp_path / name).write_text(text)
    for level in ("-Os",) if kind in ACTIVATIONS else ("-O2", "-Os", "-O3"):
        compiled(tmp_path, cpu, [level, "-c"], "made.c")
        others = {name for name in wanted(tmp_path / "made.o") if not name.startswith(OWN)}
        assert others <= ALLOWED, level


def test_a_layer_links_without_atomics(tmp_path):
    for name, text in KINDS["tiles"]("cortex-m0").items():
        (tmp_path / name).write_text(text)
    compiled(tmp_path, "cortex-m0", ["-Os", "-c"], "made.c")
    assert not any("atomic" in name for name in wanted(tmp_path / "made.o"))


MAIN = """
#include "board_m4.h"
#include "made.h"
#include <string.h>

static const float input[] = { %(input)s }, weight[] = { %(weight)s }, expected[] = { %(output)s };
static float output[sizeof expected / sizeof *expected];
static _Alignas(64) char packed[%(packed)d], workspace[%(workspace)d];

int main(void)
{
    if (made_packed_bytes() > sizeof packed || made_workspace_bytes(1) > sizeof workspace) leave();
    made_pack(weight, (float *)packed, 1);
    made_run(input, (const float *)packed, NULL, output, workspace, 1);
    uint32_t wrong = 0;
    for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++)
        wrong += !(output[i] - expected[i] < 1e-2f && expected[i] - output[i] < 1e-2f);
    print(wrong, '\\n');
    leave();
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["direct", "mcmr", "winograd1d"])
def test_a_layer_computes_on_an_emulated_cortex_m4(algorithm, tmp_path, on_m4):
    board = on_m4("board_m4")
    random = np.random.default_rng(1)
    image = random.integers(-3, 4, LAYER[0]).astype(np.float32)
    weight = random.integers(-3, 4, LAYER[1]).astype(np.float32)
    expected = conv2d(image, weight, padding=1, algorithm="direct")
    files = standalone(*LAYER, padding=1, algorithm=algorithm, isa="cortex-m4", name="made")
    numbers = {
        what: ", ".join(map(str, array.ravel().tolist()))
        for what, array in (("input", image), ("weight", weight), ("output", expected))
    }
    (tmp_path / "memory.ld").write_text(on_m4("tiles_on_m4")._MEMORY)
    (tmp_path / "main.c").write_text(MAIN % {**numbers, "packed": 1 << 18, "workspace": 1 << 18})
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = [*board.BARE, "-Tmemory.ld", "main.c", "made.c", "-o", "layer"]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert board.output_of(tmp_path / "layer").split() == ["0"]


@pytest.mark.thorough
def test_ten_layers_have_little_code(tmp_path):
    """Calls of one kernel share its text, and blocks fit the registers."""
    net, value, channels = net_of(), "x", 3
    for number, filters in enumerate((16, 16, 32, 32, 32, 64, 64, 64, 64, 10)):
        stride = 2 if number in (2, 5) else 1
        value = net.node("Relu", net.conv(value, channels, filters, strides=[stride, stride]))
        channels = filters
    model = net.model(value, shape=[1, 3, 32, 32])
    files = generate(model, isa="cortex-m7", workspace_limit=16384)
    files.write(tmp_path)
    kernels = [file for file in files.contents if re.fullmatch(r"net_\d\d\.c", file)]
    headers = [file for file in files.contents if re.fullmatch(r"net_\d\d\.h", file)]
    assert len(kernels) < len(headers) < 10
    sources = ["net.c", *kernels]
    compiled(tmp_path, "cortex-m7", ["-Os", "-c"], *sources)
    words = ["arm-none-eabi-size", *(file.replace(".c", ".o") for file in sources)]
    lines = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert sum(int(line.split()[0]) for line in lines.splitlines()[1:]) <= 120 << 10
