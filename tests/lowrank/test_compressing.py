"""Whole models: what is written runs in onnxruntime alone, and says how good it is."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidValue

helper = pytest.importorskip("onnx.helper")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

RANK = 4  # of the filters of the layers that have one


def planted(generator, filters, channels, taps=3):
    one = generator.standard_normal((RANK, channels, taps)) / np.sqrt(channels)
    other = generator.standard_normal((filters, RANK, taps)) / np.sqrt(RANK)
    return np.einsum("rci,orj->ocij", one, other).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    """Four convolutions: of three channels, of low rank, pointwise, strided of low rank."""
    generator = np.random.default_rng(0)
    weights = {
        "w1": generator.standard_normal((16, 3, 3, 3)).astype(np.float32) / 3,
        "w2": planted(generator, 16, 16),
        "w3": generator.standard_normal((16, 16, 1, 1)).astype(np.float32) / 4,
        "w4": planted(generator, 12, 16),
        "b2": generator.standard_normal(16).astype(np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["a"], "stem", auto_pad="SAME_UPPER", kernel_shape=[3, 3]),
        node("Relu", ["a"], ["r"]),
        node("Conv", ["r", "w2", "b2"], ["b"], "planted", pads=[1, 1, 1, 1]),
        node("Relu", ["b"], ["s"]),
        node("Add", ["s", "r"], ["t"]),
        node("Conv", ["t", "w3"], ["c"], "pointwise"),
        node("Conv", ["c", "w4"], ["y"], "strided", strides=[2, 2], pads=[1, 0, 1, 2]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in
            (("x", ["n", 3, "h", "w"]), ("y", ["n", 12, "oh", "ow"]))]  # fmt: skip
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(1).standard_normal((10, 3, 20, 23)).astype(np.float32)


def run(model, x):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def by_name(report):
    return {row.name: row for row in report.rows}


def compress(*arguments, **options):
    from winogen.lowrank import compress as function

    return function(*arguments, **options)


def batches(inputs):
    return [one[None] for one in inputs]


def test_planted_ranks_cost_nothing(model, inputs):
    before = model.SerializeToString()
    small, report = compress(model, batches(inputs), budget="products:2.5x", threads=1)
    assert model.SerializeToString() == before
    assert {entry.domain for entry in small.opset_import} == {""}
    total, after = report.total("products")
    assert 2.5 <= total / after
    rows = by_name(report)
    assert rows["pointwise"].rank is None
    for name in ("planted", "strided"):
        assert rows[name].rank >= RANK and rows[name].residual < 1e-6
    assert rows["pointwise"].note == "taps along one axis"
    held_out = inputs[4::5]
    exact, y = run(model, held_out), run(small, held_out)
    assert y.shape == exact.shape
    psnr = 10 * np.log10(np.abs(exact).max() ** 2 / np.mean((y - exact) ** 2))
    assert report.psnr == pytest.approx(psnr, abs=0.01) and psnr > 60 and report.held_out == 2
    # Sizes and batches are as open as before.
    other = np.random.default_rng(2).standard_normal((2, 3, 31, 18)).astype(np.float32)
    assert (
        np.abs(run(small, other) - run(model, other)).max() < 1e-2 * np.abs(run(model, other)).max()
    )


def test_a_quality_is_kept(model, inputs):
    found = {}
    for psnr in (20, 26, 33, 40):
        small, report = compress(model, batches(inputs), budget=f"{psnr}dB", threads=1)
        assert report.psnr >= psnr
        found[psnr] = report.total("seconds")[1]
        assert run(small, inputs[:1]).shape == run(model, inputs[:1]).shape
    assert found[20] <= found[26] <= found[33] <= found[40] <= report.total("seconds")[0]


def test_a_quality_is_kept_where_errors_add_up_to_more():
    """Models err four times as much as single layers let expect."""
    from winogen.lowrank.choosing import Option
    from winogen.lowrank.compressing import _Made, _Search

    class Search(_Search):
        def __init__(self):
            errors = zip(range(1, 9), 10.0 ** -np.arange(1, 9))
            one = [Option(None, 10, 0.0), *(Option(rank, rank, e) for rank, e in errors)]
            self._options = [one, one]

        def model(self, chosen):
            square, cost = sum(4 * o.error for o in chosen), sum(o.cost for o in chosen)
            ranks = {number: o.rank for number, o in enumerate(chosen) if o.rank}
            return _Made(None, ranks, square, square / 4, cost)

    made = Search().for_quality(30)
    assert made.square <= 1e-3 and made.cost < 10


def test_the_choice_that_errs_least_is_taken(monkeypatch):
    from winogen.lowrank import compressing
    from winogen.lowrank.choosing import Option

    class Search(compressing._Search):
        def __init__(self):
            self._net = SimpleNamespace(proto=None)

        def _fitted(self, chosen, samples):
            assert samples == ["some"]
            return errors[chosen[0].rank], {}

    monkeypatch.setattr(compressing, "outputs", lambda net, proto, judges: proto)
    monkeypatch.setattr(compressing, "mean_square", lambda found, exact: found)
    errors = {4: 3.0, 5: 1.0, 6: 2.0}
    choices = [[Option(rank, rank, 0.0)] for rank in errors]
    assert Search().best(choices, ["some"], ["others"]) == choices[1]
    assert Search().best(choices, ["some"], []) == choices[0]


def test_params(model, inputs):
    small, report = compress(model, batches(inputs), budget="params:6x", threads=1)
    before, after = report.total("parameters")
    assert before >= 6 * after
    sizes = [np.prod(t.dims) for t in small.graph.initializer if len(t.dims) == 4]
    assert sum(sizes) == after
    # Later layers err by what earlier ones did, too.
    assert all(row.error > 1e-3 for row in report.rows if row.rank is not None)


def test_the_nearest_point_is_named(model, inputs):
    with pytest.raises(InvalidValue, match=r"budget: got params:99x; allowed: what can be met, "
                       r"params:(\d+\.?\d*)x at the most") as error:  # fmt: skip
        compress(model, batches(inputs), budget="params:99x")
    nearest = str(error.value).partition("params:99x")[2].partition("params:")[2].partition("x")[0]
    _, report = compress(model, batches(inputs), budget=f"params:{float(nearest) * 0.99:g}x")
    before, after = report.total("parameters")
    assert before / after == pytest.approx(float(nearest), rel=0.02)


def test_a_layer_is_said_to_be_not_worth_it(model, inputs):
    """The stem has three channels: two stages never pay, by predicted time."""
    _, report = compress(model, batches(inputs), budget="80dB", threads=1)
    row = by_name(report)["stem"]
    assert row.rank is None and row.note.startswith(("not worth it", "left as it was"))
    text = str(report)
    assert "by exact algorithms" in text and f"{1e3 * row.seconds_before:.3g} ms" in text
    json.dumps(report.to_dict())


def test_too_few_inputs_and_no_layers(model, inputs):
    with pytest.raises(InvalidValue, match="inputs: got 4; allowed: at least 5"):
        compress(model, batches(inputs[:4]), budget="2x")
    with pytest.raises(InvalidValue, match="budget: got 'half'; allowed: "):
        compress(model, batches(inputs), budget="half")
    other = onnx.ModelProto.FromString(model.SerializeToString())
    del other.graph.node[:]
    other.graph.node.append(helper.make_node("Conv", ["x", "w3"], ["y"]))
    other.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 16
    images = [np.ones((1, 16, 4, 4), np.float32)] * 5
    with pytest.raises(InvalidValue, match="model: got no convolution that may become two"):
        compress(other, images, budget="2x")


def test_the_command(model, inputs, tmp_path):
    path, data, folder = tmp_path / "net.onnx", tmp_path / "data.npz", tmp_path / "data"
    onnx.save(model, path)
    np.savez(data, x=inputs)
    folder.mkdir()
    np.save(folder / "x.npy", inputs)
    words = ["compress", str(path), "--budget", "products:1.5x"]
    outputs = []
    for number, given in enumerate((data, folder)):
        output = tmp_path / f"small{number}.onnx"
        done = CliRunner().invoke(app, [*words, "--data", str(given), "-o", str(output)])
        assert done.exit_code == 0, done.output
        assert "budget products:1.5x: " in done.output and "PSNR" in done.output
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1]
    done = CliRunner().invoke(app, [*words, "--data", str(data), "-o", str(output)])
    assert done.exit_code == 2 and "which is there; allowed: a new file" in done.output
    assert output.read_bytes() == outputs[1]
    new = str(tmp_path / "new.onnx")
    for given, message in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "a folder with no .npy"),
    ):
        done = CliRunner().invoke(app, [*words, "--data", str(given), "-o", new])
        assert done.exit_code == 2 and message in done.output
