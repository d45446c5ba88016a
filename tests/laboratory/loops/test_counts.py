"""What a nest loads, stores and adds per multiply-add: on the tree, and by formula."""

from collections import Counter
from dataclasses import replace
from math import prod
from random import Random

import pytest
from laboratory.loops.interpret import Machine, packed
from laboratory.loops.samples import BY_LANE, LAYERS, data, draw, problem, target_of
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidValue
from winogen.records import TARGETS
from winogen.tuning.chosen import chosen_layers
from winogen_lab.loops.build import build
from winogen_lab.loops.count import count
from winogen_lab.loops.parameters import STRATEGIES, LoopProblem, Parameters
from winogen_lab.loops.registers import columns_below, solve_resident
from winogen_lab.loops.rules import flaws, strategies
from winogen_lab.loops.temporaries import temporaries
from winogen_lab.loops.usual import usual, usual_order

# Whole register blocks of every micro-kernel, so that no step is partly empty.
EVEN = LoopProblem.of("NHWC", 8, 64, (6, 34), (3, 3))


def counts_of(strategy, pixels, filters, target):
    nest = replace(usual(EVEN, target, strategy), pixels=pixels, filters=filters, blocks=(),
                   order=usual_order(strategy, ()))  # fmt: skip
    return count(build(EVEN, nest, target))


@pytest.mark.parametrize("pixels, filters", [(1, 1), (2, 4), (4, 4), (8, 2)])
@pytest.mark.parametrize("strategy", ["dot-c", "dot-yxc", "filters-m", "filters-c", "filters-yxc",
                                      "outer-c", "outer-yxc"])  # fmt: skip
def test_loads_per_fma_are_those_of_the_register_block(strategy, pixels, filters):
    counts = counts_of(strategy, pixels, filters, BY_LANE)
    assert counts.loads_per_fma == (pixels + filters) / (pixels * filters)


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if STRATEGIES[s].meet == "lane"])
def test_lanes_of_a_register_save_loads(strategy):
    """A vector of inputs serves `lanes` multiply-adds of every vector of filters."""
    lanes, pixels, filters = 4, 4, 2
    counts = counts_of(strategy, 1 if "outer" in strategy else pixels, filters, BY_LANE)
    across = lanes if "outer" in strategy else pixels
    assert counts.loads_per_fma == 1 / (lanes * filters) + 1 / across


@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("kernel", ((3, 3), (5, 2), (7, 7)))
def test_resident_rows_load_what_the_formula_says(kernel, stride):
    """Method 2: (KX + (Rx - 1) S) / (KX Rx Rm) inputs for each FMA, and 1 / Rx filters."""
    for block in solve_resident(32, kernel[1], stride):
        columns = columns_below(3 * block.rows, kernel[1], stride)  # three blocks of pixels
        one = LoopProblem.of("NHWC", 8, 8 * block.vectors, (kernel[0] + 4, columns), kernel,
                             stride=(1, stride))  # fmt: skip
        nest = replace(usual(one, BY_LANE, "filters-yc-row"), pixels=block.rows,
                       filters=block.vectors, rows=1, blocks=(), order=("M", "H", "W"))  # fmt: skip
        counts = count(build(one, nest, BY_LANE))
        assert counts.loads_per_fma == pytest.approx(block.loads)
        assert nest.kind.registers(block.rows, block.vectors, 4, kernel=kernel) == block.registers


