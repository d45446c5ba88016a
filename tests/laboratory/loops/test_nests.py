"""Nests of every kind compute what they should: integers, run by the interpreter."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from laboratory.loops.interpret import convolve, source_index, unscrambled
from laboratory.loops.samples import (
    BY_LANE,
    LAYERS,
    PADDED,
    data,
    draw,
    problem,
    simple_orders,
    target_of,
)

from winogen.records import TARGETS
from winogen_lab.loops.build import build
from winogen_lab.loops.parameters import STRATEGIES, Parameters
from winogen_lab.loops.rules import block_sizes
from winogen_lab.loops.usual import usual, usual_order

LAYOUTS = ("NCHW", "NHWC")


def check(layout, layer, nest, target, **types):
    """All groups of a layer, run by the interpreter, equal integer arithmetic."""
    x, w, bias, wanted = data(layout, layer)
    one = problem(layout, layer, **types)
    made = build(one, nest, target)
    groups = layer.get("groups", 1)
    filters, outputs = one.filters, np.full(wanted.size, None)
    for g in range(groups):
        first, last = g * filters, (g + 1) * filters
        results = convolve(
            one,
            made,
            x.ravel().tolist()[g * one.channels * one.input.channel :],
            w[first:last].ravel().tolist(),
            bias[first:last].tolist(),
        )
        begin = first * one.output.channel
        for place, value in enumerate(results):
            if value is not None:
                assert outputs[begin + place] is None
                outputs[begin + place] = value
    assert outputs.tolist() == wanted.ravel().tolist(), nest


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_drawn_nests_are_exact(strategy, layout):
    """Blocks, copies, layouts, unrolling and prefetches in any combination."""
    rng, target = Random(f"{strategy} {layout}"), target_of(strategy)
    for layer in (PADDED, rng.choice(LAYERS[1:])):
        check(layout, layer, draw(rng, problem(layout, layer), strategy, target), target)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nests_of_narrow_numbers_are_exact(strategy, layout):
    """Sums wait until they are rounded; filters are widened at each load, or those of a step."""
    rng, target = Random(f"narrow {strategy} {layout}"), target_of(strategy)
    types = {"arrays": "flyte24", "weights": "flyte16"}
    for layer in (PADDED, rng.choice(LAYERS[1:])):
        nest = draw(rng, problem(layout, layer, **types), strategy, target)
        check(layout, layer, nest, target, **types)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_orders_are_exact(strategy, layout):
    """A sample of the unblocked orders; the thorough test has them all."""
    nests = list(simple_orders(problem(layout, PADDED), strategy))
    check(layout, PADDED, Random(strategy + layout).choice(nests), target_of(strategy))


@pytest.mark.thorough
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_orders_are_exact(strategy, layout):
    layer = dict(PADDED, channels=3, filters=5, size=(4, 7))
    nests = list(simple_orders(problem(layout, layer), strategy))
    assert len(nests) == (6 if STRATEGIES[strategy].own >= {*"YXC"} else 120)
    for nest in nests:
        check(layout, layer, nest, target_of(strategy))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("strategy", ("filters-yxc", "filters-yc-row", "filters-c-window"))
def test_register_blocks_of_rows_are_exact(strategy, layer):
    """Of two and three rows, the last ones cut short; with the loop over rows in blocks, too."""
    rng, target = Random(strategy), BY_LANE
    one = problem("NHWC", layer)
    for rows in (2, 3):
        nest = replace(usual(one, target, strategy), copies="explicit", rows=rows, pixels=2,
                       filters=1, blocks=(), order=usual_order(strategy, ()))  # fmt: skip
        check("NHWC", layer, nest, target)
        block = rng.choice(block_sizes(one, rows, "H"))
        nest = replace(nest, blocks=(("H", block),), order=usual_order(strategy, ("H",)))
        check("NHWC", layer, nest, target)


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_drawn_nests_are_exact(strategy):
    rng, target = Random(strategy), target_of(strategy)
    for index in range(60):
        layer, layout = LAYERS[index % len(LAYERS)], LAYOUTS[index // len(LAYERS) % 2]
        check(layout, layer, draw(rng, problem(layout, layer), strategy, target, 0.5), target)


def test_outputs_beside_the_image_are_written():
    """A kernel of one tap with padding: some outputs are nothing but the bias."""
    layer = LAYERS[4]
    nest = Parameters("filters-c", "HWC", "MYXCm", "HWM", ("W", "H", "Y", "X", "M"), pixels=2)
    check("NHWC", layer, nest, TARGETS["generic"])


def test_the_interpreter_sees_reads_beyond_an_array():
    one = problem("NHWC", PADDED)
    nest = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H", "M", "W"))
    made = build(one, nest, TARGETS["generic"])
    x, w, bias, _ = data("NHWC", PADDED)
    with pytest.raises(IndexError, match="image"):
        convolve(one, made, x.ravel().tolist()[:-1], w.ravel().tolist(), bias.tolist())


@pytest.mark.parametrize("mode", ("reflect", "replicate", "circular"))
def test_padding_is_numpys(mode):
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    wanted = np.pad(np.arange(5), 3, mode=names[mode])
    assert [source_index(i, 5, mode) for i in range(-3, 8)] == wanted.tolist()


@pytest.mark.parametrize("lanes, block", [(4, 4), (8, 4), (16, 4), (4, 2), (8, 2)])
def test_rotations_meet_every_pair_once(lanes, block):
    """acc[s][t] += rotate_s(pixels) * turn_t(filters) has each of lanes^2 products in one place."""
    pairs = [(p, f) for p in range(lanes) for f in range(lanes)]
    places = [unscrambled(lanes, block, *pair) for pair in pairs]
    assert len(set(places)) == lanes**2
    for (pixel, filter_), (place, lane) in zip(pairs, places):
        moved, turned = divmod(place, block)
        assert (lane + moved * block) % lanes == pixel
        assert lane // block * block + (lane + turned) % block == filter_
