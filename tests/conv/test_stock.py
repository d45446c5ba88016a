"""Without a compiler: what is at hand computes all of float32 and bytes, and plans say so."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from conv import fuzz, fuzz_quantized
from conv.reference import convolve

import winogen
from winogen.conv import execute, stock
from winogen.conv.gradients import weight_gradient
from winogen.conv.stock import build_of, floor
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.kernels.gemm import GemmSpec, tuning
from winogen.records import TARGETS, Precision
from winogen.toolchain import background, find_compiler, host_target, prebuilt

SHAPE = (1, 16, 24, 24)


def layer(dtype=np.float32, **options):
    rng = np.random.default_rng(1)
    weight = rng.integers(-3, 4, (16, 16, 3, 3)).astype(dtype)
    return winogen.Conv2d(weight, padding=1, **options)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory, quick_kernels):
    """A folder with archives: what computes everything, and one tile for this CPU."""
    folder, compiler = tmp_path_factory.mktemp("shelf"), find_compiler().version
    tiles = [call.kernel.build.compiled() for call in layer(tile=2)._prepare(SHAPE).calls]
    prebuilt.write(folder / f"{host_target().name}.kernels", tiles, compiler)
    prebuilt.write(folder / "generic.kernels", [one.compiled() for one in floor()], compiler)
    return folder


@pytest.fixture
def bare(shelf, tmp_path, monkeypatch):
    """No compiler, an empty cache, and the archives."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WINOGEN_PREBUILT", str(shelf))
    for name in ("CC", "WINOGEN_COMPILE"):
        monkeypatch.delenv(name, raising=False)
    execute.forget()
    yield
    execute.forget()


def auto_case(seed, index):
    """A problem of the fuzzer that leaves the way open, in float32."""
    case = fuzz.case_of(seed, index)
    return dataclasses.replace(
        case,
        dtype="float32",
        asked={"algorithm": "auto", "threads": case.asked["threads"]},
        limit="as planned" if case.limit else "",
    )


# 2,000 of each kind take a minute or two; in pieces, which take turns.
DRAWS = [pytest.mark.thorough, pytest.mark.draws]
PROBLEMS = [
    range(40),
    *(pytest.param(range(at, 2000, 12), marks=DRAWS) for at in range(40, 52)),
]


@pytest.mark.parametrize("indices", PROBLEMS, ids=len)
def test_every_problem_of_float32_has_a_way(bare, indices):
    wrong = list(fuzz.failures(23, indices, auto_case))
    assert not wrong, wrong[0][1]


@pytest.mark.parametrize("indices", PROBLEMS, ids=len)
def test_every_problem_of_bytes_has_a_way(bare, indices, monkeypatch):
    case_of = fuzz_quantized.case_of
    auto = lambda *where: dataclasses.replace(case_of(*where), algorithm="auto")
    monkeypatch.setattr(fuzz_quantized, "case_of", auto)
    wrong = list(fuzz_quantized.failures(23, indices, "numpy"))
    assert not wrong, wrong[0][1]


def test_a_product_has_a_way(bare):
    a, b = np.arange(12.0, dtype="f4").reshape(3, 4), np.arange(20.0, dtype="f4").reshape(4, 5)
    assert np.array_equal(winogen.gemm(a, b), a @ b)
    assert np.array_equal(winogen.Gemm(b)(a), a @ b)


def test_the_best_at_hand_runs_and_the_plan_says_what_a_compiler_would_allow(bare):
    plan = layer().plan(SHAPE)
    assert (plan.tile, plan.isa) == ((2, 2), host_target().name)
    missed = plan.with_compiler
    assert missed.gain > 1 and missed.seconds < plan.predictions[0].seconds
    assert f"with a compiler  {missed.gain:.2f} times as fast: {missed.algorithm}" in str(plan)
    told = plan.to_dict()["with_compiler"]
    assert told["algorithm"] == missed.algorithm and told["kernels"] == missed.kernels
    assert len(missed.kernels) == 1 and missed.reason.startswith("no C compiler")
    assert layer(tile=2).plan(SHAPE).with_compiler is None


def test_a_lesser_target_serves_where_there_is_nothing_for_this_one(bare):
    plan = layer(stride=2).plan(SHAPE)
    assert (plan.isa, plan.algorithm) == ("generic", "direct")
    wider = host_target().vector_bytes > TARGETS["generic"].vector_bytes
    assert plan.with_compiler.gain > 1 if wider else plan.with_compiler.gain >= 1


@pytest.mark.parametrize(
    "options, named",
    [
        (dict(dtype=np.float64, algorithm="direct"), "float64"),
        (dict(algorithm="im2col"), '"im2col"'),
        (dict(tile=4), r"tile \(4, 4\)"),
        (dict(tile=2, points="0,1,-2,inf"), "points"),
        (dict(filter_dtype="float16"), "filter_dtype float16"),
    ],
)
def test_what_is_named_and_not_at_hand_is_told_with_the_cure(bare, options, named):
    with pytest.raises(CompilerNotFound, match=rf"{named}.*no C compiler.*winogen\[compiler\]"):
        layer(**options).plan(SHAPE)


