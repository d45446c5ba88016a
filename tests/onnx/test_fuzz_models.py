"""A slice of the random models of `fuzz_models.py`, and that it would notice."""

import numpy as np
import pytest
from kernels.turns import first

from winogen.onnx import proof
from winogen.onnx.writing import Writer

from . import fuzz_models as fuzz


def judged(indices, seed=20261122):
    return dict(fuzz.outcomes(seed, indices))


@pytest.mark.draws
@pytest.mark.parametrize("begin, end", first(1, ((0, 25), (25, 50), (50, 75), (75, 100))))
def test_random_models_compute_the_same(begin, end, library, originals):
    found = judged(range(begin, end))
    wrong = {index: one.wrong for index, one in found.items() if one.wrong}
    assert not wrong
    assert sum(one.feeds > 0 for one in found.values()) > 0.8 * len(found)
    run, eligible = (sum(getattr(o, n) for o in found.values()) for n in ("run", "eligible"))
    assert run >= 0.9 * eligible > 0


def test_a_case_follows_from_its_seed_and_index():
    one, same, other = (fuzz.case_of(3, index) for index in (7, 7, 8))
    assert one.model == same.model and one.model != other.model
    assert (one.feeds[0]["x"] == same.feeds[0]["x"]).all()


def test_cases_are_of_every_kind():
    cases = [fuzz.case_of(1, index) for index in range(300)]
    nodes = [node for case in cases for node in case.model.graph.node]
    kinds = {node.op_type for node in nodes}
    assert kinds >= {
        "Conv", "BatchNormalization", "Add", "Concat", "Pad", "MaxPool", "AveragePool", "If",
        "QuantizeLinear", "Cast", "Resize", "Slice", "DepthToSpace", "Dropout", "Constant",
        "ConvTranspose",
    }  # fmt: skip
    assert {case.model.opset_import[0].version for case in cases} == set(range(7, 23))
    assert any(len(case.model.graph.input) > 1 and case.model.ir_version == 8 for case in cases)
    assert any(case.model.ir_version == 3 for case in cases)
    assert any(not feed["x"].size for case in cases for feed in case.feeds)
    assert {str(case.feeds[0]["x"].dtype) for case in cases} == {"float32", "float64"}


@pytest.mark.parametrize("where", ("before the comparison", "behind it"))
def test_a_wrong_result_is_noticed(where, monkeypatch, library):
    tensor = Writer._weights

    def wrong(self, array, key, what):
        return tensor(self, np.negative(array) if what == "weight" else array, key, what)

    monkeypatch.setattr(Writer, "_weights", wrong)
    if where == "behind it":  # the fuzzer itself has to see it
        monkeypatch.setattr(proof._Part, "wrong", lambda self, values, other: None)
        monkeypatch.setattr(proof.Whole, "wrong", lambda self, feed, values, allowed: None)
    found = judged(range(12)).values()
    message = "given back" if where == "before the comparison" else "off by"
    assert any(message in one.wrong for one in found)
