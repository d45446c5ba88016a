"""The register of variants: one is added in one place, and each says of itself what is true."""

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from kernels.samples import LAYOUTS, borders, cuts, reaching, spread

import winogen
from winogen import kernels, resources
from winogen.codegen import render
from winogen.codegen.templates import environment
from winogen.conv import execute
from winogen.kernels import pixels_family
from winogen.kernels.count import Demand
from winogen.kernels.spec import KernelSpec
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.records import TARGETS, Precision, Tuning
from winogen.records.tuning import MEANS
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import profile, regret

VARIANTS = kernels.variants()
CSRC = resources.folder("csrc")

# ---- a variant of one's own ----------------------------------------------------------------------

TOY_C = """\
{% include "parts/head.h.j2" %}

{% include "parts/call.h.j2" %}

void {{ prefix }}_pack(const winogen_conv *p, const real *weight, real *packed, int threads)
{
    (void)threads;
    memcpy(packed, weight, (size_t)p->packed_bytes);
}

/* Sums are made in the buffer of the thread: a row of outputs. */
static void run_part(const call *c, int64_t phase, int64_t part, int64_t member)
{
    const winogen_conv *p = c->p;
    const block b = block_at(p, part);
    real *const sum = BUFFER(real, c, sum, member);
    (void)phase;
    for (int64_t m = b.group * p->filters; m < (b.group + 1) * p->filters; m++)
        for (int64_t y = b.row; y < b.row + b.rows; y++) {
            for (int64_t x = 0; x < b.cols; x++) sum[x] = c->bias ? c->bias[m] : 0;
            for (int64_t k = 0; k < p->channels; k++) {
                const real *plane = input_at(c, b.image, b.group * p->channels + k);
                const real *row = plane + y * p->input.row + b.col;
                for (int64_t x = 0; x < b.cols; x++)
                    sum[x] += c->packed[m * p->channels + k] * row[x];
            }
            memcpy(output_at(c, b.image, y, b.col, m), sum, (size_t)b.cols * sizeof(real));
        }
    MARK(1);
}

{% include "parts/scheduler.h.j2" %}
"""


class Toy(Variant):
    """1x1 convolution without activation, by plain loops."""

    name = "toy"
    algorithm = "direct"
    template = "toy.c.j2"
    title = "1x1 convolution by plain loops"
    buffers_used: ClassVar = {"sum": "one row of outputs"}

    def applies(self, work):
        plain = work.layout == "NCHW" and work.epilogue.activation is None
        return plain and work.pointwise

    def tuning(self, target, precision):
        return Tuning("nothing to tune")

    def buffers(self, work):
        return {"sum": Buffer(work.block[1] * work.itemsize)}

    def packed_numbers(self, work):
        return work.groups * work.filters * work.channels

    def cycles(self, work, machine):
        rows, cols = work.block
        return Cycles(0.0, work.items * rows * cols * work.filters * work.channels, 0.0)

    def count(self, work):
        products = pixels_family.multiplications(work)
        moves = pixels_family.moved(work, self.packed_bytes(work), {})
        return Demand(), Demand(products, products, moves=moves), Demand()


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """The variant, known to the register, its template in a folder of its own."""
    from jinja2 import ChoiceLoader, DictLoader

    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    made = environment()
    loader = ChoiceLoader([DictLoader({"kernels/toy.c.j2": TOY_C}), made.loader])
    monkeypatch.setattr(made, "loader", loader)
    execute.forget()
    yield kernels.register(Toy(), first=True)
    kernels.unregister("toy")
    execute.forget()


def test_a_variant_of_ones_own_is_planned_compiled_run_and_listed(toy):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 6, 7, 9)).astype(np.float32)
    w = rng.integers(-3, 4, (8, 3, 1, 1)).astype(np.float32)
    bias = rng.integers(-3, 4, 8).astype(np.float32)
    assert next(iter(kernels.variants())) == "toy" and kernels.family("direct")[0] is toy
    for options in ({}, {"algorithm": "direct", "threads": 2}):
        conv = winogen.Conv2d(w, bias, groups=2, **options)
        plan = conv.plan(x.shape)
        assert (plan.algorithm, plan.variant) == ("direct", "toy")
        assert (
            "direct, variant toy" in str(plan) and "1x1 convolution by plain loops" in plan.source
        )
        expected = np.einsum("ngchw,gmc->ngmhw", x.reshape(2, 2, 3, 7, 9), w.reshape(2, 4, 3))
        assert np.array_equal(conv(x), expected.reshape(2, 8, 7, 9) + bias[:, None, None])
    # What it is not meant for goes to the others.
    assert winogen.Conv2d(w, groups=2, activation="relu").plan(x.shape).variant != "toy"
    nhwc = winogen.Conv2d(w, groups=2, layout="NHWC")
    assert nhwc.plan((2, 7, 9, 6)).variant == "pointwise"


def test_a_variant_of_ones_own_is_measured(toy):
    layer = BenchLayer.from_dict({"name": "t", "input": [1, 8, 6, 6], "weight": [8, 8, 1, 1]})
    (measured,) = regret.sweep([layer])
    assert [one.algorithm for one in measured.candidates] == ["direct", "im2col"]
    assert 0 < measured.candidates[0].measured_s < 10
    x, w = np.ones(layer.input, np.float32), np.ones(layer.weight, np.float32)
    stages = profile.profile(layer, x, w).stages
    assert stages["multiply"] > 0 and stages["output transform"] == 0


