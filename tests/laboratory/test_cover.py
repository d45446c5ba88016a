"""The choice of kernels that are compiled ahead, and the list of them."""

import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.codegen.render import recipe, render
from winogen.kernels import named
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision
from winogen.tuning.layers import BenchLayer
from winogen_lab.cover import listing, promises
from winogen_lab.cover.greedy import cover
from winogen_lab.cover.problems import Instance, Way, instances

LAYER = BenchLayer.from_dict({"name": "a", "input": [1, 16, 12, 12], "weight": [16, 16, 3, 3]})
SIGNAL = BenchLayer.from_dict({"name": "b", "input": [1, 16, 12], "weight": [16, 16, 3]})
AVX2 = TARGETS["avx2"]


def kernel(variant="direct", **sizes):
    precision = Precision.of("float32")
    tuning = named(variant).tuning(AVX2, precision).with_sizes(tuple(sizes.items())).compiled
    return KernelSpec(variant, "NCHW", precision, AVX2, tuning)


A, B, C = (kernel(vectors=number) for number in (2, 1, 3))
PLANES = kernel("planes")


def problem(*ways):
    return Instance("avx2", tuple(Way(*way) for way in ways))


def test_kernels_come_in_the_order_of_the_loss_that_they_avoid():
    found = [problem((1.0, PLANES), (3.0, A)), problem((1.0, PLANES), (3.0, A)),
             problem((4.0, A), (2.0, B))]  # fmt: skip
    steps = cover(found, 0.0)
    assert [step.kernel for step in steps] == [A, PLANES, B]
    assert [step.worst for step in steps] == [3.0, 2.0, 1.0]
    assert steps[0].mean == pytest.approx(18 ** (1 / 3))
    assert [step.kernel for step in cover(found, 0.3)] == [A, PLANES]


def test_what_is_accurate_may_take_longer():
    fast, accurate = (1.0, A, 1.18), (1.1, PLANES)
    assert [step.kernel for step in cover([problem(fast, accurate)], 0.0)] == [PLANES]


def test_a_variant_has_two_register_blocks_at_most():
    found = [problem((1.0, one), (9.0, PLANES)) for one in (A, A, A, B, B, C)]
    steps = cover(found, 0.0)
    assert [step.kernel for step in steps] == [PLANES, A, B]
    assert steps[-1].worst == 9


def promise(*layers):
    ways = [(count, tuple(Way(*way) for way in some)) for count, *some in layers]
    return promises.Promise("net", "avx2", "zen3", "NCHW", tuple(ways))


def test_what_a_net_loses_is_that_of_all_its_layers():
    net = promise((3, (1.0, A), (2.0, B)), (1, (1.0, A), (6.0, PLANES)))
    assert net.loss({A}) == 0
    assert net.loss({B, PLANES}) == pytest.approx((3 * 2 + 6) / 4 - 1)
    careful = promise((1, (1.0, A, 1.18), (1.1, B)))
    assert careful.loss({A, B}) == 0 and careful.loss({A}) == pytest.approx(1 / 1.1 - 1)


def test_promises_are_kept_by_what_helps_most():
    net = promise((3, (1.0, A), (2.0, B)), (1, (1.0, A), (1.1, PLANES)), (4, (1.0, C), (1.3, B)))
    assert promises.kept([B, PLANES], [net], loss=0.6) == [B, PLANES]
    assert promises.kept([B, PLANES], [net], loss=0.2) == [B, PLANES, A]
    assert promises.kept([B, PLANES], [net], loss=0.05) == [B, PLANES, A, C]


@pytest.mark.thorough
def test_the_list_keeps_the_promises():
    pytest.importorskip("torch")
    result = CliRunner().invoke(app, ["lab", "cover", "--check", str(listing.FILE)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.strip().splitlines()
    assert len(lines) == 3 * 6 + 7 and lines[0].startswith("resnet18 by avx512 on zen4: NCHW ")
    losses = [float(text) for line in lines for text in re.findall(r"(-?[\d.]+) %", line)]
    assert len(losses) == 3 * 6 * 4 + 7 * 6 and max(losses) <= 100 * promises.LOSS


@pytest.fixture(scope="module")
def found():
    return list(instances([LAYER], (1,)))


def test_every_kernel_of_a_layer_can_be_listed(found):
    kernels = {way.kernel for one in found for way in one.ways}
    assert len(kernels) > 100
    for one in kernels:
        again = listing.from_dict(listing.to_dict(one))
        assert again == one
        assert recipe(again) == recipe(one)  # what wheels have is found by it


def test_targets_and_kinds_are_covered_apart(found):
    groups = {one.group for one in found}
    assert {"avx512", "avx2", "sse2", "avx2 gradients"} <= groups
    assert {"avx512+amx+vnni bytes", "avx2+avxvnni bytes", "sse2 bytes"} <= groups
    for step in cover(found, 0.02):
        assert step.kernel.target.name == step.group.split("+")[0].split()[0]


def test_signals_have_no_kernels_of_bytes():
    groups = {one.group for one in instances([SIGNAL], (1,))}
    assert "avx2" in groups and not any(group.endswith("bytes") for group in groups)


def test_the_list_has_what_computes_every_layer():
    kernels = listing.read()
    assert len(set(kernels)) == len(kernels)
    assert [listing.from_dict(listing.to_dict(one)) for one in kernels] == kernels
    for name in ("avx512", "avx2", "sse2"):
        for layout in ("NCHW", "NHWC"):
            direct = [
                one
                for one in kernels
                if isinstance(one, KernelSpec)
                and (one.target.name, one.variant, one.layout) == (name, "direct", layout)
            ]
            usual = named("direct").tuning(TARGETS[name], Precision.of("float32")).compiled
            assert usual in [one.tuning for one in direct]


@pytest.mark.thorough
def test_the_list_fits_the_variants_as_they_are():
    """Each has what its template asks for; `winogen lab cover --write` makes the list anew."""
    kinds = {(one.target.name, one.name, getattr(one, "fixed", ())): one for one in listing.read()}
    chosen = {}
    for (target, _, fixed), one in kinds.items():
        chosen[target, getattr(one, "variant", type(one)), tuple(dict(fixed))] = one
    assert len(chosen) > 30
    for one in chosen.values():
        assert "winogen_run" in render(one)


def test_a_core_s_blocks_are_listed_by_its_name():
    zen = replace(TARGETS["avx512"], core="zen4")
    precision = Precision.of("float32")
    tuning = named("mcmr").tuning(zen, precision).compiled
    tiles = listing.from_dict(
        {
            "kind": "convolution",
            "target": "avx512",
            "variant": "mcmr",
            "layout": "NCHW",
            "tiles": ["f4_3_gaussian", "f1_1"],
            "core": "zen4",
        }
    )
    assert tiles.tuning == tuning
    assert listing.to_dict(tiles)["core"] == "zen4"
