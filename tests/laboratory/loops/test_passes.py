"""Passes change where things happen, not what."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from laboratory.loops.samples import PADDED, draw, problem, target_of

from winogen.records import TARGETS
from winogen_lab.loops import passes
from winogen_lab.loops.build import build
from winogen_lab.loops.nest import Copy, Fetch, Fma, For, Guard, Let, Load, Store, children, walk
from winogen_lab.loops.parameters import STRATEGIES, Parameters, Prefetch
from winogen_lab.loops.pseudo import pseudo_code

GENERIC = TARGETS["generic"]


def loops_around(body, kind, above=()):
    """The loops around each statement of a kind, by index."""
    for node in body:
        if isinstance(node, kind):
            yield above
        for inner in children(node):
            yield from loops_around(inner, kind, (*above, *_index(node)))


def _index(node):
    return (node.index,) if isinstance(node, For) and node.role != "register" else ()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_second_pass_changes_nothing(strategy):
    rng, target = Random(strategy), target_of(strategy)
    for _ in range(10):
        one = problem(rng.choice(("NCHW", "NHWC")), PADDED)
        body = build(one, draw(rng, one, strategy, target), target).body
        assert passes.fixpoint(body, passes.RULES) == body


def test_guards_stand_where_their_indices_are_known():
    """Rows are asked for as soon as h and y are known, columns as soon as w and x are."""
    nest = Parameters("filters-c", "HWC", "MYXCm", "HWM", ("H", "Y", "W", "X", "M"))
    one = problem("NHWC", PADDED)
    depths = [
        above
        for above in loops_around(build(one, nest, GENERIC).body, Guard)
        if "c" not in above and len(above) < 5
    ]
    assert ("h", "y") in depths and ("h", "y", "w", "x", "m") not in depths
    conditions = [node.conditions for node in walk(build(one, nest, GENERIC).body)
                  if isinstance(node, Guard)]  # fmt: skip
    # Rows: above and below the image; one pixel's column: to the left only, for nothing is padded
    # to the right.
    assert sorted(map(len, conditions))[-1] == 2


def test_no_guard_where_inputs_are_copied_or_not_padded():
    nest = Parameters("filters-c", "HWC", "MYXCm", "HWM", ("H", "Y", "W", "X", "M"))
    padded = problem("NHWC", PADDED)
    bare = problem("NHWC", {**PADDED, "padding": (0, 0, 0, 0)})
    assert any(isinstance(n, Guard) for n in walk(build(padded, nest, GENERIC).body))
    for one, way in ((padded, replace(nest, copies="explicit")), (bare, nest)):
        assert not any(isinstance(node, Guard) for node in walk(build(one, way, GENERIC).body))


def test_copies_move_out_of_loops_that_they_do_not_need():
    one = problem("NHWC", PADDED)
    nest = Parameters(
        "filters-c",
        "HWC",
        "MYXCm",
        "HWM",
        ("C.o", "M.o", "H.o", "M.i", "H.i", "W", "Y", "X"),
        blocks=(("C", 2), ("H", 2), ("M", 4)),
        copies="explicit",
    )
    (above,) = loops_around(build(one, nest, GENERIC).body, Copy)
    assert above == ("c_o", "m_o", "h_o")
    order = ("C.o", "H.o", "M.o", "M.i", "H.i", "W", "Y", "X")
    (above,) = loops_around(build(one, replace(nest, order=order), GENERIC).body, Copy)
    assert above == ("c_o", "h_o")


def test_unrolling_renames_temporaries_and_shares_sums():
    one = problem("NHWC", PADDED)
    nest = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H", "M", "W"), copies="explicit")
    plain = build(one, nest, GENERIC)
    twice = build(one, replace(nest, unroll=(("C", 2),)), GENERIC)
    names = [node.symbol.name for node in walk(twice.body) if isinstance(node, Let)]
    assert names.count("sum") == 1 and {"filter_0", "filter_1", "pixel_0", "pixel_1"} <= {*names}
    sums = {node.sum.name for node in walk(twice.body) if isinstance(node, Fma)}
    assert sums == {"sum"}
    fmas = [sum(isinstance(node, Fma) for node in walk(made.body)) for made in (plain, twice)]
    assert fmas == [1, 3]  # 5 channels: two at a time, and the last one


def test_a_prefetch_follows_each_access_that_is_accepted():
    one = problem("NHWC", PADDED)
    nest = Parameters("filters-c", "HWC", "MYXCm", "HWM", ("H", "Y", "W", "X", "M"))
    for streams, arrays in ((("kernel",), {"kernel"}), (("image", "output"), {"image", "output"})):
        made = build(one, replace(nest, prefetch=Prefetch(streams, 128)), GENERIC)
        nodes = list(walk(made.body))
        accesses = [n for n in nodes if isinstance(n, (Load, Store)) and n.array in arrays]
        fetches = [node for node in nodes if isinstance(node, Fetch)]
        assert len(fetches) == len(accesses) > 0
        assert {node.array for node in fetches} == arrays
        for before, node in pairwise(nodes):
            if isinstance(node, Fetch):
                assert (before.array, before.address) == (node.array, node.address)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_statement_has_its_pseudo_code(strategy):
    rng, target = Random(strategy), target_of(strategy)
    for layout in ("NCHW", "NHWC"):
        one = problem(layout, PADDED)
        text = pseudo_code(build(one, draw(rng, one, strategy, target, 0.6), target))
        assert "finish" in text or "write" in text
        assert "Affine" not in text and "Reg(" not in text
