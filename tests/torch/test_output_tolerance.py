"""`optimize` with a tolerance of the output: it holds, and is spent where it buys most time."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from winogen.conv.tolerance import MARGIN  # noqa: E402
from winogen.errors import InvalidType, InvalidValue  # noqa: E402
from winogen.graph.choose import error_of  # noqa: E402
from winogen.testing import every_layer  # noqa: E402
from winogen.torch import optimize, promising, report  # noqa: E402
from winogen.torch.segment_op import SegmentModule  # noqa: E402


class Branches(nn.Module):
    """One of two convolutions hardly matters at the output."""

    def __init__(self):
        super().__init__()
        self.matters, self.hardly = (nn.Conv2d(24, 24, 3, padding=1) for _ in range(2))
        self.last = nn.Conv2d(24, 8, 3, padding=1)

    def forward(self, x):
        return self.last(torch.relu(self.matters(x)) + 1e-3 * torch.sigmoid(self.hardly(x)))


@pytest.fixture(scope="module")
def branches():
    torch.manual_seed(0)
    return Branches().eval(), torch.randn(1, 24, 32, 32)


def promised(model, x, **options):
    with every_layer():
        made = optimize(model, x, **options)
    return made, report(made)


def error(made, model, x):
    """The L2 error of an optimized model against float64."""
    with torch.inference_mode():
        exact = copy.deepcopy(model).double()(x.double())
        return float((made(x).double() - exact).norm() / exact.norm())


def test_the_error_at_the_output_is_as_promised(branches):
    """On inputs that nobody has seen, and made use of: a layer that hardly matters may be off."""
    model, x = branches
    made, told = promised(model, x, output_tolerance=5e-7)
    torch.manual_seed(1)
    for _ in range(10):
        assert error(made, model, torch.randn_like(x)) <= 5e-7
    assert told.promise.measured <= 5e-7 < told.promise.measured * 20
    # What is predicted is about what is measured: it would not be with wrong gains.
    assert told.promise.measured / 3 < told.promise.predicted < 20 * told.promise.measured
    rows = {row.name: row for row in told.rows}
    # How much more depends on the sizes of tiles that there are, and so on the CPU.
    assert rows["hardly"].tolerance > 2 * rows["matters"].tolerance
    assert sum(row.share for row in told.rows) == pytest.approx(1)
    assert rows["hardly"].share < 0.2
    text = str(told)
    assert "of output" in text and "promised at the output: L2 at most 5.0e-07" in text


def test_gains_say_what_becomes_of_a_layers_error(branches):
    """The last layer's is the output's; that of a branch by a thousandth is about that much."""
    model, x = branches
    calls = promising.Calls(model, (x,), {})
    module = torch.fx.symbolic_trace(model)
    last = next(n for n in reversed(module.graph.nodes) if n.op == "output").args[0]
    module.graph.erase_node(next(n for n in module.graph.nodes if n.op == "output"))
    module.graph.output((last,))
    module.recompile()
    gains = promising.gains_of(module, ["matters", "hardly", "last", "nothing"], calls)
    assert gains.keys() == {"matters", "hardly", "last"}
    assert gains["last"] == pytest.approx(1, rel=0.1)
    assert 0.2 < gains["matters"] < 2
    assert gains["hardly"] < 0.01 * gains["matters"]


def test_files_and_other_sizes_keep_the_tolerances(branches):
    """They go with the layers, so every later plan of them keeps to them."""
    model, x = branches
    made, told = promised(model, x, output_tolerance=1e-5)
    loaded = pickle.loads(pickle.dumps(made))
    for one in (made, loaded):
        (module,) = (m for m in one.winogen_fast.body.modules() if isinstance(m, SegmentModule))
        tolerances = module.options["tolerances"]
        assert sorted(tolerances.values()) == sorted(row.tolerance for row in told.rows)
        planned = module.segment.plan([(2, 24, 20, 28)])
        for step, problem, choice in zip(planned.steps, planned.problems, planned.choices):
            if problem is None or not choice.ways:  # it moves numbers
                continue
            off = error_of(problem, choice.ways[0].candidate, planned.settings.target)
            assert MARGIN * off <= tolerances[step.key]
    assert error(loaded, model, torch.randn(2, 24, 20, 28)) <= 1e-5


def test_both_tolerances_hold(branches):
    model, x = branches
    _, told = promised(model, x, output_tolerance=1e-3, tolerance=1e-6)
    assert max(row.tolerance for row in told.rows) <= 1e-6
    assert max(row.error for row in told.rows) <= 1e-6 / MARGIN


def test_nothing_is_told_of_what_nobody_asked_for(branches):
    made, told = promised(*branches)
    (module,) = (m for m in made.winogen_fast.body.modules() if isinstance(m, SegmentModule))
    assert "tolerances" not in module.options
    assert told.promise is None and "promised" not in str(told) and "of output" not in str(told)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (0, InvalidValue, "output_tolerance: got 0; allowed: None or a positive number below 1"),
        (1.0, InvalidValue, "output_tolerance: got 1; allowed: None or a positive number below 1"),
        ("1e-3", InvalidType, "output_tolerance: got '1e-3'; allowed"),
        (1e-12, InvalidValue, r"output_tolerance: got 1e-12; allowed: at least \d\.?\d*e-07, the"),
    ],
)
def test_what_cannot_be_promised_is_refused(branches, given, kind, message):
    with pytest.raises(kind, match=message):
        promised(*branches, output_tolerance=given)


def test_models_of_no_numbers_promise_nothing():
    """Nor those that are made for float32 alone."""

    class Places(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(8, 8, 3)

        def forward(self, x):
            return self.conv(x).argmax(1)

    with pytest.raises(InvalidValue, match="output_tolerance: got 0.0001; allowed: None for this"):
        promised(Places().eval(), torch.randn(1, 8, 16, 16), output_tolerance=1e-4)


def test_models_that_nothing_traces_are_measured_as_a_whole():
    class Decides(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(16, 16, 3)

        def forward(self, x):
            return self.conv(x) if float(x.flatten()[0]) > -100 else x

    torch.manual_seed(0)
    _, told = promised(Decides().eval(), torch.randn(1, 16, 24, 24), output_tolerance=1e-4)
    assert told.promise.measured <= 1e-4