def test_a_variant_states_what_has_no_default():
    """One that forgets its memory, its costs or its counts cannot be made."""

    class Hasty(Toy):
        count = Variant.count

    with pytest.raises(TypeError, match="count"):
        Hasty()
    for variant in VARIANTS.values():
        states = type(variant).unit is not Variant.unit
        assert states or not variant.widens_arrays, variant.name


def test_a_name_is_taken_once(toy):
    with pytest.raises(ValueError, match="toy"):
        kernels.register(Toy())


# ---- what every variant says of itself -----------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_described(name):
    variant = VARIANTS[name]
    assert variant.name == name
    module = importlib.import_module(type(variant).__module__)
    own = variant.folder is not None
    assert Path(module.__file__).name == f"{'variant' if own else name}.py"
    assert module.__doc__ and type(variant).__doc__
    assert ((variant.folder or CSRC / "kernels") / variant.template).is_file()
    assert variant.title and not variant.title.endswith(".")
    assert set(variant.uses) <= set(MEANS)
    for target in TARGETS.values():
        tuning = variant.tuning(target, Precision.of("float32"))
        assert tuning.provenance
        assert all(getattr(tuning, number) > 0 for number in variant.uses)


def test_every_template_has_its_variant():
    templates = {path.name for path in (CSRC / "kernels").iterdir()}
    assert templates == {one.template for one in VARIANTS.values() if not one.folder}


@pytest.mark.parametrize("algorithm", kernels.algorithms())
def test_the_last_of_a_family_takes_what_is_left(algorithm):
    last = kernels.general(algorithm)
    assert last is kernels.family(algorithm)[-1] and last.algorithm == algorithm
    for layout in LAYOUTS:
        works = spread(algorithm, layout, "float32", TARGETS["generic"], "unswitch", (3, 4))
        assert all(last.applies(work) for work in works)
        assert last.name in {work.variant for work in works}


# ---- what a kernel is told ----------------------------------------------------------------------


def calls(name):
    """Calls of a variant, cut in every way, with all borders."""
    variant = VARIANTS[name]
    for layout in LAYOUTS:
        for border in borders(variant):
            for works in reaching(variant, layout, "float32", TARGETS["avx512"], border).values():
                for work in islice(works, 0, None, 5):
                    for cut in cuts(work):
                        for threads in (1, 3):
                            split = cut.split if threads > 1 else 0
                            yield variant, replace(cut, threads=threads, split=split)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_fills_just_the_fields_that_it_declares(name):
    for variant, work in calls(name):
        of_work = {name for name in variant.fields_used if hasattr(work, name)}  # by their names
        assert set(variant.fields(work)) - {"shares"} == set(variant.fields_used) - of_work
        assert set(variant.buffers(work)) == set(variant.buffer_names(work.border, work.precision))


@pytest.mark.parametrize("name", VARIANTS)
def test_buffers_share_the_workspace_without_overlap(name):
    for variant, work in calls(name):
        struct = KernelSpec.of(work).values(work)
        whole = struct["thread_bytes"] * work.threads + struct["shared_bytes"]
        assert whole == int(variant.workspace_bytes(work))
        pieces = []
        for buffer, needed in variant.buffers(work).items():
            offset, step = struct[buffer]
            assert step == (0 if needed.shared else struct["thread_bytes"])
            members = range(work.threads if step else 1)
            pieces += [(offset + i * step, offset + i * step + int(needed.bytes)) for i in members]
        assert all(begin % 64 == 0 for begin, _ in pieces)
        pieces.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(pieces))
        assert not pieces or pieces[-1][1] <= whole


def test_no_kernel_judges_a_layer():
    """Which kernel a layer gets is said once, in Python."""
    kernels = (path for path in CSRC.rglob("*") if "verilog" not in path.parts)
    text = "\n".join(path.read_text() for path in kernels if path.is_file())
    for name in ("is_depthwise", "in_planes", "has_few_channels", "is_usual", "pixels_in_lanes"):
        assert name not in text
    questions = set(re.findall(r"\b(?:is|has|can|may|uses|needs)_\w+(?=\()", text))
    others = {"has_shape", "is_empty", "is_nan"}  # of ggml's tensors, and of Rust's
    assert questions == {"is_non_temporal", "is_read", *others}


def test_loop_nests_are_imported_when_somebody_names_them():
    code = """if True:
        import sys, numpy, winogen
        from winogen.kernels import algorithms, named
        loaded = lambda: any(name.startswith("winogen_lab.loops") for name in sys.modules)
        w = numpy.ones((8, 4, 3, 3), numpy.float32)
        winogen.Conv2d(w).plan((1, 4, 9, 9))
        assert "loops" in algorithms() and not loaded()
        assert named("loops").algorithm == "loops" and loaded()
        """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_variant_from_elsewhere_is_rendered_anew_when_its_folder_changes(tmp_path, monkeypatch):
    loops, precision = kernels.named("loops"), Precision.of("float32")
    monkeypatch.setattr(type(loops), "folder", tmp_path)
    tuning = loops.tuning(TARGETS["avx2"], precision)
    spec, recipes = KernelSpec("loops", "NCHW", precision, TARGETS["avx2"], tuning), set()
    for text in ("int one;", "int two;"):
        (tmp_path / loops.template).write_text(text)
        render._digest.cache_clear()
        recipes.add(render.recipe(spec))
    assert len(recipes) == 2
