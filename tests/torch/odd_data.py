"""Odd models: what they take and return, and what they are made of."""

from __future__ import annotations

import collections
import dataclasses
import inspect

import numpy as np
import torch
from odd import CHANNELS, Two, conv, odd
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Box:
    """A picture with words."""

    image: torch.Tensor
    words: str = ""


class Result:
    """An object of one's own."""

    def __init__(self, y):
        self.y = y


def returning(name, result, **options):
    """Enter a model that returns a function of its input and two maps."""

    class Returning(Two):
        def forward(self, x):
            y = self.a(x)
            return result(x, y, self.b(y))

    odd(f"returns {name}", **options)(Returning)


returning("its input", lambda x, y, z: x)
returning("its input and a map", lambda x, y, z: (x, z))
returning("None", lambda x, y, z: None)
returning("numbers, words and None", lambda x, y, z: (z, 1, "word", None, 0.5, True, 2j))
returning("a list", lambda x, y, z: [z])
returning("a tuple of one", lambda x, y, z: (z,))
returning("nested dictionaries", lambda x, y, z: {"a": [y, {"b": (z, None)}], 3: {}, (1, 2): []})
returning("an ordered dictionary", lambda x, y, z: collections.OrderedDict(z=z, y=y))
returning("a dictionary with a default", lambda x, y, z: collections.defaultdict(list, z=[z]))
returning("a named tuple", lambda x, y, z: Pair(y, Pair(z, 1)))
returning("an object of a data class", lambda x, y, z: Box(z, "z"))
returning("an object", lambda x, y, z: Result([y, z]))
returning("a map twice", lambda x, y, z: (z, z, [z]))
returning("a map and a view of it", lambda x, y, z: (z, z[:, :2], z.flatten(2)))
returning("views only", lambda x, y, z: z.chunk(2, 1))
returning("nothing in a list", lambda x, y, z: [])
returning("a size", lambda x, y, z: z.shape)
returning("a number of Python", lambda x, y, z: z.abs().sum().item())
returning("a mean", lambda x, y, z: z.abs().mean() + 1)
returning("an array", lambda x, y, z: z.detach().numpy())
returning("indices", lambda x, y, z: F.max_pool2d(z, 2, return_indices=True)[1].shape)
returning("a mask", lambda x, y, z: z > 1e6)
returning("complex numbers", lambda x, y, z: torch.fft.rfft2(z))
returning("a sparse map", lambda x, y, z: (z * (z > 1e6)).to_sparse())
returning("bfloat16", lambda x, y, z: z.bfloat16())
returning("half of it in float64", lambda x, y, z: (y.double(), z))
returning("integers", lambda x, y, z: (z * 0).to(torch.int64) + len(x))
returning("the last two axes exchanged", lambda x, y, z: z.mT)
returning("a type", lambda x, y, z: (z, z.dtype, z.device))
returning("a generator's list", lambda x, y, z: [one.sum() for one in z])


@odd("returns a parameter and a buffer")
class _(Two):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.arange(3))

    def forward(self, x):
        return self.b(self.a(x)), self.a.bias, self.kept


@odd("returns a constant")
class _(Two):
    def forward(self, x):
        self.b(self.a(x))
        return torch.ones(3), 5


# --- inputs


def taking(name, of, more, first):
    """Enter a model that finds its picture by ``first``, whose arguments forward has as well."""
    parameters = inspect.signature(first).parameters.values()
    marks = {inspect.Parameter.VAR_POSITIONAL: "*{0}", inspect.Parameter.VAR_KEYWORD: "**{0}",
             inspect.Parameter.KEYWORD_ONLY: "{0}={0}"}  # fmt: skip
    passed = ", ".join(marks.get(p.kind, "{0}").format(p.name) for p in parameters)
    given = f"self, {str(inspect.signature(first))[1:-1]}"
    made = {"first": first}
    exec(f"def forward({given}):\n    return self.b(self.a(first({passed})))", made)
    odd(f"takes {name}", of, more=more)(type("Taking", (Two,), {"forward": made["forward"]}))


taking(
    "a list", lambda x: ([x, 2 * x],), lambda x: [(([x],), {}), (((x, x),), {})], lambda xs: sum(xs)
)
taking("a dictionary", lambda x: ({"x": x, "n": 2},), lambda x: [(({"n": 3, "x": x},), {})],
       lambda batch: batch["x"] * batch["n"])  # fmt: skip
taking("nested containers", lambda x: ([{"x": (x, None)}, "word"],),
       lambda x: [(([{"x": (2 * x, 1)}, "other"],), {})], lambda all: all[0]["x"][0])  # fmt: skip
taking("a named tuple", lambda x: (Pair(x, 2.0),), lambda x: [((Pair(x, -1),), {})],
       lambda p: p.first * p.second)  # fmt: skip
