"""What is read of a trace does not depend on how a call spells its arguments."""

import inspect

import pytest
import torch
from torch import fx, nn
from torch.overrides import get_testing_overrides

from winogen.graph import Opaque
from winogen.testing import every_layer
from winogen.torch import optimize, report, translate
from winogen.torch.plain import PlainGraph
from winogen.torch.reading import read
from winogen.torch.segment_op import SegmentModule
from winogen.torch.tracing import _Noting

C = 8
MAPS = {"input": 0, "self": 0, "other": 1}
# Arguments by name; tensors other than maps are weights.
GIVEN = {
    "running_mean": torch.zeros(C), "running_var": torch.ones(C), "bias": torch.ones(C),
    "training": False, "train": False, "eps": 1e-3, "momentum": 0.1, "cudnn_enabled": False,
    "dim": 1, "keepdim": True, "kernel_size": 2, "stride": 2, "padding": 1, "dilation": 1,
    "pad": (1, 0, 2, 1), "upscale_factor": 2, "scale_factor": 2, "scale_factors": [2.0, 2.0],
    "groups": 2, "output_size": (1, 1), "start": 1, "end": 5, "alpha": 1, "p": 0.5,
    "negative_slope": 0.2, "min": -1.0, "max": 2.0, "min_val": -1.0, "max_val": 2.0,
    "threshold": 20, "beta": 1, "approximate": "tanh", "ceil_mode": False, "shape": (1, C, 6, 4),
    "size": (1, C, 6, 4),
}  # fmt: skip
NAMED = {
    ("weight", "conv2d"): torch.randn(C, C // 2, 3, 3),
    ("weight", "conv3d"): torch.randn(C, C // 2, 3, 3, 3),
    ("weight", "batch_norm"): torch.ones(C),
    ("weight", "prelu"): torch.rand(C),
    ("dim", "mean"): (2, 3),
    ("output_size", "adaptive_avg_pool3d"): (1, 1, 1),
    ("output_size", "upsample_nearest2d"): None,
    ("output_size", "upsample_nearest3d"): None,
    ("scale_factors", "upsample_nearest3d"): [2.0, 2.0, 1.0],
    ("size", "interpolate"): None,
    ("other", "div"): 2.0,
}


def signature(target, name):
    """The parameters of a function: their names, and whether they can be given by position."""
    if isinstance(target, torch._ops.OpOverload):
        return {one.name: not one.kwarg_only for one in target._schema.arguments}
    known = get_testing_overrides()
    homes = (torch, nn.functional, torch.Tensor)
    found = [target, *(getattr(home, name.rstrip("_"), None) for home in homes)]
    parameters = inspect.signature(next((known[f] for f in found if f in known), target)).parameters
    names = {n: one.kind is one.POSITIONAL_OR_KEYWORD for n, one in parameters.items()}
    return names | {"keepdim": False} if name == "mean" else names


def read_of(kind, target, by_name):
    """Operators and results of what is read of a call; None where torch refuses the call."""
    torch.manual_seed(0)
    function = getattr(torch.Tensor, target) if kind == "call_method" else target
    name = getattr(function, "__name__", "").partition(".")[0]
    root, graph = nn.Module(), fx.Graph()
    # No inputs: these may not change in place.
    maps = [graph.call_function(torch.add, (graph.placeholder(one), 1.0)) for one in "xy"]
    args, kwargs = [], {}
    leading = kind == "call_method" or not by_name
    for one, positional in signature(function, name).items():
        given = NAMED.get((one, name.rstrip("_")), GIVEN.get(one))
        if (one in MAPS and given is None) or one == "tensors":
            given = maps if one == "tensors" else maps[MAPS[one]]
        elif isinstance(given, torch.Tensor):
            root.register_buffer(one, given)
            given = graph.get_attr(one)
        elif given is None and (one, name) not in NAMED:
            leading = False
            continue
        leading = leading and positional and not (by_name and args)
        if leading:
            args.append(given)
        else:
            kwargs[one] = given
    graph.output(graph.create_node(kind, target, tuple(args), kwargs))
    size = (1, C, 4, 6, 4) if "3d" in name else (1, C, 6, 4)
    module, inputs = fx.GraphModule(root, graph), [torch.rand(size), torch.rand(size)]
    try:
        with torch.no_grad():
            _Noting(module).run(*inputs)
    except (TypeError, RuntimeError):
        return None
    found = read(module).graph
    ops = [node.op for node in found.nodes]
    left = any(isinstance(op, Opaque) and op.payload.op != "get_attr" for op in ops)
    return [str(op) for op in ops], None if left else PlainGraph(found)(*inputs)[0]


KINDS = {"call_function": translate._FUNCTIONS, "call_method": translate._METHODS}
CALLS = [
    (kind, target)
    for kind, table in KINDS.items()
    for target in table
    if getattr(target, "__module__", "") != "_operator"  # by position only
]


def named(value):
    """What every process calls it: the text of a function has its address."""
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize("kind, target", CALLS, ids=named)
def test_arguments_by_name_are_read_as_those_by_position(kind, target):
    by_position, by_name = (read_of(kind, target, one) for one in (False, True))
    if by_name is None:
        pytest.skip("torch does not take it")
    if by_position is not None:
        assert by_name[0] == by_position[0]
    if "reshape" in str(target) or "view" in str(target):  # alone, they mean nothing
        return
    assert by_name[1] is not None
    assert by_position is None or torch.equal(by_name[1], by_position[1])


class Named(nn.Module):
    """A shuffle net whose calls give every argument by name."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, C, 3, padding=1), nn.Conv2d(C, C, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.act(input=self.first(input=x))
        a, b = y.chunk(chunks=2, dim=1)
        c, d = torch.split(tensor=y, split_size_or_sections=C // 2, dim=1)
        y = torch.cat(tensors=(torch.add(input=a, other=d), b * c), dim=1)
        n, _, h, w = y.shape
        y = y.view(size=(n, 2, C // 2, h, w)).transpose(dim0=1, dim1=2)
        y = torch.reshape(input=y, shape=(n, C, h, w))
        y = torch.nn.functional.max_pool2d(input=self.last(input=y), kernel_size=2)
        mean = y.mean(dim=(2, 3), keepdim=True).view(size=(n, -1))
        twice = torch.add(input=y, other=y).view(size=(n, -1))
        return torch.permute(input=y, dims=(0, 2, 3, 1)), mean, twice


def test_a_net_of_calls_by_name_is_one_segment():
    model, x = Named().eval(), torch.randn(1, 3, 12, 10)
    with every_layer():
        ours = optimize(model, x)
    modules = [m for m in ours.winogen_fast.body.modules() if isinstance(m, SegmentModule)]
    assert len(modules) == 1 and report(ours).tracer == "torch.fx"
    kinds = [str(node.op).split()[0] for node in modules[0].segment.graph.nodes]
    assert "shuffle" in kinds and kinds.count("channels") == 4
    with torch.no_grad():
        for one in (x, torch.randn(2, 3, 8, 14)):
            torch.testing.assert_close(ours(one), model(one))


class Counting(Named):
    """It counts its calls, so that nothing can trace it and its layers are exchanged."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def test_layers_that_are_called_by_name_are_exchanged():
    with every_layer():
        found = report(optimize(Counting().eval(), torch.randn(1, 3, 12, 10)))
    assert len(found.rows) == 2 and all(row.runs != "torch" for row in found.rows)


class Scaled(nn.Module):
    """Factors that are weights; with one image they look like those of squeeze-and-excite."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, C, 3), nn.Conv2d(C, C, 3)
        self.scale, self.gate = (nn.Parameter(torch.rand(1, C, 1, 1)) for _ in range(2))

    def forward(self, x):
        y = torch.sigmoid(self.gate) * (self.first(x) * self.scale)
        return self.last(y)


def test_factors_that_are_weights_hold_for_other_batches(monkeypatch):
    model, x = Scaled().eval(), torch.randn(1, 3, 12, 10)
    with every_layer():
        ours = optimize(model, x)
    modules = [m for m in ours.winogen_fast.body.modules() if isinstance(m, SegmentModule)]
    for module in modules:
        monkeypatch.setattr(module, "plain", None)  # no part is torch's at another size
    assert modules
    with torch.no_grad(), ours.winogen_tested():
        torch.testing.assert_close(ours(torch.cat([x, x])), model(torch.cat([x, x])))
