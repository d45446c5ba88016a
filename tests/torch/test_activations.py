"""torch's functions of the table are recognized, fused, and computed like torch does."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import winogen.torch
from winogen.conv import arguments
from winogen.graph import Conv
from winogen.records import ACTIVATIONS
from winogen.records.activations import spelled
from winogen.testing import every_layer
from winogen.torch import optimize
from winogen.torch.activating import FUNCTIONS, METHODS, MODULES
from winogen.torch.segment_op import SegmentModule

GIVEN = {"leaky_relu": (0.25,), "clip": (-0.5, 0.75), "prelu": (torch.tensor([0.1, -0.2, 0.3]),)}


def calls():
    """Ways to call each function of the table: an activation's name, what it is, what calls it."""
    for known in ACTIVATIONS.values():
        given = GIVEN.get(known.name, known.defaults)
        for function in known.torch:
            arguments = known.given(function, given)
            assert arguments is not None, "its defaults are torch's own"
            if function.module and not known.per_filter:
                yield known.name, function.module, getattr(nn, function.module)(**arguments)
            for name in function.names.split():
                for home in (F, torch, torch.Tensor):
                    if hasattr(home, name):
                        label = f"{home.__name__}.{name}"
                        yield known.name, label, Called(home, name, arguments)


class Called(nn.Module):
    """A function with arguments."""

    def __init__(self, home, name, arguments):
        super().__init__()
        self.method = name if home is torch.Tensor else None
        self.function = None if self.method else getattr(home, name)
        for key, value in arguments.items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(key, value)
        self.keys, self.arguments = [*self._buffers], arguments

    def forward(self, x):
        values = {**self.arguments, **{key: getattr(self, key) for key in self.keys}}
        if self.method:
            return getattr(x, self.method)(**values)
        return self.function(x, **values)


CALLS = [pytest.param(*call, id=f"{call[0]} {call[1]}") for call in calls()]


@pytest.mark.parametrize("name, label, called", CALLS)
def test_a_call_becomes_part_of_the_convolution(name, label, called):
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 3, 3)
    model, x = nn.Sequential(conv, called).eval(), torch.randn(2, 4, 9, 9)
    with every_layer():
        fast = optimize(model, x)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-6)
    inside = fast.winogen_fast.body.modules()
    (made,) = (module for module in inside if isinstance(module, SegmentModule))
    (node,) = made.segment.graph.nodes
    assert isinstance(node.op, Conv)
    assert arguments.activation(node.op.activation).activation == name


@pytest.mark.parametrize("name", [n for n, known in ACTIVATIONS.items() if not known.per_filter])
def test_derivatives_of_any_order(name):
    known = ACTIVATIONS[name]
    given = GIVEN.get(name, known.defaults)
    options = {"padding": 1, "activation": spelled(name, given)}
    double = {"dtype": torch.float64, "requires_grad": True}
    x, w = torch.randn(1, 2, 3, 3, **double), torch.randn(2, 2, 2, 2, **double)

    def by_operator(x, w):
        return torch.ops.winogen.convolution(x, w, None, 1, [1], activation=name, parameters=given)

    def by_function(x, w):
        return winogen.torch.conv2d(x, w, **options)

    for function in (by_operator, by_function):
        assert torch.autograd.gradcheck(function, (x, w))
        assert torch.autograd.gradgradcheck(function, (x, w))


def test_other_arguments_are_other_functions():
    """Of what only looks like an activation, torch keeps the rest."""
    aten = torch.ops.aten
    known = {*FUNCTIONS, *MODULES, *METHODS}
    assert {aten.relu_.default, aten.clamp.default, F.relu, nn.ReLU, "clamp_"} <= known
    x = torch.randn(1, 4, 8, 8)
    for other in (
        lambda y: torch.clamp(y, 0.5, -0.5),
        lambda y: torch.clamp(y, min=0.25),
        lambda y: F.leaky_relu(y, float("inf")),
        lambda y: F.softplus(y, beta=2),
        lambda y: F.softplus(y, threshold=1),
        lambda y: torch.ops.aten.elu.default(y, 1.0, 2.0),
        lambda y: F.elu_(y + 0, 1.0, 2.0),
    ):
        model = nn.Sequential(nn.Conv2d(4, 3, 3), Called(Other(other), "call", {})).eval()
        with every_layer():
            fast = optimize(model, x)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x), equal_nan=True)
        inside = fast.winogen_fast.body.modules()
        for made in (module for module in inside if isinstance(module, SegmentModule)):
            assert made.segment.graph.nodes[-1].op.activation is None


class Other:
    """A home of functions, for `Called`."""

    def __init__(self, call):
        self.call = call
