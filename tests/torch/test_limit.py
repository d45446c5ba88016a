"""`optimize` with few seconds, by a clock that tests move: right, and the report says so."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import winogen.torch  # noqa: E402
from winogen.errors import BuildError, InvalidType, InvalidValue  # noqa: E402
from winogen.graph import compiling, decide  # noqa: E402
from winogen.tasks import limit  # noqa: E402
from winogen.tasks.duel import Times  # noqa: E402
from winogen.testing import every_layer  # noqa: E402
from winogen.torch import deciding, drafting, optimize, report  # noqa: E402

WIDTHS = (16, 24, 32)


@pytest.fixture
def now(monkeypatch):
    """The clock of limits, in a list; nothing is kept of other runs."""
    seconds = [0.0]
    monkeypatch.setattr(limit, "clock", lambda: seconds[0])
    monkeypatch.setattr(decide, "_CAREFUL", 0)  # whose kernels are at hand
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    return seconds


@pytest.fixture
def timed(monkeypatch, now):
    """Measuring a layer takes ten seconds, and finds it twice as fast as torch's; a list of all."""
    layers = []

    def measured(node, planned, number):
        now[0] += 10
        layers.append(node.op.weight.shape[0])
        return Times(1.0, 2.0)

    monkeypatch.setattr(deciding, "_timed", measured)
    return layers


