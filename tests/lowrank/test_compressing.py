"""Whole models: what is written runs in onnxruntime alone, and says how good it is."""

import json
from pathlib import Path

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
    from winogen.lowrank.making import LowRankMaker, Made

    class Fake(LowRankMaker):
        def __init__(self):
            pass

        def model(self, chosen):
            square, cost = sum(4 * o.error for o in chosen), sum(o.cost for o in chosen)
            ranks = {number: o.rank for number, o in enumerate(chosen) if o.rank}
            return Made(None, ranks, square, cost)

    errors = zip(range(1, 9), 10.0 ** -np.arange(1, 9))
    one = [Option(None, 10, 0.0), *(Option(rank, rank, e) for rank, e in errors)]
    made = Fake().for_quality([one, one], 30)
    assert made.square <= 1e-3 and made.cost < 10


@pytest.mark.parametrize("squares, best", [
    ({4: (3, 3), 5: (1, 4), 6: (2, 2)}, 6),  # 5 is better on one fold only
    ({4: (3, 3), 5: (1, 2.9), 6: (2.5, 2)}, 5),  # both always, 5 by more
    ({4: (3, 1), 5: (1, 1), 6: (0, 2)}, 4),
])  # fmt: skip
def test_a_choice_is_preferred_only_if_every_fold_says_so(squares, best):
    from winogen.lowrank.choosing import Option
    from winogen.lowrank.making import LowRankMaker

    class Fake(LowRankMaker):
        def __init__(self, folds):
            self._folds = folds

        def _square(self, chosen, fold):
            return squares[chosen[0].rank][fold]

    choices = [[Option(rank, rank, 0.0)] for rank in squares]
    assert Fake([0, 1]).preferred(choices)[0].rank == best
    assert Fake([]).preferred(choices) == choices[-1]


def test_folds_judge_what_they_do_not_fit():
    from winogen.lowrank.making import folds_of

    samples = [{"x": np.array(number)} for number in range(6)]
    folds = folds_of(samples)
    assert sorted(int(one["x"]) for _, judges in folds for one in judges) == list(range(6))
    for fitted, judges in folds:
        assert len(fitted) + len(judges) == 6 and not any(one in fitted for one in judges)
    assert folds_of(samples[:1]) == []


def test_an_interrupted_run_goes_on(model, inputs, tmp_path, monkeypatch):
    """Stopped again and again, at another place each time: the model has the same bytes."""
    from winogen.lowrank import compress, searching
    from winogen.lowrank.compressing import compressed, split
    from winogen.lowrank.memory import ArrayMemory
    from winogen.lowrank.subject import Subject

    subject = Subject(model)

    class Stopped(Exception):
        pass

    def arguments(budget):
        samples, held_out = split([{"x": one} for one in batches(inputs)])
        return {"samples": samples, "held_out": held_out, "budget": budget, "threads": 1}

    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "whole"))
    whole, _ = compress(model, batches(inputs), budget="params:5x", threads=1)
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "parts"))
    keep, made, stops = ArrayMemory.keep, [], 0

    def stopping(self, what, arrays):
        keep(self, what, arrays)
        made.append(what[0])
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(ArrayMemory, "keep", stopping)
        while True:
            try:
                small, _ = compressed(subject, **arguments("params:5x"))
                break
            except Stopped:
                stops += 1
                assert stops < 50
    assert small.SerializeToString() == whole.SerializeToString()
    assert made.count("trial") == made.count("gain") == 3 and "fit" in made and "square" in made

    # Another budget: nothing is tried again. Other data: everything is.
    def never(*arguments):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(searching, "factored", never)
        compressed(subject, **arguments("params:3x"))
        with pytest.raises(Stopped):
            compress(model, batches(inputs + 1), budget="params:5x")
    # What is damaged is made again.
    for path in (tmp_path / "parts" / "arrays").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    again, _ = compressed(subject, **arguments("params:5x"))
    assert again.SerializeToString() == whole.SerializeToString()


