"""What an optimized model keeps: weights in a file, sizes that were prepared, and nothing else."""

import copy
import ctypes
import gc
import pickle
import sys
import tempfile
import threading
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conv.conftest import quick_kernels  # noqa: E402, F401
from graph import torch_nets as nets  # noqa: E402
from optimized import same, segments  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

from winogen.conv import memory  # noqa: E402
from winogen.conv.candidates import GAUSSIAN  # noqa: E402
from winogen.conv.choice import Choice  # noqa: E402
from winogen.errors import BuildError, InvalidType, InvalidValue, OutOfMemory  # noqa: E402
from winogen.graph import Conv, compiling, later  # noqa: E402
from winogen.graph.segment import _SHAPES_KEPT, plan  # noqa: E402
from winogen.records import Points  # noqa: E402
from winogen.torch import (  # noqa: E402
    optimize,
    packing,
    replacing,
    report,
    segment_op,
    swapping,
)
from winogen.torch.preparing import tidy  # noqa: E402
from winogen.torch.releasing import released  # noqa: E402
from winogen.torch.request import LayerOptions  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


def owner(array):
    """What an array's memory belongs to."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def in_file(tensor):
    """Whether the numbers of a tensor are in a file, by the map of the memory of this process."""
    address, maps = tensor.data_ptr(), Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("needs Linux")
    for line in maps.read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return "winogen-weights" in line or "(deleted)" in line
    raise AssertionError("no such memory")


class Tied(nn.Module):
    """One weight in two layers, one of them behind a view of it, and a head that torch computes."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nets.conv(), nets.conv()
        self.b.weight = self.a.weight
        self.first = nets.conv(3)
        self.head = nn.Linear(nets.C, 2)

    def forward(self, x):
        y = self.b(torch.relu(self.a(self.first(x))))
        return self.head(y.mean((2, 3)))


def made(net):
    return nets.normalized(net())


