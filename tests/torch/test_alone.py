"""Models that nothing can trace: their layers of every kind are exchanged, each on its own."""

import copy
import pickle

import pytest
import torch
from torch import nn

import winogen.torch
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.torch import alone, optimize, report
from winogen.torch.base import ConvolutionModule

pytestmark = pytest.mark.usefixtures("never_torch")


class Counting(nn.Module):
    """It counts its calls, so that nothing can trace it."""

    def __init__(self, *layers):
        super().__init__()
        self.layers, self.calls = nn.Sequential(*layers), 0

    def forward(self, x):
        self.calls += 1
        return self.layers(x)


NETS = {
    "signals": lambda: (
        nn.Conv1d(4, 6, 3, padding="same", padding_mode="reflect"), nn.ReLU(),
        nn.Conv1d(6, 4, 4, stride=2, dilation=2, padding=3, groups=2),
        nn.ConvTranspose1d(4, 6, 5, stride=3, padding=1, output_padding=2, groups=2),
    ),
    "maps": lambda: (
        nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.SiLU(),
        nn.ConvTranspose2d(6, 4, (4, 2), stride=2, padding=(1, 0), dilation=(1, 2)),
    ),
    "volumes": lambda: (
        nn.Conv3d(4, 6, (1, 3, 2), padding=(0, 2, 1), padding_mode="circular"), nn.Hardtanh(),
        nn.ConvTranspose3d(
            6, 4, 3, stride=(1, 2, 2), padding=1, output_padding=(0, 1, 0), groups=2
        ),
    ),
}  # fmt: skip
SIZES = {"signals": (23,), "maps": (9, 7), "volumes": (3, 7, 5)}
LAST = {"maps": torch.channels_last, "volumes": torch.channels_last_3d}


def inputs(name, batch=2):
    return torch.randn(batch, 4, *SIZES[name])


def close(ours, theirs, bound=1e-5):
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    scale = theirs.detach().abs().max() if theirs.numel() else 1.0
    torch.testing.assert_close(ours, theirs, atol=float(bound * scale), rtol=0)


@pytest.mark.parametrize(
    "name, dtype", [*((name, torch.float32) for name in NETS), ("signals", torch.float64)]
)
def test_layers_of_every_kind_are_exchanged(name, dtype):
    model = Counting(*NETS[name]()).eval().to(dtype)
    x = inputs(name).to(dtype)
    ours = optimize(model, x)
    rows = report(ours).rows
    layers = [one for one in ours.modules() if hasattr(one, "kernel_size")]
    assert len(rows) == len(layers) and all(row.runs != "torch" for row in rows)
    assert all(isinstance(layer, ConvolutionModule) for layer in layers)
    assert [row.name for row in rows] == [n for n, one in ours.named_modules() if one in layers]
    assert list(ours.state_dict()) == list(model.state_dict())
    bound = 1e-5 if dtype == torch.float32 else 1e-12
    others = [x, x[:0], x[0], inputs(name, 3).to(dtype), x[..., 1:], x[:, :, ::2].contiguous()]
    if name in LAST:
        others.append(x.contiguous(memory_format=LAST[name]))
    for one in others:
        if name == "maps" and one.dim() == 3:
            continue  # nn.BatchNorm2d takes no image without a batch
        with torch.no_grad():
            theirs, y = model(one), ours(one)
        close(y, theirs, bound)
        if one.numel():
            if name in LAST and one.is_contiguous(memory_format=LAST[name]):
                # Ours stays so, where torch's own padding forgets it.
                theirs = theirs.contiguous(memory_format=LAST[name])
            assert y.stride() == theirs.stride()
    assert ours.calls == model.calls
    for made in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        with torch.no_grad():
            close(made(x), model(x), bound)


class Sized(Counting):
    """An output size comes with the call, and a hook sees it."""

    def forward(self, x):
        self.calls += 1
        first, last = self.layers
        return last(first(x), output_size=[2 * n for n in x.shape[2:]])


