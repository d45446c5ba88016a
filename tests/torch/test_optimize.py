"""Optimized models compute what torch computes, or refuse: every kind of net, every use of it."""

import copy
import io
import itertools
import pickle

import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from graph import torch_nets as nets  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from winogen.errors import InvalidType, InvalidValue, Unsupported, WinogenError  # noqa: E402
from winogen.graph import Conv, GlobalAverage, ceilings, measured, segment  # noqa: E402
from winogen.tasks import duel  # noqa: E402
from winogen.tasks.duel import Times  # noqa: E402
from winogen.toolchain import cache_dir  # noqa: E402
from winogen.torch import deciding, drafting, optimize, report, wholes  # noqa: E402
from winogen.torch.segment_op import SegmentModule  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


def tensors(output):
    if isinstance(output, torch.Tensor):
        return [output]
    items = output.values() if isinstance(output, dict) else output
    return [t for item in items if not isinstance(item, int) for t in tensors(item)]


def same(ours, theirs, tolerance=1e-5):
    for one, other in zip(tensors(ours), tensors(theirs), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert (one - other).abs().max() <= tolerance * other.abs().max()


def made(net):
    return nets.normalized(net())


def inside(model):
    """What runs: the body of segments, or the copy itself."""
    return model.winogen_model if model.winogen_fast is None else model.winogen_fast.body


def segments(model):
    return [module for module in inside(model).modules() if isinstance(module, SegmentModule)]


@pytest.mark.parametrize("net", nets.ALL, ids=lambda net: net.__name__)
def test_every_kind_of_net(net, x):
    model = made(net)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ours = optimize(model, x)
    with torch.inference_mode():
        same(ours(x), model(x))
        other = torch.randn(2, 3, 14, 8)  # shapes and an order that it was not made for
        same(ours(other), model(other))
        same(ours(other.contiguous(memory_format=torch.channels_last)), model(other))
    assert segments(ours) and not any(type(m) is nn.Conv2d for m in inside(ours).modules())
    if net in (nets.Dense, nets.Inception, nets.Squeezed, nets.Shuffled):
        (segment,) = segments(ours)
        assert [type(node.target) for node in inside(ours).graph.nodes].count(str) == 3 and segment
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    table = report(ours)
    assert table.errors.ours < 1e-5 and table.packed_bytes <= 3 * table.weight_bytes
    small, usual, large = table.budgets
    assert small.packed_bytes <= usual.packed_bytes <= 3 * table.weight_bytes
    assert table.packed_bytes <= usual.packed_bytes <= large.packed_bytes
    assert min(one.predicted for one in table.budgets) > 0
    assert f"bytes at {large.times_weights} x" in str(table)
    for row in table.rows:
        assert row.name in str(table) and row.predicted and row.measured and row.torch


def test_what_is_fused(x):
    """One segment: five convolutions, the pooling and the linear layer, nothing else."""
    ours = optimize(made(nets.Residual), x)
    (only,) = segments(ours)
    kinds = [type(node.op) for node in only.segment.graph.nodes]
    assert kinds == [Conv] * 5 + [GlobalAverage, Conv]
    assert [m for m in inside(ours).modules() if isinstance(m, (nn.BatchNorm2d, nn.ReLU))] == []
    first, *_ = segments(optimize(made(nets.Shared), x))
    assert len(first.segment.graph.nodes) == 3


def test_float64_and_larger_batches():
    model, x = made(nets.Residual).double(), torch.randn(3, 3, 12, 10, dtype=torch.float64)
    with torch.no_grad():
        same(optimize(model, x)(x), model(x), 1e-12)


def test_zero_batch(x):
    model = made(nets.Mobile)
    ours = optimize(model, x)
    assert ours(x[:0]).shape == model(x[:0]).shape


def test_later_changes_of_the_weights_have_no_effect(x):
    model = made(nets.Shared)
    ours = optimize(model, x)
    before = ours(x)
    with torch.no_grad():
        model.conv.weight.mul_(2)
    assert torch.equal(ours(x), before)


def test_copies_and_pickles(x):
    ours = optimize(made(nets.UNet), x)
    wanted = ours(x)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    for again in (
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(file, weights_only=False),
    ):
        assert torch.equal(again(x), wanted)
        assert str(report(again)) == str(report(ours))
        numbers = {module.number for module in (*segments(ours), *segments(again))}
        assert len(numbers) == 2 * len(segments(ours))


def test_a_file_of_another_version_is_refused(x, monkeypatch):
    from winogen.graph import ir

    ours = optimize(made(nets.Shared), x)
    with monkeypatch.context() as patch:
        patch.setattr(ir, "FORMAT", 99)
        text = pickle.dumps(ours)
    with pytest.raises(InvalidValue, match="optimize the model again"):
        pickle.loads(text)


def test_training_is_refused_and_gradients_are_right(x):
    model = made(nets.Residual)
    ours = optimize(model, x)
    assert ours.eval() is ours
    with pytest.raises(InvalidValue, match="Train the original"):
        ours.train()
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours(mine).sum().backward()
    model(theirs).sum().backward()
    same(mine.grad, theirs.grad, 1e-4)
    assert not any(parameter.requires_grad for parameter in ours.parameters())


def test_other_types_and_devices_are_refused(x):
    ours = optimize(made(nets.Mobile), x)
    for change in (ours.double, ours.half, lambda: ours.to("meta")):
        with pytest.raises(Unsupported, match="Convert the original"):
            change()
    assert ours.to(torch.float32) is ours and ours.to("cpu") is ours
    with pytest.raises(RuntimeError, match="Double"):  # as the model itself says it
        ours(x.double())


def test_autocast_is_left_to_the_copy_with_one_warning(x):
    model = made(nets.Mobile)
    ours = optimize(model, x)
    with (
        torch.inference_mode(),
        torch.autocast("cpu", torch.bfloat16),
        pytest.warns(UserWarning, match="and not faster: a call under autocast") as warned,
    ):
        assert torch.equal(ours(x), model(x)) and ours(x).dtype == torch.bfloat16
    assert len(warned) == 1
    with torch.inference_mode():
        same(ours(x), model(x))


def test_a_trace_computes_on_new_inputs(x):
    model = made(nets.Shared)
    ours = optimize(model, x)
    with torch.no_grad():
        trace = torch.jit.trace(ours, x)
        other = torch.randn_like(x)
        same(trace(other), model(other))
    with pytest.raises(InvalidValue, match="still exists"):  # as in another process
        torch.ops.winogen.segment([x], 12345)


def test_the_operator_keeps_to_its_schema(x):
    (only,) = segments(optimize(made(nets.Shared), x))
    torch.library.opcheck(torch.ops.winogen.segment.default, ([x], only.number))


def test_compiled_by_dynamo(x):
    model = made(nets.UNet)
    ours = torch.compile(optimize(model, x), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        same(ours(x), model(x))


def test_named_and_typed_layers_stay_with_torch(x):
    model = made(nets.Residual)
    by_name = optimize(model, x, exclude=["conv1", "down"])
    inner = dict(inside(by_name).named_modules())
    assert type(inner["conv1"]) is nn.Conv2d and type(inner["down.0"]) is nn.Conv2d
    assert "conv2" not in inner
    by_type = optimize(model, x, exclude=[nn.Conv2d, nn.Linear])
    assert segments(by_type) == []
    assert {row.why for row in report(by_type).rows} == {"excluded"}
    assert {row.name for row in report(by_name).rows if row.why == "excluded"} == {
        "conv1",
        "down.0",
    }
    with torch.no_grad():
        same(by_name(x), model(x))
        same(by_type(x), model(x))


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
        for module in (duel, drafting):
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
    weights = [m.weight for m in inside(ours).modules() if getattr(m, "kind", "") == "conv"]
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


@pytest.fixture
def remembering(monkeypatch, tmp_path):
    """What is measured is kept in a folder of this test."""
    monkeypatch.setattr(measured, "is_every_layer", lambda: False)
    monkeypatch.setattr(measured.wisdom, "path", lambda: cache_dir() / "wisdom.jsonl")
    monkeypatch.setattr(measured.texts, "cache_root", lambda: tmp_path)


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
    x, clock, remembering, monkeypatch, lost, original, folded, cut, uncut
):
    model = made(nets.Residual)
    clock(lost, original, folded, cut, uncut)
    first = optimize(model, x)
    drafts, make = [], drafting.Drafts.made
    monkeypatch.setattr(
        drafting.Drafts, "made", lambda self, uncut: drafts.append(uncut) or make(self, uncut)
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


def test_a_known_net_is_compared_by_its_own_kernels(clock, remembering, monkeypatch):
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


def test_other_numbers_are_proven_again(x, clock, remembering, monkeypatch):
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


def test_a_proof_that_does_not_hold_is_made_again(x, clock, remembering, monkeypatch):
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


def test_what_runs_otherwise_is_measured_again(x, clock, remembering, monkeypatch):
    model = made(nets.Residual)
    clock(0, original=4.0, folded=5.0, cut=2.0)
    optimize(model, x)
    clock(0, original=4.0, folded=5.0, cut=3.0)
    monkeypatch.setattr(deciding, "digest", lambda *facts: measured.digest("otherwise", *facts))
    assert report(optimize(model, x)).whole == (3.0, 4.0)


def test_memory_limit(x):
    model = made(nets.Residual)
    free = optimize(model, x, memory_limit=1 << 30)
    bytes_of = sum(m.segment.packed_bytes for m in segments(free))
    limit = int(0.7 * report(free).packed_bytes)
    tight = optimize(model, x, memory_limit=limit)
    assert report(tight).packed_bytes <= limit < report(free).packed_bytes
    assert sum(m.segment.packed_bytes for m in segments(tight)) < bytes_of
    assert "smaller filters" in str(report(tight))
    with torch.no_grad():
        same(tight(x), model(x))
    with pytest.raises(InvalidValue, match="memory_limit: got 10"):
        optimize(model, x, memory_limit=10)
    least = optimize(model, x, memory_limit=0)
    weights = report(least).weight_bytes
    assert weights <= report(least).packed_bytes <= min(2 * weights, report(tight).packed_bytes)
    with torch.no_grad():
        same(least(x), model(x))
        other = torch.randn(2, 3, 14, 18)
        same(least(other), model(other))
    assert all(len(module.segment._bound) == 2 for module in segments(least))


def test_tolerance(x):
    model = made(nets.Residual)
    coarse, fine = (optimize(model, x, tolerance=t) for t in (1e-3, 1e-6))
    assert max(row.error for row in report(fine).rows) < 1e-6
    assert max(row.error for row in report(coarse).rows) >= max(
        row.error for row in report(fine).rows
    )


@pytest.mark.parametrize("least", (0.0, 1e9))
def test_layers_are_computed_more_carefully_until_the_output_is_accurate(x, monkeypatch, least):
    """As long as the error is too large, by a factor that nothing reaches, if that gains enough."""
    model = made(nets.Residual)
    usual = max(row.error for row in report(optimize(model, x)).rows)
    monkeypatch.setattr(ceilings, "USUAL", 0.0)
    monkeypatch.setattr(ceilings, "ENOUGH", 0.0)
    monkeypatch.setattr(ceilings, "_WORTH_IT", least)
    monkeypatch.setattr(ceilings, "CEILINGS", (None, 1.0, usual * 0.99))
    careful = optimize(model, x)
    most = max(row.error for row in report(careful).rows)
    assert most == usual if least else most < usual
    with torch.no_grad():
        same(careful(x), model(x))


class InPlace(nn.Module):
    """A sum is cut off in place: what reads it later must see that."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nets.conv(3), nets.conv()

    def forward(self, x):
        y = self.a(x)
        z = F.relu(y, inplace=True)
        y2 = self.b(y)  # of what is cut off
        z.mul_(2)
        return y2 + z + y


class SeenByView(nn.Module):
    """A view of the map sees the change in place."""

    def __init__(self):
        super().__init__()
        self.a = nets.conv(3)

    def forward(self, x):
        y = self.a(x)
        view = y[:, :4]
        y.relu_()
        return view


class Assigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nets.conv(3), nets.conv()

    def forward(self, x):
        y = self.a(x)
        y[:, 0] = 0
        return self.b(y)


class Branching(nn.Module):
    """Control flow on numbers, and a list of modules of unknown length: nothing can trace it."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nets.conv(3), nets.conv()

    def forward(self, x):
        y = self.a(x)
        for _ in range(1 + int(float(y.sum()) > 1e9)):
            y = self.b(y)
        return y


class Viewed(nn.Module):
    """`view` of a map is no view when the channels lie last."""

    def __init__(self):
        super().__init__()
        self.a = nets.conv(3)

    def forward(self, x):
        y = self.a(x)
        return y.view(y.size(0), -1)


@pytest.mark.parametrize("net", [InPlace, SeenByView, Assigned, Branching, Viewed])
def test_models_that_are_hard_to_trace_are_right(net, x):
    model = net().eval()
    ours = optimize(model, x)
    with torch.no_grad():
        same(ours(x.clone()), model(x.clone()))
    assert ("replaced" in str(report(ours))) == (net is Branching)
    assert ("traced by torch.export" in str(report(ours))) == (net in (SeenByView, Assigned))
    again = pickle.loads(pickle.dumps(ours))
    with torch.no_grad():
        assert torch.equal(again(x.clone()), ours(x.clone()))


def test_replaced_modules_may_be_shared_or_excluded(x):
    class Shared(Branching):
        def __init__(self):
            super().__init__()
            self.c = self.b

        def forward(self, x):
            return self.c(super().forward(x))

    model = Shared().eval()
    ours = optimize(model, x, exclude=["a"])
    assert type(inside(ours).a) is nn.Conv2d and inside(ours).b is inside(ours).c
    assert type(inside(ours).b) is not nn.Conv2d
    with torch.no_grad():
        same(ours(x), model(x))


def test_hooks_and_subclasses_are_left_alone(x):
    class Doubled(nn.Conv2d):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(nets.conv(3), Doubled(nets.C, nets.C, 3), nets.conv()).eval()
    model[2].register_forward_hook(lambda module, args, output: output + 1)
    ours = optimize(model, x)
    with torch.no_grad():
        same(ours(x), model(x))


def test_a_model_without_convolutions_is_itself(x):
    model = nn.Sequential(nn.Flatten(), nn.Linear(360, 2)).eval()
    ours = optimize(model, x)
    assert torch.equal(ours(x), model(x)) and report(ours).rows == ()


def test_arguments_are_checked_before_any_work(x):
    model = made(nets.Shared)
    cases = (
        ((torch.relu, x), {}, "model"),
        ((model, [[1.0]]), {}, None),
        ((model, 3), {}, "example_inputs"),
        ((model.half(), x), {}, "float"),
    )
    for arguments, options, words in cases[:1] + cases[2:3]:
        with pytest.raises(InvalidType, match=words):
            optimize(*arguments, **options)
    with pytest.raises(InvalidType, match="model.float"):
        optimize(made(nets.Shared).half(), x)
    model = made(nets.Shared)
    for options in (
        {"tolerance": -1},
        {"threads": 0},
        {"memory_limit": -5},
        {"exclude": "conv"},
        {"exclude": ["nothing"]},
        {"exclude": [3]},
    ):
        with pytest.raises(WinogenError, match=next(iter(options))):
            optimize(model, x, **options)
    with pytest.raises(InvalidValue, match="optimized"):
        optimize(optimize(model, x), x)
    with pytest.raises(InvalidType, match="optimize returned"):
        report(model)
    with pytest.raises(
        InvalidType, match=r"example_inputs: got \(1, 3, 64, 64\); allowed: a tensor"
    ):
        optimize(model, (1, 3, 64, 64))
    with pytest.raises(InvalidValue, match="model: got lazy layers"):
        optimize(nn.Sequential(nn.LazyConv2d(4, 3)), x)
