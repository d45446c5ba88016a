"""Models of torch: programs and modules whose convolutions are two, of torch's own layers."""

import copy
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidType, InvalidValue
from winogen.lowrank import compress

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
nn = torch.nn


class Small(nn.Module):
    """A normalization behind a convolution, one with a stride, one that is called twice."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.body = nn.Sequential(nn.Conv2d(16, 12, 3, stride=2, padding=1), nn.ReLU())
        self.twice = nn.Conv2d(12, 12, 3, padding=1)
        self.head = nn.Linear(12, 5)
        with torch.no_grad():
            for tensor in (self.norm.running_mean, self.norm.weight, self.norm.bias):
                tensor.normal_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = self.body(torch.relu(self.norm(self.stem(x))))
        return self.head(self.twice(torch.relu(self.twice(x))).mean((2, 3)))


@pytest.fixture(scope="module")
def model():
    return Small().eval()


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(1).standard_normal((10, 1, 3, 20, 24)).astype(np.float32)


@pytest.fixture(scope="module")
def program(model):
    auto = torch.export.Dim.AUTO
    x = torch.randn(2, 3, 20, 24)
    return torch.export.export(model, (x,), dynamic_shapes={"x": {0: auto, 2: auto, 3: auto}})


def apart(one, other, x):
    with torch.no_grad():
        return float((one(x) - other(x)).abs().max() / other(x).abs().max())


def test_a_module_becomes_one_of_torchs_own_layers(model, inputs):
    before = copy.deepcopy(model.state_dict())
    small, report = compress(model, list(inputs), budget="params:1.5x", threads=1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    rows = {row.shape: row for row in report.rows}
    assert rows[12, 12, 3, 3].note == "no conv2d of constant weights in the program"
    assert rows[12, 16, 3, 3].rank is not None
    assert [type(one) for one in small.body[0]] == [nn.Conv2d, nn.Conv2d]
    assert not any(type(one).__module__.startswith("winogen") for one in small.modules())
    held_out = [torch.from_numpy(one) for one in inputs[4::5]]
    with torch.no_grad():
        exact = torch.cat([model(x) for x in held_out])
        error = torch.cat([small(x) for x in held_out]) - exact
    psnr = 10 * float(torch.log10(exact.abs().max() ** 2 / error.square().mean()))
    assert report.psnr == pytest.approx(psnr, abs=0.05)
    # It trains, and takes other sizes.
    small.train()(torch.randn(2, 3, 30, 16)).sum().backward()
    assert small.body[0][0].weight.grad is not None


def test_at_the_full_rank_nothing_changes(model, program, inputs):
    """Also where the normalization is folded in: outputs are the model's."""
    small, report = compress(program, list(inputs), budget="60dB", threads=1)
    assert isinstance(small, torch.export.ExportedProgram) and report.psnr >= 60
    assert apart(small.module(), model, torch.randn(4, 3, 26, 18)) < 0.02


def test_the_command_writes_a_program(program, inputs, tmp_path):
    path, data, output = tmp_path / "net.pt2", tmp_path / "data.npy", tmp_path / "small.pt2"
    torch.export.save(program, path)
    np.save(data, inputs[:, 0])
    words = ["compress", str(path), "--budget", "params:1.6x", "--data", str(data), "-o"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "small.onnx")])
    assert done.exit_code == 2 and "for a program; allowed: a name.pt2" in done.output
    done = CliRunner().invoke(app, [*words, str(output)])
    assert done.exit_code == 0, done.output
    script = (
        "import sys, torch; program = torch.export.load(sys.argv[1]);"
        "x = torch.ones(3, 3, 22, 20); print(tuple(program.module()(x).shape));"
        "print(sum(node.target is torch.ops.aten.conv2d.default for node in program.graph.nodes));"
        "print(any(name.startswith('winogen') for name in sys.modules))"
    )
    made = subprocess.run(
        [sys.executable, "-c", script, str(output)], capture_output=True, text=True, check=True
    )
    shape, convs, with_winogen = made.stdout.splitlines()
    assert shape == "(3, 5)" and int(convs) > 4 and with_winogen == "False"


def test_what_is_refused(model, inputs, tmp_path):
    for name in ("net.pt", "net.pth", "net.pkl"):
        with pytest.raises(InvalidValue, match="a pickle, which may run anything .*; allowed: a "
                           "model of ONNX, or a .pt2"):  # fmt: skip
            compress(tmp_path / name, list(inputs), budget="2x")
    (tmp_path / "net.pt2").write_text("no program")
    with pytest.raises(InvalidValue, match="which holds no program"):
        compress(tmp_path / "net.pt2", list(inputs), budget="2x")
    with pytest.raises(InvalidType, match="inputs: got str; allowed for a module"):
        compress(model, "data.npy", budget="2x")
    with pytest.raises(InvalidValue, match="inputs: got 0; allowed: at least 5"):
        compress(model, [], budget="2x")
    with pytest.raises(InvalidValue, match="model: got Small, which torch.export refuses"):
        compress(model, [np.ones((1, 2, 8, 8), np.float32)] * 5, budget="2x")
