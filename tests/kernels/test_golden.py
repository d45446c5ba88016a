"""The C of every kind as it is: a change of a template or its data shows as a diff, to be read.

``python -m pytest tests/kernels/test_golden.py --update-golden`` rewrites the files, one for each
part of the C (`kernels.golden`); look at them with ``git diff tests/golden`` before they are
committed.
"""

import difflib
from dataclasses import replace
from pathlib import Path

from kernels import golden
from kernels.samples import LAYOUTS, of_phases, products_of, reaching

from winogen import kernels
from winogen.codegen import transforms
from winogen.codegen.render import parts, render
from winogen.conv.standalone import standalone
from winogen.conv.standalone_gemm import standalone_gemm
from winogen.conv.standalone_quantized import standalone_quantized
from winogen.conv.standalone_transposed import standalone_transposed
from winogen.kernels import gemm, weight_gradient
from winogen.kernels.fourier import FourierSpec
from winogen.kernels.quantized import ALGORITHMS, QuantizedSpec, RealsSpec
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision
from winogen.records.target import spelled

FOLDER = Path(__file__).parents[1] / "golden" / "parts"
# One with masks, broadcasts and stores past the caches, and one without.
SHOWN = ("avx512", "neon")
# One with scales, and one whose loads read beyond their numbers.
NARROW = (("mcmr", "NHWC", "avx512", "float16"), ("direct", "NCHW", "neon", "flyte24"))
# Words, with an instruction that multiplies them and without.
WORDS = (
    ("direct", "NHWC", "avx512+bf16"),
    ("direct", "NCHW", "neon"),
    ("mcmr_int8", "NHWC", "avx512+vnni"),
    ("mcmr_int8", "NCHW", "neon+dotprod"),
)


def able(variant, name):
    """A target, with arithmetic in float16 for variants that need it, if some CPUs have both.

    Its core is one with kernels of half vectors and two chains of additions.
    """
    target = replace(TARGETS[name], core="zen4")
    if variant.runs_on(target) or "fp16" not in target.known:
        return target
    return target.adjusted("+fp16")


def spec_of(variant, layout, target, filters=None):
    """One kernel with F(2, 3); None if a variant has no kernels of this kind.

    ``filters``: what its filters are packed in, if not float32.
    """
    works = next(iter(reaching(variant, layout, "float32", able(variant, target)).values()), None)
    if works is None:
        return None
    spec = KernelSpec.of(
        replace(works[0], precision=Precision.of("float32", filters)) if filters else works[0]
    )
    if spec.transform_w:
        height, width = (
            transforms.load(2, 3) if along else transforms.load(1, 1) for along in variant.along
        )
        spec = replace(spec, transform_h=height, transform_w=width)
    return spec


def kernel_of(*given):
    """The C of one kernel, if there is one."""
    spec = spec_of(*given)
    return spec and render(spec)


def words_of(variant, layout, isa):
    """The C of a kernel that multiplies words: of bfloat16, or of bytes if it has no others."""
    name, changes = spelled(isa)
    target = TARGETS[name].adjusted(changes)
    works = next(iter(reaching(variant, layout, "float32", target).values()))
    products = products_of(variant, "float32") or "bfloat16"
    precision = Precision.of("float32", products=products)
    return render(KernelSpec.of(replace(works[0], precision=precision)))


def product_of(target, dtype="float32", columns=64):
    """The C of a product of matrices."""
    tuning = gemm.tuning(TARGETS[target], columns, dtype)
    return render(gemm.GemmSpec(Precision.of(dtype), TARGETS[target], tuning))


def gradient_of(target, layout):
    """The C of a gradient with respect to weights, by F(2, 3)."""
    tuning = weight_gradient.tuning(TARGETS[target])
    both = transforms.load(2, 3), transforms.load(2, 3)
    return render(
        weight_gradient.GradientSpec(
            layout, Precision.of("float32"), TARGETS[target], tuning, *both
        )
    )


def fourier_of(target, dtype="float32", lengths=(32, 64), *lanes):
    """The C of Fourier transforms of tiles."""
    precision = Precision.of(dtype)
    storing = TARGETS[target].storing(*(number.name for number in precision.stored))
    return render(FourierSpec(precision, storing, lengths, *lanes))


def bytes_of(target, algorithm, layout, kind=QuantizedSpec, extensions=""):
    """The C of a convolution of bytes."""
    usual = {"avx512": "+vnni", "neon": "+dotprod"}
    extended = TARGETS[target].adjusted(extensions or usual[target])
    return render(kind.of(algorithm, layout, False, extended))


