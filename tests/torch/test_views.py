"""Linear layers, norms and softmax between permuted and flattened maps: in segments, and right."""

import pytest

torch = pytest.importorskip("torch")

from optimized import segments  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import winogen.torch  # noqa: E402


class Block(nn.Module):
    """ConvNeXt's: everything between two permutations is one segment with what is around."""

    def __init__(self, scale_last=False):
        super().__init__()
        self.depthwise = nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.norm = nn.LayerNorm(16, eps=1e-6)
        self.wide, self.narrow = nn.Linear(16, 64), nn.Linear(64, 16)
        self.scale = nn.Parameter(torch.rand(16) if scale_last else torch.rand(16, 1, 1))
        self.scale_last = scale_last

    def forward(self, x):
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.narrow(F.gelu(self.wide(self.norm(y))))
        if self.scale_last:
            return x + (self.scale * y).permute(0, 3, 1, 2)
        return x + self.scale * y.permute(0, 3, 1, 2)


class Residual(nn.Module):
    """Diffusers': group norms, SiLU, and an embedding that is added to every pixel."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.norm, self.other = nn.GroupNorm(4, 16), nn.GroupNorm(8, 32)
        self.embedding, self.shortcut = nn.Linear(8, 32), nn.Conv2d(16, 32, 1)

    def forward(self, x):
        y = self.first(F.silu(self.norm(x)))
        t = torch.ones(x.shape[0], 8, dtype=x.dtype)
        y = y + self.embedding(F.silu(t))[:, :, None, None]
        return self.shortcut(x) + self.second(F.silu(self.other(y)))


class Ending(nn.Module):
    """A classifier, flattened in one of the ways that people write."""

    def __init__(self, flatten):
        super().__init__()
        self.conv, self.flatten = nn.Conv2d(16, 24, 3, stride=2), flatten
        self.pool, self.hidden, self.head = (
            nn.AdaptiveAvgPool2d(1),
            nn.Linear(24, 24),
            nn.Linear(24, 10),
        )

    def forward(self, x):
        y = self.flatten(self.pool(F.relu(self.conv(x))))
        return self.head(F.hardswish(self.hidden(y))).softmax(-1)


class Excited(nn.Module):
    """Squeeze and excite by linear layers, as people write it."""

    def __init__(self, enlarge):
        super().__init__()
        self.conv, self.behind = nn.Conv2d(16, 24, 3), nn.Conv2d(24, 8, 1)
        self.less, self.more, self.enlarge = nn.Linear(24, 6), nn.Linear(6, 24), enlarge

    def forward(self, x):
        x = self.conv(x)
        y = x.mean((2, 3), keepdim=True).flatten(1)
        y = torch.sigmoid(self.more(F.relu(self.less(y))))
        return self.behind(x * self.enlarge(y))


MODELS = {
    "convnext": Block(),
    "convnext, scale within": Block(scale_last=True),
    "diffusers": Residual(),
    "flatten": Ending(lambda y: torch.flatten(y, 1)),
    "module": Ending(nn.Flatten()),
    "view": Ending(lambda y: y.view(y.size(0), -1)),
    "reshape": Ending(lambda y: y.reshape(-1, 24)),
    "index": Ending(lambda y: y[:, :, 0, 0]),
    "two squeezes": Ending(lambda y: y.squeeze(-1).squeeze(-1)),
    "excited": Excited(lambda y: y[:, :, None, None]),
    "excited, view": Excited(lambda y: y.view(y.size(0), -1, 1, 1)),
    "excited, unsqueezed": Excited(lambda y: y.unsqueeze(-1).unsqueeze(-1)),
    "softmax of maps": nn.Sequential(nn.Conv2d(16, 5, 3), nn.Softmax2d()),
    "instance norm": nn.Sequential(nn.Conv2d(16, 8, 3), nn.InstanceNorm2d(8), nn.ReLU()),
}


@pytest.mark.parametrize("name", MODELS)
def test_all_is_one_segment_at_every_size(name):
    model = MODELS[name].eval()
    with winogen.testing.every_layer():
        fast = winogen.torch.optimize(model, torch.randn(2, 16, 12, 12))
        assert len(segments(fast)) == 1
        for shape in ((2, 16, 12, 12), (3, 16, 9, 14), (1, 16, 12, 12)):
            x = torch.randn(shape)
            with torch.no_grad():
                y, wanted = fast(x), model.double()(x.double())
                model.float()
            assert y.shape == wanted.shape
            assert (y - wanted).abs().max() <= 1e-5 * wanted.abs().max()


class Read(nn.Module):
    """Others read what lies between, and something changes it."""

    def __init__(self, change):
        super().__init__()
        self.conv, self.linear, self.change = nn.Conv2d(16, 8, 3), nn.Linear(8, 8), change

    def forward(self, x):
        y = self.conv(x).permute(0, 2, 3, 1)
        z = self.linear(y)
        again = z.permute(0, 3, 1, 2)  # a view, which sees what is changed
        return self.change(y, z), again.relu()


CHANGES = {
    "read": lambda y, z: torch.cumsum(y, 3) + torch.cumsum(z, 1),
    "in place": lambda y, z: z.mul_(2),
    "before": lambda y, z: y.mul_(2) + z,
    "norm of another axis": lambda y, z: F.layer_norm(z, (10, 8)),
    "softmax of another axis": lambda y, z: z.softmax(1),
    "slope of another axis": lambda y, z: F.prelu(y[:, :8], torch.rand(8)),
    "repeated along rows": lambda y, z: z + z[:, :1],
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_others_read_is_there(name):
    torch.manual_seed(3)
    model, x = Read(CHANGES[name]).eval(), torch.randn(2, 16, 12, 12)
    with winogen.testing.every_layer():
        fast = winogen.torch.optimize(model, x)
        with torch.no_grad():
            torch.manual_seed(4)
            wanted = model(x)
            torch.manual_seed(4)
            for y, one in zip(fast(x), wanted, strict=True):
                assert y.shape == one.shape
                if "slope" not in name:
                    assert (y - one).abs().max() <= 1e-5 * one.abs().max()


def test_a_single_pixel_of_the_example_is_none_at_other_sizes():
    """What the example has flattened to channels may have more than one pixel."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten()).eval()
    with winogen.testing.every_layer():
        fast = winogen.torch.optimize(model, torch.randn(1, 3, 3, 3))
        x = torch.randn(1, 3, 5, 5)
        with torch.no_grad():
            assert fast(x).shape == model(x).shape == (1, 72)


@pytest.mark.parametrize("index", ((slice(4),), (slice(-4, None), slice(None))))
def test_a_slice_of_the_images_is_not_all_of_them(index):
    """Of a batch as large as the example's, or one larger, it is."""
    model = Ending(lambda y: torch.flatten(y, 1)[index]).eval()
    with winogen.testing.every_layer():
        fast = winogen.torch.optimize(model, torch.randn(1, 16, 12, 12))
        x = torch.randn(6, 16, 12, 12)
        with torch.no_grad():
            assert fast(x).shape == model(x).shape == (4, 10)


def test_numbers_along_the_last_axis_are_no_channels_of_three_axes():
    """The convolutions stay winogen's, beside a product that torch repeats along both axes."""

    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.numbers = nn.Conv2d(16, 8, 3), nn.Parameter(torch.rand(8))

        def forward(self, x):
            return self.conv(x).mean((2, 3), keepdim=True).flatten(2) * self.numbers

    model, x = Product().eval(), torch.randn(2, 16, 6, 6)
    with winogen.testing.every_layer(), torch.no_grad():
        fast = winogen.torch.optimize(model, x)
        assert len(segments(fast)) == 1
        assert fast(x).shape == (2, 8, 8)
