"""Layer sets: those in the package, and files of the user's own."""

import json

import pytest

from winogen.errors import InvalidValue
from winogen.tuning.layers import BenchLayer, layer_sets, load_layers

COUNTS = {
    "thesis27": 27,
    "vgg16": 9,
    "resnet50": 23,
    "inception-v3": 43,
    "googlenet": 49,
    "squeezenet": 18,
    "squeezenet1.0": 22,
    "mobilenet-v2": 30,
    "densenet121": 66,
    "few-filters": 12,
    "gemm1x1": 92,
    "shapes": 5,
    "axes": 6,
    "large-kernels": 5,
    "filters": 28,
    "transposed": 6,
}
MIXED = (
    "thesis27",
    "gemm1x1",
    "shapes",
    "axes",
    "large-kernels",
    "filters",
    "transposed",
)  # layers of several nets


def test_the_package_has_these_sets():
    assert set(layer_sets()) == set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_every_layer_of_a_set_is_a_convolution_of_its_own(name):
    layers = load_layers(name)
    assert len(layers) == COUNTS[name]
    shapes = {(x.input, x.weight, x.stride, x.padding) for x in layers}
    assert len(shapes) == len(layers)
    assert all(layer.flops > 0 and layer.input[0] == 1 for layer in layers)


@pytest.mark.parametrize("name", sorted({*COUNTS} - {*MIXED}))
def test_layers_of_a_net_follow_each_other(name):
    """A layer is as large as the output of another one, or as a pooling of it."""
    layers = load_layers(name)
    made = {layer.output[2] for layer in layers}
    for layer in layers[1:]:
        size = layer.input[2]
        # the same size as an output, or what a pooling of 2 or 3 with stride 2 makes of one
        assert any(size in (x, x // 2, (x - 3) // 2 + 1, -(-(x - 3) // 2) + 1) for x in made), layer


def test_known_shapes():
    by_name = {layer.name: layer for name in COUNTS for layer in load_layers(name)}
    stem = by_name["resnet50-224x224x3-64-k7-s2"]
    assert (stem.output, stem.stride, stem.padding) == ((1, 64, 112, 112), (2, 2), (3, 3))
    flat = by_name["inception-v3-17x17x128-192-k7x1"]
    assert (flat.weight, flat.padding, flat.output) == ((192, 128, 7, 1), (3, 0), (1, 192, 17, 17))
    vgg = by_name["vgg16-56x56x256-256-k3"]
    assert vgg.flops == 2 * 56 * 56 * 256 * 256 * 9


def test_the_whole_of_vgg16_is_thirty_gigaflops():
    times = {"vgg16-28x28x512-512-k3": 2, "vgg16-14x14x512-512-k3": 3, "vgg16-56x56x256-256-k3": 2}
    total = sum(layer.flops * times.get(layer.name, 1) for layer in load_layers("vgg16"))
    assert round(total / 1e9, 1) == 30.7  # 15.3 G multiply-adds, as published


def test_the_whole_of_mobilenet_v2_is_300_million_multiplications():
    """As published (Sandler et al. 2018, table 4), the last matrix and repeated layers included."""
    again = {
        **{"56x56x24-144-k1": 2, "28x28x32-192-k1": 3, "28x28x192-dw-k3": 2, "28x28x192-32-k1": 2},
        **{"14x14x64-384-k1": 4, "14x14x384-dw-k3": 4, "14x14x384-64-k1": 3, "14x14x96-576-k1": 3},
        **{"14x14x576-dw-k3": 2, "14x14x576-96-k1": 2, "7x7x160-960-k1": 3, "7x7x960-dw-k3": 3},
        **{"7x7x960-160-k1": 2},
    }
    layers = load_layers("mobilenet-v2")
    total = sum(layer.flops * again.pop(layer.name.split("-", 1)[1], 1) for layer in layers)
    assert not again and round(total / 2e6 + 1.28, 1) == 300.8


def test_the_whole_of_densenet_121_is_2_8_billion_multiplications():
    """Blocks of 6, 12, 24 and 16 layers, each with one 3x3; 2.83 G as torchvision counts them."""
    again = {"56x56": 6, "28x28": 12, "14x14": 24, "7x7": 16}
    layers = load_layers("densenet121")
    total = sum(
        layer.flops
        * (again[layer.name.split("-")[1].rpartition("x")[0]] if "k3" in layer.name else 1)
        for layer in layers
    )
    assert round(total / 2e9 + 1024 * 1000 / 1e9, 2) == 2.83


def test_a_file_of_the_users_own(tmp_path):
    rows = [
        {
            "name": "a",
            "input": [2, 8, 6, 7],
            "weight": [4, 2, 3, 1],
            "groups": 4,
            "padding": [1, 0],
        },
        {
            "name": "b",
            "net": "N",
            "input": [1, 3, 9, 9],
            "weight": [4, 3, 3, 3],
            "stride": [2, 1],
            "padding": 2,
            "dilation": [1, 2],
        },
    ]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(rows))
    a, b = load_layers(str(path))
    assert (a.groups, a.padding, a.stride, a.output) == (4, (1, 0), (1, 1), (2, 4, 6, 7))
    assert (b.stride, b.padding, b.dilation, b.output) == ((2, 1), (2, 2), (1, 2), (1, 4, 6, 9))
    assert a.flops == 2 * (2 * 4 * 6 * 7) * 2 * 3
    assert [BenchLayer.from_dict(layer.to_dict()) for layer in (a, b)] == [a, b]
    assert b.to_dict() == rows[1]
    assert a.with_batch(5).output == (5, 4, 6, 7)


def test_transposed_layers(tmp_path):
    row = {
        "name": "up", "net": "", "input": [2, 6, 5, 7], "weight": [6, 4, 3, 3], "stride": 2,
        "padding": 1, "groups": 2, "transposed": True, "output_padding": [1, 0],
    }  # fmt: skip
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([row]))
    (up,) = load_layers(str(path))
    assert (up.output, up.filters, up.class_name) == ((2, 8, 10, 13), 8, "ConvTranspose2d")
    assert up.flops == 2 * 2 * 5 * 7 * 6 * 4 * 9 and up.to_dict() == row
    assert up.posed("NHWC").output_shape == (2, 10, 13, 8)
    with pytest.raises(InvalidValue, match="layers: got up, a transposed layer; allowed: ordinary"):
        up.problem()


