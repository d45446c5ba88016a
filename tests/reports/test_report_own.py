"""The report on one layer: errors, predictions, bounds and what is recommended."""

import json

import numpy as np
import pytest

from winogen.codegen.transforms import load
from winogen.conv import Conv2d, Layer
from winogen.errors import InvalidType, InvalidValue
from winogen.reports import Case, layer_report, own, ways, write_layer_report
from winogen.reports.layers import layer_errors
from winogen.reports.predict import InputMoments, bound, predicted
from winogen.rounding.bounds import error_bound


@pytest.fixture(autouse=True)
def few_tiles(monkeypatch):
    """Tiles 2 and 3 only: each kernel takes more than a second to compile."""
    monkeypatch.setattr(ways, "_MOST_POINTS", 5)
    monkeypatch.setattr(ways, "_FEW", (2,))


def case_of(x, weight, **options) -> Case:
    layer = Layer.of(weight.shape, "float32", **options)
    return Case("mine", layer.problem(x.shape), lambda: (x, weight), {"input": "x.npy"})


def data(channels=32, filters=3, kind="normal", size=(14, 11)):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, channels, *size), np.float32)
    x = {"normal": x, "relu": np.maximum(x, 0), "shifted": x + 3}[kind]
    return x, rng.standard_normal((filters, channels, 3, 3), np.float32) / 8


@pytest.fixture
def rows():
    x, weight = data()
    return {row["label"]: row for row in layer_report(case_of(x, weight, padding=1))["rows"]}


@pytest.mark.thorough
@pytest.mark.thorough
def test_every_way_is_there(rows):
    assert list(rows) == [
        *("auto: direct", "direct", "im2col", "mcmr F(2x2,3x3)", "mcmr F(3x3,3x3)"),
        *("winograd1d F(2,3)", "winograd2d F(2x2,3x3)"),
    ]
    assert rows["mcmr F(3x3,3x3)"]["tile"] == [3, 3]
    assert rows["winograd1d F(2,3)"]["points"] == [None, ["0", "1", "-1", "inf"]]


@pytest.mark.thorough
def test_errors_are_those_of_conv2d(rows):
    x, weight = data()
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
    )
    exact = np.einsum("nchwkl,mckl->nmhw", windows, weight)
    for row in rows.values():
        y = Conv2d(weight, padding=1, **row["asked"])(x)
        error = np.abs(y - exact)
        assert row["maximum"] == pytest.approx(error.max(), rel=1e-4)
        assert row["relative_max"] == pytest.approx(error.max() / abs(exact).max(), rel=1e-4)
        l2 = np.linalg.norm(error) / np.linalg.norm(exact)
        assert row["relative_l2"] == pytest.approx(l2, rel=1e-4)
        assert row["maximum"] < row["bound"] < 1


@pytest.mark.parametrize("kind, factor", [("normal", 1.15), ("relu", 2), ("shifted", 2)])
def test_predictions_fit_the_data(kind, factor):
    x, weight = data(channels=96, kind=kind, size=(24, 24))
    for row in layer_report(case_of(x, weight))["rows"]:
        if row["tile"] or factor == 2:  # how direct convolution splits its sums depends on the ISA
            ratio = row["predicted_relative_l2"] / row["relative_l2"]
            assert 1 / factor < ratio < factor, row["label"]


def test_bounds_count_what_is_added_up():
    layer = Layer.of((3, 32, 3, 3), "float32")
    weight = np.zeros(layer.weight_shape, "f")
    for algorithm, tile, channels in (
        ("direct", None, 288),
        ("winograd1d", 2, 96),
        ("mcmr", 2, 32),
    ):
        plan = Conv2d(weight, algorithm=algorithm, tile=tile).plan((1, 32, 14, 11))
        f = load(2, 3) if tile else None
        along = (None if algorithm == "winograd1d" else f), f
        assert bound(plan, layer, 2.0, 0.5) == error_bound(*along, channels, "float32", 2.0, 0.5)


def test_predictions_know_a_mean_from_a_variance():
    """Inputs that are all alike make direct convolution worse than Winograd's F(2, 3)."""
    _, weight = data()
    plan = Conv2d(weight, algorithm="mcmr", tile=3).plan((1, 32, 14, 11))
    assert predicted(plan, InputMoments(0.0, 1.0)) != pytest.approx(
        predicted(plan, InputMoments(1.0, 0.0)), 0.1
    )
    assert predicted(plan, InputMoments(4.0, 0.0)) == pytest.approx(
        predicted(plan, InputMoments(1.0, 0.0))
    )
    assert predicted(plan, InputMoments(0.0, 0.0)) == 0


def test_plans_with_moduli():
    """With x^2 + 1 the error is about that of F(3, 3), which also tells what was predicted."""
    weight = np.zeros((16, 16, 3, 3), "f")
    conv = Conv2d(weight, padding=1, moduli="x,x-1,x+1,x^2+1,inf")
    plan = conv.plan((1, 16, 24, 24))
    assert plan.tile == (4, 4) and "x^2 + 1" in plan.moduli[0]
    assert own._named(plan) == "mcmr F(4x4,3x3) of moduli"
    points = Conv2d(weight, padding=1, algorithm="mcmr", tile=4).plan((1, 16, 24, 24))
    ratio = predicted(plan, InputMoments(1.0, 0.0)) / predicted(points, InputMoments(1.0, 0.0))
    assert 0.25 < ratio < 0.5
    assert 0 < bound(plan, conv._layer, 1, 1) < 1