@pytest.fixture(scope="module")
def made():
    """A model, its example, and what it computes; its kernels have been compiled."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(i, o, 3, padding=1) for i, o in zip((16, *WIDTHS), WIDTHS)]
    model, x = nn.Sequential(*layers).eval(), torch.randn(1, 16, 48, 48)
    with every_layer():
        optimize(model, x)
    with torch.no_grad():
        return model, x, model(x)


def close(fast, made):
    _, x, y = made
    with torch.inference_mode():
        return torch.allclose(fast(x), y, atol=1e-5 * float(y.abs().max()))


def test_without_seconds_all_is_as_predicted_and_right(made, now, timed, monkeypatch):
    """Where kernels are there: without them layers stay with torch."""
    monkeypatch.setattr(compiling, "at_hand", lambda spec: True)
    fast = optimize(*made[:2], seconds=0)
    table = report(fast)
    assert not timed and table.whole is None and table.segments == 1
    assert all("as predicted: not measured in 0 seconds" in row.why for row in table.rows)
    assert all(row.measured is None and row.predicted for row in table.rows)
    assert table.compared and close(fast, made)


def test_what_the_limit_leaves_no_time_for_is_what_gains_least(made, now, timed):
    fast = optimize(*made[:2], seconds=15)
    rows = report(fast).rows
    assert timed == [32, 24]
    assert [row.measured is None for row in rows] == [True, False, False]
    assert "not measured in 15 seconds" in rows[0].why and "predicted" not in rows[1].why
    assert close(fast, made)


def test_a_limited_model_is_the_unlimited_one(made, now, timed, monkeypatch):
    monkeypatch.setattr(decide, "_RELIABLE", 0.0)
    with every_layer():
        whole = optimize(*made[:2])
    fast = optimize(*made[:2], seconds=15)
    with torch.inference_mode():
        assert torch.equal(fast(made[1]), whole(made[1]))


def test_without_time_for_float64_layers_are_computed_more_carefully(made, now, timed, monkeypatch):
    asked = []

    def compiled(reading, decision, *options):
        asked.append(decision.options["most_error"])
        raise BuildError("enough")

    monkeypatch.setattr(drafting, "compiled", compiled)
    monkeypatch.setattr(decide, "_CAREFUL", 1)
    for seconds in (0, 1e6):
        with pytest.raises(BuildError, match="enough"):
            optimize(*made[:2], seconds=seconds)
    assert asked == [2e-6, None]


def test_where_calls_take_long_the_error_at_the_output_is_that_of_a_smaller_input(made, now, timed):
    class Slow(nn.Sequential):
        def forward(self, x):
            now[0] += 0.6
            return super().forward(x)

    x = torch.randn(1, 16, 96, 96)
    errors = [report(optimize(Slow(*made[0]), x, seconds=s)).errors for s in (11.9, 1e6)]
    assert [one.case for one in errors] == ["other content of 49x50 pixels, channels last", ""]
    assert "float64, on other content of 49x50" in errors[0].text("torch")
    assert 0 < errors[0].ours_l2 < 1e-5 and 0.1 < errors[0].theirs_l2 / errors[1].theirs_l2 < 10


def test_too_small_a_prediction_leaves_the_model_to_torch(made, now, timed, monkeypatch):
    monkeypatch.setattr(decide, "_RELIABLE", 1e9)
    fast = optimize(*made[:2], seconds=0)
    assert {row.runs for row in report(fast).rows} == {"torch"}
    assert "too small to rely on" in str(report(fast)) and close(fast, made)


def test_a_layer_without_a_kernel_in_time_stays_torchs(made, now, timed, monkeypatch):
    def none_of_the_largest(specs, step, others, limit):
        return set(list(specs)[1:]) if limit.seconds is not None else set(specs)

    monkeypatch.setattr(deciding, "compile_all", none_of_the_largest)
    monkeypatch.setattr(decide, "_RELIABLE", 0.0)
    fast = optimize(*made[:2], seconds=0)
    late = [row for row in report(fast).rows if row.runs == "torch"]
    assert late and {row.why for row in late} == {"no time was left to compile its kernel"}
    assert close(fast, made)


def test_without_seconds_only_kernels_at_hand_are_loaded(monkeypatch):
    monkeypatch.setattr(compiling, "at_hand", lambda spec: spec == "there")
    monkeypatch.setattr(compiling, "compile_all", set)
    with limit.limited(0) as none:
        others = {"segments": lambda: loaded.append(1)}
        loaded: list[int] = []
        assert compiling._compile_until(none, ["missing", "there"], None, others) == {"there"}
    assert loaded


def test_layers_of_a_model_without_a_trace_stay_torchs_then(now):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls = nn.Conv1d(16, 16, 3), 0

        def forward(self, x):
            self.calls += 1
            return self.layer(x)

    model, x = Counting().eval(), torch.randn(1, 16, 50)
    fast = optimize(model, x, seconds=0)
    assert [row.why for row in report(fast).rows] == ["no seconds were left to measure it"]
    with torch.no_grad():
        assert torch.equal(fast(x), model(x))


def test_a_quarter_of_the_seconds_stays_for_what_may_be_left_out(now):
    with limit.limited(32) as one:
        now[0] = 20.0
        one.reserve(8.0)
        assert one.left() == 8.0 and limit.limit() is one
        now[0] = 50.0
        assert not one.allows() and one.left() == 0.0
    assert limit.limit().allows(1e9)


def test_what_is_granted_is_so_within_alone(now):
    with limit.limited(32) as one, limit.limited(None) as none:
        for passed, inside in ((4.0, 28.0), (40.0, 8.0)):
            now[0] = passed
            with one.granted(), none.granted():
                assert one.left() == inside and none.left() == float("inf")
        assert one.left() == 0.0 and none.left() == float("inf")


def test_nothing_that_is_reserved_makes_a_limit_longer(now):
    with limit.limited(32) as one, limit.limited(None) as none:
        now[0] = 30.0
        one.reserve(1.0)
        none.reserve(1.0)
        assert one.left() == 2.0 and none.left() == float("inf")


def test_within_every_layer_there_is_no_limit(made, timed):
    with every_layer(), limit.limited(0) as one:
        assert one.allows(1e9)


@pytest.mark.parametrize("seconds, error", [
    (-1, InvalidValue), (float("nan"), InvalidValue), ("30", InvalidType), (True, InvalidType),
    ([1], InvalidType),
])  # fmt: skip
def test_other_seconds_are_refused_before_any_work(seconds, error):
    with pytest.raises(error, match=r"^seconds: got .*; allowed: None, or a number"):
        winogen.torch.optimize(nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8), seconds=seconds)
