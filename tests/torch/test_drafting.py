"""What `optimize` returns: the fastest of several drafts, measured once, and proven."""

import copy
import itertools
import pickle
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from graph import torch_nets as nets  # noqa: E402
from optimized import inside, made, same, segments  # noqa: E402
from torch import nn  # noqa: E402

from winogen.graph import Conv, ceilings, decide, measured, segment  # noqa: E402
from winogen.tasks import duel  # noqa: E402
from winogen.tasks.duel import Times  # noqa: E402
from winogen.torch import deciding, drafting, known, optimize, report, wholes  # noqa: E402
from winogen.torch.plain import Plain  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


def test_layers_that_torch_computes_faster_stay_with_torch(x, monkeypatch):
    """Every third one, with all that was fused into it: the others are still segments."""
    turns = itertools.cycle([Times(2.0, 1.0), Times(1.0, 2.0), Times(1.0, 2.0)])
    monkeypatch.setattr(deciding, "_timed", lambda *layer: next(turns))
    monkeypatch.setattr(duel, "is_every_layer", lambda: False)
    for net in (nets.Residual, nets.Activations, nets.Padded, nets.RRDB):
        model = made(net)
        ours = optimize(model, x)
        kinds = {row.runs == "torch" for row in report(ours).rows}
        assert kinds == {True, False} and segments(ours)
        assert "torch is faster" in str(report(ours))
        with torch.no_grad():
            same(ours(x), model(x))
        again = pickle.loads(pickle.dumps(ours))
        with torch.no_grad():
            assert torch.equal(again(x), ours(x))


@pytest.fixture
def clock(monkeypatch):
    """``clock(lost, original, folded, cut, uncut)``: a layer torch's, and seconds of wholes."""

    def set_times(lost, original, folded, cut, uncut=None):
        turns = itertools.chain([Times(2.0, 1.0)] * lost, itertools.repeat(Times(1.0, 2.0)))
        monkeypatch.setattr(deciding, "_timed", lambda *layer: next(turns))
        for module in (duel, decide):
            monkeypatch.setattr(module, "is_every_layer", lambda: False)
        wholes_of_ours = iter((cut, uncut))

        def rivals(ours, theirs, clock, **rest):
            ours(), theirs()
            return Times(folded, original)

        def whole(ours, theirs, clock, **rest):
            ours(), theirs()
            return Times(next(wholes_of_ours), min(original, folded))

        monkeypatch.setattr(wholes, "duel", rivals)
        monkeypatch.setattr(wholes, "duel_of_wholes", whole)

    return set_times


def test_a_whole_that_is_no_faster_is_torch_s(x, clock):
    model = made(nets.Residual)
    clock(0, original=2.0, folded=3.0, cut=2.0)
    ours = optimize(model, x)
    assert ours.winogen_fast is None and report(ours).whole == (2.0, 2.0)
    assert "torch, as it is, 2e+03 ms, winogen 2e+03 ms; torch's is kept" in str(report(ours))
    assert {(row.runs, row.error) for row in report(ours).rows} == {("torch", None)}
    assert report(ours).layout == "the input's"
    errors = report(ours).errors  # of what is returned
    assert errors.ours == errors.theirs and errors.ours_l2 == errors.theirs_l2
    with torch.no_grad():
        assert torch.equal(ours(x), model(x))


def test_torch_s_best_way_is_returned(x, clock):
    model = made(nets.Residual)
    clock(0, original=4.0, folded=2.0, cut=3.0)
    ours = optimize(model, x)
    kinds = {type(module) for module in inside(ours).modules()}
    assert not segments(ours) and nn.BatchNorm2d not in kinds
    plain = [m for m in inside(ours).modules() if isinstance(m, Plain)]
    weights = [m.weight for m in plain if isinstance(m.op, Conv)]
    assert weights and all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)
    assert "normalizations folded" in str(report(ours)) and report(ours).layout == "NHWC"
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        off = (ours(x) - exact).abs().max() / exact.abs().max()
    assert report(ours).errors.ours == pytest.approx(float(off), rel=1e-6)
    for again in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        with torch.no_grad():
            same(again(x), model(x))


