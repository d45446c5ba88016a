"""The space of nests: what it counts, and that all of it is legal."""

import os
import subprocess
import sys
from itertools import permutations, product
from random import Random

import pytest
from kernels.turns import first

from winogen.errors import InvalidValue
from winogen.records import TARGETS
from winogen.tasks.tree import Tree
from winogen_lab.loops import rules
from winogen_lab.loops.nests import block_sizes, free, nest, nests
from winogen_lab.loops.parameters import COPIES, DIMS, LoopProblem, Parameters, Prefetch

VGG = LoopProblem.of("NCHW", 128, 256, (56, 56), (3, 3), padding=(1, 1, 1, 1))
RAGGED = LoopProblem.of("NHWC", 5, 7, (6, 9), (3, 2), padding=(1, 1, 0, 1))
STRIDED = LoopProblem.of("NHWC", 6, 12, (9, 11), (3, 3), (1, 1, 1, 1), (2, 2), groups=2)
POINTWISE = LoopProblem.of("NCHW", 16, 32, (7, 8), (1, 1))


def test_unblocked_orders_and_layouts():
    assert free().count() == 720 * 24 * 6 * 6 == 622_080


def test_a_real_layer_has_more_than_ten_million():
    assert nests(VGG, TARGETS["avx512"]).count() > 10**7
    assert nests(VGG, TARGETS["generic"], in_place=True).count() > 10**7


def draws(problem, target, number, seed=0):
    space = nests(problem, TARGETS[target])
    tree, random = Tree(space), Random(seed)
    for _ in range(number):
        yield nest(space, tree.draw(random))
    assert tree.nodes <= 1 + number * len(space.levels)


@pytest.mark.parametrize(
    "problem, target", first(2, product([RAGGED, VGG, STRIDED, POINTWISE], ["avx512", "neon"]))
)
def test_every_draw_is_legal(problem, target):
    for parameters in draws(problem, target, 1250):
        assert rules.flaws(problem, parameters, TARGETS[target]) == []


@pytest.mark.thorough
def test_every_one_of_very_many_draws_is_legal():
    for parameters in draws(VGG, "avx512", 30_000):
        assert rules.flaws(VGG, parameters, TARGETS["avx512"]) == []


def test_the_same_seed_draws_the_same_in_every_process():
    program = (
        "from laboratory.test_space_of_nests import VGG, draws\n"
        "for one in draws(VGG, 'avx2', 5): print(one.text)"
    )
    texts = set()
    for hashing in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(__file__))
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        texts.add(run.stdout)
    assert texts == {"".join(f"{one.text}\n" for one in draws(VGG, "avx2", 5))}


def test_small_spaces_hold_exactly_the_legal_nests():
    problem, target = LoopProblem.of("NCHW", 2, 6, (4, 3), (2, 1)), TARGETS["sse2"]
    ranges = {
        **{f"unroll_{dim}": {1, 2} if dim == "H" else {1} for dim in DIMS},
        **{f"block_{dim}": {None} for dim in "CYXW"},
        "strategy": {"filters-yxc"}, "pixels": {1}, "filters": {1}, "rows": {1},
        "kernel": {"YXCM"},
        "output": {"HWM"}, "prefetch": {"", "image+kernel"}, "distance": {None, 64},
        "level": {None, 2}, "image": {"CHW", "HWC"},
    }  # fmt: skip
    space = nests(problem, target).restrict(**ranges)
    expected = set()
    # One size for every number of blocks.
    for image, filters, rows in product(("CHW", "HWC"), (None, 4), (None, 1, 2)):
        blocked = [(dim, size) for dim, size in (("M", filters), ("H", rows)) if size]
        names = rules.loops("filters-yxc", [dim for dim, _ in blocked])
        for order, times, copies, ahead in product(
            permutations(names), (1, 2), COPIES, (None, ("image", "kernel"))
        ):
            made = Parameters(
                "filters-yxc", image, "YXCM", "HWM", order, tuple(blocked), copies,
                (("H.i" if rows else "H", 2),) if times == 2 else (), 1, 1,
                prefetch=Prefetch(ahead, 64, 2) if ahead else None,
            )  # fmt: skip
            if (rows or 3) >= times and not rules.flaws(problem, made, target):
                expected.add(made)
    assert {nest(space, path) for path in space.paths()} == expected
    assert space.count() == len(expected) > 100


def test_in_place_keeps_the_layouts_of_the_arrays():
    space = nests(RAGGED, TARGETS["avx2"], in_place=True)
    assert space.values("image") == {"HWC"} and space.values("output") == {"HWM"}
    assert nests(VGG, TARGETS["avx2"]).values("image") > {"HWC", "CHW"}


@pytest.mark.thorough
def test_ranges_of_users():
    space = nests(VGG, TARGETS["avx2"])
    some = space.restrict(image={"HWC", "CHW"}, block_H={None, 14})
    assert 10**6 < some.count() < space.count()
    assert some.values("image") == {"HWC", "CHW"}
    order = ("H.o", "M", "H.i", "W")
    ordered = some.restrict(order={order}, strategy={"filters-yxc"})
    assert ordered.values("block_H") == {14} and ordered.values("order") == {order}
    with pytest.raises(InvalidValue, match="image: got HCW.; allowed: CHW, CWH, HCW, HWC, WCH"):
        space.restrict(image={"HCW."})


def test_one_size_for_every_number_of_blocks():
    sizes = block_sizes(VGG, 16, "M")
    assert {-(-256 // size) for size in sizes} == {2, 3, 4, 6, 8, 16}
    assert {128, 64, 32, 16} <= {*sizes} and all(size % 16 == 0 for size in sizes)
