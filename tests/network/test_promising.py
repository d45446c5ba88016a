"""A bound of the error at the output: each layer gets a tolerance, and the C keeps to the bound."""

import io
import warnings

import numpy as np
import onnx
import pytest
from network.test_bytes import quantized
from network.test_network import chain, net_of
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.graph.promise import SAFE, OutputPromise
from winogen.network import generate, promising, trial
from winogen.network.promising import Promising
from winogen.network.reading import loaded, network
from winogen.network.schedule import schedule
from winogen.onnx.reference import Reference
from winogen.records import TARGETS

SHAPE = (1, 16, 16, 16)


def branches():
    """Two convolutions, of which one hardly matters, and a third behind their sum."""
    net = net_of()
    matters, hardly = (net.conv("x", 16, 16) for _ in range(2))
    less = net.node("Mul", net.node("Sigmoid", hardly), net.constant(np.float32(1e-3)))
    y = net.conv(net.node("Add", net.node("Relu", matters), less), 16, 16)
    return net.model(y, shape=list(SHAPE))


@pytest.fixture
def simulated(monkeypatch):
    """Measures by a function of what is predicted, and no C; returns what was predicted."""

    def by(off):
        predictions = []

        def measured(place, cases, asked, predicted):
            predictions.append(predicted)
            return OutputPromise(asked, off(predicted), 1e-7, 4, predicted)

        monkeypatch.setattr(promising, "measured", measured)
        return predictions

    return by


@pytest.mark.parametrize("isa", ["avx2", "neon"])
def test_a_layer_that_hardly_matters_may_be_off_by_more(isa, simulated):
    """Whatever the target, of whose machine times are; the plan keeps all tolerances."""
    read, predictions = network(loaded(branches())), simulated(lambda predicted: predicted)
    kept = Promising("net", read, 4e-7, {}).kept(TARGETS[isa])
    assert kept.spent["conv_1"].tolerance > 1.5 * kept.spent["conv_0"].tolerance
    assert kept.promise.predicted in predictions
    assert kept.promise.measured <= SAFE * 4e-7
    plan = schedule(read, TARGETS[isa], tolerances=kept.tolerances)
    assert plan.errors.keys() >= kept.tolerances.keys()
    assert all(plan.errors[name] <= most for name, most in kept.tolerances.items())
    assert sum(one.share for one in kept.spent.values()) == pytest.approx(1, abs=0.01)


def test_a_larger_bound_takes_no_longer(simulated):
    """In the time that is predicted for the target."""
    read, target = network(loaded(branches())), TARGETS["avx2"]
    simulated(lambda predicted: predicted)
    seconds = []
    for asked in (1e-6, 2e-6, 1e-5):
        kept = Promising("net", read, asked, {}).kept(target)
        seconds.append(schedule(read, target, tolerances=kept.tolerances).planned.seconds)
    assert seconds == sorted(seconds, reverse=True) and seconds[-1] < seconds[0]


def test_what_is_measured_corrects_what_is_predicted(simulated):
    read, predictions = network(loaded(branches())), simulated(lambda predicted: 10 * predicted)
    kept = Promising("net", read, 1e-5, {}).kept(TARGETS["avx2"])
    assert 10 * kept.promise.predicted == kept.promise.measured <= SAFE * 1e-5
    assert min(predictions) < max(predictions)


def test_of_the_network_for_any_cpu_no_less_than_predicted_counts(simulated, monkeypatch):
    """It may be more accurate than that for a CPU which nothing runs here."""
    monkeypatch.setattr(trial, "ELSEWHERE", {})
    read = network(loaded(branches()))
    simulated(lambda predicted: 1e-9)
    kept = Promising("net", read, 3e-6, {}).kept(TARGETS["armv7"])
    assert kept.how.startswith("as the same network for any CPU, since no CPU with armv7 is here")
    assert kept.promise.measured == 1e-9 < kept.promise.predicted <= SAFE * 3e-6


@pytest.mark.thorough
def test_the_error_is_as_promised(tmp_path, ends, make):
    """On inputs that nobody has seen; the folder's own test sees a larger one."""
    files, random = generate(branches(), output_tolerance=1e-5), np.random.default_rng(9)
    exact = Reference(loaded(branches()), {}, 1)
    for number in range(3):
        files.write(tmp_path / str(number))
        x = random.standard_normal(SHAPE).astype(np.float32)
        (wanted,) = exact.doubled({"x": x})
        y = ends(tmp_path / str(number), x, wanted.size, make).reshape(wanted.shape)
        assert np.linalg.norm(y - wanted) <= 1e-5 * np.linalg.norm(wanted)
    files.write(tmp_path / "net")
    assert "1.0e-05 promised" in make(tmp_path / "net", "test")
    test = tmp_path / "net" / "net_test.c"
    test.write_text(test.read_text().replace("most = 1.000e-05", "most = 1.000e-08"))
    with pytest.raises(AssertionError, match=r"1.0e-08 promised\n.*WRONG"):
        make(tmp_path / "net", "test")