GOOD = {"name": "a", "input": [1, 8, 6, 7], "weight": [4, 8, 3, 3]}


@pytest.mark.parametrize(
    "row, message",
    [
        (3, "layer 1: got 3; allowed: an object"),
        ({"name": "a", "input": [1, 8, 6, 7]}, "got no 'weight'"),
        ({**GOOD, "kernel": 3}, "got unknown 'kernel'; allowed: name, input, weight"),
        ({**GOOD, "name": 3}, "name: got 3; allowed: text"),
        ({**GOOD, "name": ""}, "name: got ''"),
        ({**GOOD, "input": [8, 6, 7]}, "a, input: got [8, 6, 7]; allowed: a list of 4 ints >= 1"),
        ({**GOOD, "input": [1, 8, 6, 0]}, "a, input: got [1, 8, 6, 0]"),
        ({**GOOD, "weight": [4, 8, 3, 3.0]}, "a, weight: got [4, 8, 3, 3.0]"),
        ({**GOOD, "stride": 0}, "a, stride: got [0, 0]; allowed: an int or a pair of ints >= 1"),
        ({**GOOD, "stride": True}, "a, stride"),
        ({**GOOD, "padding": -1}, "a, padding: got [-1, -1]"),
        ({**GOOD, "padding": [[1, 1], [1, 1]]}, "a, padding"),
        ({**GOOD, "padding": "same"}, "a, padding"),
        ({**GOOD, "groups": 0}, "a, groups: got 0; allowed: an int >= 1"),
        ({**GOOD, "groups": 3}, "a, groups: got 3; allowed: a divisor"),
        ({**GOOD, "transposed": 1}, "a, transposed: got 1; allowed: true or false"),
        ({**GOOD, "output_padding": 0}, "a, output_padding: got 0; allowed: only of a transposed"),
        ({**GOOD, "transposed": True}, "a, input: got 8 channels"),
        ({**GOOD, "weight": [4, 7, 3, 3]}, "a, input: got 8 channels"),
        ({**GOOD, "weight": [4, 8, 9, 9]}, "a, weight: got a kernel reaching over 9 x 9"),
    ],
)
def test_a_wrong_layer_is_named(tmp_path, row, message):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([row]))
    with pytest.raises(InvalidValue) as error:
        load_layers(str(path))
    assert message in str(error.value) and str(path) in str(error.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ("[", "which is not JSON"),
        ("[]", "got []"),
        ('{"layers": []}', "allowed: a list of layers"),
        (json.dumps([GOOD, GOOD]), "two layers named 'a'"),
        (b"\xff\xfe", "which is not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, text, message):
    path = tmp_path / "mine.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidValue) as error:
        load_layers(str(path))
    assert message in str(error.value) and str(path) in str(error.value)


def test_an_unknown_set_is_told_what_there_is():
    allowed = "thesis28.*allowed: axes, .*vgg16, or a JSON file"
    with pytest.raises(InvalidValue, match=allowed):
        load_layers("thesis28")