def test_inputs_are_shared_between_rows_of_outputs():
    """Two rows of outputs see four of inputs, of which two are the same: 4 instead of 6 loads."""
    one = LoopProblem.of("NHWC", 8, 8, (6, 9), (3, 3))  # 4 x 7 outputs
    for rows, inputs in ((1, 3 * 9), (2, 4 * 9), (4, 6 * 9)):
        nest = Parameters("filters-c-window", "HWC", "MYXCm", "HWM", ("M", "H", "W"), pixels=7,
                          rows=rows, copies="explicit")  # fmt: skip
        wide = replace(BY_LANE, registers=40)
        counts = count(build(one, nest, wide))
        assert counts.fmas == 2 * 8 * 9 * 4 * 7
        assert counts.operand_loads == 2 * 8 * (4 // rows) * (inputs + 9)


def test_the_planner_has_rows_where_maps_are_small():
    """14 pixels are whole steps of 2 x 2 pixels, and not of the four that one row would have."""
    small, wide = (
        LoopProblem.of("NHWC", 64, 96, (size, size), (3, 3), padding=(1, 1, 1, 1))
        for size in (14, 56)
    )
    nest = usual(small, TARGETS["avx2"])
    assert (nest.rows, nest.pixels, nest.filters) == (2, 2, 3)
    assert usual(wide, TARGETS["avx2"]).rows == 1
    assert all(usual(small, TARGETS["avx2"], name).rows == 1 for name in ("dot-c", "outer-c"))


def test_the_rule_of_loads_takes_the_method_that_loads_least():
    """Resident rows where they save loads: not for one tap, and not for more than there is room."""
    found = {}
    for taps in (1, 3, 7, 19):
        one = LoopProblem.of("NHWC", 64, 96, (48 + taps - 1, 48 + taps - 1), (taps, taps))
        nest = usual(one, TARGETS["avx2"], rule="loads")
        assert flaws(one, nest, TARGETS["avx2"]) == []
        others = (usual(one, TARGETS["avx2"], name) for name in ("filters-yxc", "filters-yc-row")
                  if name in strategies(TARGETS["avx2"], one.kernel))  # fmt: skip
        loads = [count(build(one, other, TARGETS["avx2"])).operand_loads for other in others]
        assert count(build(one, nest, TARGETS["avx2"])).operand_loads <= min(loads)
        found[taps] = nest.strategy
    assert found == {1: "filters-yxc", 3: "filters-yc-row", 7: "filters-yc-row", 19: "filters-yxc"}
    with pytest.raises(InvalidValue, match=r"strategy: got filters-yc-row of 19 taps; allowed: "):
        usual(one, TARGETS["avx2"], "filters-yc-row")


def test_permuted_copies_load_each_operand_once_for_all_pairs():
    counts = counts_of("outer-yxc-permuted", 1, 1, target_of("outer-yxc-permuted"))
    assert counts.loads_per_fma == 2 / 8


def test_horizontal_adds_and_sums_by_what_the_micro_kernel_sums():
    """With the loops Y and X inside there are Y X times fewer of both."""
    inner, outer = (counts_of(name, 2, 2, BY_LANE) for name in ("dot-yxc", "dot-c"))
    outputs = prod(EVEN.output_size) * EVEN.filters
    assert inner.horizontal_adds == outputs and outer.horizontal_adds == 9 * outputs
    for name in ("filters", "outer"):
        inner, outer = (counts_of(f"{name}-{loops}", 4, 2, BY_LANE) for loops in ("yxc", "c"))
        assert outer.sum_stores == 9 * inner.sum_stores and outer.fmas == inner.fmas


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_counts_are_what_the_interpreter_does(strategy):
    rng, target = Random(strategy), target_of(strategy)
    layer = rng.choice(LAYERS)
    one = problem("NCHW", layer)
    made = build(one, draw(rng, one, strategy, target), target)
    x, w, bias, _ = data("NCHW", layer)
    machine = Machine(one, made, {
        "image": x.ravel().tolist(), "kernel": packed(one, made, w.ravel().tolist()),
        "bias": bias.tolist(), "output": [None] * one.output.extent(1, *one.output_size,
                                                                     one.filters),
    }, counted=True)  # fmt: skip
    machine.run()
    done = Counter(machine.counts)
    counts = count(made)
    assert counts.fmas == done["Fma"] > 0 and counts.sum_stores == done["Store"]
    assert counts.horizontal_adds == done["HAdd"]
    loads = {name: done[f"Load {name}"] for name in ("image", "tile", "kernel")}
    assert counts.operand_loads == sum(loads.values())


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_temporary_memory_is_little_beside_im2col(layout):
    """And every layer has a nest without any: inputs are read where they lie, behind guards."""
    layers = chosen_layers("thesis27", None)
    rows = list(temporaries(layers, layout, TARGETS["avx2"]))
    assert {6_998_400, 115_605_504} <= {row.im2col for row in rows}  # as the thesis prints
    for layer, row in zip(layers, rows):
        many = prod(layer.weight[2:]) > 1 and layer.weight[1] > 3
        assert not many or row.usual < 0.25 * row.im2col, row
        assert row.bare == 0 and row.least <= row.usual <= row.most


def test_the_table_of_temporary_memory():
    words = ("temporaries", "thesis27", "--only", "27x27", "--layout", "NHWC", "--isa", "avx2")
    found = CliRunner().invoke(app, ["lab", *words])
    assert found.exit_code == 0, found.output
    head, row = found.stdout.splitlines()
    assert head.split()[:2] == ["layer", "im2col"]
    assert row.split()[1] == "6,998,400" and row.split()[-1] == "0"


@pytest.mark.parametrize("target", TARGETS)
def test_usual_nests_are_legal(target):
    for layout in ("NCHW", "NHWC"):
        for layer in LAYERS:
            one = problem(layout, layer)
            for strategy in (None, *strategies(TARGETS[target], one.kernel)):
                assert flaws(one, usual(one, TARGETS[target], strategy), TARGETS[target]) == []
