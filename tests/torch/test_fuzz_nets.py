"""A slice of the fuzzing in `fuzz_nets.py`, and that it would notice."""

import pytest

torch = pytest.importorskip("torch")

import fuzz_nets  # noqa: E402
from random_nets import net_of  # noqa: E402

import winogen.torch  # noqa: E402
from winogen.torch.report import Report  # noqa: E402

SEED = 20261122

# Each net takes seconds; short pieces keep all processes of a run busy to its end.
DRAWS = [pytest.mark.thorough, pytest.mark.draws]
PIECES = [(0, 4), *(pytest.param(i, i + 11, marks=DRAWS) for i in range(4, 70, 11))]


@pytest.mark.parametrize("begin, end", PIECES)
def test_random_nets_are_computed_right(begin, end):
    results = [fuzz_nets.run(SEED, index) for index in range(begin, end)]
    wrong = [(result.index, *result.wrong) for result in results if result.wrong]
    assert not wrong, wrong
    plain = [result for result in results if not result.opaque]
    left, every = (sum(getattr(r, name) for r in plain) for name in ("left", "convolutions"))
    assert every > begin - end and left < 0.5 * every


def test_a_net_follows_from_its_seed_and_index():
    assert net_of(3, 7) == net_of(3, 7) != net_of(3, 8)
    assert len({net_of(3, index).source for index in range(50)}) == 50


def test_nearly_all_nets_run():
    failing = []
    for index in range(60):
        net = net_of(5, index)
        made = net.load()
        try:
            with torch.no_grad():
                made["model"]()(*made["inputs"](net.batch, *net.size)[0])
        except Exception as error:
            failing.append((index, error))
    assert len(failing) <= 3, failing


def test_nets_have_everything():
    text = "".join(net_of(1, index).source for index in range(300))
    for piece in (
        "Conv2d", "torch.cat", " += ", "add_(", "inplace=True", ".chunk(", "register_forward_hook",
        "register_forward_pre_hook", "weight_norm", "prune", "if x.shape[0] > 1", "assert ", "Box(",
        "Pair(", ".double()", "register_buffer", "ModuleList", "GroupNorm", "F.interpolate",
        "ConvTranspose2d", "groups=8", "mask=None", "**options", "F.pad(", "torch.no_grad()",
    ):  # fmt: skip
        assert piece in text, piece


def spoiled(how):
    """An `optimize` whose models do something else than the original."""

    def optimize(model, example):
        def call(*args, **kwargs):
            if how == "raises":
                raise RuntimeError("no")
            if how == "refuses a batch" and args and args[0].shape[0] != example[0].shape[0]:
                raise RuntimeError("no")
            with torch.no_grad():
                y = model(*args, **kwargs)
                if how == "changes an input":
                    args[0].mul_(2)
            if how == "ends the process":
                import os

                os._exit(3)
            return {"returns a tuple": (y,), "returns other numbers": y * 1.01}.get(how, y)

        return call

    return optimize


@pytest.mark.parametrize(
    "how",
    ("returns a tuple", "returns other numbers", "raises", "refuses a batch", "changes an input"),
)
def test_what_is_wrong_is_noticed(how, monkeypatch):
    texts = ((i, net_of(1, i).source) for i in range(100))
    index = next(
        i for i, text in texts if "forward(self, x):" in text and "        return v" in text
    )
    monkeypatch.setattr(fuzz_nets.winogen.torch, "report", lambda model: Report())
    monkeypatch.setattr(fuzz_nets.winogen.torch, "optimize", spoiled(how))
    result = fuzz_nets.run(1, index)
    assert result.wrong and "the check itself" not in result.wrong[0], result.wrong
    monkeypatch.setattr(fuzz_nets.winogen.torch, "optimize", spoiled("is right"))
    assert fuzz_nets.run(1, index).wrong == []


def test_a_process_that_dies_is_a_failure_of_its_net_alone(monkeypatch):
    """The second of three nets ends its process; the others have results."""
    monkeypatch.setattr(fuzz_nets, "_work", _dying)
    found = {result.index: result.wrong for result in fuzz_nets.results(1, range(3), jobs=1)}
    assert found[0] == found[2] == [] and "CRASH" in found[1][0]


def _dying(seed, quickly, pipe):
    """What a process does; it imports this file, and so none of the tests' other helpers."""
    import os

    while (index := pipe.recv()) is not None:
        if index == 1:
            os._exit(139)
        pipe.send(fuzz_nets.Result(index))


def test_the_module_under_test_is_ours():
    assert fuzz_nets.winogen.torch is winogen.torch
