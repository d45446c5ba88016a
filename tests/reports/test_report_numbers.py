"""The report on a layer in every number format: what is predicted and what its kernels do."""

import json

import numpy as np
import pytest

from winogen.conv import Layer
from winogen.records import ARRAY_TYPES
from winogen.reports import Case, layer_report, own, ways, write_layer_report


@pytest.fixture(autouse=True)
def few_kernels(monkeypatch):
    """Tile 2 of three formats: each kernel takes more than a second to compile."""
    monkeypatch.setattr(ways, "_MOST_POINTS", 4)
    monkeypatch.setattr(ways, "_NARROW_TILES", (2,))
    monkeypatch.setattr(ways, "TRIED_FILTER_TYPES", ("float16",))
    monkeypatch.setattr(ways, "PRODUCT_TYPES", ("int16",))


@pytest.fixture
def case():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 32, 13, 12), np.float32)
    weight = rng.standard_normal((16, 32, 3, 3), np.float32)
    return Case(
        "mine", Layer.of(weight.shape, "float32", padding=1).problem(x.shape), lambda: (x, weight)
    )


@pytest.mark.thorough
def test_rows_of_narrow_numbers(case, tmp_path):
    page = write_layer_report(tmp_path, case, numbers=True, timed=True)
    document = json.loads((tmp_path / "report.json").read_text("utf-8"))
    rows = {row["label"]: row for row in document["rows"]}
    narrow = {label: row for label, row in rows.items() if row["numbers"] != "float32"}
    assert set(narrow) >= {
        *("direct, float16 filters", "mcmr F(2x2,3x3), float16 filters"),
        "mcmr F(2x2,3x3), int16 products",
    }
    assert document["refused"] == []
    for label, row in narrow.items():
        assert row["relative_max"] / 2 < row["planned_relative_max"] < row["relative_max"] * 2, (
            label
        )
        assert row["predicted_relative_l2"] == pytest.approx(row["relative_l2"], rel=0.3), label
        assert row["bound"] is None and 1e-5 < row["relative_max"] < 1e-2
    half, whole = (rows[f"mcmr F(2x2,3x3){numbers}"] for numbers in (", float16 filters", ""))
    assert half["asked"]["filter_dtype"] == "float16"
    assert half["packed_weight_bytes"] < 0.6 * whole["packed_weight_bytes"]
    if "float16" in ARRAY_TYPES:
        assert 1e-4 < rows["direct, float16 arrays"]["relative_max"] < 1e-3
    assert all(row["measured_ms"] > 0 for row in rows.values())
    text = page.read_text("utf-8")
    assert "int16 products" in text and "Number formats" in text and "measured ms" in text


def test_measured_times_decide_where_there_are_any():
    row = {"predicted_ms": 2.0, "relative_max": 1.0}
    assert own.cost(row) == 2.0 and own.cost({**row, "measured_ms": 3.0}) == 3.0


@pytest.mark.thorough
def test_what_applies_and_what_does_not(case):
    labels = [way.label() for way in ways.narrow(case)]
    assert "direct, int16 products" not in labels and "mcmr F(2x2,3x3), int16 products" in labels
    strided = Layer.of((8, 8, 3, 3), "float32", stride=5).problem((1, 8, 9, 9))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s, np.float32) for s in ((1, 8, 9, 9), (8, 8, 3, 3))]
    found = layer_report(Case("strided", strided, lambda: arrays), numbers=True)
    numbers = {row["label"] for row in found["rows"]}
    assert "direct, float16 filters" in numbers and not any("mcmr" in label for label in numbers)


@pytest.mark.thorough
def test_results_that_are_not_finite_have_no_row(case, monkeypatch):
    class Broken:
        def __init__(self, *args, filter_dtype=None, **options):
            self.conv = Conv2d(*args, filter_dtype=filter_dtype, **options)
            self.narrow = filter_dtype is not None

        def plan(self, *args, **options):
            return self.conv.plan(*args, **options)

        def __call__(self, x, *out):
            return self.conv(x, *out) * (np.nan if self.narrow else 1)

    Conv2d = own.Conv2d
    monkeypatch.setattr(own, "Conv2d", Broken)
    found = layer_report(case, numbers=True)
    assert not any(row["numbers"] == "float16 filters" for row in found["rows"])
    assert {"algorithm": "direct, float16 filters", "why": "numbers that do not overflow"} in found[
        "refused"
    ]