def test_calls_with_an_output_size_and_hooks():
    model = Sized(nn.Conv3d(4, 6, 3, padding=1), nn.ConvTranspose3d(6, 2, 3, stride=2, padding=1))
    seen = []
    model.layers[0].register_forward_hook(lambda *_: seen.append(1))
    x = torch.randn(1, 4, 3, 4, 5)
    ours = optimize(model.eval(), x)
    runs = {row.name: row.runs for row in report(ours).rows}
    first, last = runs["layers.0"], runs["layers.1"]
    assert last != "torch" and first == "torch"  # what a hook does nobody knows
    with torch.no_grad():
        expected, before = model(x), len(seen)
        close(ours(x), expected)
    assert len(seen) == before + 1


def test_the_packed_filters_keep_to_the_limit():
    layers = nn.Conv3d(16, 32, 3, padding=1), nn.ConvTranspose3d(32, 16, 4, stride=2)
    model, x = Counting(*layers).eval(), torch.randn(1, 16, 4, 8, 8)
    bytes_of, times = {}, {}
    for limit in (None, 0, 1 << 40):
        found = report(optimize(model, x, memory_limit=limit))
        bytes_of[limit], times[limit] = found.packed_bytes, found.weight_bytes
        assert all(row.runs != "torch" for row in found.rows)
    assert bytes_of[0] <= bytes_of[None] <= bytes_of[1 << 40]
    assert bytes_of[0] < 1.1 * times[0] and bytes_of[None] <= 3 * times[None]
    assert "limit of memory" in str(report(optimize(model, x, memory_limit=1 << 10)))


def test_a_tolerance_out_of_reach_is_said():
    model = Counting(nn.Conv1d(4, 4, 3)).eval()
    with pytest.raises(InvalidValue, match="tolerance: got 1e-12"):
        optimize(model, torch.randn(1, 4, 9), tolerance=1e-12)


def test_torch_keeps_what_it_computes_faster(monkeypatch):
    monkeypatch.setattr(alone, "in_turns", lambda *_: alone.Times(2.0, 1.0))
    monkeypatch.setattr("winogen.tasks.duel.is_every_layer", lambda: False)
    model, x = Counting(nn.Conv1d(4, 4, 3)).eval(), torch.randn(1, 4, 9)
    ours = optimize(model, x)
    (row,) = report(ours).rows
    assert row.runs == "torch" and torch.equal(ours(x), model(x))
    assert vars(ours.layers[0]).keys() == vars(model.layers[0]).keys()
    assert ours.layers[0]._buffers == {}  # measuring left nothing behind


def test_released_weights_are_read_where_they_are():
    model, x = Counting(nn.Conv3d(4, 8, 3), nn.ConvTranspose3d(8, 4, 2)).eval(), inputs("volumes")
    ours = optimize(model, torch.randn(1, 4, 5, 6, 7), release_weights=True)
    with torch.no_grad():
        close(ours(x), model(x))
    assert torch.equal(ours.state_dict()["layers.0.weight"], model.layers[0].weight)


# --- the layers themselves

KINDS = [
    (getattr(nn, name), getattr(winogen.torch, name), rank)
    for rank in (1, 2, 3)
    for name in (f"Conv{rank}d", f"ConvTranspose{rank}d")
]
EVERY = pytest.mark.parametrize("kind, ours, rank", KINDS)


@EVERY
def test_a_layer_of_another_ones_parameters(kind, ours, rank):
    theirs = kind(4, 6, 3, stride=2, padding=1, groups=2)
    made = ours.from_module(theirs, activation="relu")
    assert made.weight is theirs.weight and type(made) is ours and "activation='relu'" in str(made)
    x = torch.randn(2, 4, *(5, 6, 7)[-rank:])
    with torch.no_grad():
        close(made(x), theirs(x).relu())
        theirs.weight.data.mul_(2)  # which nothing counts
        made.repack()
        close(made(x), theirs(x).relu())