@pytest.mark.parametrize("net", (nets.Residual, nets.UNet, nets.Mobile, Tied))
def test_released_weights_are_in_a_file_and_nothing_else_differs(net, x):
    model = net().eval() if net is Tied else made(net)
    kept, ours = optimize(model, x), optimize(model, x, release_weights=True)
    with torch.inference_mode():
        assert torch.equal(ours(x), kept(x))
        other = torch.randn(2, 3, 14, 18)  # packed anew
        assert torch.equal(ours(other), kept(other))
    used = {id(parameter) for parameter in ours.winogen_fast.body.parameters()}
    for name, parameter in ours.named_parameters():
        assert in_file(parameter) == (id(parameter) not in used), name
    for segment in segments(ours):
        for node in segment.segment.graph.nodes:
            weight = getattr(node.op, "weight", None)
            if weight is not None:
                assert in_file(torch.from_numpy(getattr(weight, "filters", weight)))
    again = net()
    again.load_state_dict(ours.state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours(mine).sum().backward()
    model(theirs).sum().backward()
    same(mine.grad, theirs.grad, 1e-4)


def test_copies_of_released_models_are_released(x):
    ours = optimize(made(nets.Residual), x, release_weights=True)
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert again.winogen_released and in_file(again.conv1.weight)
        assert again.conv1.weight.data_ptr() != ours.conv1.weight.data_ptr()
        with torch.inference_mode():
            assert torch.equal(again(x), ours(x))
        with pytest.raises(InvalidValue, match="Train the original"):
            again.train()


def test_what_a_user_changes_in_a_released_model_is_seen(x):
    model = made(nets.Residual)
    ours, twin = optimize(model, x, release_weights=True), copy.deepcopy(model)
    with torch.no_grad():
        ours.conv1.weight.mul_(2)
        twin.conv1.weight.mul_(2)
        with pytest.warns(UserWarning, match="weights or fields of the copy"):
            assert torch.equal(ours(x), twin(x))
        assert not torch.equal(model(x), twin(x))
        seen = []
        model.conv1.register_forward_hook(lambda *given: seen.append(1))
        hooked = optimize(model, x, release_weights=True)
        same(hooked(x), model(x))


def test_tied_and_parametrized_weights(x):
    model = Tied().eval()
    parametrizations.weight_norm(model.first)
    ours = optimize(model, x, release_weights=True)
    assert ours.a.weight is ours.b.weight
    with torch.no_grad():
        same(ours(x), model(x))


def test_parameters_that_share_memory_still_do(x):
    whole = torch.randn(4, 6)
    rows = [nn.Parameter(whole[i : i + 2]) for i in (0, 2)] + [nn.Parameter(whole.t())]
    numbers, strides = [row.detach().clone() for row in rows], [row.stride() for row in rows]
    released([*rows, nn.Parameter(torch.empty(0))])
    for row, before, stride in zip(rows, numbers, strides):
        assert in_file(row) and torch.equal(row, before) and row.stride() == stride
    with torch.no_grad():
        rows[0][0, 0] = 7.0
    assert rows[2][0, 0] == 7.0 and whole[0, 0] != 7.0


def test_modules_that_were_replaced_release_theirs(x):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.calls = nets.conv(3), 0

        def forward(self, x):
            self.calls += 1
            return self.conv(x)

    model = Counting().eval()
    ours = optimize(model, x, release_weights=True)
    assert in_file(ours.conv.weight) and not in_file(ours.conv.bias) and ours.calls == 0
    with torch.no_grad():
        same(ours(x), model(x))


def test_no_room_for_the_weights(x, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OutOfMemory, match="release_weights: .*No space left.*TMPDIR"):
        optimize(made(nets.Shared), x, release_weights=True)
    with pytest.raises(InvalidType, match="release_weights: got 1; allowed: None, True or False"):
        optimize(made(nets.Shared), x, release_weights=1)
    least = optimize(made(nets.Shared), x, memory_limit=0)
    assert not least.winogen_released and not any(map(in_file, least.parameters()))


@pytest.mark.parametrize(
    "limit, release, is_released", ((None, None, False), (0, None, True), (0, False, False))
)
def test_the_least_memory_has_no_weights_in_it(x, limit, release, is_released):
    ours = optimize(made(nets.Residual), x, memory_limit=limit, release_weights=release)
    assert ours.winogen_released == is_released == in_file(ours.conv1.weight)


def test_only_what_is_asked_for_is_kept(x):
    """The proof ran other sizes, by kernels and by torch, on graphs that are gone."""
    model = made(nets.Residual)
    generator = torch.get_rng_state()
    ours = optimize(model, x)
    assert torch.equal(torch.get_rng_state(), generator)
    assert [len(segment.segment._bound) for segment in segments(ours)] == [1]
    assert not any(hasattr(segment._plain, "graph") for segment in segments(ours))
    weights = [tensor.untyped_storage().data_ptr() for tensor in ours.parameters()]
    ops = [node.op for node in segments(ours)[0].segment.graph.nodes]
    for weight in (op.weight for op in ops if isinstance(op, Conv)):  # folding took no memory
        filters = getattr(weight, "filters", weight)
        assert filters.ctypes.data in weights
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_more_inputs_are_prepared(x):
    model = made(nets.UNet)
    larger, batch = torch.randn(1, 3, 16, 24), torch.randn(3, 3, 12, 10)
    ours = optimize(model, x, more_inputs=[larger, (batch,)])
    assert {len(segment.segment._bound) for segment in segments(ours)} == {3}
    with torch.inference_mode():
        for inputs in (x, larger, batch):
            same(ours(inputs), model(inputs))
    assert {len(segment.segment._bound) for segment in segments(ours)} == {3}
    runs = [[row.runs for row in report(one).rows] for one in (ours, optimize(model, x))]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    "more, words",
    (
        (torch.randn(1, 3, 8, 8), "more_inputs: got Tensor; allowed: a list"),
        ([(1, 3, 8, 8)], "more_inputs.0.: got 1, 3, 8, 8; allowed: arguments as in example_"),
        ([3], "more_inputs.0.: got int"),
        ([torch.randn(3, 8, 8)], "torch.float32 .1, 3, 12, 10., of other sizes"),
        ([torch.randn(1, 3, 8, 8).double()], "got torch.float64 .1, 3, 8, 8."),
    ),
)
def test_inputs_unlike_the_example_are_refused(x, more, words):
    with pytest.raises((InvalidType, InvalidValue), match=words):
        optimize(made(nets.Shared), x, more_inputs=more)


