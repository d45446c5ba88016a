"""Tolerances hold for random kernels, and find mistakes that a loose one hides."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from winogen import cook_toom, tolerance
from winogen.errors import WinogenError
from winogen.program.summation import ordered


def _figures(name="tolerance_figures"):
    path = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_random_kernels_stay_within():
    total, beyond, within = _figures().kernels(2000, seed=5)
    assert beyond == 0
    assert within / total > 0.997


def test_mistakes_are_found_that_a_loose_tolerance_hides():
    (_, right), *wrong = _figures().planted()
    assert right < 1
    assert len(wrong) == 40
    # Constants that are wrong by 1e-6 are within the rounding of float32.
    assert all(times > 1 for name, times in wrong if "1e-6" not in name)
    assert any(1 < times < 10 for _, times in wrong)


@pytest.mark.thorough
def test_a_sum_of_1024_has_the_bound_that_satire_published():
    satire = _figures("satire_bounds")
    found = satire.bound(ordered([[1] * 1024], "pairwise"))
    assert found == pytest.approx(satire.SATIRE_SUM, rel=2e-8)


def test_satires_fourier_transforms_stay_within_their_bounds():
    satire = _figures("satire_bounds")
    whole, one = satire.fourier(4, False), satire.fourier(4, True)
    assert satire.bound(one) == pytest.approx(satire.bound(whole), rel=1e-12)
    x = np.arange(16.0) % 5
    np.testing.assert_allclose(whole.run(x), np.fft.fft(x).real, atol=1e-13)
    for levels in (4, 6):
        error = satire.seen(levels)
        assert 0 < error < satire.bound(satire.fourier(levels, True)) < 100 * error


def test_what_is_larger_where():
    f23, f43 = cook_toom(2, 3), cook_toom(4, 3)
    for field in ("mean", "largest", "relative", "worst", "factor"):
        sizes = [
            getattr(tolerance(f, channels=16, dtype=kind), field)
            for kind in ("float64", "float32", "bfloat16")
            for f in (f23, f43)
        ]
        assert sizes == sorted(sizes), field
    blocks = [tolerance(f43, channels=1024, block=size).worst for size in (32, None)]
    assert blocks[0] < blocks[1]
    mixed, whole = tolerance(f43, arrays="bfloat16"), tolerance(f43, dtype="bfloat16")
    assert tolerance(f43).worst < mixed.worst < whole.worst
    twice = tolerance(f43, x_max=2)
    assert np.isclose(twice.worst, 2 * tolerance(f43).worst)


def test_refuses():
    with pytest.raises(WinogenError, match="x_max: got -1; allowed"):
        tolerance(cook_toom(2, 3), x_max=-1)
    with pytest.raises(WinogenError, match="block: got 0; allowed"):
        tolerance(cook_toom(2, 3), block=0)
    with pytest.raises(WinogenError, match="dtype: got"):
        tolerance(cook_toom(2, 3), dtype="int8")


def test_lines_run():
    lines = tolerance(cook_toom(2, 3)).lines()
    y64 = np.ones(4)
    exec(lines["numpy"], {"np": np, "y": y64, "y64": y64})
    with pytest.raises(AssertionError):
        exec(lines["numpy"], {"np": np, "y": y64 + 1e-3, "y64": y64})
    assert json.loads(json.dumps(tolerance(cook_toom(2, 3)).to_dict()))["mean"] > 0
