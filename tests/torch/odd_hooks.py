"""Odd models: hooks of every kind, and changes in place that something else sees."""

from __future__ import annotations

import contextlib
import functools
import types

import torch
from odd import Two, conv, odd
from torch import nn

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
    model.b.register_forward_hook(lambda module, args, y: None)
    return model


@odd("a hook changes an output in place")
def _():
    model = Two()

    def doubled(module, args, y):
        y.mul_(2)

    model.a.register_forward_hook(doubled)
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