def standalone_files(isa=None):
    """Pairs of files of their own, by name: for one target each, or all for this one."""
    shape, weight, options = (1, 32, 20, 20), (32, 32, 3, 3), {"padding": 1}
    pairs = {
        "layer": standalone(
            *(shape, weight),
            **{"isa": isa or "avx512", "name": "one", "algorithm": "mcmr", "tile": 2},
            **{"activation": "silu", **options},
        ),
        "layer_of_float16": standalone(
            *(shape, weight),
            **{"isa": isa or "avx512", "name": "one", "algorithm": "direct", "dtype": "float16"},
            **{"padding_mode": "circular", "add": True, "activation": "relu", **options},
        ),
        "layer_of_ggml": standalone(
            *(shape, weight),
            **{"isa": isa or "avx2", "name": "its", "algorithm": "mcmr", "tile": 2},
            **{"activation": ("leaky_relu", 0.25), "host": "ggml", **options},
        ),
        "layer_transposed": standalone_transposed(
            *((1, 3, 6, 7), (3, 5, 3, 3)),
            **{"isa": isa or "neon", "name": "one", "stride": (1, 4), "padding": 1},
            **{"algorithm": "direct", "add": True},
        ),
        "product": standalone_gemm(100, 64, 32, isa=isa or "neon", name="one"),
        "layer_of_bytes": standalone_quantized(
            shape, weight, isa=isa or "avx2", name="one", **options
        ),
    }
    return {
        f"{what}{name[3:]}": text for what, pair in pairs.items() for name, text in pair.items()
    }


def everything():
    """The C of all kinds, by name."""
    files = {}
    for target in SHOWN:
        for layout in LAYOUTS:
            suffix = f"{layout.lower()}_{target}"
            for variant in kernels.variants().values():
                files[f"{variant.name}_{suffix}"] = kernel_of(variant, layout, target)
            for work in of_phases(layout, able(kernels.named("mcmr"), target)):
                files[f"{work.variant}_of_phases_{suffix}"] = render(KernelSpec.of(work))
            files[f"gradient_{suffix}"] = gradient_of(target, layout)
            for algorithm in ALGORITHMS:
                files[f"bytes_{algorithm}_{suffix}"] = bytes_of(target, algorithm, layout)
            files[f"bytes_reals_{suffix}"] = bytes_of(target, "direct", layout, RealsSpec)
        files[f"gemm_{target}"] = product_of(target)
        files[f"fourier_{target}"] = fourier_of(target)
    files["bytes_direct_neon_i8mm"] = bytes_of("neon", "direct", "NHWC", extensions="+i8mm")
    # All but what stands at the top: functions that are parts of kernels.
    shared = parts(spec_of(kernels.named("mcmr"), "NHWC", SHOWN[0]))[f"gemm_{SHOWN[0]}"]
    files["shared_gemm"] = shared[shared.index("/* ---- ") :]
    for name, layout, target, filters in NARROW:
        text = kernel_of(kernels.named(name), layout, target, filters)
        files[f"{name}_{layout.lower()}_{target}_{filters}"] = text
    for name, layout, isa in WORDS:
        files[f"{name}_{layout.lower()}_{isa}_words"] = words_of(kernels.named(name), layout, isa)
    files |= standalone_files()
    # What stands at the top differs from file to file, and says what the name does.
    return {
        name: text if text.startswith("/* ----") else text.partition(" */\n")[2]
        for name, text in files.items()
        if text
    }


def difference(old, new):
    """The first lines that differ."""
    lines = list(
        difflib.unified_diff(old.splitlines(), new.splitlines(), "golden", "now", "", "", 2)
    )
    rest = len(lines) - 40
    return "\n".join(
        [line.rstrip() for line in lines[:40]] + [f"... {rest} lines more"] * (rest > 0)
    )


def test_the_c_is_as_it_was(request):
    found = golden.documents(everything())
    if request.config.getoption("--update-golden"):
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in FOLDER.iterdir():
            path.unlink()
        for name, text in found.items():
            (FOLDER / f"{name}.txt").write_text(text)
    old = {path.stem: path.read_text() for path in FOLDER.glob("*.txt")}
    changed = [name for name in {**old, **found} if old.get(name) != found.get(name)]
    command = "python -m pytest tests/kernels/test_golden.py --update-golden"
    assert not changed, f"{', '.join(changed)}; if that is meant:\n{command}\n" + difference(
        old.get(changed[0], ""), found.get(changed[0], "")
    )


def test_parts_make_the_whole():
    """Nothing of a file is lost but where its blank lines are."""
    for text in (product_of("neon"), bytes_of("avx512", "direct", "NCHW")):
        pieces = [piece for _, piece in golden.split(text)]
        lines = [line for line in text.split("\n") if line]
        assert [line for piece in pieces for line in piece.split("\n") if line] == lines
