"""Odd models: what they remember from call to call, and what comes by chance."""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import torch
from odd import CHANNELS, Two, odd
from torch import nn
from torch.nn import functional as F


@odd("a count in Python")
class _(Two):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return self.a(x) * self.n


@odd("a count in a buffer")
class _(Two):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x):
        self.n.add_(1)
        return self.a(x) * self.n


@odd("a running mean that is assigned")
class _(Two):
    def __init__(self):
        super().__init__()
        self.register_buffer("ema", torch.zeros(1, CHANNELS, 1, 1))

    def forward(self, x):
        self.ema = 0.5 * self.ema + self.a(x).mean((0, 2, 3), keepdim=True).nan_to_num()
        return self.b(self.ema + self.a(x))


@odd("a running mean in place")
class _(Two):
    def __init__(self):
        super().__init__()
        self.register_buffer("ema", torch.zeros(1, CHANNELS, 1, 1))

    def forward(self, x):
        self.ema.mul_(0.5).add_(self.a(x).mean((0, 2, 3), keepdim=True).nan_to_num())
        return self.ema * 1


@odd("a list that grows")
class _(Two):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x.shape)
        return self.b(self.a(x)) + len(self.seen)


@odd("the map of the call before")
class _(Two):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(())

    def forward(self, x):
        before, self.last = self.last, self.a(x).sum()
        return self.b(self.a(x)) + 0.01 * before


_COUNTS = {"calls": 0}


@odd("a count of the whole program", before=lambda: _COUNTS.update(calls=4))
class _(Two):
    def forward(self, x):
        _COUNTS["calls"] += 1
        return self.b(self.a(x)) * _COUNTS["calls"]


@odd("a setting of the environment", before=lambda: os.environ.update(WINOGEN_ODD="3"))
class _(Two):
    def forward(self, x):
        return self.b(self.a(x)) * float(os.environ.get("WINOGEN_ODD", "1"))


@odd("a count in a closure")
def _():
    model, count = Two(), itertools.count()
    model.a.register_forward_hook(lambda module, args, y: y + next(count) % 1)
    return model


@odd("batch statistics that go on running")
class _(Two):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(CHANNELS)

    def forward(self, x):
        n = self.norm
        y = F.batch_norm(self.a(x), n.running_mean, n.running_var, n.weight, n.bias, True)
        return self.b(y) * n.running_var.sum()


@odd("a normalization that still trains")
class _(Two):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(CHANNELS)

    def train(self, mode=True):
        super().train(mode)
        self.norm.train(True)
        return self

    def forward(self, x):
        return self.b(self.norm(self.a(x)))


@odd("weights that change in forward")
class _(Two):
    def forward(self, x):
        y = self.b(self.a(x))
        with torch.no_grad():
            self.a.weight.mul_(0.9)
        return y


@odd("active dropout")
class _(Two):
    def forward(self, x):
        return self.b(F.dropout(self.a(x), 0.5, training=True))


@odd("noise of the size of a map")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        return self.b(y + torch.randn_like(y))


@odd("noise that depends on no input")
class _(Two):
    def forward(self, x):
        return self.b(self.a(x) + torch.randn(CHANNELS, 1, 1))


@odd("noise by Python and numpy", before=lambda: (random.seed(3), np.random.seed(3)))
class _(Two):
    def forward(self, x):
        return self.b(self.a(x) * random.random() + np.random.rand())
