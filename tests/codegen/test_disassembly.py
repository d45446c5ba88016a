"""What compilers make of kernels for other CPUs: the inner loops, instruction by instruction."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from codegen.elsewhere import ELSEWHERE, Elsewhere
from kernels.samples import work_for

from winogen import kernels, resources
from winogen.codegen.render import parts, render
from winogen.codegen.transforms import load
from winogen.kernels.dots import DOTS
from winogen.kernels.gemm import GemmSpec
from winogen.kernels.gemm import tuning as gemm_tuning
from winogen.kernels.quantized import VECTORS, QuantizedSpec
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision
from winogen_lab.bench.stack import loops

pytestmark = pytest.mark.thorough  # they need compilers for other CPUs

# The least share of multiply-adds in the loop over channels of the largest register block, by
# instruction set, kernel and layout. What else is there are loads, one addition to an address, and
# the end of the loop; of direct convolution, where the next tap lies and its filters.
LIMITS = {
    ("neon", "mcmr", "NHWC"): 0.89,
    ("neon", "winograd1d", "NHWC"): 0.85,
    ("neon", "gemm", "NHWC"): 0.89,
    ("neon", "direct", "NHWC"): 0.85,
    ("neon", "direct", "NCHW"): 0.77,
    # Numbers are loaded into all lanes, by one instruction, and addressed by another: both run
    # beside multiply-adds, which are two in a cycle on cores with vectors of this length.
    ("sve256", "mcmr", "NHWC"): 0.48,
    ("sve256", "gemm", "NHWC"): 0.51,
    ("sve256", "direct", "NCHW"): 0.54,
    # Multiply-adds take a number from a register of scalars, into which one instruction loads it:
    # half of one for each of them, or a third. Vectors have no offset to their addresses.
    ("rvv128", "mcmr", "NHWC"): 0.55,
    ("rvv128", "gemm", "NHWC"): 0.58,
    ("rvv128", "direct", "NHWC"): 0.58,
    ("rvv128", "direct", "NCHW"): 0.57,
    ("armv7", "mcmr", "NHWC"): 0.76,
    ("armv7", "gemm", "NHWC"): 0.76,
    ("armv7", "direct", "NHWC"): 0.64,
}

# Vectors that go to the stack and come back.
STACK = re.compile(r"\t(?:ld|st)[pu]?r?\s+q.*\[(?:sp|x29)", re.MULTILINE)


def spec_of(isa, kernel, layout):
    target, precision = TARGETS[isa], Precision.of("float32")
    if kernel == "gemm":
        return GemmSpec(precision, target, gemm_tuning(target, 64))
    variant, along = kernels.named(kernel), load(4, 3)
    transforms = (along if wanted else None for wanted in variant.along)
    if any(variant.along) and not all(variant.along):
        transforms = (load(1, 1), along)
    tuning = variant.tuning(target, precision).compiled
    return KernelSpec(kernel, layout, precision, target, tuning, *transforms)


def source_of(spec):
    """The C of the micro-kernel alone, and of all sizes of panels the largest; its name."""
    name = f"gemm_{spec.tuning.vectors}_{spec.tuning.rows}"
    source = parts(spec).get(f"gemm_{spec.target.name}", render(spec))
    source = source[: source.index("/* By vectors and rows, less one. */")]
    source = re.sub(r"^GEMM\(\d.*\)$", "", source, flags=re.MULTILINE)
    block = f"GEMM({spec.tuning.vectors}, {spec.tuning.rows}, )"
    return f"{source}{block}\ngemm_function *const used = {name};\n", name


def disassembled(spec, isa, folder):
    """The instructions of `source_of`, and its name."""
    source, name = source_of(spec)
    (folder / "kernel.c").write_text(source)
    return ELSEWHERE[isa].disassembled(folder, "kernel.c", *spec.target.flags), name


@pytest.mark.parametrize("isa, kernel, layout", LIMITS)
def test_the_product_is_multiply_adds(isa, kernel, layout, tmp_path):
    spec = spec_of(isa, kernel, layout)
    rows, vectors = spec.tuning.rows, spec.tuning.vectors
    text, name = disassembled(spec, isa, tmp_path)
    steps = spec.precision.lanes(spec.target.vector_bytes) if spec.target.by_lane else 1
    size = steps * rows * vectors
    found = [one for one in loops(text) if one.function == name and one.arithmetic % size == 0]
    loop = max(found, key=lambda one: one.arithmetic)
    assert loop.arithmetic > 0
    assert loop.loads == loop.stores == 0, loop
    assert loop.arithmetic / loop.instructions >= LIMITS[isa, kernel, layout], loop


CLANG = Elsewhere(
    ("clang-16", "--target=x86_64-linux-gnu"), ("env",), objdump="objdump", major="16"
)


@pytest.mark.parametrize("kernel", ["mcmr", "direct", "gemm"])
def test_clang_keeps_sums_in_registers(kernel, tmp_path):
    """It unrolls loops before functions are inlined, too early to know how long they are."""
    CLANG.need()
    spec = spec_of("avx2", kernel, "NHWC")
    (tmp_path / "kernel.c").write_text(render(spec))
    text = CLANG.disassembled(tmp_path, "kernel.c", *spec.target.flags)
    name = f"gemm_{spec.tuning.vectors}_{spec.tuning.rows}"
    found = [one for one in loops(text) if one.function == name]
    loop = max(found, key=lambda one: one.arithmetic)
    assert loop.arithmetic % (spec.tuning.rows * spec.tuning.vectors) == 0
    assert loop.loads == loop.stores == 0 and loop.arithmetic / loop.instructions > 0.5, loop


@pytest.mark.parametrize("algorithm, tile", [("direct", None), ("mcmr", (4, 4))])
def test_products_of_float16_take_numbers_from_lanes(algorithm, tile, tmp_path):
    """All of the numbers of a vector, which are the first multiply-adds: a loop around others."""
    target = TARGETS["neon"].adjusted("+fp16")
    layer = (24, 64, 3, 3), (1, 9, 9), algorithm, target
    spec = KernelSpec.of(work_for(*layer, products="float16", layout="NHWC", tile=tile))
    text, name = disassembled(spec, "neon", tmp_path)
    (body,) = re.findall(rf"<{name}>:\n((?:.+\n)*)", text)
    lines = body.split("\n")
    product = re.compile(r"\tfm(?:la|ul)\s.*\.h\[\d\]")
    products = [i for i, line in enumerate(lines) if product.search(line)]
    count = 8 * spec.tuning.rows * spec.tuning.vectors // 2
    first, last = products[0], products[count - 1]
    assert not STACK.search("\n".join(lines[first:last])) and count / (last - first) >= 0.8


@pytest.mark.parametrize("algorithm, tile", [("direct", None), ("mcmr", (4, 4))])
def test_a_word_of_float16_meets_words(algorithm, tile, tmp_path):
    """With AVX512-FP16 a step loads a word into all lanes for every two multiply-adds."""
    target = TARGETS["avx512"].adjusted("+fp16")
    layer = (64, 64, 3, 3), (1, 9, 9), algorithm, target
    spec = KernelSpec.of(work_for(*layer, products="float16", layout="NHWC", tile=tile))
    text, name = disassembled(spec, "x86-64-v3", tmp_path)
    loop = max((one for one in loops(text) if one.function == name), key=lambda one: one.arithmetic)
    assert loop.arithmetic == spec.tuning.rows * spec.tuning.vectors
    assert loop.loads == loop.stores == 0 and loop.arithmetic / loop.instructions >= 0.52, loop


def test_half_of_the_product_of_bytes_is_products_of_matrices(tmp_path):
    target, (dot,) = TARGETS["neon"], (dot for dot in DOTS if dot.name == "smmla")
    spec = QuantizedSpec.of("direct", "NHWC", False, target, dot)
    (tmp_path / "kernel.c").write_text(render(spec))
    text = ELSEWHERE["neon"].disassembled(tmp_path, "kernel.c", *spec.target.flags)
    name = f"gemm_{VECTORS}_{spec.rows}"
    both, rest = (one for one in loops(text) if one.function == name)
    # Of two pixels and two filters each: over the words of a vector, and over the last two words.
    assert both.arithmetic == 2 * rest.arithmetic == 2 * spec.rows * VECTORS
    for loop in both, rest:
        assert loop.loads == loop.stores == 0, loop
        assert loop.arithmetic / loop.instructions >= 0.48, loop


# By the instruction set: what a multiply-add becomes.
_OF_WASM = {"wasm": ("f32x4.mul", "f32x4.add"), "wasm-relaxed": ("f32x4.relaxed_madd",)}


@pytest.mark.parametrize("isa", _OF_WASM)
def test_the_product_of_wasm_is_products_and_sums(isa, tmp_path):
    spec, other = spec_of(isa, "mcmr", "NHWC"), ELSEWHERE[isa]
    other.need()
    (tmp_path / "kernel.c").write_text(source_of(spec)[0])
    flags = ("-O3", "-ffp-contract=fast", *spec.target.flags)
    other.compile(tmp_path, *flags, "-S", "kernel.c", "-o", "kernel.s")
    text = (tmp_path / "kernel.s").read_text()
    innermost = re.findall(r"\tloop.*\n((?:(?!\tloop|\tend_loop).*\n)*)\tend_loop", text)
    (body,) = (one for one in innermost if _OF_WASM[isa][0] in one)
    count = Counter(re.findall(r"^\t([fv]\w+\.\w+)", body, re.MULTILINE))
    steps, rows, vectors = count["v128.load32_splat"], spec.tuning.rows, spec.tuning.vectors
    assert steps % rows == 0 and count["v128.load"] * rows == steps * vectors
    assert all(count[one] == steps * vectors > 0 for one in _OF_WASM[isa])
    assert len(count) == 2 + len(_OF_WASM[isa]), count  # nothing is stored or moved between lanes


def test_a_transform_along_one_axis_stays_in_registers(tmp_path):
    lines = [
        "typedef float vec __attribute__((vector_size(16)));",
        "#define WINOGEN_VEC vec",
        "#define WINOGEN_REAL float",
    ]
    for path in sorted(resources.folder("transforms").glob("*.h")):
        lines.append(f'#include "{path}"')
        for name in re.findall(r"void (winogen_\w+_(?:input|output))\(const", path.read_text()):
            lines.append(f"void called_{name}(const vec *x, vec *y) {{ {name}(x, y); }}")
    (tmp_path / "all.c").write_text("\n".join(lines))
    text = ELSEWHERE["neon"].disassembled(tmp_path, "all.c")
    bodies = re.findall(r"<called_(\w+)>:\n((?:.+\n)*)", text)
    assert len(bodies) > 100
    assert [name for name, body in bodies if STACK.search(body)] == []


# The most instructions of the loops of transforms of F(m x m, 3 x 3) on NEON: of input by columns
# and by rows, and of output by columns. What does not compute loads, stores or copies a vector, but
# for one or two additions to addresses and the end of the loop.
TRANSFORMS = {4: (34, 33, 24), 6: (46, 46, 40)}


@pytest.mark.parametrize("m", TRANSFORMS)
def test_a_tile_goes_through_memory_once(m, tmp_path):
    """Column by column to an array and row by row from there: a loop each, without the stack."""
    along = load(m, 3)
    spec = replace(spec_of("neon", "mcmr", "NHWC"), transform_h=along, transform_w=along)
    (tmp_path / "kernel.c").write_text(render(spec))
    text = ELSEWHERE["neon"].disassembled(tmp_path, "kernel.c")
    *into, out = TRANSFORMS[m]
    for kind, limits in (("input", into), ("output", [out])):
        found = [one for one in loops(text) if one.function.startswith(f"transform_{kind}")]
        steps = len(along.programs[kind].statements)
        # Rows of tiles at the border have a loop of their own, which is longer.
        found = sorted(
            (one for one in found if one.arithmetic == steps), key=lambda one: one.instructions
        )[: len(limits)]
        assert len(found) == len(limits)
        assert all(one.loads == one.stores == 0 for one in found), found
        assert sum(one.instructions for one in found) <= sum(limits), found


def test_panels_of_seven_to_nine_rows_load_the_filters_of_two_steps_at_once(tmp_path):
    spec = spec_of("neon", "mcmr", "NHWC")
    (tmp_path / "kernel.c").write_text(render(spec))
    text = ELSEWHERE["neon"].disassembled(tmp_path, "kernel.c")
    for rows in (7, 8, 9):
        size = 4 * rows * spec.tuning.vectors
        found = [one for one in loops(text) if one.function == f"gemm_2_{rows}"]
        (loop,) = (one for one in found if one.arithmetic == size)
        assert loop.loads == loop.stores == 0 and size / loop.instructions >= 0.9, loop
