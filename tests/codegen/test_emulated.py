"""Kernels for other CPUs, emulated here: integers in, the same integers out.

`sanitized.c` drives them: calls of one kernel, with every border, padding mode, block and rest.
Which kernels these are is drawn, and changes with the files that were committed. Many at once:

    WINOGEN_DRAWS=200 python -m pytest -n auto -m thorough tests/codegen/test_emulated.py
"""

import os
import random
from dataclasses import replace
from itertools import accumulate, product
from math import prod

import pytest
from codegen import sanitized_quantized
from codegen.elsewhere import ELSEWHERE, SIMULATED
from codegen.sanitized_convolution import check, exactly
from kernels.samples import LAYOUTS, TILES, borders, cuts, products_of, reaching

from winogen import kernels
from winogen.conv import arguments
from winogen.kernels.dots import DOTS
from winogen.records import TARGETS, Precision

pytestmark = pytest.mark.thorough  # they need compilers for other CPUs

# Those whose products are not of integers with steps, which rounds.
VARIANTS = [
    variant
    for variant in kernels.variants().values()
    if products_of(variant, "float32") is None and variant.computes(Precision.of("float32"))
]
DRAWS = int(os.environ.get("WINOGEN_DRAWS", "1"))  # kernels of ARM's instruction sets,
FEWER = max(1, DRAWS // 4)  # of each other, and of instructions that multiply bytes
MOST, PRODUCTS = 120, 10_000_000  # calls of each, and products of all of them


TRIED = {**ELSEWHERE, **SIMULATED}
# Instruction sets with the numbers of their draws.
DRAWN = [
    (isa, draw)
    for isa in TRIED
    for draw in range(DRAWS if isa in ("neon", "armv7", "generic") else FEWER)
]


def affordable(works):
    """The first of them, as many as are computed by loops over single numbers in seconds."""
    sizes = (
        work.batch * work.groups * work.filters * work.channels * work.filter_taps * prod(work.out)
        for work in works
    )
    return [work for work, total in zip(works, accumulate(sizes)) if total < PRODUCTS]


def drawn(isa, seed, dtypes=("float32", "float64")):
    """Calls of a kernel of one variant after the other; the seed chooses which kernel and calls."""
    chance, first = random.Random(seed), seed % len(VARIANTS)
    for variant in VARIANTS[first:] + VARIANTS[:first]:
        kinds = list(product(LAYOUTS, dtypes, borders(variant), TILES))
        for layout, dtype, border, tile in chance.sample(kinds, len(kinds)):
            found = reaching(variant, layout, dtype, arguments.target(isa), border, tile)
            if found:
                works = chance.choice(list(found.values()))
                calls = [exactly(one) for work in works for one in cuts(work)]
                return affordable(chance.sample(calls, min(MOST, len(calls))))
    raise AssertionError(f"no kernel for {isa}")


@pytest.mark.parametrize("isa, draw", DRAWN)
def test_integers_stay_integers(isa, draw, tmp_path, seed):
    other = TRIED[isa]
    other.need(other.runner[0])
    works = drawn(isa, seed + draw)
    check(tmp_path, works, exact=True, elsewhere=other)
    print(f"{len(works)} calls of {works[0].variant} are right")


# Arrays of flytes that hold these integers, and whose vectors are shuffled, or moved one by one.
FLYTES = ("flyte24", "flyte16_cut", "flyte56d", "flyte40d", "flyte24d")


@pytest.mark.parametrize("isa, draw", DRAWN)
def test_integers_in_flytes_stay_integers(isa, draw, tmp_path, seed):
    other = TRIED[isa]
    other.need(other.runner[0])
    works = drawn(isa, seed + draw, FLYTES)
    check(tmp_path, works, exact=True, elsewhere=other)
    print(f"{len(works)} calls of {works[0].variant} are right")


# Instructions that multiply bytes, of CPUs that this machine is not; and C whose vectors have a
# compiler of their own.
BYTES = [(dot.target, dot) for dot in DOTS if dot.target in TRIED and dot.name != "tdpbusd"]
BYTES += [("rvv128", dot) for dot in DOTS if dot.name == "plain"]


@pytest.mark.parametrize("draw", range(FEWER))
@pytest.mark.parametrize("isa, dot", BYTES, ids=lambda of: getattr(of, "name", of))
def test_bytes_stay_bytes(isa, dot, draw, tmp_path, seed):
    other = TRIED[isa]
    other.need(other.runner[0])
    kinds = sanitized_quantized.kinds(TARGETS[isa], dot)
    # Depthwise layers may have another: of 16 bits.
    specs = [spec for spec in kinds if spec.dot.name == dot.name]
    spec = specs[(seed + draw) % len(specs)]
    count = sanitized_quantized.check(tmp_path, replace(spec, rows=3), elsewhere=other)
    print(f"{count} calls of {spec.name} are right")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("isa", ["neon+dotprod", "neon"])
def test_tiles_of_bytes_are_near(isa, layout, tmp_path):
    other = TRIED["neon"]
    other.need(other.runner[0])
    found = reaching(kernels.named("mcmr_int8"), layout, "float32", arguments.target(isa))
    works = next(iter(found.values()))
    check(
        tmp_path, affordable([one for work in works for one in cuts(work)][:MOST]), elsewhere=other
    )