taking("an object of a data class", lambda x: (Box(x, "up"),), lambda x: [((Box(x, "down"),), {})],
       lambda box: box.image if box.words == "up" else -box.image)  # fmt: skip
taking("an optional picture", lambda x: (x, None), lambda x: [((x, x), {}), ((x,), {"mask": x})],
       lambda x, mask=None: x if mask is None else x * mask)  # fmt: skip
taking("a flag", lambda x: x, lambda x: [((x, True), {}), ((x,), {"flip": True}), ((x, False), {})],
       lambda x, flip=False: x.flip(-1) if flip else x)  # fmt: skip
taking("a number", lambda x: (x, 2), lambda x: [((x, 3), {}), ((x, 0.5), {}), ((x,), {"n": 2})],
       lambda x, n: x * n)  # fmt: skip
taking("a number of numpy", lambda x: (x, np.float32(2)),
       lambda x: [((x, np.int64(3)), {}), ((x, np.ones(1, "f")[0]), {})],
       lambda x, n: x * float(n))  # fmt: skip
taking("a word", lambda x: (x, "twice"), lambda x: [((x, "once"), {}), ((x,), {"mode": "twice"})],
       lambda x, mode: 2 * x if mode == "twice" else x)  # fmt: skip
taking("any arguments", lambda x: (x, x), lambda x: [((x,), {}), ((x, x, x), {})],
       lambda *xs: sum(xs) / len(xs))  # fmt: skip
taking("any keywords", lambda x: x, lambda x: [((x,), {"gain": 2}), ((x,), {"what": None})],
       lambda x, **options: x * options.get("gain", 1))  # fmt: skip
taking("keywords only", lambda x: x, lambda x: [((x,), {"gain": 2})], lambda x, *, gain=1: x * gain)
taking("a tensor of float64 beside", lambda x: (x, x.double()), lambda x: [((x, x), {})],
       lambda x, y: x + y.float())  # fmt: skip
taking(
    "bytes",
    lambda x: ((x.nan_to_num().abs() * 50).byte(),),
    lambda x: [],
    lambda x: x.float() / 255,
)
taking(
    "a mask", lambda x: (x, x > 0), lambda x: [((x, x > 1), {})], lambda x, m: x.masked_fill(m, 0)
)
taking(
    "complex numbers", lambda x: (torch.complex(x, -x),), lambda x: [], lambda x: x.real + x.imag
)
taking("an array", lambda x: (x.numpy(),), lambda x: [], lambda x: torch.from_numpy(x) * 2)
taking("the same tensor twice", lambda x: (x, x), lambda x: [], lambda x, y: x.mul_(2) + y)
taking("a size", lambda x: (x, (16, 16)), lambda x: [((x, (20, 24)), {}), ((x, None), {})],
       lambda x, size: F.interpolate(x, size=size) if size else x)  # fmt: skip


@odd("takes one picture without a batch", lambda x: x[:1].sum(0))
class _(Two):
    pass


@odd("takes indices", lambda x: (torch.arange(x.shape[0] * 16 * 16).reshape(-1, 16, 16) % 7,),
     more=lambda x: [((torch.zeros(1, 20, 16, dtype=torch.int32),), {})])  # fmt: skip
class _(Two):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 3)

    def forward(self, indices):
        return self.b(self.a(self.table(indices).permute(0, 3, 1, 2)))


# --- types


odd("float64", dtype=torch.float64)(lambda: Two().double())


@odd("float32, then float64")
class _(Two):
    def __init__(self):
        super().__init__()
        self.b = conv().double()

    def forward(self, x):
        return self.b(self.a(x).double())


@odd("float64, then float32")
class _(Two):
    def __init__(self):
        super().__init__()
        self.a = conv(3).double()

    def forward(self, x):
        y = self.a(x.double())
        return y, self.b(y.float())


@odd("float32 and float64 in turns")
class _(Two):
    def __init__(self):
        super().__init__()
        self.c = conv().double()

    def forward(self, x):
        y = self.a(x)
        z = torch.relu(self.c(y.double())) + y
        return self.b(z.float()) + y


@odd("a layer that fails: other types")
class _(Two):
    def __init__(self):
        super().__init__()
        self.c = conv(3)

    def forward(self, x):
        try:
            return self.c(x.double())
        except RuntimeError:
            return self.b(self.a(x))


# --- modules


@odd("a small depthwise layer")
def _():
    return nn.Sequential(nn.Conv2d(3, 3, 3, groups=3))


@odd("a sum that broadcasts")
class _(Two):
    def __init__(self):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(1, CHANNELS, 16, 16))
        self.scale = nn.Parameter(torch.randn(CHANNELS, 1, 1))

    def forward(self, x):
        return self.b(self.a(x) * self.scale + self.pos)


@odd("maps of one picture added to all")
class _(Two):
    def forward(self, x):
        y = self.a(x)
        return self.b(y + self.b(y[:1]))


