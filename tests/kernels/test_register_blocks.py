"""Register blocks of layers, and what the compiler makes of them: loads and stack accesses."""

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise

import pytest
from kernels.samples import work_for as of_shapes

from winogen.codegen.render import render
from winogen.conv.choice import Choice
from winogen.conv.cuts import work_of
from winogen.kernels import assign, named
from winogen.kernels.register_blocks import is_kept, outputs_of, register_blocks, sizes_of
from winogen.kernels.registers import RegisterBlock, registers_needed
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision
from winogen.toolchain import find_compiler
from winogen.toolchain.compiler import flags_for
from winogen.tuning.layers import load_layers

LAYERS = {layer.name: layer for name in ("thesis27", "resnet50") for layer in load_layers(name)}


def work_for(layer, target="avx512", layout="NHWC", algorithm="direct"):
    problem = LAYERS[layer].problem(layout)
    return assign(work_of(problem, Choice(algorithm), TARGETS[target]))


def sizes(layer, **where):
    return [(block.rows, block.vectors) for block in register_blocks(work_for(layer, **where))]


@pytest.mark.parametrize(
    "layer, where, expected",
    [
        # 16 vectors of filters: blocks of 5 leave one over
        ("vgg16-56x56x256-256-k3", {}, [(6, 4), (9, 3), (14, 2)]),
        # 14 pixels: with 5 rows three panels, as with 6; 32 vectors: seven blocks of 5
        ("vgg16-14x14x512-512-k3", {}, [(5, 5), (6, 4), (9, 3), (14, 2)]),
        # two vectors of filters: no block is wider
        ("mobilenetv2-112x112x32-32-k3", {}, [(14, 2)]),
        ("vgg16-56x56x256-256-k3", {"target": "avx2"}, [(4, 3), (6, 2)]),
        # pixels in the lanes: 3 channels, 64 filters are the rows
        ("vgg16-224x224x3-64-k3", {"layout": "NCHW"}, [(5, 5), (6, 4), (9, 3), (14, 2)]),
    ],
)
def test_the_blocks_of_a_layer(layer, where, expected):
    assert sizes(layer, **where) == expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_every_block_fits_the_registers_and_fewer_filters_mean_more_loads(target, layout):
    for name in LAYERS:
        work = work_for(name, target, layout)
        found = register_blocks(work)
        assert found, name
        for block in found:
            assert registers_needed(block.rows, block.vectors) <= TARGETS[target].registers
            assert is_kept(TARGETS[target], block)
            tuning = work.tuning.with_sizes(sizes_of(work, block))
            assert (tuning.rows, tuning.vectors) == (block.rows, block.vectors)
            assert named(work.variant).sizes_fit(work, tuning)
        for better, worse in pairwise(found):
            assert better.loads < worse.loads and better.vectors > worse.vectors


def test_variants_without_a_free_block_have_none():
    assert register_blocks(work_for("vgg16-56x56x256-256-k3", algorithm="mcmr")) == []


def test_the_outputs_of_a_block_are_even_panels():
    work = work_for("vgg16-28x28x512-512-k3")
    assert outputs_of(work, RegisterBlock(9, 3, 0.444, 31)) == (7, 48)
    planar = work_for("vgg16-224x224x3-64-k3", layout="NCHW")
    assert outputs_of(planar, RegisterBlock(9, 3, 0.444, 31)) == (48, 9)


needs_objdump = pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
needs_gcc = pytest.mark.skipif(
    find_compiler().family != "gcc" or not re.search(r" 12\.[\d.]+$", find_compiler().version),
    reason="reads what gcc 12 emits",
)


def x86_compiler():
    """Compiles for x86, whatever this CPU has."""
    compiler = find_compiler()
    machine = subprocess.run([*compiler.command, "-dumpmachine"], capture_output=True, text=True)
    if "x86_64" not in machine.stdout:
        pytest.skip("the compiler is not for x86")
    return compiler


