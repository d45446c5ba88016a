"""What the extra `compiler` installs, the package ziglang, makes kernels of every kind.

Its clang takes flags and words of its own, and nothing here may depend on gcc's library.
"""

import shlex

import numpy as np
import pytest
from conv import test_sizes
from conv.reference import convolve

import winogen
from winogen.conv import gradients
from winogen.errors import CompilerNotFound
from winogen.graph import runtime
from winogen.kernels import variants
from winogen.onnx import library
from winogen.toolchain import compiler, find_compiler, host_target, host_targets

pytestmark = pytest.mark.thorough

# The widest, and the narrowest with instructions of its own.
ISAS = dict.fromkeys((host_targets()[0].name, host_targets()[-2].name))
VARIANTS = [name for name, one in variants().items() if one.tunable and one.runs_on(host_target())]


@pytest.fixture(autouse=True, scope="module")
def ziglang(quick_kernels):
    """No compiler but that of the package, which optimises as for users."""
    packaged = compiler._packaged()
    if packaged is None:
        pytest.skip("ziglang is not installed")
    from winogen.conv import execute, stock

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", shlex.join(packaged))
        patch.setattr(stock, "FLAGS", quick_kernels)
        execute.forget()
        yield packaged
    execute.forget()


def test_it_is_found_where_nothing_else_is(ziglang, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC")
    assert find_compiler().command == ziglang
    assert find_compiler().zig
    monkeypatch.setattr(compiler, "find_spec", lambda name: None)
    with pytest.raises(CompilerNotFound, match=r"pip install 'winogen\[compiler\]'"):
        find_compiler()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_layer_of_every_variant_is_exact(name, isa, monkeypatch):
    """Filters are multiples of 16, as in `test_sizes`."""
    monkeypatch.setenv("WINOGEN_ISA", isa)
    if not variants()[name].runs_on(host_target()):
        pytest.skip(f"{isa} has no instructions for it")
    problem, choice = test_sizes.problem_of(name)
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, problem.input_shape).astype(np.float32)
    weight = 16 * rng.integers(-2, 3, problem.layer.weight_shape).astype(np.float32)
    layer = problem.layer
    expected = convolve(
        x.astype(np.int64), weight.astype(np.int64), groups=layer.groups, layout=layer.layout,
        stride=tuple(axis.stride for axis in layer.axes),
        padding=tuple((axis.before, axis.after) for axis in layer.axes),
    )  # fmt: skip
    rounding = test_sizes.ROUNDING.get(name.rpartition("_")[2], 0) * abs(expected).max()
    assert abs(test_sizes.output(problem, choice, x, weight) - expected).max() <= rounding


def whole(shape, low=-3, high=4, dtype=np.float32):
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize("isa", ISAS)
def test_bytes_products_gradients_and_both_runtimes(isa, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    a, b = whole((37, 65)), whole((65, 29))
    assert np.array_equal(winogen.gemm(a, b), a @ b)
    x, weight = whole((2, 20, 9, 11)), whole((24, 20, 3, 3))
    grad = whole((2, 24, 9, 11))
    found = gradients.weight_gradient(x, grad, (3, 3), padding=1, tile=1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (9, 11), axis=(2, 3))
    assert np.array_equal(found, np.einsum("nchwij,nmij->mchw", windows, grad))
    narrow = winogen.QConv2d(weight.astype(np.int8), x_scale=1, w_scale=1, y_scale=1, padding=1)
    sums = convolve(x.astype(np.int64), weight.astype(np.int64), padding=((1, 1), (1, 1)))
    assert np.array_equal(narrow(x.astype(np.int8)), np.clip(sums, -128, 127))
    assert runtime.library(host_target(), "float32").lib and library.library().lib
