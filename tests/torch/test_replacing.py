"""`replace`: a model trains as it did, with winogen's layers in it."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

import winogen.torch
from winogen.errors import InvalidType, InvalidValue, WinogenError

FORMATS = (torch.contiguous_format, torch.channels_last)


class Block(nn.Module):
    """A block of a ResNet, everything in place that can be."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.second(self.relu(self.norm(self.first(x))))
        y += x
        return self.relu(y)


def net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(inplace=True),
        Block(8),
        nn.Conv2d(8, 8, 3, stride=2, padding="valid", padding_mode="reflect"),
        nn.SiLU(inplace=True),
        Block(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


def kinds(model):
    return [type(m) for m in model.modules() if isinstance(m, nn.Conv2d)]


def close(one, other, bound=1e-5):
    assert (one - other).abs().max() <= bound * other.abs().max().clamp(min=1)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_training_goes_as_it_did(memory_format):
    theirs = net().to(memory_format=memory_format)
    ours = copy.deepcopy(theirs)
    steps = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (theirs, ours)]
    assert winogen.torch.replace(ours) is ours
    assert kinds(ours) == [winogen.torch.Conv2d] * 6
    for _ in range(5):
        x = torch.randn(4, 3, 12, 11).to(memory_format=memory_format)
        target = torch.randint(5, (4,))
        losses = []
        for model, optimizer in zip((theirs, ours), steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        assert abs(losses[0] - losses[1]) <= 1e-4
    for one, other in zip(ours.parameters(), theirs.parameters()):
        close(one.grad, other.grad, 1e-3)
    with torch.inference_mode():
        close(ours.eval()(x), theirs.eval()(x), 1e-3)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("activation", (nn.ReLU, nn.SiLU, nn.Hardswish, nn.LeakyReLU))
def test_what_follows_may_change_the_output_in_place(activation, memory_format):
    theirs = nn.Conv2d(3, 8, 3)
    ours = winogen.torch.replace(copy.deepcopy(theirs))
    x = torch.randn(2, 3, 9, 9).to(memory_format=memory_format)
    results = []
    for layer in (theirs, ours):
        for given in (x, x[0]):
            image = given.clone().requires_grad_()
            y = layer(image)
            y.mul_(2)
            y += 1
            y[..., 1:].sub_(0.5)
            y = activation(inplace=True)(y)
            results.append(
                (y, *torch.autograd.grad(y.square().sum(), (image, *layer.parameters())))
            )
    for of_torch, of_ours in zip(results[:2], results[2:]):
        for one, other in zip(of_ours, of_torch):
            assert one.shape == other.shape
            close(one, other)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("size", (9, 200))  # a small output, and one of more than a megabyte
def test_no_output_is_a_view(size, memory_format):
    layer = winogen.torch.Conv2d(4, 8, 3, padding=((0, 1), (2, 1)))
    x = torch.randn(1, 4, size, size).to(memory_format=memory_format).requires_grad_()
    shift = nn.Parameter(torch.ones(1))
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        for _ in range(2):  # the second call is a short one
            with mode():
                y = layer(x)
                assert not y._is_view() and y.is_contiguous(memory_format=memory_format)
                y.relu_()
            if mode is torch.no_grad:
                y.add_(shift)  # a view that was made without gradients would refuse
    for stride in (1, 2):
        arguments = [stride, stride], [0, 1, 2, 1], [1, 1], 1
        y = torch.ops.winogen.convolution(x.detach(), layer.weight.detach(), None, *arguments[:2])
        of_input = torch.ops.winogen.convolution(
            y, layer.weight.detach(), None, *arguments, transposed=True
        )
        of_weight = torch.ops.winogen.convolution_weight_gradient(x.detach(), y, [3, 3], *arguments)
        assert not (y._is_view() or of_input._is_view() or of_weight._is_view())


def test_a_gradient_of_one_pixel_is_no_view():
    y = torch.randn(1, 1, 1, 1)
    weight = torch.randn(1, 1, 3, 3)
    x = torch.randn(1, 1, 1, 1, requires_grad=True)
    torch.ops.winogen.convolution(x, weight, None, [2, 2], [2, 0, 2, 0]).backward(y)
    result = x.grad
    assert not result._is_view()


def test_a_layer_stays_the_object_that_it_was():
    layer = nn.Conv2d(3, 4, 3, dtype=torch.float64).eval().requires_grad_(False)
    seen = []

    def drop_bias(module, state, prefix, metadata):
        del state[f"{prefix}bias"]

    layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    layer.register_forward_hook(lambda module, args, y: seen.append(module) or y + 1)
    layer.register_state_dict_post_hook(drop_bias)
    weight, x = layer.weight, torch.randn(1, 3, 8, 8, dtype=torch.float64)
    expected = layer(x)
    assert winogen.torch.replace(layer) is layer and type(layer) is winogen.torch.Conv2d
    close(layer(x), expected, 1e-12)
    assert seen == [layer, layer] and list(layer.state_dict()) == ["weight"]
    assert layer.weight is weight and not layer.training and not layer.weight.requires_grad


def test_shared_layers_stay_shared():
    shared = nn.Conv2d(4, 4, 3, padding=1)
    model = nn.Sequential(shared, nn.ReLU(), nn.Sequential(shared))
    model.listed = [shared]
    x = torch.randn(1, 4, 8, 8)
    expected = model(x)
    winogen.torch.replace(model)
    assert model[0] is model[2][0] is model.listed[0] is shared
    assert kinds(model) == [winogen.torch.Conv2d]
    close(model(x), expected)


class Doubled(nn.Conv2d):
    """A class of somebody else's."""

    def forward(self, input):
        return 2 * super().forward(input)


def with_own_forward(layer):
    layer.forward = lambda x: 3 * nn.Conv2d.forward(layer, x)
    return layer


@pytest.mark.parametrize(
    "change",
    (
        weight_norm,
        spectral_norm,
        lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
        lambda layer: prune.l1_unstructured(layer, "bias", 0.5),
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        with_own_forward,
        lambda layer: Doubled(4, 4, 3),
        lambda layer: nn.LazyConv2d(4, 3),
    ),
)
@pytest.mark.filterwarnings("ignore")
def test_layers_that_are_more_than_a_convolution_are_left_alone(change):
    model = nn.Sequential(nn.Conv2d(4, 4, 3), change(nn.Conv2d(4, 4, 3)))
    kind, x = type(model[1]), torch.randn(1, 4, 8, 8)
    winogen.torch.replace(model)
    assert type(model[0]) is winogen.torch.Conv2d and type(model[1]) is kind
    assert model(x).shape == (1, 4, 4, 4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "change", (weight_norm, parametrizations.weight_norm, parametrizations.spectral_norm)
)
def test_a_replaced_layer_can_be_parametrized(change):
    layer = nn.Conv2d(4, 4, 3)
    twin = copy.deepcopy(layer)
    torch.manual_seed(1)
    change(winogen.torch.replace(layer))
    torch.manual_seed(1)
    change(twin)
    x = torch.randn(1, 4, 8, 8)
    for _ in range(2):
        ours, theirs = layer(x), twin(x)
        close(ours, theirs)
        ours.square().sum().backward()
        theirs.square().sum().backward()
    for one, other in zip(layer.parameters(), twin.parameters()):
        close(one.grad, other.grad)


def test_copies_pickles_and_states(tmp_path):
    theirs = net().eval()
    ours = winogen.torch.replace(copy.deepcopy(theirs), tolerance=1e-4)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = torch.randn(2, 3, 12, 12)
    y = ours(x)
    close(y, theirs(x), 1e-3)
    torch.save(ours, tmp_path / "whole.pt")
    fresh = winogen.torch.replace(net().eval())
    fresh.load_state_dict(theirs.state_dict())
    for other in (
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(tmp_path / "whole.pt", weights_only=False),
    ):
        assert torch.equal(other(x), y) and other[0].options.tolerance == 1e-4
    close(fresh(x), theirs(x))
    theirs.load_state_dict(ours.state_dict())


def test_other_types_and_devices_are_torchs():
    for change in (nn.Module.half, nn.Module.bfloat16):
        theirs = change(nn.Sequential(nn.Conv2d(3, 6, 3), nn.PReLU(6)))
        ours = winogen.torch.replace(copy.deepcopy(theirs))
        x = torch.randn(2, 3, 8, 8, dtype=theirs[0].weight.dtype)
        assert torch.equal(ours(x), theirs(x)) and torch.equal(ours(x[0]), theirs(x[0]))
    ours = winogen.torch.replace(nn.Conv2d(3, 4, 3, device="meta"))
    assert ours(torch.empty(1, 3, 8, 8, device="meta")).shape == (1, 4, 6, 6)
    ours = winogen.torch.replace(nn.Conv2d(3, 4, 3, dtype=torch.complex64))
    assert ours(torch.randn(1, 3, 8, 8, dtype=torch.complex64)).dtype == torch.complex64


def test_a_compiled_model_notices():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.randn(1, 3, 8, 8)
    expected = compiled(x)
    winogen.torch.replace(compiled)
    for _ in range(2):
        close(compiled(x), expected)
    compiled(x).sum().backward()
    ours = model[0].weight.grad.clone()
    model.zero_grad()
    F.relu(F.conv2d(x, model[0].weight, model[0].bias)).sum().backward()
    close(ours, model[0].weight.grad)


def test_options_and_exclusions():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 1)))
    ours, torchs = winogen.torch.Conv2d, nn.Conv2d
    twin = winogen.torch.replace(copy.deepcopy(model), exclude=["1.0"], threads=1, tolerance=1e-3)
    assert kinds(twin) == [ours, torchs, ours]
    assert twin[0].options.tolerance == 1e-3 and twin[1][1].options.threads == 1
    assert kinds(winogen.torch.replace(copy.deepcopy(model), exclude=["1"])) == [
        ours,
        torchs,
        torchs,
    ]
    assert kinds(winogen.torch.replace(copy.deepcopy(model), exclude=[nn.Conv2d])) == [torchs] * 3
    winogen.torch.replace(twin, tolerance=1e-2)
    assert twin[0].options.tolerance == 1e-3 and twin[1][0].options.tolerance == 1e-2
    assert "(0): winogen.torch.Conv2d(3, 4, kernel_size=(3, 3)" in repr(twin)


