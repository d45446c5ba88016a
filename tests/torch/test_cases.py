"""Which other inputs a model is compared on: as few calls as show as much."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from winogen.torch.calling import Calls  # noqa: E402
from winogen.torch.cases import witnessed  # noqa: E402


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
