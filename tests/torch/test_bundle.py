"""An exported program with its kernels in a folder: it runs where there is no compiler."""

import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import winogen.torch
from winogen.errors import InvalidType, InvalidValue
from winogen.testing import every_layer
from winogen.toolchain import bundling as folders
from winogen.torch import bundling


class Net(nn.Module):
    """Arguments by position and by name, in containers; of open batch where it is exported so."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x, *, more):
        """Two convolutions and a sum with each of a list."""
        y = self.two(self.one(x).relu())
        return {"sum": y + more[0], "difference": y - more[1]}


def arguments(batch=2):
    shape = batch, 8, 12, 16
    return (torch.randn(shape),), {"more": [torch.randn(shape), torch.randn(shape)]}


def exported(batch=2):
    args, kwargs = arguments(batch)
    some = {0: torch.export.Dim("n", min=1, max=64)}
    sizes = {"x": some, "more": [some, some]} if batch > 1 else None
    return torch.export.export(Net().eval(), args, kwargs, dynamic_shapes=sizes)


# What a service does, and nothing else.
SERVICE = """
import sys, torch
folder, inputs, output = sys.argv[1:]
model = torch.load(folder + "/model.pt", weights_only=False)
x, *more = torch.load(inputs)
with torch.inference_mode():
    torch.save(model(x, more=more), output)
assert "winogen.graph.steps" in sys.modules
"""


@pytest.mark.thorough
def test_a_service_without_a_compiler_computes_the_same(tmp_path):
    program = exported()
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.MonkeyPatch.context() as patch, every_layer():
        patch.setenv("WINOGEN_CALIBRATE", "0")
        shapes = dict.fromkeys(("x", "more_0", "more_1"), (3, 8, 12, 16))
        options = {"input_shapes": shapes, "threads": 2, "output_tolerance": 1e-5}
        served = winogen.torch.bundle(tmp_path / "net.pt2", tmp_path / "served", **options)
    told = winogen.torch.report(torch.load(served / "model.pt", weights_only=False))
    assert told.promise.measured <= told.promise.asked == 1e-5
    args, kwargs = arguments(batch=3)
    torch.save([*args, *kwargs["more"]], tmp_path / "x.pt")
    environment = {name: value for name, value in os.environ.items() if name != "CC"}
    environment |= {
        "PATH": str(tmp_path),
        "PYTHONWARNINGS": "error::UserWarning",  # as when the model itself computes
        "WINOGEN_CACHE": str(tmp_path / "cache"),
        "WINOGEN_PREBUILT": str(served),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    words = str(served), str(tmp_path / "x.pt"), str(tmp_path / "y.pt")
    run = [sys.executable, "-c", SERVICE, *words]
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, expected = torch.load(tmp_path / "y.pt"), program.module()(*args, **kwargs)
    assert sorted(found) == sorted(expected)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
        assert (found[name] - expected[name]).norm() <= 1.1e-5 * expected[name].norm()


def program_of(batch):
    args, kwargs = arguments(batch)
    return bundling.Program(exported(batch).module(), args, kwargs)


def test_a_program_in_a_file_answers_and_refuses_as_the_program_does():
    made = pickle.loads(pickle.dumps(program_of(1)))
    args, kwargs = arguments(1)
    (x,), more = args, kwargs["more"]
    expected = Net().eval()(x, more=more)
    for found in (made(x, more=more), made(more=more, x=x)):
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    for refused in (((x,), {}), ((x,), {"more": more[:1]}), ((), {"x": x, "more": (x, x)})):
        with pytest.raises(InvalidValue, match="arguments: got .*allowed: those of the program"):
            made(*refused[0], **refused[1])
    args, kwargs = arguments(2)
    with pytest.raises(AssertionError, match="Guard failed"):
        made(*args, **kwargs)


def test_open_sizes_stay_open():
    made = pickle.loads(pickle.dumps(program_of(2)))
    args, kwargs = arguments(5)
    assert made(*args, **kwargs)["sum"].shape == (5, 8, 12, 16)


def test_checks_that_no_trace_can_hold_leave_the_size_of_the_example(monkeypatch):
    """As those of older versions of torch, which are made in a hook."""
    module = exported(2).module()

    def check(module, args):
        if not all(isinstance(arg, torch.Tensor) for arg in args):
            raise RuntimeError("a proxy")

    module.register_forward_pre_hook(check)
    args, kwargs = arguments(2)
    made = pickle.loads(pickle.dumps(bundling.Program(module, args, kwargs)))
    assert made(*args, **kwargs)["sum"].shape == (2, 8, 12, 16)
    args, kwargs = arguments(5)
    with pytest.raises(InvalidValue, match=r"sizes: got .*allowed: \[\(2, 8, 12, 16\)"):
        made(*args, **kwargs)


@pytest.mark.parametrize("release", (False, True))
def test_a_file_has_the_weights_once(release):
    net = nn.Sequential(nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3))
    x = torch.randn(1, 64, 8, 8)
    with every_layer():
        made = winogen.torch.optimize(net, x, release_weights=release)
    torch.save(made, file := io.BytesIO())
    weights = sum(parameter.nbytes for parameter in net.parameters())
    assert weights < len(file.getvalue()) < 1.2 * weights
    again = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    with torch.inference_mode(), again.winogen_tested():
        assert again.winogen_report.segments == 1 and torch.equal(again(x), made(x))


def test_what_is_no_program_or_no_new_folder_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(bundling, "optimize", None)
    (tmp_path / "text.pt2").write_text("no program")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    program, new = exported(1), tmp_path / "served"
    with pytest.raises(InvalidValue, match="output: .*allowed: a new or an empty folder"):
        winogen.torch.bundle(program, tmp_path / "full")
    with pytest.raises(InvalidValue, match=r"model: got .*text\.pt2, which holds no program"):
        winogen.torch.bundle(tmp_path / "text.pt2", new)
    with pytest.raises(FileNotFoundError):
        winogen.torch.bundle(tmp_path / "none.pt2", new)
    with pytest.raises(InvalidType, match="model: got Net; allowed: a path, or what torch.export"):
        winogen.torch.bundle(Net(), new)
    with pytest.raises(
        InvalidValue, match="input_shapes: got 'z'; allowed: inputs of the model, x, more_0, more_1"
    ):
        winogen.torch.bundle(program, new, input_shapes={"z": (1, 2)})
    with pytest.raises(InvalidValue, match="input_shapes: got .* refused: "):
        winogen.torch.bundle(program, new, input_shapes={"x": (1, 8, 5, 5)})
    assert not new.exists()


def test_what_winogen_leaves_to_torch_is_no_bundle(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "write", None)
    program = torch.export.export(nn.Softmax(1), (torch.randn(2, 3, 4, 4),))
    with pytest.raises(InvalidValue, match="model: got one that winogen leaves to torch"):
        winogen.torch.bundle(program, tmp_path / "served")


def test_integers_among_the_inputs_are_zeros():
    embed = nn.Embedding(5, 3)
    program = torch.export.export(embed, (torch.tensor([[1, 2]]),))
    (index,), _ = bundling._example(program, {"input": (4, 2)})
    assert index.shape == (4, 2) and not np.any(index.numpy())
