"""A slice of the fuzzing in `fuzz_graphs.py`, that it would notice, and what it has found."""

import copy
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import fuzz_graphs  # noqa: E402
from random_graphs import Made  # noqa: E402
from torch import nn  # noqa: E402

import winogen.torch  # noqa: E402
from winogen.graph.planning import Outlines  # noqa: E402
from winogen.testing import every_layer  # noqa: E402
from winogen.torch import deciding  # noqa: E402

DRAWS = [pytest.mark.thorough, pytest.mark.draws]
PIECES = [(0, 4), *(pytest.param(i, i + 5, marks=DRAWS) for i in range(4, 24, 5))]


@pytest.mark.parametrize("begin, end", PIECES)
def test_random_graphs_are_computed_right(begin, end):
    found = {index: fuzz_graphs.run(20261126, index)[0] for index in range(begin, end)}
    assert not {index: wrong for index, wrong in found.items() if wrong}


def test_a_graph_follows_from_its_seed_and_index():
    one, same, other = (Made(3, index).source for index in (7, 7, 8))
    assert one == same != other


def test_graphs_have_everything():
    text = "".join(Made(1, index).source for index in range(60))
    for piece in (
        "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
        "'same'", "'circular'", "torch.cat", "F.pad", ".double()", "if ", "F.conv", "+=",
    ):  # fmt: skip
        assert piece in text, piece


class Spoiled(nn.Module):
    """An optimized model that does something else than the original."""

    def __init__(self, model, how):
        super().__init__()
        self.model, self.how = copy.deepcopy(model).eval(), how

    def forward(self, *args, **kwargs):
        y = self.model(*args, **kwargs)
        if self.how == "other numbers":
            return y * 1.01
        if self.how == "another type":
            return y.double()
        return y.transpose(-1, -2).contiguous().transpose(-1, -2)


class Plain:
    """A graph of one layer."""

    shape, gradient, source = (1, 2, 6, 6), True, ""

    def model(self):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(2, 3, 3))


@pytest.mark.parametrize(
    "how, word", (("other numbers", "off by"), ("another type", "dtype"), ("not dense", "contig"))
)
def test_what_is_wrong_is_noticed(how, word, monkeypatch):
    assert fuzz_graphs.check(Plain()) == []
    monkeypatch.setattr(
        fuzz_graphs.winogen.torch, "optimize", lambda model, example: Spoiled(model, how)
    )
    (found,) = fuzz_graphs.check(Plain())
    assert word in found


class Reshaped(nn.Module):
    """Behind a segment, whose results may have their channels last, and the input as it came."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3)

    def forward(self, x):
        y = self.conv(x)
        return y.reshape(y.shape[0] * y.shape[1], 1, *y.shape[2:]).relu(), x


def test_outputs_of_strided_inputs_are_contiguous_as_the_models(monkeypatch):
    last = lambda sized, settings: Outlines(sized, replace(settings, layout="NHWC"))
    monkeypatch.setattr(deciding, "faster_layout", last)
    model, around = Reshaped().eval(), torch.randn(1, 8, 12, 20)
    with every_layer():
        ours = winogen.torch.optimize(model, around[..., :10].contiguous())
    for x in (around[..., ::2], around[..., :10], around[..., :10].contiguous()):
        with torch.no_grad():
            theirs, found = model(x), ours(x)
        for one, other in zip(found, theirs):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
            assert one.is_contiguous() or not other.is_contiguous()
        assert found[1] is x