@pytest.mark.thorough
@pytest.mark.compares
def test_a_residual_net(tmp_path, make):
    """As PyTorch exports it: more error is allowed where it buys more time."""
    torch = pytest.importorskip("torch")
    from walk.nets import ResNet

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = io.BytesIO()
        torch.onnx.export(ResNet().eval(), torch.randn(1, 3, 64, 64), file, dynamo=False)
    model = onnx.load_from_string(file.getvalue())
    files = generate(model, isa="avx2", output_tolerance=1e-3, weights="file")
    told = files.kept.promise
    assert told.measured <= SAFE * 1e-3 and told.measured < 3 * told.predicted
    assert "on 2 inputs not seen before L2 at most" in files.comparison
    read = network(loaded(model))
    kept = schedule(read, TARGETS["avx2"], tolerances=files.kept.tolerances)
    assert kept.planned.seconds < schedule(read, TARGETS["avx2"]).planned.seconds
    files.write(tmp_path)
    assert "1.0e-03 promised" in make(tmp_path, "test")


@pytest.mark.compares
def test_what_is_handed_out_is_compared_on_inputs_that_chose_nothing(simulated):
    """An error that is larger there than promised is a refusal."""
    simulated(lambda predicted: 1e-9)
    with pytest.raises(InvalidValue, match=r"output_tolerance: got 1e-08; allowed: at least \d"):
        generate(chain(), isa="generic", output_tolerance=1e-8)


def test_the_folder_says_what_was_promised_predicted_and_measured(simulated):
    simulated(lambda predicted: predicted)
    files = generate(branches(), isa="generic", output_tolerance=1e-5)
    assert "promised at the output: L2 at most 1.0e-05; measured on 4 inputs: at" in str(files)
    read, tolerances = network(loaded(branches())), files.kept.tolerances
    plan, usual = (schedule(read, TARGETS["generic"], tolerances=t) for t in (tolerances, None))
    assert files.predicted_error == plan.predicted_error > usual.predicted_error  # it is spent
    text = files.contents["README.md"].decode()
    told = files.kept.promise
    assert "| promised error | 1.0e-05, of each output" in text
    assert f"| predicted of that | {told.predicted:.1e}, from" in text
    assert f"| measured | at most {told.measured:.1e} on 4 inputs" in text
    for layer, spent in files.kept.spent.items():
        assert f"| `{layer}` | {spent.tolerance:.1e} | {100 * spent.share:.0f} % |" in text


@pytest.mark.parametrize(
    ("given", "options", "kind", "message"),
    [
        (-1, {}, InvalidValue, "output_tolerance: got -1; allowed: None or a positive number"),
        ("a", {}, InvalidType, "output_tolerance: got 'a'; allowed"),
        (
            1e-12,
            {},
            InvalidValue,
            r"output_tolerance: got 1e-12; allowed: at least \d\.\de-\d\d, wh",
        ),
        (1e-3, {"check": False}, Unsupported, "output_tolerance: got 0.001; allowed: None without"),
    ],
)
def test_what_cannot_be_promised_is_refused(given, options, kind, message, simulated):
    simulated(lambda predicted: predicted)
    with pytest.raises(kind, match=message):
        generate(branches(), isa="generic", output_tolerance=given, **options)


def test_without_a_compiler_nothing_is_promised(monkeypatch):
    monkeypatch.setattr(trial, "mode", lambda: "off")
    with pytest.raises(Unsupported, match="output_tolerance: got 0.001; allowed: None where noth"):
        generate(branches(), isa="generic", output_tolerance=1e-3)


def test_models_of_bytes_and_signals_in_pieces_have_no_such_promise(tmp_path):
    net = net_of()
    narrow = quantized(net.model(net.conv("x", 3, 4), shape=[1, 3, 8, 8]), (1, 3, 8, 8), tmp_path)
    with pytest.raises(Unsupported, match="allowed: None as the model is a quantized one"):
        generate(narrow, output_tolerance=1e-3)
    with pytest.raises(InvalidValue, match="output_tolerance: got 0.001; allowed: None with pie"):
        generate(branches(), pieces=4, output_tolerance=1e-3)


def test_the_command(tmp_path, simulated):
    simulated(lambda predicted: predicted)
    onnx.save(branches(), tmp_path / "model.onnx")
    folder = tmp_path / "net"
    words = ["generate", str(tmp_path / "model.onnx"), "--isa", "generic", "-o", str(folder)]
    run = CliRunner().invoke(app, [*words, "--output-tolerance", "1e-4"])
    assert run.exit_code == 0 and "promised at the output: L2 at most 1.0e-04" in run.stdout
    command = "generate model.onnx --isa generic --output-tolerance 0.0001"
    assert command in (folder / "README.md").read_text()
    layer = ["generate", "--input", "1,3,8,8", "--weight", "4,3,3,3", "-o", str(tmp_path / "layer")]
    run = CliRunner().invoke(app, [*layer, "--output-tolerance", "1e-4"])
    assert run.exit_code == 2
    assert "--output-tolerance: got 0.0001; allowed: only with a model" in run.output