def test_inputs_that_the_model_does_not_take_are_told_at_once(x, monkeypatch):
    monkeypatch.setattr(sys.modules["winogen.torch.optimize"], "Torch", None)
    with pytest.raises(InvalidValue, match=r"more_inputs\[1\]: got .*2, 5, 5.*; allowed: what the"):
        optimize(made(nets.Shared), x, more_inputs=[x, torch.randn(1, 2, 5, 5)])


class Cropping(nn.Module):
    """Pictures of up to 16 rows are as they are: a trace holds for either kind."""

    def __init__(self):
        super().__init__()
        self.conv = nets.conv(3)

    def forward(self, x):
        return self.conv(x if x.shape[2] <= 16 else x[:, :, :16])


def test_inputs_that_segments_cannot_take_are_in_the_report(x):
    model, larger = Cropping().eval(), torch.randn(1, 3, 20, 10)
    ours = optimize(model, x, more_inputs=[torch.randn(1, 3, 13, 10), larger])
    (refused,) = report(ours).refused
    assert refused.startswith("more_inputs[1] (sizes for which the trace") and segments(ours)
    text = " ".join(str(report(ours)).split())
    assert refused in text and "more_inputs[0], more_inputs[1]" in text
    with pytest.warns(UserWarning, match="sizes for which the trace"):
        same(ours(larger), model(larger))


@pytest.fixture
def compiler(monkeypatch):
    """No kernel is at hand, and the compiler waits for ``go``."""
    go, compiled = threading.Event(), []

    def compile_one(spec):
        assert go.wait(60)
        compiled.append(spec)

    monkeypatch.setattr(later, "is_every_layer", lambda: False)
    monkeypatch.setattr(compiling, "at_hand", compiled.__contains__)
    monkeypatch.setattr(compiling, "_compile", compile_one)
    monkeypatch.setattr(compiling, "_background", {})
    monkeypatch.setattr(segment_op, "_told", set())
    monkeypatch.setattr(later, "_planners", {})
    go.compiled = compiled
    yield go
    go.set()


def compilers(name="winogen compiles"):
    return [thread for thread in threading.enumerate() if thread.name == name]


def planned():
    for thread in compilers("winogen plans"):
        thread.join(60)


def finish(go):
    go.set()
    planned()
    for thread in compilers():
        thread.join(60)


def test_torch_computes_a_new_size_until_its_kernels_are_compiled(x, compiler):
    model = made(nets.Residual)
    ours, other = optimize(model, x), torch.randn(2, 3, 14, 18)
    (only,) = segments(ours)
    with torch.inference_mode():
        known = ours(x)
        theirs = model(other)
        for _ in range(2):
            assert torch.equal(ours(other), theirs)
        planned()
        assert len(only.segment._bound) == 1 and compilers()
        finish(compiler)
        assert len(set(compiler.compiled)) == len(compiler.compiled) > 0
        assert torch.equal(ours(other), theirs)  # while a thread packs
        planned()
        assert not torch.equal(ours(other), theirs)
        same(ours(other), model(other))
        assert len(only.segment._bound) == 2 and torch.equal(ours(x), known)


def test_a_size_is_planned_once(x, compiler, monkeypatch):
    """However many calls come before its kernels are there."""
    model, plans = made(nets.Shared), []
    ours, other = optimize(model, x), torch.randn(2, 3, 14, 18)
    noted = lambda *args: plans.append(args) or plan(*args)
    monkeypatch.setattr("winogen.graph.segment.plan", noted)
    with torch.inference_mode():
        for _ in range(3):
            ours(other)
        finish(compiler)
        same(ours(other), model(other))
        finish(compiler)
    assert len(plans) == len(segments(ours))
    assert all(len(one.segment._bound) == 2 for one in segments(ours))


