"""Which calls are like an example, and what they hold."""

import copy
import pickle
from collections import namedtuple

import pytest
import torch
from torch import nn

from winogen.torch.calling import Calls, CallStructure

X, OTHER = torch.ones(1, 3, 4, 4), torch.zeros(2, 3, 9, 9)


class Net(nn.Module):
    def forward(self, x, scale=2.0, *, mask=None, extra=()):
        return x


@pytest.mark.parametrize(
    "args, kwargs",
    (
        ((OTHER,), {}),
        ((OTHER, 2.0), {}),
        ((), {"x": OTHER}),
        ((OTHER,), {"scale": 2.0, "mask": None}),
        ((nn.Parameter(OTHER),), {}),
    ),
)
def test_calls_that_are_alike(args, kwargs):
    (tensor,) = Calls(Net(), (X,), {}).tensors_of(args, kwargs)
    assert torch.equal(tensor, OTHER)


@pytest.mark.parametrize(
    "args, kwargs",
    (
        ((OTHER.double(),), {}),
        ((OTHER[0],), {}),
        ((OTHER, 3.0), {}),
        ((OTHER, 2), {}),
        ((OTHER,), {"mask": OTHER}),
        ((OTHER,), {"extra": (1,)}),
        ((OTHER,), {"unknown": 1}),
        (([OTHER],), {}),
        ((OTHER.to_sparse(),), {}),
        ((OTHER.to("meta"),), {}),
        ((), {}),
    ),
)
def test_calls_that_are_not(args, kwargs):
    assert Calls(Net(), (X,), {}).tensors_of(args, kwargs) is None


def test_a_tensor_that_is_given_twice():
    class Two(nn.Module):
        def forward(self, x, y):
            return x

    twice, apart = Calls(Two(), (X, X), {}), Calls(Two(), (X, X.clone()), {})
    assert len(twice.tensors) == 1 and len(apart.tensors) == 2
    assert twice.tensors_of((OTHER, OTHER), {}) == [OTHER]
    assert twice.tensors_of((OTHER, OTHER.clone()), {}) is None
    assert apart.tensors_of((OTHER, OTHER), {}) is None
    args, _ = twice.arguments([OTHER])
    assert args[0] is args[1] is OTHER


def test_a_hook_sees_arguments_as_they_were_given():
    model = Net()
    model.register_forward_pre_hook(lambda module, args: None)
    calls = Calls(model, (X,), {})
    assert calls.tensors_of((OTHER,), {}) and calls.tensors_of((), {"x": OTHER}) is None


def test_what_is_no_tensor_is_copied():
    """As an object of a class that torch does not know, with a tensor in it."""
    held = type("Held", (), {})()
    held.image = X.clone()
    calls = Calls(nn.Identity(), (held,), {})
    (given,), _ = calls.arguments([])
    given.image.zero_()
    assert torch.equal(held.image, X) and type(given) is type(held)


Pair = namedtuple("Pair", "left right")


def test_structures_travel():
    value = {"b": [1, (2, None)], "a": Pair(3, {"c": 4})}
    leaves, structure = CallStructure.of(value)
    for again in (pickle.loads(pickle.dumps(structure)), copy.deepcopy(structure)):
        assert again == structure and again.filled(leaves) == value
    assert structure != CallStructure.of({"b": [1, (2, None)], "a": (3, {"c": 4})})[1]