def test_layer_errors_by_hand():
    y, exact = np.float32([[1.0, -2.0]]), np.array([[1.0 + 2**-23, -2.0 - 2**-20]])
    found = layer_errors(y, exact)
    assert found["maximum"] == pytest.approx(2**-20, 1e-5)
    assert found["mean"] == pytest.approx((2**-20 + 2**-23) / 2, 1e-5)
    # One unit in the last place is 2^-23 at 1 and 2^-22 at 2.
    assert (found["ulp_median"], found["ulp_maximum"]) == (pytest.approx(2.5), pytest.approx(4.0))
    assert layer_errors(y, y.astype("float64"))["relative_l2"] == 0


def test_recommendations():
    names = ("direct", "fast", "faster", "exact")
    rows = [
        {"label": name, "predicted_ms": ms, "relative_max": error}
        for name, ms, error in zip(names, (4, 2, 1, 9), (1e-7, 1e-6, 1e-3, 1e-8))
    ]
    assert own.recommend(rows, 1e-5) == {
        "within_tolerance": 1,
        "as_accurate_as_direct": 0,
        "most_accurate": 3,
    }
    assert own.recommend(rows, 1e-9)["within_tolerance"] is None


def test_what_winograd_cannot_do():
    x, weight = data(channels=4)
    found = layer_report(case_of(x, weight, stride=5))
    assert [row["label"] for row in found["rows"]] == ["auto: direct", "direct", "im2col"]
    assert [item["algorithm"] for item in found["refused"]] == list(ways.WINOGRAD)
    assert all(item["why"].startswith("stride up to 4") for item in found["refused"])


def test_thorough_takes_other_points(monkeypatch):
    monkeypatch.setattr(ways, "_MOST_POINTS", 6)
    x, weight = data()
    case = case_of(x, weight)
    few, many = (
        {way.label() for way in ways.ways(case, thorough)[0]} for thorough in (False, True)
    )
    assert few < many
    assert {
        "mcmr F(4x4,3x3) classic",
        "mcmr F(4x4,3x3) gaussian",
        "winograd2d F(3x3,3x3)",
    } <= many - few


@pytest.mark.parametrize("kernel", [(1, 1), (1, 3), (3, 2)])
def test_ways_fit_the_kernel(kernel):
    case = case_of(np.zeros((1, 4, 9, 9), "f"), np.zeros((4, 4, *kernel), "f"))
    for way in ways.ways(case)[0]:
        Conv2d(case.data()[1], **way.options())  # accepted
    tiled = [way.label() for way in ways.ways(case)[0][3:]]
    wanted = {
        (1, 1): [],
        (1, 3): [
            "mcmr F(1x2,1x3)",
            "mcmr F(1x3,1x3)",
            "winograd1d F(2,3)",
            "winograd2d F(1x2,1x3)",
        ],
        (3, 2): [
            "mcmr F(2x2,3x2)",
            "mcmr F(3x3,3x2)",
            "winograd1d F(2,2)",
            "winograd2d F(2x2,3x2)",
        ],
    }
    assert tiled == wanted[kernel]


@pytest.mark.thorough
def test_the_files(tmp_path, check_page):
    x, weight = data()
    case = case_of(x, weight, padding=1)
    steps = []
    path = write_layer_report(tmp_path / "a", case, progress=lambda *step: steps.append(step))
    again = write_layer_report(tmp_path / "b", case)
    names = sorted(found.name for found in path.parent.iterdir())
    assert names == ["algorithms.csv", "histogram.csv", "index.html", "report.json"]
    for name in names:
        assert (path.parent / name).read_bytes() == (again.parent / name).read_bytes()
    assert [step[0] for step in steps] == list(range(1, steps[0][1] + 1))
    page = check_page(path)
    assert page.names.count("img") == 3
    text = path.read_text("utf-8")
    assert "Conv2d(weights, padding=1" in text and "x.npy" in text
    document = json.loads((path.parent / "report.json").read_text("utf-8"))
    assert document["data"]["input"]["zeros"] == 0 and document["layer"]["output"] == [1, 3, 14, 11]


def test_a_layer_that_is_exact(tmp_path, check_page):
    x, weight = data(channels=4)
    path = write_layer_report(tmp_path, case_of(x, 0 * weight))
    assert check_page(path).names.count("img") == 1


X, W = np.zeros((1, 4, 8, 8), "f"), np.zeros((2, 4, 3, 3), "f")


@pytest.mark.parametrize(
    "x, w, error, message",
    [
        (X.astype("float64"), W, InvalidType, r"input: got dtype float64; allowed: float32"),
        (X, W.astype("float16"), InvalidType, r"weights: got dtype float16; allowed: float32"),
        (X[..., 1:], W, InvalidValue, r"input: got shape \(1, 4, 8, 7\); allowed: \(1, 4, 8, 8\)"),
        (X, W[:1], InvalidValue, r"weights: got shape \(1, 4, 3, 3\); allowed: \(2, 4, 3, 3\)"),
        (X + np.nan, W, InvalidValue, "input: got infinities or NaN; allowed: finite numbers"),
        (
            X * 0 + 1e5,
            W * 0 + 1e36,
            InvalidValue,
            r"input, weights: got .* up to 1e\+05 and 1e\+36",
        ),
    ],
)
def test_data_that_do_not_fit(tmp_path, x, w, error, message):
    problem = Layer.of(W.shape, "float32").problem(X.shape)
    with pytest.raises(error, match=message):
        write_layer_report(tmp_path / "r", Case("bad", problem, lambda: (x, w)))
    assert not list(tmp_path.iterdir())


def test_a_tolerance_is_positive():
    with pytest.raises(InvalidValue, match="tolerance: got 0; allowed: a positive number"):
        layer_report(case_of(X, W), tolerance=0)
