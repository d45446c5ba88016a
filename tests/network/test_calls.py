"""Layers that run strip by strip: they compute what whole ones do, in loops and in less memory."""

from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
from network.test_network import net_of

from winogen.network import generate
from winogen.network.calls import Call, Loop, Spot, folded
from winogen.network.reading import loaded, network
from winogen.network.schedule import schedule
from winogen.records import TARGETS, Machine


def tiny():
    """A machine whose caches hold so little that strips are worth it."""
    costs = replace(Machine().costs, barrier=0.0, residual=0.0)
    return replace(Machine(), l2_bytes=4096, l3_bytes=8192, costs=costs)


def inverted(net, shape):
    """A stem with a pool, then 1x1, depthwise and 1x1 with a sum behind."""
    stem = net.node("Relu", net.conv("x", shape[1], 16, strides=[2, 2]))
    pool = net.node("MaxPool", stem, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    wide = net.node("Relu", net.conv(pool, 16, 64, taps=1))
    deep = net.node("Relu", net.conv(wide, 64, 64, groups=64))
    return net.node("Add", net.conv(deep, 64, 16, taps=1), pool)


def planar(net, shape):
    """A layer, pixels shuffled, and another layer: with channels first."""
    large = net.node("DepthToSpace", net.conv("x", shape[1], 12), blocksize=2)
    return net.conv(net.node("Relu", large), 3, 3)


@pytest.mark.parametrize(
    "layers, shape",
    [
        pytest.param(inverted, (2, 3, 40, 6), marks=pytest.mark.thorough),
        (planar, (1, 3, 70, 10)),
    ],
)
def test_strips_compute_the_model(layers, shape, tmp_path, make, ends, monkeypatch):
    net = net_of()
    model = net.model(layers(net, shape), shape=list(shape))
    whole = schedule(network(loaded(model)), TARGETS["generic"])
    monkeypatch.setattr("winogen.network.schedule.unmeasured", lambda *_, **__: tiny())
    monkeypatch.setattr("winogen.graph.chains._HEIGHTS", (2,))
    files = generate(model, isa="generic")
    text = files.contents["net.c"].decode()
    assert "for (size_t strip = 0;" in text
    assert ("for (size_t picture = 0;" in text) == (shape[0] > 1)
    assert files.arena_bytes < whole.arena_bytes
    assert files.direct_products == whole.products[1]
    files.write(tmp_path)
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    y = ends(tmp_path, x, wanted.size, make)
    assert np.abs(y - wanted.ravel()).max() <= 1e-5 * np.abs(wanted).max()


def test_strips_whose_addresses_go_on_are_loops():
    def strip(begin, function="f"):
        return [Call("a", function, ("w", Spot("x", begin))), Call("b", "g", (Spot(None, 0),))]

    items = folded([strip(0), strip(9), strip(12), strip(15), strip(18, "h"), strip(20), strip(3)])
    loops = [item for item in items if isinstance(item, Loop)]
    assert [(len(loop.items), loop.turns) for loop in loops] == [(2, 3)]
    assert str(loops[0].items[0].arguments[1]) == "x + 9 + strip * 3"
    assert str(loops[0].items[1].arguments[0]) == "AT(0)"
    assert [item.function for item in items if isinstance(item, Call)] == list("fghgfgfg")


def test_strips_that_take_turns_are_one_turn_of_a_loop():
    def strip(number):
        return [Call("", "fg"[number % 2], (Spot("x", 10 * number + number % 2),))]

    (first, loop, *rest) = folded([strip(number) for number in (1, *range(8))])
    assert (first.function, rest) == ("g", [])
    assert (loop.turns, [str(call.arguments[0]) for call in loop.items]) == (
        4,
        ["x + strip * 20", "x + 11 + strip * 20"],
    )