@pytest.mark.parametrize("uncut, count", ((1.0, 5), (3.0, 4)))
def test_a_slower_layer_is_kept_where_the_whole_is_faster(x, clock, uncut, count):
    model = made(nets.Residual)
    clock(1, original=4.0, folded=5.0, cut=2.0, uncut=uncut)
    ours = optimize(model, x)
    rows = report(ours).rows
    assert sum(row.runs != "torch" for row in rows) == len(rows) - 5 + count
    assert report(ours).whole == (min(uncut, 2.0), 4.0)
    with torch.no_grad():
        same(ours(x), model(x))


@pytest.mark.parametrize("wrong", (False, True))
def test_the_fastest_draft_is_proven_and_where_it_is_wrong_the_next(x, clock, monkeypatch, wrong):
    model = made(nets.Residual)
    clock(1, original=4.0, folded=5.0, cut=2.0, uncut=1.0)
    proven, prove, different = [], drafting.unproven, drafting.disagreement
    answers = iter(("it differs",) * wrong)
    monkeypatch.setattr(drafting, "unproven", lambda *given: proven.append(1) or prove(*given))
    monkeypatch.setattr(
        drafting, "disagreement", lambda *given: next(answers, "") or different(*given)
    )
    ours = optimize(model, x)
    assert report(ours).whole == ((2.0, 4.0) if wrong else (1.0, 4.0))
    assert len(proven) == 1 + wrong and next(answers, None) is None
    with torch.no_grad():
        same(ours(x), model(x))


@pytest.mark.parametrize(
    "lost, original, folded, cut, uncut",
    (
        (0, 4.0, 5.0, 2.0, None),
        (1, 4.0, 5.0, 2.0, 1.0),
        (1, 4.0, 5.0, 1.0, 2.0),
        (0, 4.0, 2.0, 3.0, 0),
    ),
    ids=("winogen", "uncut", "cut", "folded"),
)
def test_a_net_is_measured_once(
    x, clock, own_memory, monkeypatch, lost, original, folded, cut, uncut
):
    model = made(nets.Residual)
    clock(lost, original, folded, cut, uncut)
    first = optimize(model, x)
    drafts, make = [], decide.Decider.draft
    monkeypatch.setattr(
        decide.Decider, "draft", lambda self, uncut: drafts.append(uncut) or make(self, uncut)
    )
    for module, name in ((deciding, "_timed"), (wholes, "duel"), (wholes, "duel_of_wholes")):
        monkeypatch.setattr(module, name, None)
    for name in ("unproven", "Reference"):  # of the same numbers
        monkeypatch.setattr(drafting, name, None)
    again = optimize(model, x)
    assert drafts == [uncut == 1.0]
    assert report(again).rows == report(first).rows
    assert report(again).whole == report(first).whole and report(again).day
    assert f"measured on {report(again).day}: torch" in str(report(again))
    with torch.no_grad():
        assert torch.equal(again(x), first(x))
    assert report(again).errors == report(first).errors
    for other in (torch.randn(1, 3, 14, 10), x.contiguous(memory_format=torch.channels_last)):
        with pytest.raises(TypeError):
            optimize(model, other)
    with pytest.raises(TypeError):
        optimize(model, x, tolerance=1e-3)


def test_a_known_net_is_compared_by_its_own_kernels(clock, own_memory, monkeypatch):
    """On other sizes, too, for which others would be faster."""
    model, x = nn.Conv2d(64, 64, 3, padding=1).eval(), torch.randn(1, 64, 7, 7)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    first, wanted, compile_all = optimize(model, x), set(), segment.compile_all
    bound = [one for module in segments(first) for one in module.segment._bound.values()]
    own = {spec for one in bound for spec in one.planned.specs}
    monkeypatch.setattr(
        segment, "compile_all", lambda specs: wanted.update(specs) or compile_all(specs)
    )
    optimize(model, x)
    assert wanted == own


