"""Small nets of every kind that users have, of few kinds of layers, so that few kernels compile."""

import torch
from torch import nn
from torch.nn import functional as F

C = 16  # channels nearly everywhere


def conv(inputs=C, outputs=C, kernel=3, **options):
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, **options)


class Residual(nn.Module):
    """Two blocks: sums before ReLU, one with a strided shortcut, all changes in place."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3)
        self.conv1, self.bn1 = conv(bias=False), nn.BatchNorm2d(C)
        self.conv2, self.bn2 = conv(bias=False), nn.BatchNorm2d(C)
        self.down = nn.Sequential(conv(kernel=1, stride=2, bias=False), nn.BatchNorm2d(C))
        self.conv3 = conv(stride=2)
        self.relu = nn.ReLU(inplace=True)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(C, 5)

    def forward(self, x):
        x = self.relu(self.stem(x))
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x
        x = self.relu(y)
        x = self.relu(self.conv3(x).add_(self.down(x)))
        return self.fc(torch.flatten(self.pool(x), 1))


class Dense(nn.Module):
    """Normalization and ReLU before every convolution; each reads all before it."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3)
        self.norms = nn.ModuleList(nn.BatchNorm2d(C * (i + 1)) for i in range(3))
        self.convs = nn.ModuleList(conv(C * (i + 1)) for i in range(3))

    def forward(self, x):
        parts = [self.stem(x)]
        for norm, layer in zip(self.norms, self.convs):
            parts.append(layer(F.relu(norm(torch.cat(parts, 1)), inplace=True)))
        return torch.cat(parts, dim=1)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(3), conv(), conv(2 * C)
        self.pool, self.up = nn.MaxPool2d(2), nn.ConvTranspose2d(C, C, 2, 2)
        self.out = conv(C, 1, 1)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.relu(self.b(self.pool(a)))
        return torch.sigmoid(self.out(F.relu(self.c(torch.cat([self.up(b), a], 1)))))


class RRDB(nn.Module):
    """Dense concatenations within scaled residuals, and a shuffle of pixels at the end."""

    def __init__(self):
        super().__init__()
        self.first = conv(3)
        self.a, self.b, self.c = conv(), conv(2 * C), conv(3 * C)
        self.last, self.shuffle = conv(C, 12), nn.PixelShuffle(2)
        self.lrelu = nn.LeakyReLU(0.2, inplace=True)

    def block(self, x):
        a = self.lrelu(self.a(x))
        b = self.lrelu(self.b(torch.cat((x, a), 1)))
        return self.c(torch.cat((x, a, b), 1)) * 0.2 + x

    def forward(self, x):
        x = self.first(x)
        y = self.block(self.block(x)) * 0.2 + x
        return self.shuffle(self.last(F.interpolate(y, scale_factor=2, mode="nearest")))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv(3)
        self.a = conv(kernel=1)
        self.b = nn.Sequential(
            nn.Conv2d(C, C, (1, 3), padding=(0, 1)), nn.BatchNorm2d(C), nn.ReLU()
        )
        self.pooled = conv(kernel=1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        pooled = F.avg_pool2d(x, 3, stride=1, padding=1)
        return torch.cat([F.relu(self.a(x)), self.b(x), F.relu(self.pooled(pooled))], 1)


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()

        def layer(*args, **options):
            return nn.Sequential(conv(*args, bias=False, **options), nn.BatchNorm2d(C), nn.ReLU6())

        self.stem = layer(3)
        self.body = nn.Sequential(layer(kernel=1), layer(groups=C), conv(kernel=1))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.stem(x)
        return self.drop(x + self.body(x))


class Activations(nn.Module):
    """Every activation that fuses, and one that does not."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([conv(3), *(conv() for _ in range(7))])
        self.prelu, self.gelu = nn.PReLU(C), nn.GELU("tanh")
        self.same = nn.Identity()

    def forward(self, x):
        a, b, c, d, e, f, g, h = self.convs
        x = self.prelu(a(x))
        x = F.silu(b(x))
        x = self.same(self.gelu(c(x)))
        x = F.hardswish(d(x))
        x = F.softsign(e(x))
        x = F.gelu(f(x))
        x = torch.clamp(g(x), min=-0.5, max=0.7)
        return h(x) / 2 + 1


class Functional(nn.Module):
    """No modules at all but parameters; a convolution used twice; padding by itself."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(C, C, 3, 3) / 12)
        self.first = nn.Parameter(torch.randn(C, 3, 3, 3) / 5)
        self.bias = nn.Parameter(torch.randn(C))

    def forward(self, x):
        x = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.first)
        y = F.conv2d(F.pad(x, [1, 1, 1, 1]), self.weight, self.bias).relu_()
        y = F.conv2d(y, self.weight, self.bias, padding="same")
        return {"sum": torch.add(y, x, alpha=1), "shape": y.shape[2], "parts": (y.relu(), x)}


