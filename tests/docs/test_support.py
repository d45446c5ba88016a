"""docs/support.md says for every cell what becomes of it: all of them are asked."""

import importlib
import re
from itertools import product
from pathlib import Path

import pytest

from winogen import kernels
from winogen.records import Precision

ROOT = Path(__file__).parents[2]


@pytest.fixture
def support(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("support")


@pytest.fixture
def page(support):
    return support.PAGE.read_text("utf-8")


def table(page, name):
    """The lines of a table."""
    found = re.search(f"<!-- {name}: begin -->\n(.*)\n<!-- {name}: end -->", page, re.DOTALL)
    return found[1].split("\n")


def test_every_variant_has_a_layer(support):
    assert {*support.variants()} == {*support.LAYERS}


def test_each_layer_is_computed_by_its_variant(support):
    for variant in support.variants():
        isa = "avx512+fp16" if variant.endswith("float16") else "avx2"
        said = {support.cell(variant, isa, layout, "float32") for layout in support.LAYOUTS}
        assert support.WORKS in said, f"{variant}: {said}"


def test_cells_of_the_page(support, page):
    """One target in each line of the page, another one in each line."""
    isas = list(support.isas())
    for number, line in enumerate(table(page, "kernels")[2:]):
        variant, layout, types, targets = (part.strip(" `") for part in line.strip("|").split("|"))
        names, isa = targets.removeprefix("all but ").split(", "), isas[number % len(isas)]
        works = targets == "all" or (isa in names) != targets.startswith("all but ")
        said = support.cell(variant, isa, layout, types.split(", ")[number % 2 - 1])
        assert (said == support.WORKS) == works, f"{line}: {isa}: {said}"


def test_flytes_go_where_the_page_says(support):
    for name in support.variants():
        has = {
            dtype: kernels.named(name).computes(Precision.of(dtype))
            for dtype in ("float16", "float64", "flyte24", "flyte48d")
        }
        assert has["flyte24"] == has["float16"], name
        assert has["flyte48d"] == (has["float16"] and has["float64"]), name


@pytest.mark.thorough
def test_all_cells(support, page):
    assert table(page, "kernels") == support.kernels_table()
    assert table(page, "refusals") == support.refusals_table()


@pytest.mark.thorough
def test_a_kernel_or_a_sentence(support):
    for variant, isa in product(support.variants(), support.isas()):
        said = support.cell(variant, isa, "NCHW", "float32")
        assert said in (support.WORKS, support.ABSENT) or "; allowed: " in said


@pytest.mark.thorough
def test_doors(support, page, quick_kernels):
    for package in ("torch", "onnx", "onnxruntime", "ml_dtypes"):
        pytest.importorskip(package)
    doors = importlib.import_module("support_doors")
    assert table(page, "doors") == doors.doors_table()