def test_what_no_kernel_is_at_hand_for_runs_by_fourier_transforms(bare, monkeypatch):
    """They need no compiler; what they do not compute, or not so accurately, is refused."""
    conv, x = layer(np.float64), np.random.default_rng(2).integers(-3, 4, SHAPE).astype(np.float64)
    assert conv.plan(SHAPE).algorithm == "fft"
    assert np.allclose(conv(x), convolve(x, conv._weight, padding=((1, 1), (1, 1))), atol=1e-9)
    monkeypatch.setenv("WINOGEN_PREBUILT", "")
    execute.forget()
    plan = layer().plan(SHAPE)
    assert plan.algorithm == "fft" and plan.no_kernel.startswith("no C compiler")
    told = plan.no_kernel.partition("; ")[0]
    assert str(plan).splitlines()[2].strip() == f"no kernel is at hand, and {told}"
    assert plan.to_dict()["no_kernel"] == plan.no_kernel
    for options in (dict(tolerance=2e-8), dict(filter_dtype="float16"), dict(dtype=np.float16)):
        with pytest.raises(CompilerNotFound, match="no C compiler"):
            layer(**options).plan(SHAPE)


def test_a_wrong_request_is_told_as_with_a_compiler(bare):
    with pytest.raises(InvalidValue, match="tolerance: got 1e-12; allowed: at least"):
        layer(tolerance=1e-12).plan(SHAPE)


def test_gradients_and_tiles_of_bytes_say_what_they_lack(bare):
    x = np.ones(SHAPE, np.float32)
    with pytest.raises(CompilerNotFound, match="gradient of weights"):
        weight_gradient(x, x, 3, padding=1)
    conv = winogen.QConv2d(np.ones((4, 4, 3, 3), np.int8), padding=1, algorithm="im2col")
    with pytest.raises(CompilerNotFound, match='"im2col" from bytes to sums'):
        conv(np.ones((1, 4, 8, 8), np.uint8))


def test_nothing_is_compiled_that_must_not_be(bare, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("WINOGEN_COMPILE", "off")
    with pytest.raises(CompilerNotFound, match="WINOGEN_COMPILE=off; allowed: missing or"):
        layer(np.float64, tile=(3, 2)).plan(SHAPE)
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "another"))
    plan = layer(np.float64).plan(SHAPE)
    assert "no kernel is at hand, and WINOGEN_COMPILE=off\n" in str(plan)
    assert layer(np.float64, algorithm="fft").plan(SHAPE).no_kernel == ""


def test_another_register_block_of_a_product_serves(bare, shelf, tmp_path, monkeypatch):
    target = host_target()
    narrow = GemmSpec(Precision.of("float32"), target, tuning(target, 1))
    wide = tuning(target, 8 * target.lanes("float32"))
    if wide == narrow.tuning:
        pytest.skip(f"{target.name} has one register block for all products")
    with monkeypatch.context() as patch:
        patch.undo()
        patch.setenv("PATH", os.defpath)
        item = build_of(narrow).compiled()
    folder = tmp_path / "products"
    prebuilt.write(folder / f"{target.name}.kernels", [item], "cc")
    monkeypatch.setenv("WINOGEN_PREBUILT", os.pathsep.join((str(folder), str(shelf))))
    execute.forget()
    columns = 8 * target.lanes("float32")
    product = winogen.Gemm(np.ones((3, columns), np.float32))
    assert product._call(1, (3, 1), columns).kernel.spec == narrow


def test_what_would_be_faster_is_compiled_for_the_next_process(shelf, tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WINOGEN_PREBUILT", str(shelf))
    monkeypatch.setenv("WINOGEN_COMPILE", "background")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(stock, "FLAGS", tuple(stock.FLAGS))
    execute.forget()
    missed = layer().plan(SHAPE).with_compiler
    assert missed and layer().plan(SHAPE).tile == (2, 2)
    background.finish()
    assert layer(bias=np.ones(16, np.float32)).plan(SHAPE).with_compiler  # all process long
    execute.forget()  # as another process
    plan = layer().plan(SHAPE)
    assert plan.with_compiler is None and plan.tile == missed.tile
    # What nothing at hand can do is compiled at once.
    assert layer(np.float64, algorithm="direct").plan(SHAPE).dtype == "float64"
    execute.forget()


def test_a_first_call_loads_nothing_heavy(bare):
    code = f"""
import subprocess, sys
from winogen.conv import stock
stock.FLAGS = {stock.FLAGS}
subprocess.Popen.__init__ = None  # and starts no process
import numpy as np
from winogen import conv2d
conv2d(np.ones({SHAPE}, np.float32), np.ones((16, 16, 3, 3), np.float32), padding=1)
print([name for name in ("jinja2", "sympy", "typer", "matplotlib", "rich") if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr


def test_what_is_at_hand_is_right(bare):
    x = np.random.default_rng(2).integers(-3, 4, SHAPE).astype(np.float32)
    conv = layer()
    wanted = convolve(x, conv._weight, padding=((1, 1), (1, 1)))
    assert np.allclose(conv(x), wanted, atol=1e-2)
