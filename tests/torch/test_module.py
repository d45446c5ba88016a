"""`winogen.torch.Conv2d` stands where `nn.Conv2d` stood: states, copies, dtypes, errors."""

import copy
import pickle

import pytest
import torch
from conv.activations import activate
from torch import nn
from torch.nn import functional as F

import winogen.torch
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.records import ACTIVATIONS
from winogen.records.activations import spelled
from winogen.torch.activations import apply

# What is asked for, and a name in the table with its parameters.
ASKED = {
    **{spelled(name, known.defaults): (name, known.defaults) for name, known in ACTIVATIONS.items()
       if known.defaults or not known.parameters},
    None: (None, ()),
    ("leaky_relu", 0.1): ("leaky_relu", (0.1,)),
    ("leaky_relu", -0.5): ("leaky_relu", (-0.5,)),
    ("prelu", 0.2): ("leaky_relu", (0.2,)),
    ("clip", -0.5, 0.25): ("clip", (-0.5, 0.25)),
    ("elu", 0.3): ("elu", (0.3,)),
    ("elu", -0.5): ("elu", (-0.5,)),
    ("hard_sigmoid", 0.2, 0.4): ("hard_sigmoid", (0.2, 0.4)),
}  # fmt: skip
SEAMS = ((), ("add",), ("add_after",), ("add", "add_after"))


def seams(names, shape, **options):
    return {name: torch.randn(shape, **options) for name in names}


@pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last))
@pytest.mark.parametrize("names", SEAMS, ids=" ".join)
@pytest.mark.parametrize("activation", ASKED, ids=str)
def test_activations_and_seams_forward_and_backward(activation, names, memory_format):
    name, parameters = ASKED[activation]
    options = {"dtype": torch.float64}
    module = winogen.torch.Conv2d(4, 4, 3, padding=1, activation=activation, **options)
    x = torch.randn(2, 4, 6, 7, **options).to(memory_format=memory_format).requires_grad_()
    terms = seams(names, (2, 4, 6, 7), requires_grad=True, **options)
    y = module(x, **terms)
    z = F.conv2d(x, module.weight, module.bias, padding=1) + terms.get("add", 0)
    expected = apply(name, parameters, z) + terms.get("add_after", 0)
    torch.testing.assert_close(y, expected)
    with torch.inference_mode():
        torch.testing.assert_close(module(x, **terms), expected)
    g = torch.randn_like(y)
    leaves = [x, module.weight, module.bias, *terms.values()]
    operator = torch.ops.winogen.convolution(
        x,
        module.weight,
        module.bias,
        1,
        [1],
        activation=module._activation[0],
        parameters=module._activation[1],
        **terms,
    )
    theirs = torch.autograd.grad(expected, leaves, g)
    for result in (y, operator):
        for one, other in zip(torch.autograd.grad(result, leaves, g), theirs):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("activation", ASKED, ids=str)
def test_torch_computes_the_formula(activation):
    """Its functions, as far as they have names in the table."""
    name, parameters = ASKED[activation]
    z = torch.cat([torch.linspace(-30, 30, 999), torch.tensor([-1e30, 0.0, 1e30])]).double()
    wanted = torch.from_numpy(activate(z.numpy(), activation).astype(float).ravel())
    torch.testing.assert_close(apply(name, parameters, z), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", (1, 4))
def test_slopes_per_channel_are_learned(count):
    slopes = nn.Parameter(torch.rand(count, dtype=torch.float64))
    module = winogen.torch.Conv2d(2, 4, 3, activation=("prelu", slopes), dtype=torch.float64)
    assert dict(module.named_parameters())["slopes"] is slopes
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64, requires_grad=True)

    def function(x, weight, slopes):
        return torch.ops.winogen.convolution(x, weight, activation="prelu", slopes=slopes)

    assert torch.autograd.gradcheck(function, (x, module.weight, slopes), fast_mode=True)
    expected = F.prelu(F.conv2d(x, module.weight, module.bias), slopes)
    torch.testing.assert_close(module(x), expected)
    with torch.no_grad():
        torch.testing.assert_close(module(x), expected)
        slopes.mul_(2)
        z = F.conv2d(x, module.weight, module.bias)
        torch.testing.assert_close(module(x), F.prelu(z, slopes))


