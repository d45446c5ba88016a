"""Odd models: what decides, remembers, hooks in, and changes in place."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import types

import numpy as np
import torch
from odd import CHANNELS, Two, conv, odd
from torch import nn
from torch.nn import functional as F

# --- control flow


@odd("an if on a size")
class _(Two):
    def forward(self, x):
        return self.b(self.a(x)) if x.shape[2] > 18 else self.a(x)


@odd("an if on the batch")
class _(Two):
    def forward(self, x):
        return self.a(x) if x.shape[0] > 1 else -self.a(x)


@odd("an if on the width being even")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        return self.b(y) if x.shape[-1] % 16 else y * 2


@odd("assertions on sizes")
class _(Two):
    def forward(self, x):
        assert x.dim() == 4 and x.shape[1] == 3, f"got {x.shape}"
        assert x.shape[0] < 3
        return self.b(self.a(x))


@odd("padding to a multiple of 8, if needed")
class _(Two):
    def forward(self, x):
        h, w = x.shape[2:]
        if h % 8 or w % 8:
            x = F.pad(x, (0, -w % 8, 0, -h % 8), mode="reflect")
        return self.b(self.a(x))[..., :h, :w]


@odd("try and except")
class _(Two):
    def __init__(self):
        super().__init__()
        self.register_buffer("pos", torch.ones(1, CHANNELS, 16, 16))

    def forward(self, x):
        y = self.a(x)
        try:
            return self.b(y + self.pos)
        except RuntimeError:
            return -self.b(y)


@odd("a loop while a map is large")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        while y.shape[-1] > 8:
            y = F.avg_pool2d(self.b(y), 2)
        return y


@odd("a loop over pictures")
class _(Two):
    def forward(self, x):
        return torch.stack([self.b(self.a(one[None]))[0] * (1 + i) for i, one in enumerate(x)])


@odd("a loop over numbers")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        for _ in range(1 + int(y.abs().sum() > 1)):
            y = self.b(y)
        return y


@odd("an if on whether the input is contiguous")
class _(Two):
    def forward(self, x):
        return self.a(x) if x.is_contiguous() else -self.a(x)


@odd("an if on whether a map is contiguous")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        return self.b(y) if y.is_contiguous() else -self.b(y)


@odd("an if on the order of an inner map in memory")
class _(Two):
    def forward(self, x):
        y = torch.relu(self.a(x))
        return self.b(y) if y.stride(1) != 1 else 2 * self.b(y)


@odd("an if on addresses")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        z = y.contiguous()
        return self.b(z) if z.data_ptr() == y.data_ptr() else -self.b(z)


@odd("an if on the identity of tensors", lambda x: (x, x), more=lambda x: [((x, x.clone()), {})])
class _(Two):
    def forward(self, x, y):
        return self.b(self.a(x)) if x is y else self.a(y)


@odd("an if on the type of a tensor")
class _(Two):
    def forward(self, x):
        return self.b(self.a(x)) if type(x) is torch.Tensor else self.a(x)


@odd("an isinstance", more=lambda x: [((x.numpy(),), {}), (([x],), {})])
class _(Two):
    def forward(self, x):
        if isinstance(x, torch.Tensor):
            return self.a(x)
        if isinstance(x, np.ndarray):
            return -self.a(torch.from_numpy(x))
        return self.b(self.a(x[0]))


@odd("an attribute that tensors may have")
class _(Two):
    def forward(self, x):
        mask = getattr(x, "mask", None)
        y = self.a(x)
        return self.b(y) if mask is None and not hasattr(x, "lengths") else y


@odd("an if on what traces")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        tracing = (
            torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.jit.is_scripting()
        )
        return y if tracing else self.b(y)


@odd("an if on gradient mode")
class _(Two):
    def forward(self, x):
        return self.a(x) if torch.is_grad_enabled() else self.b(self.a(x))


@odd("an if on inference mode")
class _(Two):
    def forward(self, x):
        return self.a(x) if torch.is_inference_mode_enabled() else self.b(self.a(x))


@odd("an if on training")
class _(Two):
    def forward(self, x):
        return self.a(x) if self.training else self.b(self.a(x))


@odd("a cache of sizes by lru_cache")
class _(Two):
    @staticmethod
    @functools.lru_cache(None)
    def ramp(h, w):
        return torch.linspace(0, 1, h)[:, None] * torch.linspace(0, 1, w)

    def forward(self, x):
        return self.b(self.a(x) + self.ramp(*x.shape[2:]))


@odd("a cache of sizes in a dictionary")
class _(Two):
    def __init__(self):
        super().__init__()
        self.ramps = {}

    def forward(self, x):
        size = tuple(x.shape[2:])
        if size not in self.ramps:
            self.ramps[size] = torch.linspace(0, 1, x.shape[3])
        return self.b(self.a(x) + self.ramps[size])


@odd("what is made of the first call")
class _(Two):
    def __init__(self):
        super().__init__()
        self.mean = None

    def forward(self, x):
        if self.mean is None:
            self.mean = x.mean(dim=(0, 2, 3), keepdim=True)
        return self.b(self.a(x - self.mean))


@odd("numpy inside")
class _(Two):
    def forward(self, x):
        y = self.a(x).detach()
        return self.b(torch.from_numpy(np.tanh(y.numpy())))


@odd("an error")
class _(Two):
    def forward(self, x):
        if x.shape[0] != 2:
            raise ValueError("two pictures are wanted")
        return self.b(self.a(x))


@odd("a function within a function")
class _(Two):
    def forward(self, x):
        layers = itertools.cycle((self.a, self.b, self.b))

        def deeper(y, left):
            return deeper(torch.relu(next(layers)(y)), left - 1) if left else y

        return deeper(x, min(3, x.shape[0] + 1))


# --- state


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


# --- modes


@odd("no_grad inside")
class _(Two):
    @torch.no_grad()
    def forward(self, x):
        with torch.no_grad():
            y = self.a(x)
        return self.b(y)


@odd("inference mode inside")
class _(Two):
    def forward(self, x):
        with torch.inference_mode():
            return self.b(self.a(x))


@odd("autocast inside")
class _(Two):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.a(x)
        return y, self.b(y.float())


@odd("gradients of the input inside")
class _(Two):
    def forward(self, x):
        with torch.inference_mode(False), torch.enable_grad():
            own = x.detach().clone().requires_grad_()
            return torch.autograd.grad(self.b(self.a(own)).square().sum(), own)[0]


# --- hooks


@odd("a hook of the model changes its input")
def _():
    model = Two()
    model.register_forward_pre_hook(lambda module, args: ((args[0] - 0.5) / 0.2,))
    return model


@odd("a hook of the model changes its output")
def _():
    model = Two()
    model.register_forward_hook(lambda module, args, y: {"y": y * 2})
    return model


@odd("hooks of the model with keywords", more=lambda x: [((), {"x": x})])
def _():
    model = Two()
    model.register_forward_pre_hook(lambda m, args, kw: (args, kw), with_kwargs=True)
    model.register_forward_hook(lambda m, args, kw, y: y + len(kw), with_kwargs=True)
    return model


@odd("hooks of layers")
def _():
    model = Two()
    model.a.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
    model.a.register_forward_hook(lambda module, args, y: y + 1)
    model.b.register_forward_hook(lambda module, args, y: y.neg_() and None if 0 else None)
    return model


@odd("a hook changes an output in place")
def _():
    model = Two()
    model.a.register_forward_hook(lambda module, args, y: [y.mul_(2)] and None)
    return model


@odd("hooks of a container")
def _():
    model = nn.Sequential(conv(3), nn.Sequential(conv(), nn.ReLU()))
    model[1].register_forward_pre_hook(lambda module, args: args[0] * 2)
    model[1].register_forward_hook(lambda module, args, y: (y, args[0])[0] - 1)
    return model


@odd("a hook with a count")
def _():
    model = Two()
    model.count = 0

    def hook(module, args, y):
        model.count += 1

    model.register_forward_hook(hook)
    return model


@odd("a hook raises")
def _():
    model = Two()

    def hook(module, args):
        if args[0].shape[0] == 1:
            raise KeyError("a batch of one")

    model.b.register_forward_pre_hook(hook)
    return model


@contextlib.contextmanager
def _hooked_globally():
    handles = [
        nn.modules.module.register_module_forward_pre_hook(
            lambda module, args: (args[0] * 0.5,) if isinstance(module, nn.Conv2d) else None
        ),
        nn.modules.module.register_module_forward_hook(
            lambda module, args, y: y + 1 if isinstance(module, (nn.Conv2d, Two)) else None
        ),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


odd("hooks of all modules", around=_hooked_globally)(Two)


@odd("a forward that was replaced")
def _():
    model = Two()
    model.forward = types.MethodType(lambda self, x: self.b(self.a(x)) * 3, model)
    model.a.forward = functools.partial(model.a._conv_forward, weight=model.a.weight, bias=None)
    return model


@odd("a class with a __call__ of its own")
class _(Two):
    def __call__(self, x):
        return super().__call__(x * 2) - 1


# --- in place


@odd("a chunk that is added to")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        first, second = y.chunk(2, 1)
        first += second
        return y


@odd("a second name")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        keep = y
        y += self.b(y)
        return self.b(keep)


@odd("a name in a list")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        maps = [y]
        y *= 2
        maps.append(self.b(y))
        return maps


@odd("a view that is added to")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        view = y[:, :4]
        view += 1
        y /= 2
        y -= 0.1
        return self.b(y)


@odd("a name that may be a copy")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        other = y.contiguous()
        y.relu_()
        return self.b(other), other.reshape(-1).sum()


@odd("a name in the model")
class _(Two):
    def forward(self, x):
        self.kept = self.a(x)
        y = self.kept
        y += 1
        return self.b(self.kept)


@odd("the input, in place by a module")
def _():
    return nn.Sequential(nn.ReLU(inplace=True), conv(3))


@odd("the input, in place")
class _(Two):
    def forward(self, x):
        x += 1
        x[:, 0] = 0
        return self.b(self.a(x))


@odd("out=")
class _(Two):
    def forward(self, x):
        y, z = self.a(x), torch.empty(0)
        torch.add(y, 1, out=z)
        torch.mul(y, 2, out=y)
        return self.b(y), z


@odd("assignments by index and mask")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        y[:, 0] = 0
        y[y < -0.5] = 0.25
        y[..., ::2] *= 2
        return self.b(y)


@odd("data in place")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        same = y.detach()
        y.data.mul_(2)
        return self.b(same) + y


@odd("through numpy")
class _(Two):
    def forward(self, x):
        y = self.a(x).detach()
        y.numpy()[...] *= 0.5
        return self.b(y)


@odd("many at once in place")
class _(Two):
    def forward(self, x):
        maps = [self.a(x), self.b(self.a(x))]
        torch._foreach_mul_(maps, 2.0)
        return sum(maps)


@odd("axes in place")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        y.transpose_(2, 3).unsqueeze_(0)
        return self.b(y.squeeze(0))


@odd("in place behind in place", lambda x: x)
def _():
    return nn.Sequential(conv(3), nn.ReLU(inplace=True), nn.Hardtanh(inplace=True), conv(),
                         nn.SiLU(inplace=True), nn.Dropout(inplace=True))  # fmt: skip