def _changed(function):
    def make():
        model = Two()
        function(model)
        return model

    return make


odd("weight_norm")(
    _changed(lambda m: (parametrizations.weight_norm(m.a), parametrizations.weight_norm(m.b)))
)
odd("spectral_norm")(_changed(lambda m: parametrizations.spectral_norm(m.b)))
odd("orthogonal weights")(_changed(lambda m: parametrizations.orthogonal(m.b)))
odd("old weight_norm")(_changed(lambda m: nn.utils.weight_norm(m.a)))
odd("old spectral_norm")(_changed(lambda m: nn.utils.spectral_norm(m.b)))
odd("pruned")(_changed(lambda m: prune.l1_unstructured(m.a, "weight", 0.3)))
odd("tied weights")(
    _changed(
        lambda m: setattr(m.b, "weight", nn.Parameter(m.b.weight.detach())) or setattr(m, "c", m.b)
    )
)
odd("frozen weights")(_changed(lambda m: m.requires_grad_(False)))
odd("channels-last weights")(_changed(lambda m: m.to(memory_format=torch.channels_last)))
odd("a layer that is scripted")(_changed(lambda m: setattr(m, "b", torch.jit.script(m.b))))
odd("weights made in inference mode")(_changed(lambda m: setattr(m, "b", _frozen())))


def _frozen():
    with torch.inference_mode():
        return conv()


@odd("layers in lists and dictionaries")
class _(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([conv(3), nn.ModuleList([conv(), conv()])])
        self.heads = nn.ModuleDict({"one": conv(), "two": conv(CHANNELS, 3)})
        self.scales = nn.ParameterList([nn.Parameter(torch.tensor(0.5)) for _ in range(2)])

    def forward(self, x):
        y = self.stages[0](x)
        for layer, scale in zip(self.stages[-1], self.scales):
            y = y + scale * layer(y)
        return {name: head(y) for name, head in self.heads.items()}


@odd("names that others use")
class _(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.report, self.module = conv(3), conv(), nn.Identity()
        self.winogen_report, self.graph, self.code, self.original = 1, 2, 3, 4
        self.register_buffer("input", torch.ones(()))

    def forward(self, input):
        y = self.report(self.module(self.body(input)))
        return y * self.input + self.winogen_report + self.graph + self.code + self.original


@odd("attributes of its own")
class _(Two):
    def __getattr__(self, name):
        return 2.0 if name == "gain" else super().__getattr__(name)

    def forward(self, x):
        return self.b(self.a(x)) * self.gain


@odd("a subclass of a layer")
class _(nn.Sequential):
    class Standardized(nn.Conv2d):
        def forward(self, x):
            weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
            return self._conv_forward(x, weight, self.bias) * 2

    def __init__(self):
        super().__init__(self.Standardized(3, CHANNELS, 3), nn.ReLU(), conv())


@odd("filters made of the picture")
class _(Two):
    def forward(self, x):
        filters = (
            self.a(x).mean((2, 3)).nan_to_num().mean(0)[:, None, None, None].expand(-1, 3, 3, 3)
        )
        return F.conv2d(x, filters) + F.conv2d(x, self.a.weight.flip(-1))


@odd("weights in a list")
class _(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = [torch.randn(CHANNELS, 3, 3, 3), torch.randn(CHANNELS, CHANNELS, 1, 1)]

    def forward(self, x):
        for weight in self.weights:
            x = F.conv2d(x, weight)
        return x


@odd("one axis, three axes")
class _(Two):
    def __init__(self):
        super().__init__()
        self.one, self.three = nn.Conv1d(CHANNELS, CHANNELS, 3), nn.Conv3d(1, 2, 3)

    def forward(self, x):
        y = self.a(x)
        return self.one(y.flatten(2)), self.three(y[:, None])


@odd("checkpoints")
class _(Two):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.b, self.a(x), use_reentrant=False)


@odd("an optional layer")
class _(Two):
    def __init__(self):
        super().__init__()
        self.c = None
        self.register_parameter("shift", None)

    def forward(self, x):
        y = self.b(self.a(x))
        return y if self.c is None and self.shift is None else self.c(y)


@odd("lazy layers")
def _():
    model = nn.Sequential(nn.LazyConv2d(CHANNELS, 3), nn.LazyBatchNorm2d(), nn.ReLU())
    model(torch.zeros(1, 3, 8, 8))
    return model


@odd("attention")
class _(Two):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(CHANNELS, 2, batch_first=True)

    def forward(self, x):
        y = F.avg_pool2d(self.a(x), 4)
        tokens = y.flatten(2).transpose(1, 2)
        mixed, _ = self.attention(tokens, tokens, tokens)
        return self.b(mixed.transpose(1, 2).reshape(y.shape))


odd("no layers")(lambda: nn.Sequential(nn.Flatten(0), nn.Softmax(0)))
odd("nothing")(nn.Identity)
