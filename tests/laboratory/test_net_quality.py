"""What number formats do to the output of a net."""

import json

import numpy as np
import pytest

from winogen.errors import InvalidValue
from winogen.records import Precision
from winogen.reports import write_net_report
from winogen_lab.nets import NETS, quality

pytest.importorskip("torch")

FEW = tuple(
    n for n in quality.NUMBERS if n.label in ("float32", "bfloat16 filters", "flyte16 filters, cut")
)


@pytest.fixture(scope="module")
def document():
    steps = []
    found = quality.measure_quality("tiny", FEW, (2,), progress=lambda *step: steps.append(step))
    assert [step[0] for step in steps] == list(range(7)) and {step[1] for step in steps} == {7}
    return found


def test_psnr_of_the_net(document):
    rows = {row["numbers"]: row["psnr"] for row in document["rows"]}
    for column in ("direct", "F(2x2,3x3)"):
        assert rows["float32"][column] > 140
        assert 60 < rows["bfloat16 filters"][column] < 90
        # Rounding beats cutting.
        cut = rows["flyte16 filters, cut"][column]
        assert rows["bfloat16 filters"][column] - 15 < cut < rows["bfloat16 filters"][column] - 3
    assert 40 < rows[quality.INT8_MODEL]["direct"] < 60


def test_kernels_where_there_are_any(document):
    by = {row["numbers"]: row["by"] for row in document["rows"]}
    assert set(by["bfloat16 filters"].values()) == {"kernels"}
    assert set(by["flyte16 filters, cut"].values()) == {"numpy"}


def test_the_page(document, tmp_path):
    page, found = write_net_report(tmp_path, lambda: document)
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == found
    text = page.read_text("utf-8")
    assert "What number formats do to a small upscaler, x2" in text and text.count("<img ") == 1
    head, first, *_ = (tmp_path / "quality.csv").read_text("utf-8").splitlines()
    assert head == 'numbers,direct,"F(2x2,3x3)"' and first.startswith("float32,1")


def test_pieces_are_opposite_corners():
    calibration, test = quality.pieces(NETS["tiny"])
    assert calibration.shape == test.shape == (1, 3, 48, 48)
    assert not np.array_equal(calibration, test)


def test_kernels_and_numpy_agree(document, monkeypatch):
    monkeypatch.setattr(quality.Numbers, "has_kernel", lambda self, algorithm: False)
    again = quality.measure_quality("tiny", FEW[1:2], (2,))["rows"][0]
    kernels = next(row for row in document["rows"] if row["numbers"] == again["numbers"])
    assert set(again["by"].values()) == {"numpy"}
    for column, psnr in again["psnr"].items():
        assert psnr == pytest.approx(kernels["psnr"][column], abs=1)


def test_what_is_no_number():
    assert quality.psnr_of(np.ones(3), np.ones(3)) is None
    assert quality.psnr_of(np.full(3, np.nan), np.ones(3)) is None


def test_options_of_numbers():
    asked = {numbers.label: numbers.options for numbers in quality.NUMBERS}
    assert asked["float32"] == {} and asked["float16 filters"] == {"filter_dtype": "float16"}
    assert asked["int16 products"] == {"product_dtype": "int16"}


def test_arrays_go_through_the_kernels_as_they_are():
    """Outputs are rounded to the type of the arrays once, by a kernel as by numpy."""
    torch = pytest.importorskip("torch")
    conv = torch.nn.Conv2d(8, 4, 3, padding=1)
    x = np.random.default_rng(0).standard_normal((1, 8, 9, 9), np.float32)
    (half,) = (numbers for numbers in quality.NUMBERS if numbers.label == "float16 arrays")
    assert half.has_kernel("direct") and half.options == {}
    kernel, emulated = (
        make(conv, half, None)(x) for make in (quality._by_kernel, quality._by_numpy)
    )
    assert np.array_equal(kernel, kernel.astype(np.float16)) and kernel.dtype == np.float32
    assert np.abs(kernel - emulated).max() <= 2.0**-10 * np.abs(kernel).max()
    unknown = quality.Numbers("x", Precision.of("float32", "flyte16"), "cut")
    assert not unknown.has_kernel("direct")


def test_nets_that_cannot_be_judged():
    with pytest.raises(InvalidValue, match="net: got 'vgg16'; allowed: a trained one, animevideo"):
        quality.measure_quality("vgg16")
