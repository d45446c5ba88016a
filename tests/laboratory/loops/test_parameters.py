"""Parameters on disk, and the rules of which go together."""

from dataclasses import replace
from itertools import permutations, product
from random import Random

import pytest
from laboratory.loops.samples import PADDED, draw, problem, target_of

from winogen.errors import InvalidValue
from winogen.records import TARGETS
from winogen_lab.loops import rules
from winogen_lab.loops.parameters import STRATEGIES, LoopProblem, Parameters, Prefetch

NEST = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H.o", "M", "H.i", "W"),
                  blocks=(("H", 2),), pixels=3)  # fmt: skip


def test_text_holds_every_choice():
    rng = Random(0)
    for strategy, layout in product(STRATEGIES, ("NCHW", "NHWC")):
        nest = draw(rng, problem(layout, PADDED), strategy, target_of(strategy))
        assert Parameters.from_text(nest.text) == nest
        assert Parameters.from_dict(nest.to_dict()) == nest
        assert hash(Parameters.from_text(nest.text)) == hash(nest)
    ahead = replace(NEST, prefetch=Prefetch(("kernel",), 512, 2), dtype="float64")
    assert Parameters.from_text(ahead.text) == ahead


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"strategy": "filters-c"}',
                                  NEST.text.replace("filters-yxc", "magic"),
                                  NEST.text[:-1] + ',"color":1}'])  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidValue, match=r"^nest: got .*; allowed: "):
        Parameters.from_text(text)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_legal_orders_are_those_of_all_that_keep_the_rules(strategy):
    for blocked in ((), ("H",), ("H", "C")):
        names = rules.loops(strategy, blocked)

        def legal(order):
            outers = [i for i, name in enumerate(order) if name.endswith(".o")]
            inners = [i for i, name in enumerate(order) if name.endswith(".i")]
            return not outers or not inners or max(outers) < min(inners)

        if len(names) > 7:
            continue
        wanted = {order for order in permutations(names) if legal(order)}
        found = rules.orders(names)
        assert set(found) == wanted and len(found) == len(wanted)
        assert all(rules.is_order(order, names) for order in found)
        assert not rules.is_order(found[0][:-1], names)


@pytest.mark.parametrize("field, value, what", [
    ("strategy", "wmc-c", "strategy: got 'wmc-c'"),
    ("image", "CHWD", "image: got 'CHWD'"),
    ("kernel", "MCYX", "kernel: got 'MCYX'"),
    ("output", "MHW", "output: got 'MHW'"),
    ("copies", "maybe", "copies: got 'maybe'"),
    ("dtype", "float64", "dtype: got 'float64'"),
    ("pixels", 0, "pixels: got 0"),
    ("pixels", 40, "pixels: got 40 x 1 filters"),
    ("rows", 0, "rows: got 0"),
    ("rows", 2, "rows: got 2; allowed: at most 1 of filters-yxc, implicit"),
    ("blocks", (("H", 6),), "blocks: got 6 of H"),
    ("blocks", (("W", 4),), "blocks: got 4 of W; allowed: multiples of 3"),
    ("order", ("H.i", "H.o", "M", "W"), "order: got H.i, H.o, M, W"),
    ("order", ("H.o", "M", "H.i"), "order: got H.o, M, H.i"),
    ("unroll", (("H.o", 2),), "unroll: got 2 of H.o"),
    ("unroll", (("W", 3),), "unroll: got 3 of W"),
    ("prefetch", Prefetch(("air",), 64), "prefetch: got "),
])  # fmt: skip
def test_each_rule_names_what_breaks_it(field, value, what):
    one = problem("NHWC", PADDED)
    assert rules.check(one, NEST, TARGETS["generic"]) == NEST
    broken = replace(NEST, **{field: value})
    with pytest.raises(InvalidValue, match=r"^nest: .*; allowed: "):
        rules.check(one, broken, TARGETS["generic"])
    assert any(text.startswith(what) for text in rules.flaws(one, broken, TARGETS["generic"]))


def test_inputs_are_read_in_place_only_beside_zeros():
    zeros = LoopProblem.of("NHWC", 3, 4, (5, 5), (3, 3), padding=(1, 1, 1, 1))
    mirror = replace(zeros, padding_mode="reflect")
    bare = LoopProblem.of("NHWC", 3, 4, (5, 5), (3, 3), padding_mode="reflect")
    assert rules.copies(zeros, "HWC", "filters-c") == ("implicit", "explicit")
    assert rules.copies(zeros, "CHW", "filters-c") == ("explicit",)
    assert rules.copies(mirror, "HWC", "filters-c") == ("explicit",)
    assert rules.copies(zeros, "HWC", "filters-c-window") == ("explicit",)
    assert rules.copies(bare, "HWC", "filters-c") == ("implicit", "explicit")


def test_blocks_of_pixels_are_for_kernels_one_tap_wide():
    for width, allowed in ((1, True), (3, False)):
        one = LoopProblem.of("NCHW", 3, 4, (5, 9), (3, width))
        assert ("HWCw" in rules.image_layouts(one, "outer-yxc")) == allowed
