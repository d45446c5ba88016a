"""What calls at sizes not seen before need, and when a thread begins with that."""

import copy
import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from optimized import same, segments  # noqa: E402
from torch import nn  # noqa: E402

from winogen.graph import decide, later  # noqa: E402
from winogen.tasks import idle  # noqa: E402
from winogen.tasks.duel import Times  # noqa: E402
from winogen.torch import optimize, readiness  # noqa: E402
from winogen.torch.calling import Calls  # noqa: E402
from winogen.torch.preparing import prepare  # noqa: E402
from winogen.torch.readiness import Readiness, _key  # noqa: E402
from winogen.torch.segment_op import SegmentModule  # noqa: E402
from winogen.torch.wholes import Rivals  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch", "quick_kernels")


class Between(nn.Module):
    """Two segments, between which torch has a module, a parameter and a change of sizes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3)
        self.mixed = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.shift = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, x):
        y = self.mixed(self.first(x).movedim(1, -1)).movedim(-1, 1)
        y = torch.cummax(y, 2).values[:, :, ::2] + self.shift
        return self.second(y)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Between().eval()


@pytest.fixture
def ours(model):
    return optimize(model, torch.randn(1, 3, 12, 10))


@pytest.fixture
def asked(monkeypatch):
    """Calls do not wait, and nothing is done for later ones but to note that they asked."""
    made = []
    monkeypatch.setattr(later, "is_every_layer", lambda: False)
    for module in (later, readiness):
        monkeypatch.setattr(module, "go_on", lambda owner, work, plan: made.append((owner, work)))
    return made


def test_a_whole_is_measured_with_its_kernels(model, asked, monkeypatch):
    """And not the model itself, which computes all calls until they are there."""
    ran, x = [], torch.randn(1, 3, 12, 10)
    forward = SegmentModule.forward

    def noted(module, *inputs):
        ran.append(module)
        return forward(module, *inputs)

    def measured(rivals, ours, earlier):
        ran.clear()
        with torch.inference_mode():
            ours(x)
        assert ran == segments(ours)
        return Times(1.0, 2.0)

    monkeypatch.setattr(SegmentModule, "forward", noted)
    monkeypatch.setattr(Rivals, "measured", measured)
    monkeypatch.setattr(decide, "is_every_layer", lambda: False)
    assert segments(optimize(model, x)) and ran


def test_sizes_of_segments_are_found_without_numbers(ours, asked):
    body, x = ours.winogen_fast.body, torch.randn(2, 3, 14, 9)
    weights = [p.clone() for p in ours.winogen_model.parameters()]
    found = Readiness(body)
    found.advance(_key([x]))
    (first, (one, _)), (second, (other, _)) = asked
    assert [first, second] == [module.segment for module in segments(ours)]
    assert (one, other) == (((2, 3, 14, 9),), ((2, 4, 7, 9),))
    assert all(map(torch.equal, weights, ours.winogen_model.parameters()))


def test_what_a_run_shows_is_what_is_found_without_numbers(ours):
    body, x = ours.winogen_fast.body, torch.randn(2, 3, 14, 9)
    runs, found = Readiness(body), Readiness(body)
    with torch.no_grad():
        runs.run([x])
    found.advance(_key([x]))
    assert runs._needs == found._needs and found.holds([x])


def test_where_numbers_are_needed_a_run_tells(ours, asked, monkeypatch):
    def fails(*args):
        raise RuntimeError("data")

    monkeypatch.setattr(readiness._Shapes, "on", fails)
    x = torch.randn(2, 3, 14, 9)
    found = ours._readiness
    assert not found.holds([x])
    found.advance(_key([x]))
    assert found.holds([x]) and not asked
    monkeypatch.undo()
    with torch.no_grad():
        same(ours(x), ours.winogen_model(x))
    assert len(found._needs[_key([x])]) == 2


def test_nothing_is_asked_for_before_a_call_has_returned(model, ours, asked, monkeypatch):
    """The model computes it."""
    running = []
    ask = Readiness.ask
    noted = lambda self, tensors: running.append(set(idle._running)) or ask(self, tensors)
    monkeypatch.setattr(Readiness, "ask", noted)
    x = torch.randn(2, 3, 14, 9)
    with torch.inference_mode():
        same(ours(x), model(x))
    assert running == [set()] and asked == [(ours._readiness, (_key([x]),))]


def test_the_size_of_the_example_is_ready(ours, asked):
    with torch.inference_mode():
        ours(torch.randn(1, 3, 12, 10))
    assert not asked


def test_where_another_ran_the_example_its_size_is_ready(model, ours, asked):
    """As it is where an earlier process has decided: what is made there proves itself first."""
    x = torch.randn(1, 3, 12, 10)
    calls = Calls(ours.winogen_model, (x,), {})
    ours.__dict__["_readiness"] = Readiness(ours.winogen_fast.body)
    prepare(ours, calls, [], None, must_release=False, is_bound=True)
    assert ours._readiness.holds([x]) and not asked


_PROCESS = """
import torch, winogen.torch
torch.manual_seed(0)
x = torch.randn(1, 64, 56, 56)
ours = winogen.torch.optimize(torch.nn.Conv2d(64, 64, 3, padding=1).eval(), x, seconds=None)
print(ours._readiness is None or ours._readiness.holds([x]))
"""


@pytest.mark.thorough
def test_the_first_call_of_a_later_process_is_fast(tmp_path):
    environment = {**os.environ, "WINOGEN_CACHE": str(tmp_path), "WINOGEN_WISDOM": "1"}
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", _PROCESS],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout == "True\n"


def test_a_module_without_segments_is_always_ready(asked):
    held = Readiness(torch.fx.symbolic_trace(nn.Conv2d(3, 4, 3)))
    x = torch.randn(1, 3, 5, 5)
    assert held.holds([x]) and held.run([x]).shape == (1, 4, 3, 3) and not asked


def test_a_call_runs_by_segments_when_all_are_ready(model, ours, asked):
    x = torch.randn(2, 3, 14, 9)
    ours._readiness.advance(_key([x]))
    with torch.inference_mode():
        for segment, key in list(asked):
            same(ours(x), model(x))
            segment.bound(*key)
        del asked[:]
        same(ours(x), model(x))
    assert not asked


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_find_out_for_themselves(model, ours, copied, asked):
    other, x = copied(ours), torch.randn(1, 3, 12, 10)
    with torch.inference_mode():
        same(other(x), model(x))
    assert asked == [(other._readiness, (_key([x]),))]
