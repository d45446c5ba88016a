"""Changes of a copy are seen, by whatever way its modules were reached."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from winogen.torch import optimize  # noqa: E402

pytestmark = pytest.mark.usefixtures("never_torch")


class Net(nn.Module):
    """Two layers, one of them in a sequence; keeps who ran it, if asked to."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, padding=1)
        self.rest = nn.Sequential(nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))

    def forward(self, x):
        return self.rest(self.first(x))


def sequence():
    return nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))


def hooked(seen):
    """A net whose hook tells of a module of whoever runs."""
    model = Net()
    model.rest.register_forward_hook(lambda module, *given: seen.append(module[1].weight))
    return model


def exported(ours):
    return torch.export.export(ours, (torch.randn(1, 4, 12, 12),))


REACHED = {
    "an attribute": lambda ours: ours.first.weight,
    "parameters": lambda ours: next(ours.parameters()),
    "named modules": lambda ours: dict(ours.named_modules())["rest.1"].weight,
    "children": lambda ours: next(ours.children()).weight,
    "a state": lambda ours: ours.state_dict()["first.weight"],
    "a submodule by name": lambda ours: ours.get_submodule("rest.1").bias,
    "a function for all": lambda ours: (found := [], ours.apply(found.append))[0][0].weight,
    "the copy": lambda ours: ours.winogen_model.first.weight,
    "a shallow copy": lambda ours: copy.copy(ours).first.weight,
    "its fields": lambda ours: ours._modules["first"].weight,
    "a script": lambda ours: torch.jit.script(ours).first.weight,
    "a trace": lambda ours: next(torch.jit.trace(ours, torch.randn(1, 4, 12, 12)).parameters()),
    "an export": lambda ours: next(iter(exported(ours).state_dict.values())),
}


@pytest.mark.parametrize("way", REACHED)
def test_a_change_is_seen(way):
    torch.manual_seed(0)
    x = torch.randn(1, 4, 12, 12)
    ours = optimize(Net().eval(), x)
    with torch.inference_mode():
        before = ours(x)
    with torch.no_grad():
        REACHED[way](ours).mul_(2)
        with pytest.warns(UserWarning, match="weights or fields of the copy"):
            after = ours(x)
        assert torch.equal(after, ours.winogen_model(x)) and not torch.equal(after, before)


def test_a_change_of_a_layer_in_a_sequence_is_seen():
    x = torch.randn(1, 4, 12, 12)
    ours = optimize(sequence().eval(), x)
    ours[0].padding = (0, 0)
    with torch.no_grad(), pytest.warns(UserWarning, match="weights or fields of the copy"):
        assert ours(x).shape == (1, 4, 10, 10)


def test_what_a_hook_was_given_may_change():
    """A call that the copy computes itself gives its modules away."""
    seen = []
    x = torch.randn(1, 4, 12, 12)
    ours = optimize(hooked(seen).eval(), x)
    seen.clear()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours(x.double().float().requires_grad_())
        with torch.autocast("cpu"):
            ours(x)
        for weight in seen:
            weight.mul_(2)
        assert torch.allclose(ours(x), ours.winogen_model(x), atol=1e-5)


def test_who_reaches_no_module_is_not_asked():
    x = torch.randn(1, 4, 12, 12)
    ours = optimize(Net().eval(), x)
    with torch.inference_mode():
        for again in (ours, ours.eval(), ours.to("cpu"), ours.float(), copy.deepcopy(ours)):
            again(x)
            assert not again._is_lent[0]
        assert ours.first.weight is not None
        assert ours._is_lent[0] and copy.copy(ours)._is_lent is ours._is_lent


def test_names_of_fields_are_the_models():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self._model = Net()

        def forward(self, x):
            return self._model(x)

    ours = optimize(Wrapper().eval(), torch.randn(1, 4, 12, 12))
    assert type(ours._model) is Net and type(ours.winogen_model) is Wrapper


def test_what_a_model_returns_of_its_own_may_change():
    class Returning(Net):
        def forward(self, x):
            return super().forward(x), self.first.bias

    x = torch.randn(1, 4, 12, 12)
    ours = optimize(Returning().eval(), x)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours(x)[1].mul_(3)
        assert torch.allclose(ours(x)[0], ours.winogen_model(x)[0], atol=1e-5)