class Halves(nn.Module):
    """Half of the channels go through convolutions, and all steps are kept, as in YOLO."""

    def __init__(self):
        super().__init__()
        self.first, self.inner = conv(3, 2 * C), conv()
        self.last = conv(3 * C, C, 1)

    def forward(self, x):
        x = F.silu(self.first(x))
        kept = [x[:, :C], x[:, C:]]
        kept.append(kept[-1] + F.silu(self.inner(kept[-1])))
        return self.last(torch.cat(kept, 1))


class Shared(nn.Module):
    """One convolution with two normalizations: it must be folded twice, each for itself."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv = conv(3), conv()
        self.norms = nn.ModuleList([nn.BatchNorm2d(C), nn.BatchNorm2d(C)])

    def forward(self, x):
        x = self.stem(x)
        for norm in self.norms:
            x = torch.relu(norm(self.conv(x)))
        return x


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = conv(3, padding_mode="circular")
        self.b = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(C, C, 3))
        self.c = nn.Sequential(nn.ZeroPad2d((1, 0, 0, 1)), nn.Conv2d(C, C, 2))

    def forward(self, x):
        return self.c(self.b(self.a(x)))


class Squeezed(nn.Module):
    """Channels weighed by what all pixels say, in three spellings; pools of every kind."""

    def __init__(self):
        super().__init__()
        self.stem, self.down, self.up, self.last = conv(3), conv(C, 4, 1), conv(4, C, 1), conv()
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.pools = nn.ModuleList(
            [nn.MaxPool2d(3, 2, ceil_mode=True), nn.AvgPool2d(3, 1, 1, count_include_pad=False)]
        )

    def gate(self, x):
        return torch.sigmoid(self.up(F.relu(self.down(x))))

    def forward(self, x):
        x = self.stem(x)
        x = x * self.gate(self.mean(x))
        x = self.pools[0](x)
        x = self.gate(x.mean((2, 3), keepdim=True)) * x
        x = self.pools[1](F.max_pool2d(x, 3, 1, 1, dilation=2))
        x = x.mul(self.gate(F.adaptive_avg_pool2d(x, (1, 1))))
        x = F.avg_pool2d(x, 2, ceil_mode=True)
        return self.last(x * torch.tanh(x))


class Shuffled(nn.Module):
    """Halves by chunk and split, and channels shuffled by views and by a module."""

    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b = conv(3, 2 * C), conv(), conv()
        self.last, self.shuffle = conv(2 * C), nn.ChannelShuffle(4)

    def forward(self, x):
        x = self.stem(x)
        one, other = x.chunk(2, dim=1)
        x = torch.cat((one, F.relu(self.a(other))), 1)
        n, c, h, w = x.size()
        x = x.view(n, 2, c // 2, h, w)
        x = torch.transpose(x, 1, 2).contiguous().view(n, c, h, w)
        one, other = torch.split(x, C, 1)
        return self.last(self.shuffle(torch.cat((self.b(one), other), 1)))


def normalized(model):
    """Normalizations with statistics of their own, in evaluation mode."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    return model.eval()


ALL = (
    Residual,
    Dense,
    UNet,
    RRDB,
    Inception,
    Mobile,
    Activations,
    Functional,
    Halves,
    Shared,
    Padded,
    Squeezed,
    Shuffled,
)
