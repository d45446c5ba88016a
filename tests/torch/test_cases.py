"""Which other inputs a model is compared on: as few calls as show as much."""

from functools import partial
from itertools import count

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from winogen.tasks import limit  # noqa: E402
from winogen.torch.calling import Calls  # noqa: E402
from winogen.torch.cases import witnessed  # noqa: E402

THE_EXAMPLE = torch.randn(1, 3, 96, 96, generator=torch.Generator().manual_seed(0))


class Picky(nn.Module):
    """A convolution that takes the sizes that ``accepts`` says."""

    def __init__(self, accepts):
        super().__init__()
        self.accepts, self.conv = accepts, nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        """Raise ValueError for other inputs."""
        if not self.accepts(x):
            raise ValueError("sizes")
        return self.conv(x)


@pytest.mark.parametrize(
    "accepts, compared",
    [
        (lambda x: True, ["other content, channels last", "a batch of 2 of 49x50 pixels"]),
        (lambda x: len(x) == 1, ["other content, channels last", "49x50 pixels"]),
        (lambda x: x.shape[2] % 32 == 0, ["other content, channels last",
                                         "a batch of 2 of 64x64 pixels"]),
        (lambda x: x.shape[3] > 96, ["other content, channels last",
                                    "a batch of 2 of 97x98 pixels"]),
        (lambda x: x.shape[2] == 96, ["other content, channels last", "a batch of 2"]),
        (lambda x: x.is_contiguous(), ["other content", "a batch of 2 of 49x50 pixels"]),
        (lambda x: len(x) == 1 and x.shape[3] == 96, ["other content, channels last"]),
    ],
)  # fmt: skip
def test_one_case_shows_what_two_would(accepts, compared):
    model, x = Picky(accepts).eval(), torch.randn(1, 3, 96, 96)
    if not accepts(x):
        x = torch.randn(1, 3, 96, 97)
        compared = [name.replace("97x98", "97x99") for name in compared]
    cases = witnessed(model, Calls(model, (x,), {})).cases
    assert [case.name for case in cases] == ["the example"] * 2 + compared
    assert all(case.leaves[0].shape[2:] == case.tensors[0].shape[2:] for case in cases)


@pytest.mark.parametrize(
    "accepts, seconds, other",
    [
        (lambda x: True, 10, "other content of 49x50 pixels, channels last"),
        (lambda x: True, 5, "other content of 25x26 pixels, channels last"),
        (lambda x: x.shape[2] % 32 == 0, 10, "other content of 64x64 pixels, channels last"),
        (lambda x: x.shape[2] % 32 == 0, 5, "other content of 32x32 pixels, channels last"),
        (lambda x: x.shape[2] >= 48, 5, "other content of 49x50 pixels, channels last"),
        (lambda x: x.shape[2] == 96, 10, "other content, channels last"),
        (lambda x: x.is_contiguous() and x.shape[2] == 96, 5, "other content"),
        (lambda x: torch.equal(x, THE_EXAMPLE), 5, "the example"),
    ],
)
def test_other_content_is_small_and_seen_twice_where_a_run_takes_long(
    accepts, seconds, other, monkeypatch
):
    monkeypatch.setattr(limit, "is_every_layer", lambda: False)
    monkeypatch.setattr(limit, "clock", partial(next, count()))  # a run takes a second
    model = Picky(accepts).eval()
    with limit.limited(seconds):
        witness = witnessed(model, Calls(model, (THE_EXAMPLE,), {}))
    assert witness.is_long and witness.repeats
    names = [case.name for case in witness.cases]
    assert names[: 2 + (other != "the example")] == ["the example", other, other][-len(names) :]
    assert [case.is_second for case in witness.cases].count(True) == 1
    assert names.count(other) == 2 and len(witness.distinct) == len(names) - 1


def test_what_a_second_call_does_otherwise_is_noticed_where_a_run_takes_long(monkeypatch):
    class Counting(nn.Conv2d):
        seen = 0

        def forward(self, x):
            if x.shape[2] < 96:  # the example itself is seen once
                self.seen += 1
            return super().forward(x) + self.seen

    monkeypatch.setattr(limit, "is_every_layer", lambda: False)
    monkeypatch.setattr(limit, "clock", partial(next, count()))
    model = Counting(3, 4, 3).eval()
    with limit.limited(10):
        witness = witnessed(model, Calls(model, (THE_EXAMPLE,), {}))
    assert witness.changes == ["seen"] and witness.repeats
    first, second = witness.cases[1:3]
    assert second.is_second and not torch.equal(first.leaves[0], second.leaves[0])


