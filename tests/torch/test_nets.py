"""The benchmark's nets as torch modules, and a run over the tiny one by all who are installed."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from typer.testing import CliRunner  # noqa: E402

from winogen.cli.app import app  # noqa: E402
from winogen.errors import InvalidValue  # noqa: E402
from winogen_lab.nets import NETS, files  # noqa: E402
from winogen_lab.nets.ncnn_files import NcnnLayer, read  # noqa: E402
from winogen_lab.nets.ncnn_graph import NumpyNet  # noqa: E402
from winogen_lab.nets.ncnn_torch import NcnnNet  # noqa: E402

# Parameters as the papers' nets have them (without VGG's and Inception's classifiers on the side).
PARAMETERS = {
    "vgg16": 14_714_688,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "inception-v3": 23_834_568,
    "densenet121": 7_978_856,
    "mobilenet-v2": 3_504_872,
    "unet": 1_927_042,
    "dncnn": 556_097,
    "rrdb": 2_916_416,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_nets_have_the_parameters_of_their_papers(name):
    module = NETS[name].module()
    assert sum(p.numel() for p in module.parameters()) == PARAMETERS[name]
    assert not module.training


@pytest.mark.parametrize("name", ["resnet18", "dncnn", "mobilenet-v2"])
def test_random_weights_keep_activations_in_bounds_and_errors_small(name):
    from winogen_lab.nets.blocks import fill

    module, x = NETS[name].module(), torch.from_numpy(files.example(NETS[name]))
    fill(module, x, seed=1)
    with torch.no_grad():
        y = module(x)
        y64 = module.double()(x.double())
    assert 0.05 < y.std() < 20
    assert (y - y64).norm() / y64.norm() < 5e-6
    again = NETS[name].module()
    fill(again, x, seed=1)
    for one, other in zip(module.state_dict().values(), again.state_dict().values(), strict=True):
        torch.testing.assert_close(one.to(other.dtype), other)


def test_what_contestants_get(tmp_path):
    facts = files.lay_out("tiny", str(tmp_path))
    assert facts["output"] == [1, 3, 192, 192] and facts["share_3x3"] == 1.0
    assert facts["gmac"] == pytest.approx(96 * 96 * 9 * (3 * 16 + 16 * 16 + 16 * 12) / 1e9)
    x, y64 = np.load(tmp_path / "x.npy"), np.load(tmp_path / "y64.npy")
    assert x.dtype == np.float32 and y64.dtype == np.float64
    module = files.load_module(NETS["tiny"], tmp_path)
    with torch.no_grad():
        y = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, y64, atol=1e-5)
    from onnx.reference import ReferenceEvaluator

    (y,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(y, y64, atol=1e-5)
    weights = NETS["tiny"].weights
    y = NumpyNet(read(weights.file(".param"), weights.file(".bin")), threads=1)(x)
    np.testing.assert_allclose(y, y64, atol=1e-4)


def test_the_work_of_a_net_is_counted(tmp_path):
    """Stride 1 and one group count as 3x3; a transposed convolution multiplies at its inputs."""
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, padding=1),
        torch.nn.Conv2d(8, 8, 3, stride=2, padding=1),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
        torch.nn.ConvTranspose2d(8, 2, 2, 2),
        torch.nn.Flatten(),
        torch.nn.Linear(2 * 64, 5),
    )
    path = tmp_path / "net.onnx"
    torch.onnx.export(layers.eval(), (torch.zeros(1, 4, 8, 8),), str(path), dynamo=False)
    dense = 64 * 8 * 4 * 9
    total = dense + 16 * 8 * 8 * 9 + 16 * 8 * 9 + 16 * 8 * 2 * 4 + 128 * 5
    facts = files.work(path)
    assert facts == {"gmac": total / 1e9, "share_3x3": dense / total}


def test_layers_that_only_torch_runs():
    """Squeeze and excitation as waifu2x has it, and a crop."""
    rng = np.random.default_rng(0)
    weight, x = rng.standard_normal((4, 4)).astype(np.float32), rng.random((1, 4, 6, 5), np.float32)
    net = NcnnNet(
        [
            NcnnLayer("Input", "in", (), ("x",)),
            NcnnLayer("Split", "fork", ("x",), ("a", "b", "c")),
            NcnnLayer("Pooling", "mean", ("a",), ("d",), {0: 1, 4: 1}),
            NcnnLayer(
                "InnerProduct", "fc", ("d",), ("e",), {0: 4, 2: 16, 9: 4}, {"weight": weight}
            ),
            NcnnLayer("Scale", "scale", ("b", "e"), ("f",), {0: -233}),
            NcnnLayer("Pooling", "max", ("c",), ("g",), {0: 0, 1: 3, 2: 1}),
            NcnnLayer("Crop", "crop", ("f", "g"), ("h",), {0: 1, 1: 2}),
            NcnnLayer("Eltwise", "sum", ("h", "g"), ("y",), {0: 1, 1: (1.0, 0.5)}),
        ]
    )
    y = net(torch.from_numpy(x)).detach().numpy()
    gates = 1 / (1 + np.exp(-(x.mean((2, 3)) @ weight.T)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).max((-1, -2))
    exact = (x * gates[:, :, None, None])[:, :, 2:6, 1:4] + 0.5 * windows
    np.testing.assert_allclose(y, exact, rtol=1e-5)


@pytest.mark.parametrize(
    "layer, message",
    [
        (NcnnLayer("Interp", "n", ("x",), ("y",), {0: 9}), "got mode 9"),
        (NcnnLayer("BinaryOp", "n", ("x",), ("y",), {0: 1}), "got operation 1"),
        (
            NcnnLayer(
                "Convolution", "n", ("x",), ("y",), {0: 1, 1: 1, 4: 1, 15: 2},
                {"weight": np.ones((1, 1, 1, 1), np.float32)},
            ),
            "got paddings (1, 1) and (1, 2)",
        ),
    ],
)  # fmt: skip
def test_what_a_module_does_not_have(layer, message):
    with pytest.raises(InvalidValue) as error:
        NcnnNet([layer])
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["animevideov3", "upconv7"])
def test_trained_nets_give_what_ncnn_gives(name):
    ncnn = pytest.importorskip("ncnn")
    net = NETS[name]
    if net.missing():
        pytest.skip(net.missing())
    from winogen_lab.peers.ncnn import empty_net, load

    x = np.ascontiguousarray(files.example(net)[:, :, :48, :56])
    native = empty_net(1)
    load(native, net.weights.file(".param"), net.weights.file(".bin"))
    extractor = native.create_extractor()
    extractor.input(native.input_names()[0], ncnn.Mat(x[0]))
    _, exact = extractor.extract(native.output_names()[0])
    with torch.no_grad():
        y = net.module()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y[0], np.array(exact), atol=1e-5)


def test_a_run_over_the_tiny_net(tmp_path):
    """Those who are installed run it; nobody who is missing stops the others."""
    path, picture = tmp_path / "tiny.json", tmp_path / "tiny.png"
    words = ["bench", "--nets", "tiny", "--repeat", 1, "--min-time", 0, "--results", path]
    words += ["--peers", "torch,onnxruntime,openvino,ncnn,mnn,opencv", "--plot", picture]
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    document = json.loads(path.read_text())
    (net,) = document["nets"]
    assert net["contestants"]["torch"]["rel_error"] < 1e-6
    for name, row in net["contestants"].items():
        if name.startswith("winogen."):
            assert row["rel_error"] < 2e-5, row
        else:
            assert "error" in row or row["rel_error"] < 1e-3
    assert net["ratio"] > 0 and picture.exists()