@pytest.mark.parametrize("kind, ours, rank", [one for one in KINDS if one[0] is not nn.Conv2d])
def test_a_layer_of_no_such_kind(kind, ours, rank):
    with pytest.raises(InvalidType, match=f"module: got Linear; allowed: an nn.{kind.__name__}"):
        ours.from_module(nn.Linear(2, 2))
    with pytest.raises(InvalidValue, match="tolerance"):
        ours.from_module(kind(2, 2, 3), tolerance=-1)


@pytest.mark.parametrize("name", ("conv1d", "conv3d", "conv_transpose1d", "conv_transpose3d"))
@pytest.mark.parametrize(
    "options", ({"groups": [1]}, {"algorithm": ["direct"]}, {"tolerance": [1]})
)
def test_lists_where_there_is_one_thing(name, options):
    x = torch.randn(1, 2, *(5,) * int(name[-2]))
    with pytest.raises((InvalidType, InvalidValue), match=f"{next(iter(options))}: got"):
        getattr(winogen.torch, name)(x, torch.randn(2, 2, *(3,) * int(name[-2])), **options)


@EVERY
def test_slopes_belong_to_the_state(kind, ours, rank):
    made = ours(4, 6, 3, activation=("prelu", nn.Parameter(torch.rand(6)))).double()
    assert "slopes" in made.state_dict() and made.slopes.dtype == torch.float64
    x = torch.randn(2, 4, *(5, 6, 7)[-rank:], dtype=torch.float64)
    plain = kind(4, 6, 3).double()
    plain.load_state_dict({n: t for n, t in made.state_dict().items() if n != "slopes"})
    close(made(x), nn.functional.prelu(plain(x), made.slopes), 1e-12)
    made(x).sum().backward()
    assert made.slopes.grad is not None
    again = pickle.loads(pickle.dumps(made))
    assert torch.equal(again(x), made(x))


@EVERY
def test_scripts_get_a_plain_layer(kind, ours, rank):
    layer, x = ours(4, 6, 3), torch.randn(2, 4, *(5, 6, 7)[-rank:])
    close(torch.jit.script(nn.Sequential(layer))(x), layer(x))
    with pytest.raises(Unsupported, match=f"got a winogen.torch.{kind.__name__} with activation"):
        torch.jit.script(nn.Sequential(ours(4, 6, 3, activation="relu")))


GRADED = [
    ("Conv1d", {"stride": 2, "dilation": 2, "padding": 3, "groups": 2}),
    ("Conv3d", {"padding": "same", "padding_mode": "replicate", "groups": 2}),
    ("ConvTranspose1d", {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2}),
    ("ConvTranspose3d", {"stride": (1, 2, 2), "output_padding": (0, 1, 0), "groups": 2}),
]


@pytest.mark.parametrize("name, options", GRADED)
def test_gradients_of_layers(name, options):
    layer = getattr(winogen.torch, name)(2, 2, 3, dtype=torch.float64, **options)
    x = torch.randn(1, 2, *(2, 3, 3)[-int(name[-2]) :], dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]
    function = lambda x, *numbers: torch.func.functional_call(layer, dict(zip(names, numbers)), x)
    assert torch.autograd.gradcheck(function, (x, *layer.parameters()))


@pytest.mark.parametrize("name, options", GRADED)
def test_compiled_layers_and_other_types(name, options):
    layer = getattr(winogen.torch, name)(2, 4, 3, **options)
    plain = getattr(nn, name)(2, 4, 3, **options)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 2, *(3, 5, 4)[-int(name[-2]) :])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for one in (x, x[0]):
        close(compiled(one), plain(one))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == plain(x).dtype == torch.bfloat16
    with pytest.raises(RuntimeError):
        plain(x.double())
    with pytest.raises((RuntimeError, InvalidType)):
        layer(x.double())