@pytest.mark.parametrize(
    ("options", "message"),
    (
        ({"tolerance": -1}, "tolerance: got -1; allowed: .*; got this for the layer '0'"),
        ({"threads": 0}, "threads: got 0"),
        ({"algorithm": "ntt"}, "algorithm: got 'ntt'; allowed"),
        ({"points": "0,1,-1,inf"}, "points: .*; got this for the layer '2'"),  # too few for 5x5
        ({"exclude": "0"}, "exclude: got '0'; allowed: a collection"),
        ({"exclude": ["7"]}, "exclude: got '7'; allowed: names"),
        ({"exclude": [int]}, "exclude: got <class 'int'>"),
    ),
    ids=str,
)
def test_what_is_wrong_is_said_before_anything_changes(options, message):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 5))
    with pytest.raises(WinogenError, match=message):
        winogen.torch.replace(model, **options)
    assert kinds(model) == [nn.Conv2d] * 2


def test_wrong_models_and_keywords():
    for wrong in (3, None, [nn.Conv2d(3, 4, 3)], torch.jit.script(nn.Conv2d(3, 4, 3))):
        with pytest.raises(InvalidType, match="model: got .*; allowed: an nn.Module"):
            winogen.torch.replace(wrong)
    for name in ("activation", "speed"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            winogen.torch.replace(nn.ReLU(), **{name: "relu"})
    assert issubclass(InvalidValue, ValueError)


class Mixed(nn.Module):
    """A layer of every kind."""

    def __init__(self):
        super().__init__()
        self.plane = nn.Conv2d(3, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1)
        self.row = nn.Conv1d(4, 4, 3, padding="same", padding_mode="circular")
        self.longer = nn.ConvTranspose1d(4, 4, 3, stride=2)
        self.volume = nn.Conv3d(4, 4, (1, 3, 3), groups=2)
        self.larger = nn.ConvTranspose3d(4, 2, 2, stride=2, output_padding=1, bias=False)

    def forward(self, x):
        y = self.longer(self.row(self.up(self.plane(x)).flatten(2)[..., :60]))
        return self.larger(self.volume(y[..., :100].reshape(-1, 4, 4, 5, 5)))


MIXED = "Conv2d ConvTranspose2d Conv1d ConvTranspose1d Conv3d ConvTranspose3d".split()


def test_layers_of_every_kind():
    torch.manual_seed(0)
    theirs = Mixed()
    ours = winogen.torch.replace(copy.deepcopy(theirs), threads=1)
    named = [type(layer) for layer in ours.children()]
    assert named == [getattr(winogen.torch, name) for name in MIXED]
    assert "winogen.torch.ConvTranspose3d(4, 2" in repr(ours)
    x = torch.randn(2, 3, 6, 6)
    results = []
    for model in (theirs, ours, pickle.loads(pickle.dumps(ours))):
        y = model(x)
        results.append((y, *torch.autograd.grad(y.square().sum(), list(model.parameters()))))
    for other in results[1:]:
        for one, wanted in zip(other, results[0], strict=True):
            close(one, wanted, 1e-4)


def test_options_that_only_ordinary_layers_have():
    model = winogen.torch.replace(Mixed(), workspace_limit=10**8, order="huffman")
    assert all("order='huffman'" in repr(layer) for layer in model.children())
    model = winogen.torch.replace(Mixed(), edge="direct")
    replaced = [name for name, layer in model.named_children() if "winogen" in repr(layer)]
    assert replaced == ["plane", "row", "volume"]
    model = Mixed()
    with pytest.raises(InvalidValue, match="tile: .* got this for the layer 'row'"):
        winogen.torch.replace(model, exclude=["plane", "up"], tile=(2, 2), algorithm="mcmr")
    assert not any("winogen" in repr(layer) for layer in model.children())
