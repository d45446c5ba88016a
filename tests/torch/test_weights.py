"""Weights that change after they were packed: every way that torch can tell, and `repack`."""

import copy
import gc
import weakref

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import winogen.torch
from winogen.torch import packing


def layer(**options):
    return winogen.torch.Conv2d(4, 4, 3, padding=1, **options)


def right(module, x):
    expected = F.conv2d(x, module.weight, module.bias, padding=1)
    return bool(torch.isclose(module(x), expected, atol=1e-4).all())


def in_place(module):
    with torch.no_grad():
        module.weight.mul_(3)


def a_detached_alias(module):
    module.weight.detach().mul_(3)


def in_inference_mode(module):
    with torch.inference_mode():
        module.weight.mul_(3)


def an_optimizer_step(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=5.0)
    module.weight.grad = torch.ones_like(module.weight)
    optimizer.step()


def a_loaded_state(module):
    module.load_state_dict(torch.nn.Conv2d(4, 4, 3).state_dict())


def a_loaded_state_assigned(module):
    module.load_state_dict(torch.nn.Conv2d(4, 4, 3).state_dict(), assign=True)


def new_data(module):
    module.weight.data = torch.randn(4, 4, 3, 3)


def a_way_through_half(module):
    module.half().float()


def a_new_parameter(module):
    module.weight = torch.nn.Parameter(torch.randn(4, 4, 3, 3))


def a_vector_of_parameters(module):
    vector = torch.nn.utils.parameters_to_vector(module.parameters()) * 2
    torch.nn.utils.vector_to_parameters(vector, module.parameters())


def the_bias_in_place(module):
    with torch.no_grad():
        module.bias.add_(7)


def new_data_of_the_bias(module):
    module.bias.data = torch.randn(4)