def test_a_first_call_that_takes_long_makes_no_model_long(monkeypatch):
    """As where it loads a library, or makes a table."""
    now = [0.0]

    class Cold(nn.Conv2d):
        def forward(self, x):
            now[0] += 0.01 if now[0] else 1.0
            return super().forward(x)

    monkeypatch.setattr(limit, "is_every_layer", lambda: False)
    monkeypatch.setattr(limit, "clock", lambda: now[0])
    model = Cold(3, 4, 3).eval()
    with limit.limited(10):
        witness = witnessed(model, Calls(model, (THE_EXAMPLE,), {}))
    assert not witness.is_long and abs(witness.seconds - 0.01) < 1e-9
    assert [case.name for case in witness.cases][:2] == ["the example"] * 2
    assert witness.cases[1].is_second


def test_the_second_call_of_an_example_is_made_in_the_state_of_the_first(monkeypatch):
    class Counting(nn.Conv2d):
        def __init__(self):
            super().__init__(3, 4, 3)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            if not torch.equal(x, THE_EXAMPLE):
                raise ValueError("another input")
            self.seen += 1
            return super().forward(x) * self.seen

    monkeypatch.setattr(limit, "is_every_layer", lambda: False)
    monkeypatch.setattr(limit, "clock", partial(next, count()))
    model = Counting().eval()
    with limit.limited(10):
        witness = witnessed(model, Calls(model, (THE_EXAMPLE,), {}))
    one, other = (case.leaves[0] for case in witness.cases)
    assert witness.is_long and torch.allclose(other, 2 * one) and not model.seen


def test_small_maps_are_halved_too_and_the_next_multiple_is_no_larger_than_needed():
    x = torch.randn(1, 3, 64, 64)
    for accepts, size in ((lambda x: True, "33x34"), (lambda x: x.shape[2] % 16 == 0, "48x64")):
        model = Picky(accepts).eval()
        names = [case.name for case in witnessed(model, Calls(model, (x,), {})).cases]
        assert names[-1] == f"a batch of 2 of {size} pixels"


def test_a_result_that_changes_with_the_mode_of_gradients_or_the_next_call_is_noticed():
    class Moody(nn.Conv2d):
        mode, calls = "", 0

        def forward(self, x):
            torch.manual_seed(1)
            y = super().forward(x)
            if self.mode == "call":
                Moody.calls += 1
                return y + Moody.calls
            return y + {"grad": torch.is_grad_enabled, "inference": torch.is_inference_mode_enabled,
                        "": bool}[self.mode]()  # fmt: skip

    seen = {}
    for mode in ("", "grad", "inference", "call"):
        Moody.mode = mode
        model = Moody(3, 4, 3).eval()
        witness = witnessed(model, Calls(model, (torch.randn(1, 3, 40, 40),), {}))
        seen[mode] = witness.changes, witness.repeats
    moody = ["its results with the mode of gradients"], False
    assert seen == {
        "": ([], True), "grad": moody, "inference": moody,
        "call": (["what the next call returns"], False),
    }  # fmt: skip


def test_a_model_whose_state_changes_its_results_still_repeats_them_from_the_same_state():
    class Counting(nn.Conv2d):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) + self.calls

    model = Counting(3, 4, 3).eval()
    witness = witnessed(model, Calls(model, (torch.randn(1, 3, 40, 40),), {}))
    assert witness.changes == ["calls"] and witness.repeats


@pytest.mark.parametrize(
    "change, noticed",
    [
        (lambda y, grad: (y * (1 + 1e-6 * grad),), False),  # as two orders of summation
        (lambda y, grad: (y * (1 + 1e-4 * grad),), True),
        (lambda y, grad: (y.double() * (1 + 1e-11 * grad),), True),
        (lambda y, grad: (y, (y > 0).int() + grad), True),
        (lambda y, grad: (y, (y > 0) ^ grad), True),
        (lambda y, grad: (y, 1.0 + 1e-7 * grad), True),
        (lambda y, grad: (y * (1 + 1e-6 * grad), y) if grad else (y, y[:, :1]), True),
        (lambda y, grad: [y * (1 + 1e-6)] if grad else (y,), True),
    ],
)
def test_modes_of_gradients_may_round_otherwise_and_no_more(change, noticed):
    class Moody(nn.Conv2d):
        def forward(self, x):
            return change(super().forward(x), torch.is_grad_enabled())

    model = Moody(3, 4, 3).eval()
    witness = witnessed(model, Calls(model, (torch.randn(1, 3, 40, 40),), {}))
    moody = ["its results with the mode of gradients"]
    assert (witness.changes, witness.repeats) == ((moody, False) if noticed else ([], True))
