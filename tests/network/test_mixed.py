"""Models of which parts are quantized: codes and floats lie side by side in one folder."""

import numpy as np
import pytest
from network.test_bytes import outputs_of
from network.test_network import net_of
from onnx import helper, numpy_helper

from winogen.errors import InvalidValue
from winogen.network import generate
from winogen.network.bytes_reading import read_bytes
from winogen.network.reading import loaded


class Drawn:
    """A net whose values become codes where it is asked for."""

    def __init__(self):
        self.net = net_of()

    def codes(self, x, step, zero=128, kind=np.uint8):
        """The numbers of codes of other numbers."""
        names = self.net.constant(np.float32(step)), self.net.constant(np.array(zero, kind))
        return self.net.node("DequantizeLinear", self.net.node("QuantizeLinear", x, *names), *names)

    def layer(self, x, channels, filters, taps=3):
        """A convolution whose weights are codes with a step for each filter."""
        net, random = self.net, np.random.default_rng(channels)
        whole = random.integers(-127, 128, (filters, channels, taps, taps)).astype(np.int8)
        steps = net.constant(np.linspace(0.001, 0.003, filters, dtype=np.float32))
        zeros = net.constant(np.zeros(filters, np.int8))
        weight = net.node("DequantizeLinear", net.constant(whole), steps, zeros, axis=0)
        return net.node("Conv", x, weight, pads=[taps // 2] * 4)

    def coded_layer(self, x, channels, filters, step=0.03):
        return self.codes(self.layer(x, channels, filters), step)


def between(shape):
    """A first layer of floats, Softmax between codes, a layer of floats whose weights are codes.

    The first layer is read as floats by a sum behind codes, too; both ends are outputs.
    """
    drawn = Drawn()
    net = drawn.net
    first = net.node("Relu", net.conv("x", shape[1], 6))
    y = drawn.coded_layer(drawn.codes(first, 0.02, 0), 6, 6)
    soft = drawn.codes(net.node("Softmax", net.node("Add", y, first), axis=1), 1 / 256, 0)
    y = drawn.coded_layer(soft, 6, 5, 0.01)
    flat = net.node("Flatten", net.node("GlobalAveragePool", drawn.layer(y, 5, 4)))
    model = net.model(net.node("Softmax", flat, axis=1), y, shape=list(shape))
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    return model


@pytest.mark.parametrize("weights", ["object", "file"])
def test_weights_of_all_parts_lie_in_one_file(weights, tmp_path, make):
    model = between((2, 3, 7, 6))
    files = generate(model, isa="generic", weights=weights)
    data = files.contents["net_weights.bin"]
    assert files.weight_bytes == len(data) - (64 if weights == "file" else 0)
    assert not any(name.endswith("_weights.c") for name in files.contents)
    files.write(tmp_path)
    assert make(tmp_path, "test").count(": right") == 2
    damaged = bytearray(data)
    damaged[-100 if weights == "file" else 43] ^= 0x40  # of codes; of the first part of floats
    (tmp_path / "net_weights.bin").write_bytes(damaged)
    with pytest.raises(AssertionError, match="WRONG|not there, or damaged"):
        make(tmp_path, "test")


@pytest.mark.parametrize("isa, weights", [("neon", "object"), ("armv7", "file")])
def test_such_weights_on_other_cpus(isa, weights, tmp_path, make):
    generate(between((1, 3, 7, 6)), isa=isa, weights=weights, algorithm="direct").write(tmp_path)
    assert make(tmp_path, "test", isa=isa).count(": right") == 2


def enlarged(mode, sizes=(1, 3, 13, 12), **attributes):
    """Codes that are enlarged, with as large steps: halves of one are exact."""
    drawn = Drawn()
    sizes = drawn.net.constant(np.array(sizes))
    coded = drawn.codes("x", 0.02, 120)
    y = drawn.net.node("Resize", coded, "", "", sizes, mode=mode, **attributes)
    return drawn.net.model(drawn.codes(y, 0.02, 120), shape=[1, 3, 7, 6])


@pytest.mark.parametrize(
    "options, floats",
    [
        ({"mode": "nearest"}, 0),
        ({"mode": "nearest", "nearest_mode": "ceil", "sizes": (1, 3, 5, 17)}, 0),
        ({"mode": "linear", "sizes": (1, 3, 14, 12)}, 1),
        ({"mode": "linear", "sizes": (1, 3, 4, 15)}, 1),
        ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, 1),
    ],
)
def test_enlarged_codes_are_those_of_onnxruntime(options, floats, tmp_path, make, ends):
    """Sums have its order: what lies in the middle between two codes becomes the same one."""
    model = enlarged(**options)
    assert len(parts_of(model)) == floats
    generate(model, isa="generic").write(tmp_path)
    x = np.random.default_rng(5).standard_normal((1, 3, 7, 6)).astype(np.float32)
    wanted = outputs_of(model, x, optimized=False).ravel()
    assert np.unique(wanted).size > 9
    np.testing.assert_array_equal(ends(tmp_path, x, wanted.size, make), wanted)
    if not floats:
        (y,) = read_bytes(loaded(model)).graph.computed([x])
        np.testing.assert_array_equal(y.ravel(), wanted)


def transposed(groups, mode, **options):
    """A transposed layer of codes, whose channels become pixels behind it."""
    drawn = Drawn()
    net, random = drawn.net, np.random.default_rng(groups)
    whole = random.integers(-127, 128, (8, 16 // groups, 3, 2)).astype(np.int8)
    steps = np.linspace(0.001, 0.003, 16, dtype=np.float32) if groups == 1 else np.float32(0.002)
    zeros = net.constant(np.zeros(steps.shape, np.int8))
    weight = net.node("DequantizeLinear", net.constant(whole), net.constant(steps), zeros, axis=1)
    y = net.node("ConvTranspose", drawn.codes("x", 0.02, 120), weight, group=groups, **options)
    y = drawn.codes(net.node("Relu", y), 0.01, 0)
    return net.model(net.node("DepthToSpace", y, blocksize=2, mode=mode), shape=[2, 8, 5, 6])


@pytest.mark.parametrize(
    "options",
    [
        {"groups": 1, "mode": "DCR", "strides": [3, 2]},
        {"groups": 1, "mode": "CRD", "strides": [2, 2], "pads": [1, 0, 2, 1]},
        {"groups": 4, "mode": "DCR", "strides": [2, 3], "output_padding": [1, 2]},
        {"groups": 8, "mode": "CRD", "strides": [1, 1], "dilations": [2, 1]},
    ],
)
def test_transposed_layers_of_codes_enlarge_maps(options, tmp_path, make, ends):
    model = transposed(**options)
    assert not parts_of(model)
    generate(model, isa="generic").write(tmp_path)
    x = np.random.default_rng(5).standard_normal((2, 8, 5, 6)).astype(np.float32)
    y = ends(tmp_path, x, outputs_of(model, x).size, make)
    assert np.abs(y - outputs_of(model, x, optimized=False).ravel()).max() <= 1.001 * 0.01
    graph = read_bytes(loaded(model)).graph
    exact = [graph.computed([image])[0] for image in np.split(x, len(x))]
    np.testing.assert_array_equal(y, np.concatenate(exact).ravel())
    assert np.unique(y).size > 9


def parts_of(model):
    return [node for node in read_bytes(loaded(model)).graph.nodes if node.op.is_opaque]


def test_floats_and_codes_lie_side_by_side(tmp_path, make):
    files = generate(between((2, 3, 7, 6)), isa="generic")
    files.write(tmp_path)
    assert make(tmp_path, "test").count(": right") == 2
    assert files.predicted_error > 0
    source = tmp_path / "net.c"
    text = source.read_text()
    assert all(f"net_float{part}_run(" in text for part in range(3))
    made = text.replace(".y_zero = -128", ".y_zero = -100")
    assert made != text
    source.write_text(made)
    with pytest.raises(AssertionError, match="WRONG"):
        make(tmp_path, "test")


def test_parts_are_as_large_as_codes_between_them_allow():
    model = between((1, 3, 7, 6))
    first, second, last = parts_of(model)
    assert [len(part.inputs) for part in (first, second, last)] == [1, 2, 1]
    assert {*first.outputs} & {*second.inputs}  # as floats, without codes between
    assert [*last.outputs] == [model.graph.output[0].name]


def test_a_float_tail_alone_is_a_part_without_layers(tmp_path, make, ends):
    drawn = Drawn()
    y = drawn.coded_layer(drawn.codes("x", 0.03), 3, 4)
    model = drawn.net.model(drawn.net.node("Softmax", y, axis=1), shape=[2, 3, 5, 6])
    generate(model, isa="generic").write(tmp_path)
    x = np.random.default_rng(5).standard_normal((2, 3, 5, 6)).astype(np.float32)
    wanted = outputs_of(model, x, optimized=False).ravel()
    found = ends(tmp_path, x, wanted.size, make)
    assert np.unique(wanted).size > 3
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_codes_of_what_is_only_shaped_anew(tmp_path, make):
    """As of a detector's heads, whose maps are flattened one by one, quantized, and joined."""
    drawn = Drawn()
    net = drawn.net
    flat = []
    for number, filters in enumerate((5, 5)):
        y = drawn.coded_layer(drawn.codes("x", 0.03), 4, filters, 0.02 + 0.01 * number)
        shape = net.constant(np.array([1, filters, -1], np.int64))
        flat.append(drawn.codes(net.node("Reshape", y, shape), 0.04))
    model = net.model(net.node("Softmax", net.node("Concat", *flat, axis=2), axis=1),
                      shape=[1, 4, 6, 7])  # fmt: skip
    files = generate(model)
    files.write(tmp_path)
    assert ": right" in make(tmp_path, "test")


def test_weights_alone_may_be_codes():
    drawn = Drawn()
    (part,) = parts_of(drawn.net.model(drawn.layer("x", 3, 4), shape=[1, 3, 5, 6]))
    network = part.op.payload
    (node,) = network.graph.nodes
    constants = {t.name: numpy_helper.to_array(t) for t in network.model.graph.initializer}
    (weight,) = constants.values()
    assert (node.op.weight == weight).all() and weight.dtype == np.float32
    assert part.inputs == ("x",) and part.outputs == (network.outputs[0].name,)


def test_an_initializer_that_callers_may_replace_is_refused():
    drawn = Drawn()
    y = drawn.coded_layer(drawn.codes("x", 0.03), 3, 4)
    given = drawn.net.constant(drawn.net.weights(4, 4, 1, 1))
    model = drawn.net.model(drawn.net.node("Conv", y, given, name="last"), shape=[1, 3, 5, 6])
    model.graph.input.add().CopyFrom(helper.make_tensor_value_info(given, 1, [4, 4, 1, 1]))
    with pytest.raises(InvalidValue, match=r"last \(Conv\): .* initializer, which callers may"):
        generate(model, isa="generic")


def test_images_that_floats_join_are_refused():
    drawn = Drawn()
    coded = drawn.coded_layer(drawn.codes("x", 0.03), 3, 4)
    mean = drawn.net.node("ReduceMean", coded, axes=[0], keepdims=1, name="over images")
    model = drawn.net.model(
        drawn.codes(drawn.net.node("Sub", coded, mean), 0.1), shape=[2, 3, 5, 6]
    )
    with pytest.raises(
        InvalidValue, match="got 2 images, which over images may join; allowed: one"
    ):
        generate(model, isa="generic")


def test_nodes_of_floats_that_are_not_generated_are_named():
    drawn = Drawn()
    odd = drawn.net.node("CumSum", drawn.coded_layer(drawn.codes("x", 0.03), 3, 4),
                         drawn.net.constant(np.int64(1)), name="odd")  # fmt: skip
    model = drawn.net.model(drawn.codes(odd, 0.1), shape=[1, 3, 5, 6])
    with pytest.raises(InvalidValue, match=r"opset 17 that are not generated: .*odd \(CumSum\)"):
        generate(model, isa="generic")
