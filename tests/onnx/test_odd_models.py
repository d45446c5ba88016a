"""Whatever is wrong with a model: an error of winogen's that says so, or what onnxruntime does."""

import numpy as np
import onnxruntime as ort
import pytest
from kernels.turns import first

import winogen.onnx
from winogen import lowrank
from winogen.errors import WinogenError
from winogen.onnx.rewrite import rewrite

from .odd_models import odd_models

SAMPLES = np.random.default_rng(0).standard_normal((6, 1, 3, 9, 9)).astype(np.float32)
DOORS = {
    "optimize": rewrite,
    "report": winogen.onnx.report,
    "quantize": lambda model: winogen.onnx.quantize(model, list(SAMPLES[:2])),
    "compress": lambda model: lowrank.compress(model, list(SAMPLES), budget="products:1.2x"),
}
MODELS = dict(odd_models())
PARTS = 6  # of which one runs every time


def runs(model):
    """Whether onnxruntime computes it of the input that it should have."""
    try:
        ort.InferenceSession(model.SerializeToString()).run(None, {"x": SAMPLES[0]})
    except Exception:  # errors of its own
        return False
    return True


@pytest.mark.parametrize("part, door", first(4, [(p, d) for p in range(PARTS) for d in DOORS]))
@pytest.mark.filterwarnings("ignore")
def test_an_odd_model_is_named_or_taken(part, door, library):
    refused = 0
    for name in list(MODELS)[part::PARTS]:
        try:
            DOORS[door](MODELS[name])
        except WinogenError as error:
            assert ": got " in str(error) or "model: " in str(error), (name, error)
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
    assert refused > 5


# What runs all the same, and is refused by name: no standard model, or one of old operators.
STRICT = {"another order", "opset 1", "opset 5", "opsets [('', 17), ('ai.onnx', 9)]"}
STRICT |= {"opsets [('ai.onnx.ml', 3)]"}


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_runs_is_never_refused(session):
    """Nor does it compute anything else then."""
    taken = 0
    for name, model in MODELS.items():
        if name in STRICT or not runs(model):
            continue
        result = rewrite(model)
        taken += 1
        if result.is_original:
            continue
        feed = {"x": SAMPLES[0]}
        wanted = ort.InferenceSession(model.SerializeToString()).run(None, feed)
        for y, z in zip(wanted, session(result.model).run(None, feed)):
            np.testing.assert_allclose(z, y, rtol=1e-4, atol=1e-5, err_msg=name)
    assert taken > 30
