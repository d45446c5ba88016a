"""Copies of models: weights that are computed become plain ones, and a run leaves no trace."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

from winogen.torch.copies import State, bare, evaluated, restored

COMPUTED = {
    "weight_norm": lambda: parametrizations.weight_norm(nn.Conv2d(3, 4, 3)),
    "spectral_norm": lambda: parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Conv2d(3, 4, 3)),
    "old weight_norm": lambda: weight_norm(nn.Conv2d(3, 4, 3)),
    "old spectral_norm": lambda: spectral_norm(nn.Conv2d(3, 4, 3)),
    "pruned": lambda: prune.l1_unstructured(nn.Conv2d(3, 4, 3), "weight", 0.5),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("kind", COMPUTED)
def test_computed_weights_become_plain_and_the_model_keeps_its_own(kind):
    model, x = nn.Sequential(COMPUTED[kind](), nn.Conv2d(4, 2, 1)), torch.randn(1, 3, 8, 8)
    model(x)  # in training mode: weights have a history
    names = list(model.state_dict())
    own = evaluated(model)
    plain = bare(own)
    assert type(plain[0]) is nn.Conv2d and not plain[0]._forward_pre_hooks
    with torch.no_grad():
        wanted = own(x)
        torch.testing.assert_close(plain(x), wanted)
        plain[0].weight.zero_()
        assert torch.equal(own(x), wanted)
    assert plain[1].weight is own[1].weight
    assert list(model.state_dict()) == names == list(own.state_dict())
    model(x).sum().backward()  # still trains


class Counting(nn.Module):
    """Keeps state of every kind."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.inner = nn.Module()
        self.calls, self.seen, self.inner.last = 0, [], {}

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape)
        self.inner.last["x"] = x
        self.total += 1
        self.added = x
        return x + random.random() + np.random.rand() + torch.rand(())


def test_a_run_leaves_no_trace():
    model, x = Counting(), torch.ones(2)
    with restored(model) as state:
        first = model(x)
        assert set(state.changes()) == {"calls", "seen", "inner.last", "total", "added"}
    assert (model.calls, model.seen, model.inner.last) == (0, [], {})
    assert torch.equal(model.total, torch.zeros(2)) and not hasattr(model, "added")
    assert torch.equal(model(x), first)  # as the generators of random numbers are back, too


def test_statistics_that_torch_does_not_count_are_seen():
    """Their tensor has the same version as before."""
    norm = nn.BatchNorm2d(3)
    state = State(norm)
    before = norm.running_mean.clone()
    with torch.no_grad():
        norm(torch.randn(2, 3, 4, 4))
    assert "running_mean" in state.changes()
    state.restore()
    assert torch.equal(norm.running_mean, before) and not State(norm).changes()


def test_written_parameters_are_told():
    layer = nn.Conv2d(3, 4, 3)
    state = State(layer)
    with torch.no_grad():
        layer.weight.mul_(2)
    assert state.rewritten() == [layer.weight] and state.changes() == ["weight"]