def test_it_has_the_state_of_a_convolution():
    plain = nn.Conv2d(4, 8, 3, padding=1)
    module = winogen.torch.Conv2d(4, 8, 3, padding=1, activation="relu", tolerance=1e-4)
    module.load_state_dict(plain.state_dict())
    plain.load_state_dict(module.state_dict())
    assert isinstance(module, nn.Conv2d) and list(module.state_dict()) == ["weight", "bias"]
    assert "activation='relu', tolerance=0.0001" in repr(module)
    twin = winogen.torch.Conv2d.from_module(plain, activation="relu")
    assert twin.weight is plain.weight and twin.bias is plain.bias
    x = torch.randn(1, 4, 8, 8)
    torch.testing.assert_close(twin(x), F.relu(plain(x)))
    wanted = F.relu(plain(x))
    torch.testing.assert_close(module(x), wanted, rtol=0, atol=1e-4 * float(wanted.max()))


def test_copies_pickles_and_checkpoints(tmp_path):
    module = winogen.torch.Conv2d(4, 4, 3, padding="same", activation=("leaky_relu", 0.1))
    x = torch.randn(1, 4, 8, 8)
    y = module(x)
    torch.save(module, tmp_path / "whole.pt")
    for other in (
        copy.copy(module),
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(tmp_path / "whole.pt", weights_only=False),
    ):
        assert torch.equal(other(x), y)
        assert other.activation == ("leaky_relu", 0.1)


def test_a_pickle_of_another_version():
    module = winogen.torch.Conv2d(4, 4, 3, tolerance=1e-4)
    state = module.__getstate__()
    assert state["options"] == {"tolerance": 1e-4} and "_wanted" not in state
    state["options"] = {**state["options"], "temperature": 3}
    other = winogen.torch.Conv2d.__new__(winogen.torch.Conv2d)
    with pytest.warns(UserWarning, match="temperature: saved by another version"):
        other.__setstate__(state)
    assert other.options.tolerance == 1e-4
    x = torch.randn(1, 4, 8, 8)
    assert torch.equal(other(x), module(x))


def test_attributes_that_are_set_later_count():
    module = winogen.torch.Conv2d(4, 4, 3)
    x = torch.randn(1, 4, 8, 8)
    module(x)
    module.padding, module.stride, module.activation = (1, 1), (2, 2), "relu"
    expected = F.relu(F.conv2d(x, module.weight, module.bias, 2, 1))
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize("padding_mode", ("zeros", "reflect", "replicate", "circular"))
@pytest.mark.parametrize("padding", ((1, 2), "same", "valid"))
def test_padding(padding_mode, padding):
    plain = nn.Conv2d(2, 3, (3, 4), padding=padding, padding_mode=padding_mode)
    module = winogen.torch.Conv2d.from_module(plain)
    x = torch.randn(2, 2, 7, 9)
    torch.testing.assert_close(module(x), plain(x))
    with torch.no_grad():
        torch.testing.assert_close(module(x), plain(x))
        torch.testing.assert_close(module.half()(x.half()), plain(x.half()))


def test_slices_of_channels_are_read_in_place(monkeypatch):
    module = winogen.torch.Conv2d(4, 4, 3)
    whole = torch.randn(2, 12, 8, 8)

    def copied(array, what):
        raise AssertionError(f"{what} is copied")

    with torch.no_grad():
        expected = F.conv2d(whole[:, 4:8], module.weight, module.bias)
        module(whole[:, 4:8].to(memory_format=torch.channels_last).contiguous())
        for memory_format in (torch.contiguous_format, torch.channels_last):
            x = whole.to(memory_format=memory_format)[:, 4:8]
            module(x)
            with monkeypatch.context() as patch:
                patch.setattr("winogen.conv.memory.contiguous", copied)
                y = module(x)
            torch.testing.assert_close(y, expected)
            assert y.is_contiguous(memory_format=memory_format)


