"""Quantized models of PyTorch: what is read, that codes are the model's, what stays torch's."""

import copy
import pickle

import pytest
import torch
from coded import agree, operators, trace_of, untouched
from quantizing import Basic, UNet, aten, qd, quantized, scaled
from torch import nn

from winogen.graph import code_tiles
from winogen.graph.ops import (
    Concat,
    Enlarge,
    Lookup,
    QAdd,
    QConv,
    QGlobalMean,
    QMean,
    ScaleSums,
    Spread,
)
from winogen.graph.ops.quantized import After
from winogen.testing import every_layer
from winogen.torch import code_nodes, code_proof, proving
from winogen.torch.building import build
from winogen.torch.code_deciding import in_tiles, modules_of
from winogen.torch.reading import read


@pytest.fixture
def x():
    return torch.randn(2, 8, 14, 12)


LAYERS = {
    "plain": nn.Conv2d(8, 12, 3, padding=1),
    "strided": nn.Conv2d(8, 12, (3, 5), (2, 1), (1, 2), (1, 2)),
    "grouped": nn.Conv2d(8, 12, 3, groups=4),
    "depthwise": nn.Conv2d(8, 8, 3, padding=1, groups=8),
    "same": nn.Conv2d(8, 12, 4, padding="same"),
    "of pixels": nn.Conv2d(8, 12, 1),
    "relu": nn.Sequential(nn.Conv2d(8, 12, 3), nn.ReLU()),
    "relu6": nn.Sequential(nn.Conv2d(8, 12, 3), nn.ReLU6()),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_layer_between_dequantize_and_quantize(layer, dtype, x):
    net = nn.Sequential(copy.deepcopy(layer), nn.AvgPool2d(2))
    assert agree(quantized(net, x, dtype=dtype), x).count(QConv) == 1


@pytest.mark.parametrize("tolerance", [2e-3, 0.05])
def test_layers_in_tiles_where_a_tolerance_allows_it(tolerance, x, monkeypatch):
    layers = nn.Conv2d(8, 12, 3), nn.ReLU(), nn.Conv2d(12, 20, 3), nn.ReLU(), nn.AvgPool2d(2)
    trace = trace_of(quantized(scaled(nn.Sequential(*layers)), x), x)
    with every_layer():
        reading = in_tiles(read(trace.module), tolerance)
    (module,) = modules_of(build(reading, reading.graph, (), tolerance=tolerance))
    values = proving.recorded(trace.module, (x,))
    assert code_proof.disagreements(module, values) == {}
    bound_for = [tuple(values[n].shape) for n in module.part.graph.inputs], 1
    bound = module.segment.bound(*bound_for)
    assert len(bound.near) == 2 and "F(" in str(bound.variants)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert again.tolerance == tolerance
        assert code_proof.disagreements(again, values) == {}
        assert str(again.segment.bound(*bound_for).variants) == str(bound.variants)
    real = code_tiles.unpacked
    monkeypatch.setattr(code_tiles, "unpacked", lambda op: (1.5 * real(op)[0], real(op)[1]))
    whys = code_proof.disagreements(module, values).values()
    assert len(whys) == 2 and all("steps off, allowed" in why for why in whys)


def test_a_map_joins_the_sums_of_tiles(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(8, 12, 3), nn.Conv2d(12, 12, 3, padding=1)

        def forward(self, x):
            x = torch.relu(self.first(x))
            return nn.functional.avg_pool2d(torch.relu(x + self.second(x)), 2)

    trace = trace_of(quantized(scaled(Net()), x, fuses=True), x)
    with every_layer():
        reading = in_tiles(read(trace.module), 0.05)
    values, added = proving.recorded(trace.module, (x,)), []
    for module in modules_of(build(reading, reading.graph, (), tolerance=0.05)):
        assert code_proof.disagreements(module, values) == {}
        shapes = [tuple(values[name].shape) for name in module.part.graph.inputs]
        makers = module.segment.graph.makers
        added += [makers[name].op.z is not None for name in module.segment.bound(shapes, 1).near]
    assert sorted(added) == [False, True]


def test_relu6_where_codes_go_beyond_it(x):
    """The kernel then cuts numbers off, since saturation does not."""
    model = quantized(nn.Sequential(nn.Conv2d(8, 12, 3), nn.ReLU6(), nn.AvgPool2d(2)), x)
    (cut,) = (node for node in model.graph.nodes if node.target is aten.hardtanh.default)
    (made,) = cut.users
    for node in (made, *made.users):
        node.update_arg(1, 10 / 255)
    model.recompile()
    agree(model, 9 * x)


@pytest.mark.parametrize("limits", [(0, 127), (-100, 90)], ids=str)
def test_codes_within_ends(limits, x):
    dtype = torch.int8 if limits[0] < 0 else torch.uint8
    net = nn.Sequential(nn.Conv2d(8, 12, 3), nn.Conv2d(12, 8, 3), nn.AvgPool2d(2))
    assert agree(quantized(net, x, dtype=dtype, limits=limits), x).count(QConv) == 2


@pytest.mark.parametrize("fuses", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_residual_block(fuses, stride, x):
    net = nn.Sequential(nn.Conv2d(8, 8, 1), Basic(8, 8, stride), nn.AvgPool2d(2))
    found = agree(quantized(scaled(net), x, fuses=fuses), x)
    assert found.count(QAdd) == (0 if fuses else 1)


def test_pools_and_products(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(8, 6, 3, padding=1), nn.Linear(6 * 3 * 3, 20)
            self.last = nn.Linear(20, 5)

        def forward(self, x):
            y = nn.functional.max_pool2d(self.conv(x), 3, 2, 1)
            y = nn.functional.avg_pool2d(y, 3, 2, 1, count_include_pad=False)
            y = nn.functional.avg_pool2d(y, (2, 1), 1)
            y = torch.flatten(nn.functional.dropout(y, training=False), 1)
            return self.last(torch.relu(self.head(y)))

    found = agree(quantized(scaled(Net()), x), x)
    assert found.count(QMean) == 2 and found.count(QConv) == 3 and found.count(ScaleSums) == 1


def test_other_codes_behind_a_pool(x):
    """What is chosen then becomes other codes, by a table."""
    net = nn.Sequential(nn.Conv2d(8, 8, 3), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3))
    model = quantized(scaled(net), x)
    (pool,) = (node for node in model.graph.nodes if node.target is aten.max_pool2d.default)
    (made,) = pool.users
    for node in (made, *made.users):
        node.update_arg(1, 1.7 * node.args[1])
        node.update_arg(2, 120)
    model.recompile()
    assert Lookup in agree(model, x)


TRANSPOSED = {
    "of all phases": (nn.ConvTranspose2d(8, 12, 4, 2, 1), nn.ReLU()),
    "of uneven phases": (nn.ConvTranspose2d(8, 12, (3, 5), (2, 3), (1, 2), (1, 0)), nn.ReLU6()),
    "pixels without taps": (nn.ConvTranspose2d(8, 12, 2, 3, output_padding=1),),
    "no stride": (nn.ConvTranspose2d(8, 12, 3, bias=False),),
    "cropped": (nn.ConvTranspose2d(8, 12, 3, 1, 4),),
    "grouped": (nn.ConvTranspose2d(8, 12, 3, 2, groups=2),),
    "dilated": (nn.ConvTranspose2d(8, 12, 3, 2, dilation=(2, 3)),),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
@pytest.mark.parametrize("layers", TRANSPOSED.values(), ids=TRANSPOSED)
def test_a_transposed_layer(layers, dtype, x):
    net = nn.Sequential(*copy.deepcopy(layers), nn.AvgPool2d(2))
    found = agree(quantized(scaled(net), x, dtype=dtype), x)
    strides = set(layers[0].stride) != {1} or layers[0].padding == (4, 4)
    assert found.count(QConv) == 1 and found.count(Spread) == strides


def test_weights_of_bytes_with_one_scale(x):
    """A transposed layer takes what becomes int8 with a zero point of 0, and no other."""
    net = nn.Sequential(nn.ConvTranspose2d(8, 12, 2, 2), nn.AvgPool2d(2))
    for zero in (128, 120):
        model = quantized(scaled(net), x)
        (given,) = (n for n in model.graph.nodes if "per_channel" in str(n.target))
        name = given.args[0].target
        codes = getattr(model, name).int() + 128
        model.register_buffer(name, codes.to(torch.uint8))
        given.target = qd.dequantize_per_tensor.default
        given.args = (given.args[0], 0.01, zero, 0, 255, torch.uint8)
        model.graph.eliminate_dead_code()
        model.recompile()
        if zero == 128:
            assert agree(model, x).count(Spread) == 1
        else:
            assert untouched(model, x) == []


def _wrong_table(monkeypatch):
    real = Lookup.recoding

    def wrong(x, after):
        return real(x, After(after.codes._replace(zero=after.codes.zero + 3)))

    monkeypatch.setattr(Lookup, "recoding", wrong)


def _wrong_phases(monkeypatch):
    monkeypatch.setattr(code_nodes, "ordinary", lambda weight, groups: weight.swapaxes(0, 1) // 2)


def _wrong_pixels(monkeypatch):
    real = Enlarge.step
    monkeypatch.setattr(Enlarge, "step", lambda self, *given: _turned(real(self, *given)))


def _turned(op):
    return type(op)(op.down[::-1].copy(), op.across)


@pytest.mark.parametrize(
    "spoil, count", [(_wrong_table, 2), (_wrong_phases, 1), (_wrong_pixels, 1)]
)
def test_layers_of_several_operators_that_are_wrong_are_found(spoil, count, monkeypatch):
    x = torch.randn(2, 3, 16, 24)
    trace = trace_of(quantized(scaled(UNet()), x), x)
    spoil(monkeypatch)
    reading = read(trace.module)
    (module,) = modules_of(build(reading, reading.graph, ()))
    values = proving.recorded(trace.module, (x,))
    found = code_proof.disagreements(module, values)
    assert len(found) == count
    assert all(name.startswith("quantize_per_tensor") for name in found)
    again = read(trace.module, exclude=lambda node: found.get(node.name, ""))
    body = build(again, again.graph, ())
    assert all(code_proof.disagreements(one, values) == {} for one in modules_of(body))
    (y,), (wanted,) = body(x), trace.module(x)
    assert (y - wanted).abs().max() <= 0.05 * wanted.abs().max()


def test_the_mean_of_maps_of_any_size():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

        def forward(self, x):
            return self.head(self.conv(x).mean([2, 3]))

    x, other = torch.randn(2, 3, 20, 20), torch.randn(3, 3, 31, 17)
    model = quantized(scaled(Net()), x, static=False)
    reading = read(trace_of(model, x).module)
    assert operators(reading).count(QGlobalMean) == 1
    body = build(reading, reading.graph, ())
    with torch.no_grad():
        torch.testing.assert_close(body(other)[0], model(other), rtol=0, atol=2e-2)


# ---- what stays torch's --------------------------------------------------------------------------


def changed(model, kind, change):
    """Change the nodes of a kind, by their numbers."""
    for number, node in enumerate(
        n for n in list(model.graph.nodes) if code_nodes.kind_of(n) == kind
    ):
        change(number, node)
    model.graph.lint()
    model.recompile()
    return model


def two(x, **options):
    return quantized(scaled(nn.Sequential(nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3))), x, **options)


def test_scales_that_follow_from_the_input(x):
    """As dynamic quantization has them."""
    model = two(x)

    def dynamic(number, node):
        with model.graph.inserting_before(node):
            scale = model.graph.call_function(aten.amax.default, (node.args[0],))
            zero = model.graph.get_attr("frozen_conv2d_zero_point")
        node.target = qd.quantize_per_tensor.tensor
        node.args = (node.args[0], scale, zero, *node.args[3:])
        for user in list(node.users):
            user.target = qd.dequantize_per_tensor.tensor
            user.args = (user.args[0], scale, zero, *user.args[3:])

    model.register_buffer("frozen_conv2d_zero_point", torch.tensor(100))
    assert untouched(changed(model, "quantize_per_tensor", dynamic), x) == []


def test_scales_in_tensors(x):
    model = two(x)
    model.register_buffer("step", torch.tensor(0.05))
    model.register_buffer("zero", torch.tensor(100))

    def held(number, node):
        with model.graph.inserting_before(node):
            step, zero = model.graph.get_attr("step"), model.graph.get_attr("zero")
        for one in (node, *list(node.users)):
            kind = code_nodes.kind_of(one)
            one.target = getattr(qd, kind).tensor
            one.args = (one.args[0], step, zero, *one.args[3:])

    found = agree(changed(model, "quantize_per_tensor", held), x)
    assert found.count(QConv) == 2


def test_numbers_that_others_read_too(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3, padding=1)

        def forward(self, x):
            y = self.first(x)
            return self.second(y), torch.sigmoid(y)

    model = quantized(scaled(Net()), x)
    reading = read(trace_of(model, x).module)
    with torch.no_grad():
        made = build(reading, reading.graph, ())(x)
        for one, other in zip(made, model(x), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0.05)
    assert operators(reading).count(ScaleSums) == 2  # numbers of sums, and no codes


def test_a_code_of_another_meaning(x):
    """What is dequantized otherwise than it was quantized is no number of the map."""

    def other(number, node):
        if number == 1:
            node.update_arg(1, 2 * node.args[1])

    model = changed(two(x), "dequantize_per_tensor", other)
    assert untouched(model, x).count(QConv) == 1


def test_pools_and_joins_of_floats_are_no_codes(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.last = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3)

        def forward(self, x):
            y = nn.functional.max_pool2d(torch.tanh(self.last(self.one(x))), 2)
            return nn.functional.pixel_shuffle(torch.cat([y, torch.tanh(y)], 1), 2)

    model = quantized(scaled(Net()), x)
    kinds = aten.max_pool2d.default, aten.cat.default, aten.pixel_shuffle.default
    for node in [node for node in model.graph.nodes if node.target in kinds]:
        for given in list(node.all_input_nodes):
            if code_nodes.kind_of(given) == "dequantize_per_tensor":
                node.replace_input_with(given, given.args[0].args[0])
    model.graph.eliminate_dead_code()
    model.recompile()
    found = untouched(model, x)
    assert found.count(QConv) == 2 and Concat not in found and Spread not in found


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 3.0)], ids=str)
def test_other_activations_stay(ends, x):
    net = nn.Sequential(nn.Conv2d(8, 8, 3), nn.Hardtanh(*ends), nn.AvgPool2d(2))
    model = quantized(scaled(net), x)
    assert ScaleSums in operators(read(trace_of(model, x).module))
    with torch.no_grad():
        reading = read(trace_of(model, x).module)
        (y,) = build(reading, reading.graph, ())(x)
        torch.testing.assert_close(y, model(x), rtol=0, atol=0.02)


def test_what_is_excluded_stays(x):
    model = two(x)
    trace = trace_of(model, x)
    reading = read(trace.module, exclude=lambda node: "excluded" * (node.name == "conv2d"))
    assert operators(reading).count(QConv) == 1