def test_other_numbers_are_proven_again(x, clock, own_memory, monkeypatch):
    """As accurately as they need: what was kept of others says nothing of them."""
    model = made(nets.Residual)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    usual = max(row.error for row in report(optimize(model, x)).rows)
    monkeypatch.setattr(ceilings, "USUAL", 0.0)
    monkeypatch.setattr(ceilings, "ENOUGH", 0.0)
    monkeypatch.setattr(ceilings, "_WORTH_IT", 0.0)
    monkeypatch.setattr(ceilings, "CEILINGS", (None, usual * 0.99))
    proven, prove = [], drafting.unproven
    monkeypatch.setattr(drafting, "unproven", lambda *given: proven.append(1) or prove(*given))
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    careful = optimize(model, x)
    assert proven and max(row.error for row in report(careful).rows) < usual
    assert report(optimize(model, x)).rows == report(careful).rows and len(proven) == 1
    monkeypatch.setattr(ceilings, "USUAL", 1e9)
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    assert max(row.error for row in report(optimize(model, x)).rows) == usual


def test_a_proof_that_does_not_hold_is_made_again(x, clock, own_memory, monkeypatch):
    model = made(nets.Residual)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    first = optimize(model, x)
    different, answers = drafting.disagreement, iter(("it differs",))
    monkeypatch.setattr(
        drafting, "disagreement", lambda *given: next(answers, "") or different(*given)
    )
    again = optimize(model, x)
    assert next(answers, None) is None
    assert report(again).tracer == report(first).tracer and report(again).rows == report(first).rows


@pytest.fixture
def witnesses(monkeypatch):
    """A list of the calls of `witnessed`, which runs a model on all kinds of inputs."""
    calls, module = [], sys.modules["winogen.torch.optimize"]
    run = module.witnessed
    monkeypatch.setattr(module, "witnessed", lambda *given: calls.append(1) or run(*given))
    return calls


@pytest.mark.parametrize("cut, folded", ((2.0, 5.0), (3.0, 2.0)), ids=("winogen", "folded"))
def test_a_later_process_runs_the_example_alone(x, clock, own_memory, witnesses, cut, folded):
    model = made(nets.Residual)
    clock(0, original=4.0, folded=folded, cut=cut)
    first = optimize(model, x)
    again = optimize(model, x)
    assert len(witnesses) == 1
    compared = report(first).compared.split(", ", 1)
    assert report(again).compared == "; in an earlier process on ".join(compared)
    with torch.no_grad():
        assert torch.equal(again(x), first(x))
    for one, other in zip(segments(again), segments(first), strict=True):
        assert one.segment._bound.keys() == one.segment._kept == other.segment._kept


@pytest.mark.parametrize(
    "change", ("weights", "example", "more", "code", "damage", "nonsense", "times", "disk")
)
def test_what_is_not_as_it_was_is_compared_on_all(
    change, x, clock, own_memory, witnesses, monkeypatch, tmp_path
):
    model = made(nets.Residual)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    more = []
    if change == "disk":
        monkeypatch.setattr("winogen.toolchain.cache.os.replace", None)
        monkeypatch.setattr(measured.texts.blobs, "write", lambda *given: None)
    optimize(model, x)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    if change == "weights":
        with torch.no_grad():
            next(model.parameters())[0, 0, 0, 0] += 1
    elif change == "example":
        x = x + 1e-3
    elif change == "more":
        more = [torch.randn(1, 3, 20, 20)]
    elif change == "code":
        monkeypatch.setattr(known.resources, "code_digest", lambda *folders: "another")
    for file in (tmp_path / "texts").glob("proof-*"):
        if change == "damage":
            file.write_bytes(file.read_bytes()[:-1])
        elif change == "nonsense":
            measured.texts.write(file.name, '{"signs": [], "day": "", "facts": 3}')
    for file in (tmp_path / "texts").glob("net-*"):
        if change == "times":
            file.unlink()
    ours = optimize(model, x, more_inputs=more)
    assert len(witnesses) == 2 and "earlier" not in report(ours).compared
    with torch.no_grad():
        same(ours(x), model(x))