def test_no_call_of_a_new_size_waits_for_its_plan(x, compiler, monkeypatch):
    model, asked, go = made(nets.Residual), [], threading.Event()
    ours, other = optimize(model, x), torch.randn(2, 3, 14, 18)

    def slow(*args):
        asked.append(threading.current_thread().name)
        assert go.wait(60)
        return plan(*args)

    monkeypatch.setattr("winogen.graph.segment.plan", slow)
    with torch.inference_mode():
        for _ in range(3):
            same(ours(other), model(other))
        go.set()
        finish(compiler)
    assert set(asked) == {"winogen plans"}


def test_sizes_that_come_once_each_do_not_wait_in_an_endless_row(x, compiler, monkeypatch):
    ours = optimize(made(nets.Residual), x)
    monkeypatch.setattr(later, "_MOST_WAITING", 0)
    with torch.inference_mode():
        ours(torch.randn(2, 3, 14, 18))
    assert not any(planners.unfinished for planners in later._planners.values())


def test_a_model_that_is_gone_is_not_planned_for(x, compiler, monkeypatch):
    ours = optimize(made(nets.Residual), x)
    (only,) = segments(ours)
    work = (weakref.ref(only.segment), ((1, 3, 5, 5),), 1)
    del ours, only
    gc.collect()
    later._advance(work)
    assert work[0]() is None


def test_prepared_sizes_stay(x):
    model = made(nets.Shared)
    sizes = [torch.randn(1, 3, 12, 10 + place) for place in range(1 + _SHAPES_KEPT)]
    ours = optimize(model, x, more_inputs=sizes[1:])
    with torch.inference_mode():
        before = [list(one.segment._bound.values()) for one in segments(ours)]
        for width in range(40, 41 + _SHAPES_KEPT):
            ours(torch.randn(1, 3, 12, width))
    for one, prepared in zip(segments(ours), before):
        assert list(one.segment._bound.values())[: len(sizes)] == prepared
        assert len(one.segment._bound) == len(sizes) + _SHAPES_KEPT