def test_strides_of_any_kind():
    module = winogen.torch.Conv2d(4, 4, 3)
    x = torch.randn(8, 8, 4, 2)
    for view in (
        x.permute(3, 2, 1, 0),
        x.permute(3, 2, 0, 1)[:, :, ::2],
        x[:1, :1].expand(8, 8, 4, 2).permute(3, 2, 0, 1),
    ):
        with torch.no_grad():
            expected = F.conv2d(view, module.weight, module.bias)
            torch.testing.assert_close(module(view), expected)
        torch.testing.assert_close(
            torch.ops.winogen.convolution(view, module.weight, module.bias), expected
        )


def test_a_grey_picture_follows_the_weights():
    module = winogen.torch.Conv2d(1, 4, 3)
    x = torch.randn(2, 1, 8, 8)
    assert module(x).is_contiguous()
    module.to(memory_format=torch.channels_last)
    assert module(x).is_contiguous()  # such weights are contiguous in both senses
    module = winogen.torch.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)
    assert module(torch.randn(2, 4, 3, 3)).shape == (2, 4, 1, 1)


def test_what_kernels_do_not_take_is_torchs():
    module = winogen.torch.Conv2d(4, 4, 3, activation="silu")
    x = torch.randn(2, 4, 8, 8)
    for dtype in (torch.float16, torch.bfloat16):
        other = copy.deepcopy(module).to(dtype)
        y = other(x.to(dtype))
        assert y.dtype == dtype
        assert torch.equal(y, F.silu(F.conv2d(x.to(dtype), other.weight, other.bias)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module(x).dtype == torch.bfloat16
        module(x).sum().backward()
    assert module.weight.grad.dtype == torch.float32
    meta = copy.deepcopy(module).to("meta")
    assert meta(x.to("meta")).shape == (2, 4, 6, 6)
    assert torch.ops.winogen.convolution(x.to("meta"), meta.weight).shape == (2, 4, 6, 6)
    with pytest.raises(RuntimeError):
        module(x.double())


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16))
@pytest.mark.parametrize("grad", (False, True))
def test_one_image_without_a_batch(dtype, grad):
    """Also by torch, where six rows must not be taken for the six channels of the slopes."""
    slopes = torch.rand(6, dtype=dtype)
    module = winogen.torch.Conv2d(4, 6, 3, activation=("prelu", slopes), dtype=dtype)
    x, add = torch.randn(1, 4, 8, 8, dtype=dtype), torch.randn(1, 6, 6, 6, dtype=dtype)
    with torch.set_grad_enabled(grad):
        for context in (torch.autocast("cpu", enabled=False), torch.autocast("cpu")):
            with context:
                expected = F.prelu(F.conv2d(x, module.weight, module.bias) + add, slopes) + add
                y = module(x[0], add=add[0], add_after=add[0])
            assert y.shape == (6, 6, 6) and y.dtype == expected.dtype
            torch.testing.assert_close(y, expected[0])


def test_inference_tensors_outside_of_inference_mode():
    """Frozen weights take them; those that are trained refuse them as torch's do."""
    module = winogen.torch.Conv2d(4, 4, 3)
    with torch.inference_mode():
        x = torch.randn(1, 4, 8, 8)
    for layer in (module, nn.Conv2d(4, 4, 3)):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            layer(x)
    module.requires_grad_(False)
    expected = F.conv2d(x, module.weight, module.bias)
    for _ in range(2):
        torch.testing.assert_close(module(x), expected)
        torch.testing.assert_close(module(x[0]), expected[0])


def test_no_images_and_one_image():
    module = winogen.torch.Conv2d(4, 3, 3, activation="relu")
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    y = module(x[:0], add=torch.zeros(0, 3, 6, 6))
    assert y.shape == (0, 3, 6, 6)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert not grad.any()
    module(x[:0]).sum().backward()
    assert not module.weight.grad.any()
    y, add = module(x), torch.randn(3, 6, 6)
    torch.testing.assert_close(module(x[0]), y[0])
    with torch.no_grad():
        torch.testing.assert_close(module(x[0]), y[0])
        z = F.conv2d(x[0], module.weight, module.bias)
        torch.testing.assert_close(module(x[0], add_after=add), F.relu(z) + add)


