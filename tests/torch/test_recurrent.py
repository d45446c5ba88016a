"""Nets of convolutions around an LSTM or a GRU: the convolutions run by winogen."""

import pytest

torch = pytest.importorskip("torch")

from alike import tensors  # noqa: E402
from optimized import same, segments  # noqa: E402
from torch import nn  # noqa: E402

from winogen.testing import every_layer  # noqa: E402
from winogen.torch import optimize, report  # noqa: E402

# So wide that torch's LSTM without gradients rounds otherwise than with them.
_WIDE = 256


class Reader(nn.Module):
    """Convolutions, then a recurrent net over the columns, whose states are returned, too."""

    def __init__(self, kind):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        )  # fmt: skip
        self.recurrent = kind(16 * 8, _WIDE, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * _WIDE, 10)

    def forward(self, x):
        """Return scores of columns, and the last states."""
        columns, states = self.recurrent(self.convs(x).permute(0, 3, 1, 2).flatten(2))
        return self.head(columns), states


class Sound(nn.Module):
    """An LSTM between convolutions that shorten sound and those that lengthen it."""

    def __init__(self, kind):
        super().__init__()
        self.down = nn.Conv1d(1, 16, 8, 4, 2)
        self.recurrent = kind(16, _WIDE, num_layers=2, bidirectional=True)
        self.narrow = nn.Linear(2 * _WIDE, 16)
        self.up = nn.ConvTranspose1d(16, 1, 8, 4, 2)

    def forward(self, x):
        """Return as many samples."""
        down = torch.relu(self.down(x))
        deep, _ = self.recurrent(down.permute(2, 0, 1))
        return self.up(down + self.narrow(deep).permute(1, 2, 0))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU], ids=["LSTM", "GRU"])
@pytest.mark.parametrize(
    "net, shape, other",
    [(Reader, (1, 1, 16, 32), (2, 1, 16, 44)), (Sound, (1, 1, 256), (2, 1, 320))],
    ids=["reader", "sound"],
)
def test_convolutions_around_a_recurrent_net_run_by_winogen(net, kind, shape, other):
    torch.manual_seed(0)
    model, x = net(kind).eval(), torch.randn(shape)
    with every_layer():
        ours = optimize(model, x)
    table = report(ours)
    assert table.tracer == "torch.fx" and segments(ours)
    convs = [name for name, one in model.named_modules() if "Conv" in type(one).__name__]
    assert [row.name for row in table.rows if row.runs != "torch"] == convs
    for inputs in (x, torch.randn(other)):
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                assert tensors(ours(inputs))
                same(ours(inputs), model(inputs))


def test_a_net_whose_recurrent_part_really_asks_for_the_mode_is_not_traced():
    class Asking(Reader):
        def forward(self, x):
            scores, states = super().forward(x)
            return scores * (1 + 1e-3 * torch.is_grad_enabled()), states

    with every_layer():
        table = report(optimize(Asking(nn.LSTM).eval(), torch.randn(1, 1, 16, 32)))
    assert "a call changes its results with the mode of gradients" in table.tracer