def test_a_compiler_that_fails_is_told_once_and_torch_computes(x, compiler, monkeypatch):
    def fail(spec):
        raise BuildError("no space left")

    model, other = made(nets.Shared), torch.randn(2, 3, 14, 18)
    ours = optimize(model, x)
    again = torch.compile(ours, backend="aot_eager")
    monkeypatch.setattr(compiling, "_compile", fail)
    with torch.inference_mode(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for call in (ours, ours, again, again, ours):
            theirs = model(other), segments(ours)[0].plain()(other)[0]
            assert any(torch.equal(call(other), one) for one in theirs)
            finish(compiler)
    about = [str(one.message) for one in said if "no space left" in str(one.message)]
    assert len(about) == 1 and "docs/torch.md" in about[0]


def test_what_is_wrong_with_a_plan_is_told(x, compiler, monkeypatch):
    """And no size is to blame."""
    model = made(nets.Shared)
    ours = optimize(model, x)
    monkeypatch.setenv("WINOGEN_COMPILE", "never")
    with torch.no_grad(), pytest.warns(UserWarning, match="WINOGEN_COMPILE: got 'never'"):
        same(ours(torch.cat([x, x])), model(torch.cat([x, x])))


def test_a_call_may_wait_for_the_compiler(x, compiler, monkeypatch):
    model = made(nets.Shared)
    monkeypatch.setenv("WINOGEN_COMPILE", "missing")
    ours = optimize(model, x)
    with torch.inference_mode():
        ours(torch.randn(1, 3, 16, 24))
    assert all(len(segment.segment._bound) == 2 for segment in segments(ours))
    assert not compilers()
    monkeypatch.setenv("WINOGEN_COMPILE", "never")
    with pytest.raises(InvalidValue, match="WINOGEN_COMPILE: got 'never'; allowed: off, missing"):
        compiling.compile_soon([])


class Counting(nn.Module):
    """It counts its calls, so that nothing can trace it and its layers are exchanged."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Conv2d(32, 48, 3, padding=1), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


def plan_of(layer, x):
    """How a layer that was exchanged computes this input, which lies as the example."""
    layers = packing.entry(layer.weight).layers.items()
    (conv,) = (one.conv for key, one in layers if "NCHW" in key)
    return conv.plan(tuple(x.shape))


@pytest.mark.parametrize("limit, times", [(None, 3), (0, 2), (1 << 40, 9)])
def test_layers_that_are_exchanged_keep_to_the_limit(limit, times):
    x = torch.randn(1, 32, 24, 24)
    ours = optimize(Counting().eval(), x, memory_limit=limit)
    with torch.no_grad():
        ours(x)
    found = report(ours)
    (row,) = found.rows
    plan = plan_of(ours.layer, x)
    assert plan.packed_weight_bytes == row.packed_bytes <= times * found.weight_bytes
    assert row.runs.startswith(plan.algorithm) and len(found.budgets) == 3


def test_layers_that_are_exchanged_have_the_points_that_were_chosen():
    """Their errors are those of the report, and no larger."""
    options = swapping._options(Choice("mcmr", (4, 6), (None, GAUSSIAN)), (3, 3))
    assert options.moduli == (None, "x, x - 3/4, x + 3/4, x - 4/3, x + 4/3, x^2 + 1, inf")
    layer, x = nn.Conv2d(32, 48, 3, padding=1), torch.randn(1, 32, 24, 24)
    replacing.exchange({"layer": layer}, options)
    with torch.no_grad():
        layer(x)
    plan = plan_of(layer, x)
    assert plan.tile == (4, 6) and plan.packed_weight_bytes == 6 * 9 * layer.weight.nbytes // 9
    mixed = swapping._options(
        Choice("mcmr", (2, 6), (Points("points", ("0", "1", "-1/2", "inf")), GAUSSIAN)), (3, 3)
    )
    layer = nn.Conv2d(32, 48, 3, padding=1)
    replacing.exchange({"layer": layer}, mixed)
    with torch.no_grad():
        layer(x)
    height, width = plan_of(layer, x).moduli
    assert height == ("x", "x - 1", "x + 1/2", "inf") and "x^2 + 1" in width
    assert swapping._options(Choice("mcmr", (4, 6)), (3, 3)) == LayerOptions("mcmr", (4, 6))


class TwoTypes(Counting):
    def __init__(self):
        super().__init__()
        self.other = nn.Conv2d(48, 32, 3, padding=1).double()

    def forward(self, x):
        return self.other(super().forward(x).double())


def test_what_measuring_took_is_given_back():
    optimize(nn.Conv2d(32, 48, 3, padding=1).eval(), torch.randn(1, 32, 24, 24))
    assert memory.workspace(1).size < 1 << 10


def test_layers_of_two_types_share_a_limit():
    x, model = torch.randn(1, 32, 24, 24), TwoTypes().eval()
    most = report(optimize(model, x, memory_limit=1 << 40)).packed_bytes
    found = report(optimize(model, x, memory_limit=most // 2))
    assert [row.runs == "torch" for row in found.rows] == [False] * 2
    assert found.packed_bytes <= most // 2


def test_mkl_keeps_nothing_of_the_comparison_in_float64(x):
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    if not hasattr(library, "mkl_serv_mem_stat"):
        pytest.skip("torch has no MKL here")
    library.mkl_serv_mem_stat.restype = ctypes.c_int64

    def held():
        return library.mkl_serv_mem_stat(ctypes.byref(ctypes.c_int(0)))

    tidy()
    others = held()  # for threads of tests before
    torch.randn(256, 2048).double() @ torch.randn(2048, 512).double()
    assert held() > others
    optimize(nn.Sequential(nn.Conv2d(3, 64, 3)).eval(), x)
    assert held() <= others
