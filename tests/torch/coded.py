"""What tests of quantized models ask: which operators of codes were read, and how they compute."""

import torch

from winogen.graph.code_calls import OPERATORS
from winogen.torch import code_proof, proving
from winogen.torch.building import build
from winogen.torch.calling import Calls
from winogen.torch.code_deciding import modules_of, parts_of
from winogen.torch.copies import evaluated
from winogen.torch.reading import read
from winogen.torch.tracing import traced


def trace_of(model, *inputs):
    own = evaluated(model)
    return next(iter(traced(own, Calls(own, inputs, {}))))


def operators(reading):
    """The operators of codes in a model, by class."""
    parts = parts_of(reading)
    nodes = [node for part in parts for node in part.graph.nodes]
    return [type(node.op) for node in nodes if isinstance(node.op, OPERATORS)]


def agree(model, *inputs):
    """Assert that codes differ by one step at most, and few do, layer by layer; what was read."""
    trace = trace_of(model, *inputs)
    reading = read(trace.module)
    body = build(reading, reading.graph, ())
    modules = modules_of(body)
    assert modules, "nothing was read"
    values = proving.recorded(trace.module, inputs)
    with torch.no_grad():
        outputs = body(*inputs)
        (wanted,) = trace.module(*inputs)
    for one in modules:
        assert code_proof.disagreements(one, values) == {}
    (y,) = outputs
    assert y.shape == wanted.shape and y.dtype == wanted.dtype
    assert (y - wanted).abs().max() <= 0.05 * wanted.abs().max()
    return operators(reading)


def untouched(model, x):
    """How many operators of codes are left; what is made computes the same."""
    reading = read(trace_of(model, x).module)
    with torch.no_grad():
        (y,) = build(reading, reading.graph, ())(x)
        torch.testing.assert_close(y, model(x), rtol=0, atol=0.1)
    return operators(reading)
