"""Runs of quantized layers as one node: the codes of its operators, to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from winogen.graph import QConv
from winogen.onnx.model import Model
from winogen.onnx.quantized_graph import quantized_graph
from winogen.onnx.rewrite import rewrite

from .code_models import FORMATS, Maker


def exactly(model, feed):
    """What a model's operators compute in numpy, one after another: layers as `winogen.QConv2d`."""
    whole = Model(model, {name: x.shape for name, x in feed.items()})
    graph, values = quantized_graph(whole).graph, dict(feed)
    for node in graph.nodes:
        op, reads = node.op, [values[name] for name in node.reads]
        if not isinstance(op, QConv):
            values[node.output] = op.computed(*reads)
            continue
        sums = replace(op, y_scale=None).computed(*reads).astype(np.float64)
        y = sums * op.multiplier.astype(np.float64).reshape(-1, 1, 1) + op.y_zero
        values[node.output] = np.rint(np.clip(y, *op.limits)).astype(np.int8)
    return [values[name] for name in graph.outputs]


def check(case, session, batches=(1, 3)):
    """Ours has the codes that the operators make, each within a step of onnxruntime's."""
    result = rewrite(case.model)
    assert result.verdict and result.verdict.sizes, str(result)
    assert not result.given_back
    assert result.quantized == case.convolutions and not result.refusals
    kinds = [node.op_type for node in result.model.graph.node]
    ours = session(result.model)
    for batch in batches:
        feed = case.feed(batch, batch)
        for y, wanted in zip(ours.run(None, feed), exactly(case.model, feed), strict=True):
            assert y.size == wanted.size and (y == wanted.reshape(y.shape)).all(), kinds
    return kinds


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(6))
def test_random_nets_have_the_codes_of_their_operators(form, seed, session):
    case = Maker(seed, form).made()
    kinds = check(case, session)
    assert set(kinds) <= {"Codes", "QuantizeLinear", "DequantizeLinear"}
    assert kinds.count("Codes") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6, 80))
def test_more_random_nets(seed, session):
    check(Maker(seed).made(steps=12), session)