def test_what_was_not_measured_is_by_the_next_process(x, clock, own_memory, witnesses, monkeypatch):
    """Each layer that an earlier one had no time for."""
    model = made(nets.Residual)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    with monkeypatch.context() as patch:
        patch.setattr(decide, "measure", lambda *given: [])
        first = optimize(model, x, seconds=None)
    assert {row.measured for row in report(first).rows} == {None} and report(first).whole
    clock(0, original=4.0, folded=5.0, cut=2.0)
    second = optimize(model, x, seconds=None)
    assert {row.measured for row in report(second).rows} == {1.0} and len(witnesses) == 2
    third = optimize(model, x, seconds=None)
    assert report(third).rows == report(second).rows and len(witnesses) == 2


class Remembers(nn.Module):
    """A model that begins to count calls when it is told to."""

    def __init__(self):
        super().__init__()
        self.conv, self.count = nn.Conv2d(3, 8, 3, padding=1), {}

    def forward(self, x):
        if COUNTS:
            self.count["calls"] = 1
        return self.conv(x)


COUNTS: list[int] = []


def test_a_model_that_began_to_keep_state_is_not_taken_for_the_same(
    x, clock, own_memory, witnesses, monkeypatch
):
    """As after a change of its code, which no digest sees."""
    model = Remembers().eval()
    clock(0, original=4.0, folded=5.0, cut=2.0)
    optimize(model, x)
    monkeypatch.setattr(sys.modules[__name__], "COUNTS", [1])
    ours = optimize(model, x)
    assert len(witnesses) == 2 and "a call changes count" in str(report(ours))


def test_who_waited_for_another_process_does_not_measure(x, clock, own_memory, witnesses):
    """Two begin at once with nothing known."""
    model = made(nets.Residual)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    results = []

    def work():
        results.append(optimize(model, x))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(witnesses) == 1 and len(results) == 2
    with torch.no_grad():
        assert torch.equal(results[0](x), results[1](x))


def test_what_another_thread_planned_is_the_same(x, monkeypatch):
    """Two that plan at once have candidates of their own, with arrays in them."""
    plan, model = deciding.ways_of, made(nets.Residual)
    wanted = [row.why for row in report(optimize(model, x)).rows]
    monkeypatch.setattr(deciding, "ways_of", lambda *given: copy.deepcopy(plan(*given)))
    assert wanted == [row.why for row in report(optimize(model, x)).rows]


def test_what_runs_otherwise_is_measured_again(x, clock, own_memory, monkeypatch):
    model = made(nets.Residual)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    optimize(model, x)
    clock(0, original=4.0, folded=5.0, cut=3.0)
    monkeypatch.setattr(deciding, "digest", lambda *facts: measured.digest("otherwise", *facts))
    assert report(optimize(model, x)).whole == (3.0, 4.0)


class Counting(nn.Module):
    """A model whose calls change it, so that its layers are replaced one by one."""

    def __init__(self):
        super().__init__()
        self.conv, self.calls = nn.Conv2d(3, 8, 3, padding=1), 0

    def forward(self, x):
        self.calls += 1
        return self.conv(x)


def test_a_model_that_is_left_alone_says_what_was_measured(clock, monkeypatch):
    clock(0, 1.0, 2.0, 3.0)
    monkeypatch.setattr(sys.modules["winogen.torch.optimize"], "is_every_layer", lambda: False)
    made = report(optimize(Counting().eval(), torch.randn(1, 3, 12, 12)))
    (row,) = made.rows
    assert (row.runs, row.measured, row.torch) == ("torch", 1.0, 2.0)
    text = " ".join(str(made).split())
    assert "torch, as it is, 1e+03 ms, winogen 3e+03 ms; torch's is kept" in text
    assert "left alone (a call changes calls; torch is faster in the whole model)" in text
    assert max(map(len, str(made).splitlines())) <= 100