CHANGES = (
    in_place,
    a_detached_alias,
    in_inference_mode,
    an_optimizer_step,
    a_loaded_state,
    a_loaded_state_assigned,
    new_data,
    a_way_through_half,
    a_new_parameter,
    a_vector_of_parameters,
    the_bias_in_place,
    new_data_of_the_bias,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changes_that_torch_counts_are_noticed(change):
    module, x = layer(), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        assert right(module, x)
        for _ in range(2):
            before = module(x)
            change(module)
            assert right(module, x)
            assert change is a_way_through_half or not torch.equal(module(x), before)


def test_data_that_comes_back_to_an_old_address_is_noticed():
    module, x = layer(), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        assert right(module, x)
        for _ in range(20):  # each frees what the one before took
            module.weight.data = torch.randn(4, 4, 3, 3)
            module.weight.data = torch.randn(4, 4, 3, 3)
            assert right(module, x)


def by_data(module):
    module.weight.data.mul_(3)


def by_numpy(module):
    module.weight.detach().numpy()[:] *= 3


def by_dlpack(module):
    np.from_dlpack(module.weight.detach())
    torch.from_dlpack(module.weight.detach()).mul_(3)


@pytest.mark.parametrize("change", (by_data, by_numpy, by_dlpack), ids=lambda c: c.__name__)
@pytest.mark.parametrize("last", (False, True), ids=("planar", "channels_last"))
def test_changes_of_all_numbers_that_torch_does_not_count_are_noticed(change, last):
    module, x = layer(), torch.randn(1, 4, 8, 8)
    if last:
        module = module.to(memory_format=torch.channels_last)
    with torch.no_grad():
        for _ in range(3):
            assert right(module, x) and right(module, x)  # the second by the short way
            change(module)
            assert right(module, x)


def test_a_bias_that_changes_uncounted_is_noticed():
    module, x = layer(), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        for _ in range(3):
            assert right(module, x) and right(module, x)
            module.bias.data.add_(1)
            assert right(module, x)


def test_averages_of_weights_are_noticed():
    """As it is done while training: a copy without gradients follows the trained module."""
    module, mean, x = layer(), layer().requires_grad_(False), torch.randn(1, 4, 8, 8)
    for _ in range(3):
        with torch.no_grad():
            module.weight.add_(torch.randn_like(module.weight))
        for ours, theirs in zip(mean.parameters(), module.parameters()):
            ours.data.mul_(0.5).add_(theirs.data, alpha=0.5)
        assert right(mean, x)


def test_single_numbers_that_change_uncounted_need_repack():
    module, x = layer(), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        module(x)
        module.weight.data[1, 2, 1, 1] += 3
        module.repack()
        assert right(module, x)


@pytest.mark.parametrize("shape", [(8, 4, 3, 3), (1, 1, 1, 1), (0, 4, 3, 3), (3,)])
def test_what_is_compared_lies_all_over_a_tensor(shape):
    whole = torch.arange(4096.0)
    tensor = whole[7 : 7 + np.prod(shape)].view(shape)
    found = packing._spread(tensor)
    assert set(found) <= set(tensor.flatten().tolist()) and len(found) <= 33
    if found.size > 1:
        assert found[0] == 7 and found[-1] > 7 + 0.9 * (tensor.numel() - 1)


@pytest.mark.parametrize("change", (by_data, by_numpy, by_dlpack), ids=lambda c: c.__name__)
def test_a_call_that_needs_gradients_notices_every_change(change):
    module, x = layer(), torch.randn(1, 4, 8, 8)
    for _ in range(2):
        assert right(module, x)
        change(module)
    module.bias.data.add_(3)
    assert right(module, x)


@pytest.mark.parametrize("compiled", (False, True))
def test_steps_of_fused_optimizers_are_not_counted_and_yet_noticed(compiled):
    module, x = layer(), torch.randn(1, 4, 8, 8)
    call = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
    optimizer = torch.optim.Adam(module.parameters(), lr=1.0, fused=True)
    for _ in range(3):
        for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                y = call(x)
                expected = F.conv2d(x, module.weight, module.bias, padding=1)
                assert torch.allclose(y, expected, atol=1e-3)
            if y.requires_grad:
                y.square().sum().backward()
                version = module.weight._version
                optimizer.step()
        assert version == module.weight._version  # else this test shows nothing


def test_tensors_made_in_inference_mode_are_compared_by_value():
    with torch.inference_mode():
        module, x = layer(), torch.randn(1, 4, 8, 8)
        assert right(module, x)
        module.weight.mul_(3)
        assert right(module, x)
        module.bias.mul_(3)
        assert right(module, x)


def test_weights_are_packed_once(monkeypatch):
    made = []
    original = packing.CONVOLUTIONS[2]
    monkeypatch.setitem(
        packing.CONVOLUTIONS, 2, lambda *a, **k: made.append(1) or original(*a, **k)
    )
    module, x = layer(), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        module(x)
    with torch.inference_mode():
        for size in (8, 8, 6):
            module(x[:, :, :size])
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        compiled(x)
        compiled(x)
    assert len(made) == 1
    for _ in range(3):  # for training they are packed once more, with a copy to compare
        module(x)
    compiled(x)
    assert len(made) == 2


def test_a_step_of_training_packs_once_forward_and_once_backward(monkeypatch):
    made = []
    original = packing.CONVOLUTIONS[2]
    monkeypatch.setitem(
        packing.CONVOLUTIONS, 2, lambda *a, **k: made.append(1) or original(*a, **k)
    )
    module, x = layer(), torch.randn(1, 4, 8, 8, requires_grad=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        module(x).sum().backward()
        optimizer.step()
    assert len(made) == 6


def test_the_cache_ends_with_the_weight():
    module, x = layer(), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        module(x)
    gone = weakref.ref(module.weight)
    key = id(module.weight)
    assert key in packing._weights
    del module
    gc.collect()
    assert gone() is None and key not in packing._weights


def test_a_module_used_twice_and_copies_have_their_own_numbers():
    module = layer(activation="relu")
    x = torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        y = module(module(x))
        expected = F.relu(F.conv2d(x, module.weight, module.bias, padding=1))
        expected = F.relu(F.conv2d(expected, module.weight, module.bias, padding=1))
        assert torch.allclose(y, expected, atol=1e-5)
        other = copy.deepcopy(module)
        other.weight.mul_(2)
        assert torch.allclose(module(module(x)), expected, atol=1e-5)
        assert not torch.allclose(other(x), module(x))


def test_a_parametrized_weight_is_computed_anew():
    module = torch.nn.utils.parametrizations.spectral_norm(layer())
    x = torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        assert right(module.eval(), x)
        module.parametrizations.weight.original.mul_(2)
        assert right(module, x)


def test_weights_that_are_not_numbers_are_packed_once(monkeypatch):
    made = []
    original = packing.CONVOLUTIONS[2]
    monkeypatch.setitem(
        packing.CONVOLUTIONS, 2, lambda *a, **k: made.append(1) or original(*a, **k)
    )
    module, x = layer(), torch.randn(1, 4, 8, 8)
    module.weight.data[0, 0, 0, 0] = float("nan")
    for _ in range(3):
        module(x)
    assert len(made) == 1