def test_the_out_operator():
    x, w, add = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3), torch.randn(2, 4, 6, 6)
    out, options = torch.empty_like(add), {"activation": "relu", "add": add}
    operator = torch.ops.winogen.convolution_out
    operator(x, w, **options, out=out)
    expected = F.relu(F.conv2d(x, w) + add)
    torch.testing.assert_close(out, expected)
    assert out._version == 1
    for memory_format in (torch.contiguous_format, torch.channels_last):
        image = x.to(memory_format=memory_format)
        whole = torch.full((2, 12, 6, 6), 7.0).to(memory_format=memory_format)
        operator(image, w, **options, out=whole[:, 4:8])
        torch.testing.assert_close(whole[:, 4:8], expected)
        assert bool((whole[:, :4] == 7).all() and (whole[:, 8:] == 7).all())
    operator(image, w, **options, out=out.zero_())  # as the input lies, the output does not
    torch.testing.assert_close(out, expected)
    torch.library.opcheck(operator.default, (x, w), {"out": out})
    with pytest.raises(Unsupported, match="out: got tensors that require gradients"):
        operator(x, w.requires_grad_(), out=out)
    with pytest.raises(InvalidValue, match="out: got shape"), torch.no_grad():
        operator(x, w, out=out[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    (
        ({"activation": "sine"}, "activation: got 'sine'; allowed: None, \"relu\""),
        ({"activation": ("leaky_relu",)}, "activation: got"),
        ({"activation": ("clip", 1, 0)}, "activation: got"),
        ({"activation": "prelu"}, "activation: got"),
        ({"activation": 3}, "activation: got 3"),
        ({"algorithm": "ntt"}, "algorithm: got 'ntt'; allowed"),
        ({"tolerance": -1}, "tolerance: got -1"),
        ({"threads": 0}, "threads: got 0"),
        ({"points": "0,0,1"}, "points"),
        ({"points": 3}, "points: got 3"),
        ({"tile": (2, 2, 2)}, "tile: got"),
    ),
    ids=str,
)
def test_wrong_options_raise_when_the_layer_is_made(options, message):
    with pytest.raises((InvalidValue, InvalidType)) as error:
        winogen.torch.Conv2d(4, 4, 3, **options)
    assert str(error.value).startswith(message)


def test_wrong_arguments():
    module = winogen.torch.Conv2d(4, 4, 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'points_of_view'"):
        winogen.torch.Conv2d(4, 4, 3, points_of_view=1)
    for wrong in (torch.randn(1, 3, 8, 8), torch.randn(8, 8), torch.randn(1, 4, 2, 2)):
        for mode in (torch.no_grad, torch.enable_grad):
            with pytest.raises(InvalidValue), mode():
                module(wrong)
    with pytest.raises(InvalidType, match="input: got list; allowed: a torch tensor"):
        module([1.0])
    with pytest.raises(InvalidType, match="bias: got torch.float64; allowed: torch.float32"):
        torch.ops.winogen.convolution(torch.randn(1, 4, 8, 8), module.weight, module.bias.double())
    with pytest.raises(InvalidValue, match="add: got shape"):
        module(torch.randn(1, 4, 8, 8), add=torch.randn(1, 4, 8, 8))
    with pytest.raises(InvalidValue, match="slopes: got a tensor"):
        torch.ops.winogen.convolution(torch.randn(1, 4, 8, 8), module.weight, slopes=torch.ones(4))


def test_options_reach_the_kernel():
    x, w = torch.randn(1, 4, 12, 12), torch.randn(4, 4, 3, 3)
    exact = F.conv2d(x.double(), w.double())
    for options in (
        {"algorithm": "direct"},
        {"tile": 4},
        {"tile": (2, 4), "algorithm": "mcmr"},
        {"points": "0,1,-1,2,-2,inf"},
        {"points": ("0,1,-1,inf", None)},
        {"moduli": "x,x-1,x+1,x^2+1,inf", "order": "pairwise"},
        {"algorithm": "winograd2d", "edge": "direct", "border": "buffer", "threads": 2},
        {"workspace_limit": 10**6, "tolerance": 1e-3},
    ):
        y = winogen.torch.conv2d(x, w, **options)
        assert (y - exact).abs().max() < 1e-4
    with pytest.raises(InvalidValue, match="workspace_limit"):
        winogen.torch.conv2d(x, w, workspace_limit=1)
