"""Odd models: what decides, and modes within."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import torch
from odd import CHANNELS, Two, odd
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
