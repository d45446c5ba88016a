"""The digits net that the repository keeps is as good as its script said, in each form."""

import numpy as np
import pytest

import winogen
from winogen_lab.nets.digits import FILE, PADDING, digits

DIGITS = digits()
ACCURACY = 596 / 600


def halved(maps: np.ndarray) -> np.ndarray:
    n, c, h, w = maps.shape
    return maps.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def test_by_winogen():
    maps, w = DIGITS.held_out.pictures, DIGITS.weights
    for name in ("0", "3"):
        filters, bias = w[f"{name}.weight"], w[f"{name}.bias"]
        maps = halved(winogen.conv2d(maps, filters, bias, padding=PADDING, activation="relu"))
    scores = maps.reshape(600, -1) @ w["7.weight"].T + w["7.bias"]
    assert DIGITS.held_out.accuracy(scores) == pytest.approx(ACCURACY, abs=1.01 / 600)


def test_models_agree():
    torch, reference = pytest.importorskip("torch"), pytest.importorskip("onnx.reference")
    x = DIGITS.held_out.pictures[:20]
    with torch.no_grad():
        expected = DIGITS.to_torch()(torch.from_numpy(x)).numpy()
    (y,) = reference.ReferenceEvaluator(DIGITS.to_onnx()).run(None, {"x": x})
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_file():
    assert FILE.stat().st_size < 250_000
    shown = [(s.pictures.shape, s.labels.shape) for s in (DIGITS.training, DIGITS.held_out)]
    assert shown == [((n, 1, 8, 8), (n,)) for n in (1197, 600)]
    assert np.unique(DIGITS.held_out.labels).tolist() == list(range(10))
    assert DIGITS.held_out.pictures.min() == -1
    assert DIGITS.held_out.pictures.max() == 1