def test_measured_times_stand_beside_those_that_are_predicted(model, inputs):
    _, report = compress(model, batches(inputs), budget="params:5x", threads=1, measure=True)
    rows = by_name(report)
    assert rows["planted"].measured > 0 and rows["planted"].measured_before > 0
    assert rows["pointwise"].measured is None
    text = str(report)
    assert "measured, both" in text and "measured time of those that are two" in text
    _, report = compress(model, batches(inputs), budget="params:5x", threads=1)
    assert "measured" not in str(report)


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
    pytest.importorskip("matplotlib")
    plot, drawn = tmp_path / "loss.svg", [*words, "--data", str(data), "-o", new, "--plot"]
    done = CliRunner().invoke(app, [*drawn, str(tmp_path / "loss.txt")])
    assert done.exit_code == 2 and "plot: got" in done.output and not Path(new).exists()
    assert CliRunner().invoke(app, [*drawn, str(plot)]).exit_code == 0
    text = plot.read_text()
    assert all(f"<!-- {name} -->" in text for name in ("products:1.25x", "written", "products:4x"))
    Path(new).unlink()
    for given, message in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "a folder with no .npy and no picture"),
    ):
        done = CliRunner().invoke(app, [*words, "--data", str(given), "-o", new])
        assert done.exit_code == 2 and message in done.output


def test_pictures(model, inputs, tmp_path):
    image = pytest.importorskip("PIL.Image")
    path, folder = tmp_path / "net.onnx", tmp_path / "pictures"
    onnx.save(model, path)
    folder.mkdir()
    for number, one in enumerate(inputs[:6]):
        pixels = np.uint8(np.clip(64 * one + 128, 0, 255).transpose(1, 2, 0).repeat(2, 0))
        suffix = ("png", "jpg")[number % 2]
        image.fromarray(pixels).save(folder / f"{number}.{suffix}")
    words = ["compress", str(path), "--budget", "params:3x", "--data", str(folder)]
    rule = {"--size": "20x24", "--mean": ".5,.5,.5", "--std": ".25,.25,.25"}

    def run(output="none.onnx", **changed):
        given = {**rule, **{f"--{name}": text for name, text in changed.items()}}
        options = [part for pair in given.items() if pair[1] for part in pair]
        done = CliRunner().invoke(app, [*words, *options, "-o", str(tmp_path / output)])
        return done.exit_code, " ".join(done.output.split())

    code, output = run("small.onnx")
    assert code == 0 and "on 1 inputs held out" in output, output
    for changed, message in (
        ({"size": "", "mean": "", "std": ""}, "size, mean, std: got none of them; allowed: "),
        ({"std": ""}, "std: got none; allowed: "),
        ({"size": "20"}, "size: got '20'; allowed: height and width"),
        ({"mean": "1,2"}, "mean: got '1,2'; allowed: a number for each channel"),
        ({"std": "1"}, "std: got '1'; allowed: as many numbers as the mean"),
        ({"std": "1,0,1"}, "std: got '1,0,1'; allowed: positive"),
    ):
        code, output = run(**changed)
        assert code == 2 and message in output, output
    (folder / "2.png").write_text("no picture")
    code, output = run()
    assert code == 2 and "2.png, which is no picture" in output, output
    words[-1] = str(path)
    code, output = run()
    assert code == 2 and "which is no folder of pictures" in output, output


def test_how_a_picture_becomes_an_input(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from winogen.onnx.pictures import Pictures

    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, 2:6] = 51, 102, 255
    image.fromarray(pixels).save(tmp_path / "one.png")
    x = Pictures.of("4x4", "0.2,0.2,0", "0.1,0.2,2").read(tmp_path / "one.png")
    assert x.shape == (1, 3, 4, 4) and x.dtype == np.float32
    assert np.allclose(x[0, :, 1, 1], [0, 1, 0.5]) and np.ptp(x, axis=(2, 3)).max() < 1e-6
    assert Pictures.of("2x2", "0", "1").read(tmp_path / "one.png").shape == (1, 1, 2, 2)
