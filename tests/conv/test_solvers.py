"""A solver is added by a class and a place in the register: offered, ranked, planned, run."""

from types import SimpleNamespace

import numpy as np
import pytest

import winogen
from winogen.conv import Layer, execute, solver
from winogen.conv.executable import Executable
from winogen.conv.plan import Plan, Prediction
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer, Solver
from winogen.conv.solvers import chosen, solvers
from winogen.errors import CompilerNotFound, Unsupported
from winogen.records import TARGETS, Machine

LAYER = Layer.of((8, 4, 1, 1), "float32")
PROBLEM = LAYER.problem((2, 4, 6, 5))


class ByEinsum(Executable):
    """A pointwise problem by numpy."""

    def pack(self, weight, kept=None):
        return (weight[:, :, 0, 0],)

    def compute(self, packed, arrays):
        x, *_, y = arrays
        np.einsum("mc,nchw->nmhw", packed[0], x, out=y)

    def run_at(self, packed, *addresses):
        raise NotImplementedError


class Einsum(Solver):
    """For pointwise layers of float32, of so many seconds and such an error."""

    algorithm = "einsum"

    def __init__(self, seconds=1e-9, error=1e-8):
        self._seconds, self._error = seconds, error

    def offer(self, query, best=None):
        layer, asked = query.problem.layer, query.request.algorithm
        if asked not in ("auto", self.algorithm) or not layer.pointwise:
            return None
        candidate = SimpleNamespace(seconds=self._seconds)
        return Offer(self, query, query.target, [candidate], 1, best)

    def bind(self, offer, environment):
        return ByEinsum(offer)

    def prediction(self, offer, candidate):
        return Prediction(candidate.seconds, self._error, self.algorithm, None, "")

    def described(self, offer):
        count = offer.problem.direct_multiplications
        return {"variant": "einsum", "workspace_bytes": 0, "packed_weight_bytes": 128,
                "multiplications": count, "source": ""}  # fmt: skip

    def check(self, layer):
        if layer.dtype != "float32":
            raise Unsupported(f'algorithm: got "einsum" with {layer.dtype} arrays; allowed: "auto"')


@pytest.fixture
def register(monkeypatch):
    """Adds a solver for this test."""

    def add(new):
        monkeypatch.setattr(solver, "_solvers", [*solvers(), new])
        execute.forget()
        return new

    yield add
    execute.forget()


def taken(request=None, problem=PROBLEM):
    query = Query(problem, request or Request(), TARGETS["avx2"], Machine())
    return chosen(query)


def test_a_solver_that_is_faster_is_taken_and_what_it_beats_is_told(register):
    kernels = taken()
    assert type(kernels.solver).__name__ == "Kernels" and kernels.beaten is None
    new = register(Einsum())
    offer = taken()
    assert offer.solver is new and offer.beaten.prediction == kernels.prediction
    plan = Plan.of(offer)
    assert (plan.algorithm, plan.variant, plan.predicted_error) == ("einsum", "einsum", 1e-8)
    assert plan.predictions == (offer.prediction, *kernels.predictions)[: len(plan.predictions)]
    assert "einsum" in str(plan) and plan.to_dict()["output_shape"] == (2, 8, 6, 5)
    assert taken(problem=Layer.of((8, 4, 3, 3), "float32").problem((2, 4, 6, 5))).solver is not new


@pytest.mark.parametrize(
    "given, request_, is_taken",
    [
        ({"seconds": 1.0}, {}, False),
        ({"error": 1e-4}, {}, False),
        ({"error": 1e-4}, {"tolerance": 1e-3}, True),
        ({"error": 1e-2}, {"tolerance": 1e-3}, False),
        ({}, {"algorithm": "direct"}, False),
        ({"seconds": 1.0, "error": 1.0}, {"algorithm": "einsum"}, True),
    ],
)
def test_time_and_error_decide_unless_it_is_named(register, given, request_, is_taken):
    new = register(Einsum(**given))
    assert (taken(Request(**request_)).solver is new) == is_taken


@pytest.mark.parametrize("times, is_taken", [(1.1, True), (1.5, False)])
def test_a_solver_may_ask_for_a_margin(register, monkeypatch, times, is_taken):
    seconds = taken().best.seconds
    monkeypatch.setattr(Einsum, "safety", times)
    new = register(Einsum(seconds / 1.3))
    assert (taken().solver is new) == is_taken


def test_it_runs_where_users_name_it_and_refuses_what_it_cannot(register):
    with pytest.raises(winogen.WinogenError, match="^algorithm: got \"?'?einsum"):
        Request.of(LAYER, algorithm="einsum")
    register(Einsum())
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, shape).astype("f4") for shape in ((2, 4, 6, 5), (8, 4, 1, 1)))
    expected = np.einsum("mc,nchw->nmhw", w[:, :, 0, 0], x)
    conv = winogen.Conv2d(w, algorithm="einsum")
    assert np.array_equal(conv(x), expected) and conv.plan(x.shape).algorithm == "einsum"
    assert np.array_equal(winogen.conv2d(x, w), expected)
    assert winogen.Conv2d(w).plan(x.shape).algorithm == "einsum"
    with pytest.raises(Unsupported, match="with float64 arrays"):
        winogen.Conv2d(w.astype("f8"), algorithm="einsum")
    with pytest.raises(winogen.WinogenError, match="^tile: got 2; allowed: None"):
        winogen.Conv2d(w, algorithm="einsum", tile=2)


def test_it_serves_where_no_kernel_is_at_hand(register, monkeypatch):
    def nothing(*_):
        raise CompilerNotFound("nothing")

    monkeypatch.setattr("winogen.conv.rankings.kept", nothing)
    monkeypatch.setattr("winogen.conv.fourier.computes", lambda *_: False)
    with pytest.raises(CompilerNotFound):
        taken()
    new = register(Einsum(1.0, 1.0))
    assert taken().solver is new