def innermost_loop(target, layout, block, folder):
    """The instructions of the micro-kernel's loop over channels, as `objdump` shows them."""
    compiler, variant, precision = x86_compiler(), named("direct"), Precision.of("float32")
    own = variant.tuning(TARGETS[target], precision)
    tuning = replace(own, rows=block.rows, vectors=block.vectors)
    source = render(KernelSpec("direct", layout, precision, TARGETS[target], tuning))
    function = f"gemm_{block.vectors}_{block.rows}"
    # The micro-kernel alone, and of all sizes of panels the largest.
    source = source[: source.index("/* By vectors and rows, less one. */")]
    source = re.sub(r"^GEMM\(\d.*\)$", "", source, flags=re.MULTILINE)
    source += f"GEMM({block.vectors}, {block.rows}, )\ngemm_function *const used = {function};\n"
    (folder / "kernel.c").write_text(source)
    flags = [flag for flag in flags_for(TARGETS[target]) if flag != "-shared"]
    subprocess.run(
        [*compiler.command, *flags, "-c", "kernel.c", "-o", "kernel.o"], cwd=folder, check=True
    )
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "kernel.o"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    body = re.search(rf"<{function}>:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)[1]
    lines = re.findall(r"^\s*([0-9a-f]+):\s+(.*?)\s*$", body, re.MULTILINE)
    code = [(int(address, 16), instruction) for address, instruction in lines]
    loops = []
    for address, instruction in code:
        jump = re.match(r"j\w+\s+([0-9a-f]+)", instruction)
        if jump and int(jump[1], 16) < address:
            inside = [text for at, text in code if int(jump[1], 16) <= at <= address]
            if any("fmadd" in text for text in inside):
                loops.append(inside)
    return min(loops, key=len)


@needs_objdump
@needs_gcc
@pytest.mark.parametrize(
    "target, layout, rows, vectors",
    [
        ("avx512", "NHWC", 14, 2),
        ("avx512", "NHWC", 9, 3),
        ("avx512", "NCHW", 6, 4),
        ("avx512", "NHWC", 5, 5),
        ("avx512", "NHWC", 4, 6),
        ("avx2", "NHWC", 4, 3),
        ("avx2", "NCHW", 6, 2),
    ],
)
def test_the_emitted_loop_has_the_loads_of_the_formula(target, layout, rows, vectors, tmp_path):
    block = RegisterBlock(rows, vectors, 1 / rows + 1 / vectors, registers_needed(rows, vectors))
    assert is_kept(TARGETS[target], block)
    loop = innermost_loop(target, layout, block, tmp_path)
    fmas = [text for text in loop if text.startswith("vfmadd")]
    memory = [text for text in loop if re.match(r"v\w+\s.*\(%r", text)]
    # The loop is unrolled by four steps, where pixels lie in the lanes by half a chunk.
    steps = max(4, TARGETS[target].lanes("float32") // 2) if layout == "NCHW" else 4
    assert len(fmas) == steps * rows * vectors
    assert len(memory) == steps * (rows + vectors)
    assert len(memory) / len(fmas) == pytest.approx(block.loads)
    assert not any(re.search(r"\(%r[sb]p", text) for text in loop)  # no spill
    sums = {re.search(r"%([xyz]mm\d+)$", text)[1] for text in fmas}
    assert len(sums) == rows * vectors


@needs_objdump
@needs_gcc
def test_a_block_that_is_not_kept_loads_more(tmp_path):
    """3x4 fits 16 registers by the formula, but not with all four vectors held."""
    block = RegisterBlock(3, 4, 7 / 12, registers_needed(3, 4))
    assert block.registers <= 16 and not is_kept(TARGETS["avx2"], block)
    loop = innermost_loop("avx2", "NHWC", block, tmp_path)
    assert sum(bool(re.match(r"v\w+\s.*\(%r", text)) for text in loop) > 7


@pytest.mark.parametrize(
    "algorithm, size, layout",
    [("direct", 3, "NHWC"), ("direct", 1, "NCHW"), ("mcmr", 3, "NHWC")],
)
def test_what_is_added_is_fetched(algorithm, size, layout, tmp_path):
    """Compilers may take a function that only fetches for one that does nothing."""
    compiler, target = x86_compiler(), TARGETS["avx512"]
    tile = {"tile": (4, 4)} if algorithm == "mcmr" else {}
    work = of_shapes(
        (64, 64, size, size),
        (1, 28, 28),
        algorithm,
        target,
        layout=layout,
        padding=size // 2,
        **tile,
    )
    (tmp_path / "kernel.c").write_text(render(KernelSpec.of(work)))
    flags = [flag for flag in flags_for(target) if flag != "-shared"]
    subprocess.run([*compiler.command, *flags, "-S", "kernel.c"], cwd=tmp_path, check=True)
    assert re.search(r"\t(call|jmp)\tfetch_added", (tmp_path / "kernel.s").read_text())
