"""Nests of flytes: arrays are widened where they are read and rounded once; filters are widened at
each load, or those of a step once."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from codegen.sanitized_convolution import check
from conv.exact import LAYOUTS, integers
from conv.reference import convolve
from kernels.turns import turns
from laboratory.loops.samples import LAYERS
from laboratory.loops.test_compiled import drawn

import winogen
from winogen.conv import Conv2d, Layer
from winogen.conv.choice import Choice
from winogen.conv.cuts import evaluate, work_of
from winogen.conv.execute import Prepared
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import assign
from winogen.records import NUMBERS, TARGETS, Machine, Precision
from winogen.toolchain import host_target, host_targets
from winogen_lab.loops import rules
from winogen_lab.loops.build import build
from winogen_lab.loops.nest import For, Widen
from winogen_lab.loops.parameters import STRATEGIES
from winogen_lab.loops.usual import usual
from winogen_lab.loops.variant import problem_of

# The formats themselves are tested with all other kernels.
NAMES = ("flyte24", "flyte16", "flyte8", "flyte24_cut", "flyte48d", "flyte24d")
FILTERS = ("flyte24", "flyte16", "flyte8", "flyte24_cut", "bfloat16", "flyte40d")
ISAS = [target.name for target in host_targets() if target.name in ("avx512", "avx2", "generic")]
LAYER = {"padding": ((1, 1), (1, 0)), "groups": 2}


def numbers(layout):
    """Input, weight, bias and what is added: small integers, the input as it lies in the layout."""
    rng = np.random.default_rng(3)
    x, w, bias = (
        integers(rng, (2, 6, 9, 11), 2),
        2 * integers(rng, (22, 3, 3, 2), 1),
        rng.permutation(22),
    )
    x = x if layout == "NCHW" else x.transpose(0, 2, 3, 1)
    return x, w, bias, integers(rng, convolve(x, w, layout=layout, **LAYER).shape, 2)


def stored(values, name):
    return winogen.narrow(np.asarray(values, NUMBERS[name].wide), name)


@pytest.mark.parametrize("name, layout, isa", turns(NAMES, LAYOUTS, ISAS))
def test_outputs_are_rounded_once(name, layout, isa, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    x, w, bias, add = numbers(layout)
    x, add = (winogen.widen(stored(one, name)) for one in (x, add))
    conv = Conv2d(w.astype(x.dtype), bias.astype(x.dtype), layout=layout, activation="relu",
                  algorithm="loops", threads=2, **LAYER)  # fmt: skip
    y = conv(stored(x, name), add=stored(add, name))
    wanted = convolve(x, w, bias, layout=layout, activation="relu", add=add, **LAYER)
    assert y.tobytes() == stored(wanted, name).tobytes()


@pytest.mark.parametrize("filters, isa, narrow", turns(FILTERS, ISAS, (False, True)))
def test_filters_are_flytes(filters, isa, narrow, monkeypatch):
    """Of arrays of float32 or float64, and of flytes."""
    monkeypatch.setenv("WINOGEN_ISA", isa)
    layout, wide = LAYOUTS[len(filters) % 2], NUMBERS[filters].computed
    x, w, bias, _ = numbers(layout)
    conv = Conv2d(w.astype(wide), bias.astype(wide), algorithm="loops", filter_dtype=filters,
                  layout=layout, **LAYER)  # fmt: skip
    flyte = "flyte24" if wide == "float32" else "flyte48d"
    y = conv(stored(x, flyte) if narrow else x.astype(wide))
    assert conv.plan(x.shape).precision.filters == filters
    assert np.array_equal(
        winogen.widen(y) if narrow else y, convolve(x, w, bias, layout=layout, **LAYER)
    )


def problem_and_nest(arrays, filters, target, **parameters):
    """A layer of narrow numbers, and a nest for it that is not as usual."""
    problem = Layer.of((40, 8, 3, 3), arrays, padding=1, layout="NHWC").problem((1, 7, 9, 8))
    precision = Precision.of(arrays, filters)
    seen = problem_of(assign(work_of(problem, Choice("loops", precision=precision), target)))
    nest = replace(usual(seen, target), rows=1, **parameters)
    return problem, seen, Choice("loops", parameters=nest, precision=precision)


@pytest.mark.parametrize("copies", ("explicit", "implicit"))
def test_filters_that_are_widened_once_give_the_same_bits(copies):
    rng, target, found = np.random.default_rng(5), host_target(), set()
    x = winogen.narrow(rng.standard_normal((1, 7, 9, 8), np.float32), "flyte16")
    w = rng.standard_normal((40, 8, 3, 3), np.float32)
    for widened in ("each", "once"):
        problem, _, choice = problem_and_nest("flyte16", "flyte24", target, widened=widened,
                                              copies=copies)  # fmt: skip
        way = Prepared(problem, evaluate(problem, [choice], target, Machine(), None), target)
        y = np.zeros(way.output_shape, x.dtype)
        way.run(x, way.pack(w), None, y)
        found.add(y.tobytes())
    assert len(found) == 1 and any(found.pop())


def test_rows_of_sums_that_wait_begin_anywhere():
    """Where single filters are summed, a row of them need not be whole vectors."""
    target = host_target()
    problem, seen, choice = problem_and_nest("flyte24", "flyte24", target)
    nest = replace(usual(seen, target, "dot-yxc"), filters=3, pixels=1)
    choice = replace(choice, parameters=nest)
    way = Prepared(problem, evaluate(problem, [choice], target, Machine(), None), target)
    rng = np.random.default_rng(6)
    x, w = integers(rng, problem.input_shape, 3), integers(rng, problem.layer.weight_shape, 3)
    x3, y = stored(x, "flyte24"), np.zeros(way.output_shape, stored(x, "flyte24").dtype)
    way.run(x3, way.pack(w.astype(np.float32)), None, y)
    wanted = convolve(x, w, padding=((1, 1), (1, 1)), layout="NHWC")
    assert np.array_equal(winogen.widen(y), wanted)


def test_filters_are_widened_outside_of_the_loops_over_pixels():
    _, seen, choice = problem_and_nest("float32", "flyte24", TARGETS["avx2"], widened="once")

    def around(body):
        for node in body:
            if isinstance(node, Widen):
                return ()
            if isinstance(node, For) and (inner := around(node.body)) is not None:
                return (node.index, *inner)
        return None

    assert around(build(seen, choice.parameters, TARGETS["avx2"]).body) == ("m",)


def test_what_has_nothing_to_widen_is_refused():
    _, seen, choice = problem_and_nest("flyte24", None, TARGETS["avx2"], widened="once")
    with pytest.raises(InvalidValue, match="nest: widened: got 'once'; allowed: each"):
        rules.check(seen, choice.parameters, TARGETS["avx2"])
    with pytest.raises(Unsupported, match='filter_dtype: got "float16" with algorithm "loops"'):
        Conv2d(np.zeros((4, 4, 3, 3), np.float32), algorithm="loops", filter_dtype="float16")


def of_strategy(strategy, arrays, index):
    """The call of a layer by a drawn nest on arrays and filters of flytes."""
    at = list(STRATEGIES).index(strategy) + index
    filters = ("flyte24", "flyte16", None)[at % 3]
    options = {"arrays": arrays, "filters": filters, "activation": "relu" if index % 2 else None}
    layer = LAYERS[at % len(LAYERS)]
    return drawn(Random(f"{strategy} {index}"), strategy, LAYOUTS[at % 2], layer, **options)


@pytest.mark.parametrize("strategy", ("filters-yxc", "outer-c"))
def test_no_nest_leaves_its_arrays_or_the_language(strategy, tmp_path):
    check(tmp_path, [of_strategy(strategy, "flyte24", 0)])


@pytest.mark.thorough
@pytest.mark.parametrize("arrays", ("flyte24", "flyte16_cut", "flyte8", "float16"))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_nests_leave_nothing(strategy, arrays, tmp_path):
    check(tmp_path, [of_strategy(strategy, arrays, len(arrays))])


@pytest.mark.thorough
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("copies", ("explicit", "implicit"))
def test_usual_nests_of_every_instruction_set_leave_nothing(copies, isa, tmp_path):
    target = TARGETS[isa]
    problem, _, choice = problem_and_nest("flyte24", "flyte24", target, widened="once",
                                          copies=copies)  # fmt: skip
    check(tmp_path, [assign(work_of(problem, choice, target))])
