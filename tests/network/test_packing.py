"""Filters are packed for other CPUs by portable C: every kernel of every target has such C."""

import random
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from conv.conftest import quick_kernels
from kernels.samples import LAYOUTS, products_of, reaching
from network.test_network import chain

from winogen import kernels
from winogen.codegen.render import render
from winogen.conv import arguments, packing
from winogen.network import generate, weights
from winogen.records import TARGETS, Precision
from winogen.toolchain import host_targets

__all__ = ["quick_kernels"]

ISAS = (*TARGETS, "neon+fp16", "x86-64-v3", "avx512+vnni")
PACKED = (None, "float16", "bfloat16")  # what filters are stored in; None: as they are computed


def specs(isa, variant, packed=None):
    """Kernels of a variant as networks may have them, with a call of each."""
    target = arguments.target(isa)
    precision = Precision.of("float32", packed, products_of(variant, "float32"))
    for layout in LAYOUTS:
        for spec, works in reaching(variant, layout, "float32", target).items():
            yield replace(spec, precision=precision), works[0]


@pytest.mark.thorough
@pytest.mark.parametrize("isa", ISAS)
def test_every_kernel_is_written_in_portable_c(isa):
    for variant, packed in product(kernels.variants().values(), PACKED):
        for spec, _ in specs(isa, variant, packed):
            text = render(replace(spec, target=spec.target.portable))
            assert "immintrin" not in text, spec.name


@pytest.mark.parametrize("algorithm", ["mcmr", "winograd1d", "winograd2d"])
def test_a_network_of_any_algorithm_is_generated_for_neon(algorithm):
    files = generate(chain((1, 3, 9, 11)), isa="neon", algorithm=algorithm)
    assert "net_00.c" in files.contents


# Kernels of filters as arrays of numbers; the test draws one of each of five variants.
FLOATS = [name for name, one in kernels.variants().items() if one.computes(Precision.of("float32"))]


@pytest.mark.thorough
@pytest.mark.parametrize("isa", [one.name for one in host_targets() if one.name != "generic"])
def test_portable_c_packs_as_the_kernel_itself_does(isa, seed, monkeypatch):
    chance = random.Random(seed)
    drawn = [list(specs(isa, kernels.named(name))) for name in chance.sample(FLOATS, 5)]
    for spec, work in (chance.choice(some) for some in drawn if some):
        shape = work.groups * work.filters, work.channels, work.filter_taps
        weight = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        one = SimpleNamespace(spec=spec, fields=spec.values(work))
        own = weights.packed(one, weight)
        with monkeypatch.context() as patch:
            patch.setattr(packing, "_runs_here", lambda target: False)
            assert np.array_equal(weights.packed(one, weight), own), spec.name
