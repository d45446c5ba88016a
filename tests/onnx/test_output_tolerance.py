"""`optimize` with a tolerance of the output: nodes carry those of layers, and the promise holds."""

import numpy as np
import onnx
import pytest

from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.onnx.model import Model
from winogen.onnx.promising import gains_of
from winogen.onnx.reference import Reference
from winogen.onnx.report import report
from winogen.onnx.rewrite import rewrite
from winogen.testing import every_layer

from .nets import Net

SHAPE = (1, 16, 24, 24)


def branches():
    """Two convolutions, of which one hardly matters, and a third behind their sum."""
    net = Net()
    matters, hardly = (net.conv("x", 16, 16) for _ in range(2))
    less = net.node("Mul", net.node("Sigmoid", hardly), net.constant(np.float32(1e-3)))
    y = net.conv(net.node("Add", net.node("Relu", matters), less), 16, 8)
    return net.model(y, shape=list(SHAPE)), (matters, hardly, y)


def tolerances(model):
    """Those of all layers in winogen's nodes."""
    found = []
    for node in model.graph.node:
        own = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.domain:
            found += own.get("tolerances", [own.get("tolerance", 0.0)])
    return [one for one in found if one]


def error(model, exact, feed, session):
    (y,), (e,) = session(model).run(None, feed), exact.doubled(feed)
    return float(np.linalg.norm(y - e) / np.linalg.norm(e))


def test_the_error_at_the_output_is_as_promised(clock, session):
    """On inputs that nobody has seen; a layer that hardly matters may be off by more.

    Sessions plan by what the nodes say: without it they are less accurate.
    """
    model, _ = branches()
    clock({})
    result = rewrite(model, output_tolerance=6e-7)
    exact = Reference(Model(model), {}, 0)
    random = np.random.default_rng(5)
    for _ in range(10):
        feed = {"x": random.standard_normal(SHAPE).astype(np.float32)}
        assert error(result.model, exact, feed, session) <= 6e-7
    promise = result.promise
    assert promise.measured / 3 < promise.predicted < 20 * promise.measured < 12e-6
    spent = {name: one.tolerance for name, one in result.spent.items()}
    assert spent["conv_1"] > 2 * spent["conv_0"]
    # The numbers of nodes are of float32.
    np.testing.assert_allclose(sorted(tolerances(result.model)), sorted(spent.values()), rtol=1e-6)
    assert "promised at the output: L2 at most 6.0e-07" in str(result)
    loose = onnx.ModelProto.FromString(result.model.SerializeToString())
    for node in loose.graph.node:
        for own in node.attribute:
            if own.name == "tolerances":
                own.floats[:] = [1e-2 for _ in own.floats]
            elif own.name == "tolerance":
                own.f = 1e-2
    assert error(loose, exact, feed, session) > 2 * error(result.model, exact, feed, session)


def test_the_report_says_what_each_layer_may_spend(clock):
    model, _ = branches()
    clock({})
    result, made = rewrite(model, output_tolerance=6e-7), report(model, output_tolerance=6e-7)
    assert {row.layer: row.spent for row in made.rows if row.spent} == result.spent
    assert made.promise.asked == 6e-7 and made.promise.measured == result.promise.measured
    text = " ".join(str(made).split())
    assert "tolerance of output" in text and "promised at the output: L2 at most 6.0e-07" in text
    assert not any(row.spent for row in report(model).rows) and report(model).promise is None


def test_gains_say_what_becomes_of_a_layers_error():
    model, (matters, hardly, y) = branches()
    feed = {"x": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}
    gains = gains_of(Model(model), [matters, hardly, y, "nothing"], feed)
    assert gains.keys() == {matters, hardly, y}
    assert gains[y] == pytest.approx(1, rel=0.1)
    assert gains[hardly] < 0.01 * gains[matters]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (-1, InvalidValue, "output_tolerance: got -1; allowed: None or a positive number below 1"),
        ("a", InvalidType, "output_tolerance: got 'a'; allowed"),
        (1e-12, InvalidValue, r"output_tolerance: got 1e-12; allowed: at least \d\.?\d*e-0[78]"),
    ],
)
def test_what_cannot_be_promised_is_refused(clock, given, kind, message):
    clock({})
    with pytest.raises(kind, match=message):
        rewrite(branches()[0], output_tolerance=given)


def test_without_measurements_nothing_is_promised():
    with every_layer(), pytest.raises(Unsupported, match="output_tolerance: got 0.001; allowed: N"):
        rewrite(branches()[0], output_tolerance=1e-3)
