"""Compiled C has the errors that its numpy twin predicts, and without contraction its very bits.

Where a target multiplies and adds in one instruction, compilers contract; their twins do, too.
"""

import platform
from itertools import product

import numpy as np
import pytest
from kernels.turns import first, turns

from winogen.algebra import cook_toom, nest, winograd
from winogen.codegen.joining import joined
from winogen.codegen.transforms import load
from winogen.errors import InvalidValue
from winogen.kernels import summation
from winogen.numerics import PRACTICAL, Direct, measure
from winogen.program.summation import NAMES as ORDERS
from winogen.toolchain import host_target, host_targets

F43 = cook_toom(4, 3)
GAUSSIAN = winograd(4, 3, "x,x-1,x+1,x^2+1,inf")


# Plain C is for the CPU's base: x86's has no such instruction.
FUSING = {"avx512", "avx2", "neon"} | ({"generic"} if platform.machine() == "aarch64" else set())


@pytest.fixture
def fused(request, monkeypatch):
    """Run on the target of this name; whether its multiply-adds round once."""
    monkeypatch.setenv("WINOGEN_ISA", request.param)
    return request.param in FUSING


HERE = [target.name for target in host_targets()]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("settings", [{}, {"channels": 70, "filters": "float64"}])
def test_the_bits_of_every_order(order, settings):
    c = measure(F43, order=order, trials=40, compiled="header", **settings)
    twin = measure(F43, order=order, trials=40, **settings)
    assert np.array_equal(c.errors, twin.errors)


@pytest.mark.parametrize(
    "algorithm,settings",
    [
        (nest(cook_toom(2, 3), GAUSSIAN), {"channels": 3, "block": 2}),
        (cook_toom(2, 5), {"dims": 1, "dtype": "float64"}),
    ],
)
def test_the_bits_of_other_algorithms(algorithm, settings):
    c = measure(algorithm, trials=40, compiled="header", **settings)
    assert np.array_equal(c.errors, measure(algorithm, trials=40, **settings).errors)


@pytest.mark.parametrize("fused", [name for name in HERE if name in FUSING][:1], indirect=True)
def test_contracted_code_is_as_accurate_as_predicted(fused):
    settings = {"order": "huffman", "trials": 2000}
    c = measure(F43, compiled="header", fused=True, **settings).mean
    assert c == pytest.approx(measure(F43, fused=True, **settings).mean, rel=0.1)
    assert c < 0.9 * measure(F43, compiled="header", **settings).mean


def test_kernels_of_conv2d():
    settings = {**PRACTICAL, "trials": 100}
    twin = measure(F43, **settings).relative_l2
    for kernel in ("winograd2d", "mcmr"):
        found = measure(F43, compiled=kernel, **settings).relative_l2
        assert 0.5 * twin < found < 1.25 * twin  # shorter chains of channels make it smaller
    direct = measure(Direct(4, 3), compiled="direct", **settings).relative_l2
    assert direct < twin


@pytest.mark.parametrize(
    "fused, kernel, name",
    turns(HERE, ["winograd2d", "mcmr"], ["f4_3", "f6_3_gaussian", "f2_3", "f6_3"]),
    indirect=["fused"],
)
def test_what_ships_has_the_bits_of_its_twin(name, kernel, fused):
    """But for the few outputs where the compiler fuses the other product of a sum of two."""
    t = load(int(name[1]), 3, name=name)
    settings = {**PRACTICAL, "trials": 40, "fused": fused}
    c = measure(t, compiled=kernel, **settings)
    joined_or_not = joined(t, t) if kernel == "mcmr" else (t, t)
    adds = summation(kernel, host_target(), PRACTICAL["channels"])
    twin = measure(joined_or_not, **adds, **settings)
    assert (c.errors == twin.errors).mean() > 0.98
    assert c.relative_l2 == pytest.approx(twin.relative_l2, rel=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("fused, kernel", product(HERE, ["winograd2d", "mcmr"]), indirect=["fused"])
def test_kernels_add_in_the_order_asked_for(kernel, fused):
    """Without constants there is one way to round, so that kernels have the bits of their twins."""
    settings = {"channels": 40, "filters": "float64", "trials": 40}
    seen = []
    for order in ("naive", "huffman", "pairwise"):
        c = measure(GAUSSIAN, compiled=kernel, order=order, **settings)
        t = load(GAUSSIAN.m, GAUSSIAN.r, moduli=GAUSSIAN.moduli, order=order)
        both = joined(t, t) if kernel == "mcmr" else (t, t)
        adds = summation(kernel, host_target(), 40)
        twin = measure(both, order=order, fused=fused, **adds, **settings)
        assert np.array_equal(c.errors, twin.errors)
        seen.append(c.errors)
    assert not np.array_equal(seen[0], seen[1]) and not np.array_equal(seen[0], seen[2])


@pytest.mark.parametrize("order", first(1, [["huffman"], ["naive"], ["pairwise"]]))
def test_kernels_with_constants_have_the_error_of_the_order(order):
    settings = {**PRACTICAL, "order": order, "trials": 300}
    c = measure(F43, compiled="mcmr", **settings).mean
    twin = measure(F43, **summation("mcmr", host_target(), PRACTICAL["channels"]), **settings).mean
    assert c == pytest.approx(twin, rel=0.15)


@pytest.mark.parametrize("fused", HERE, indirect=True)
def test_one_dimension(fused):
    found = measure(F43, dims=1, compiled="winograd1d", trials=500, order="program")
    twin = measure(F43, dims=1, trials=500, order="program", filters="float64", fused=fused)
    assert found.errors.shape == (1, 4, 500)
    assert found.mean == pytest.approx(twin.mean, rel=0.2)


@pytest.mark.parametrize(
    "algorithm,settings,named",
    [
        (F43, {"compiled": "fft"}, "compiled"),
        (nest(cook_toom(2, 3), GAUSSIAN), {"compiled": "mcmr"}, "header"),
        (Direct(4, 3), {"compiled": "header"}, "direct"),
        (F43, {"compiled": "mcmr", "dtype": "bfloat16"}, "dtype"),
        (F43, {"compiled": "header", "transforms": "float64"}, "transforms"),
        (F43, {"compiled": "header", "filters": "float16"}, "filters"),
    ],
)
def test_what_cannot_be_compiled_is_refused(algorithm, settings, named):
    with pytest.raises(InvalidValue, match=named):
        measure(algorithm, trials=5, **settings)
