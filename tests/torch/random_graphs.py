"""Random graphs of every rank as text of Python: each step is tried on numbers as it is written.

`random_nets` writes nets as people do, of maps. Here layers of one to three axes stand in any order
with options that few people use, and axes come and go in between. What raises, or makes nothing or
too much, is not written. So whatever is written runs at the example's size; at others it may raise.
"""

from __future__ import annotations

import random
import re
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

MOST = 30_000  # numbers of a value
HEAD = """
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x, y=None):
        {lines}


def model():
    torch.manual_seed({seed})
    self = Model()
    for module in self.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.affine:
            module.running_mean.normal_(std=0.2)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.5, 1.5)
    {after}
    return self
"""
ACTIVATIONS = (
    "F.relu({x})", "F.relu({x}, inplace=True)", "F.silu({x})", "{x}.clamp(-1, 2)", "F.gelu({x})",
    "torch.sigmoid({x})", "{x}.tanh()", "F.leaky_relu({x}, 0.2)", "F.hardswish({x}, inplace=True)",
    "F.elu_({x})", "nn.PReLU({c})", "nn.ReLU(inplace=True)", "nn.Softplus()", "nn.Mish()",
    "F.softmax({x}, 1)", "F.softmax({x}, -1)", "nn.Hardtanh(-0.5, 0.5)", "{x}.abs()", "-{x}",
    "0.5 * {x} + 1", "{x} / 3", "{x}.square()", "nn.Dropout(0.5)", "nn.Identity()",
)  # fmt: skip
JOINS = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.add({x}, {y}, alpha=2)",
    "torch.cat(({x}, {y}), 1)",
    "torch.cat([{x}, {y}], -1)", "torch.cat([{x}, {y}])", "torch.maximum({x}, {y})",
    "{x} + {y}.mean(tuple(range(2, {y}.dim())), keepdim=True)", "{x} * {y}[:1]",
    "{x} + {y}[..., :1]",
    "{x} * {y}.sigmoid()", "torch.stack([{x}, {y}], 2)", "{x} + {y}.mean(1, keepdim=True)",
    "{x} + {y}.amax((-1,), keepdim=True)", "torch.where({y} > 1e6, {y}, {x})",
)  # fmt: skip
MOVES = (
    "{x}[:, 1:]", "{x}[:, ::2]", "{x}[..., ::2]", "{x}[..., 1:]", "{x}[:, :, :-1]", "{x}[-1:]",
    "{x}.narrow(1, 0, 2)", "{x}.chunk(2, 1)[1]", "{x}.split([1, {c} - 1], 1)[1]", "{x}.flip(2)",
    "{x}.transpose(-1, -2)", "{x}.transpose(-1, -2).contiguous()", "{x}.transpose(1, 2)",
    "{x}.permute(0, *range(2, {x}.dim()), 1)", "{x}.movedim(-1, 1)", "{x}.unsqueeze(2)",
    "{x}.unsqueeze(-1)", "{x}.squeeze(2)", "{x}.mean(2)", "{x}.amax(-1)", "{x}.flatten(2)",
    "{x}.mean((-1,), keepdim=True)", "{x}.reshape({x}.shape[0], -1, *{x}.shape[3:])",
    "{x}.reshape({x}.shape[0] * {x}.shape[1], 1, *{x}.shape[2:])", "{x}.contiguous()",
    "{x}.clone()",
    "{x}.contiguous(memory_format=torch.channels_last)", "{x}.roll(1, -1)", "{x}.detach()",
    "{x}.contiguous(memory_format=torch.channels_last_3d)", "{x}.double()", "{x}.float()",
    "{x}.expand(2, *{x}.shape[1:])", "{x}.repeat_interleave(2, -1)", "{x}.unfold(2, 2, 1).amax(-1)",
    "F.interpolate({x}, scale_factor=2)", "F.pixel_shuffle({x}, 2)", "F.pixel_unshuffle({x}, 2)",
    "F.interpolate({x}, size=[n + 1 for n in {x}.shape[2:]])", "{x}[:, [1, 0]]", "{x}.mT",
    "{x}.flatten(1).unflatten(1, {x}.shape[1:])", "{x}.view({x}.shape[0], 2, -1, *{x}.shape[2:])"
    ".transpose(1, 2).reshape({x}.shape)", "F.normalize({x}, dim=1)", "{x}.cumsum(-1)",
)  # fmt: skip
CHANGES = (
    "{x} += {y}", "{x}.add_({y})", "{x}.mul_(0.5)", "{x} *= {y}", "{x}[:, :1] = 0",
    "{x}[..., 0] += 1",
    "{x}.relu_()", "{x}.clamp_(-1, 1)", "{x}.copy_({y})", "{x}[:, 1:].mul_(2)", "{x} -= 0.25",
    "torch.sigmoid_({x})", "{x}.data.add_(1)", "{x}.transpose(1, 2).add_(1)",
)  # fmt: skip
CONDITIONS = (
    "{x}.shape[0] > 1", "{x}.shape[-1] % 2", "{x}.dim() == 4", "self.training", "y is None",
    "{x}.is_contiguous()", "bool(({x} < 1e9).all())", "torch.is_grad_enabled()",
    "{x}.dtype == torch.float64",
)  # fmt: skip
OUTPUTS = (
    "{v}", "{v}", "({v}, {o})", "[{v}, {o}, {v}]", "{{'a': {v}, 'b': ({o}, x)}}",
    "({v}[:, :1], {v})",
    "({v}, {v}.transpose(1, 2))", "{{'only': {v}}}", "({v}, None, {o}.shape)",
)  # fmt: skip
AFTER = (
    "self.{m}.register_forward_hook(lambda m, args, out: out * 0.5)",
    "self.{m}.register_forward_pre_hook(lambda m, args: tuple(a + 1 for a in args))",
    "nn.utils.parametrizations.weight_norm(self.{m})",
    "nn.utils.parametrize.register_parametrization(self.{m}, 'weight', nn.Tanh())",
    "nn.utils.prune.l1_unstructured(self.{m}, 'weight', 0.3)",
    "self.{m}.weight.requires_grad_(False)",
)  # fmt: skip


class Graph:
    """A graph in the making: its text, and what its values are on the example."""

    def __init__(self, seed: int, index: int):
        self.rng = random.Random(f"graph {seed} {index}")
        self.made: list[str] = []
        self.lines: list[str] = []
        self.module = nn.Module().eval()
        rank = self.rng.choice((1, 2, 2, 3, 3))
        sizes = {1: (9, 16), 2: (5, 6, 8, 9), 3: (3, 4, 5, 6)}[rank]
        self.shape = (
            self.rng.choice((1, 2, 3)), self.rng.choice((2, 4, 6)),
            *(self.rng.choice(sizes) for _ in range(rank)),
        )  # fmt: skip
        self.values = {"x": torch.randn(self.shape)}
        self.layers: list[str] = []
        self.count = 0

    def pick(self) -> str:
        """A value, rather one of the last."""
        names = list(self.values)
        return self.rng.choice(names[-2:] if self.rng.random() < 0.75 else names)

    def number(self) -> int:
        """A number that no name has."""
        self.count += 1
        return self.count

    def add(self, text: str, module: str = "", name: str = "") -> bool:
        """Write ``v = text`` if it runs; ``module`` is made as ``name`` before."""
        if module:
            try:
                made = eval(module, {"nn": nn, "torch": torch, "self": self.module})
            except (RuntimeError, ValueError, TypeError):
                return False
            self.module.add_module(name, made.eval())
        try:
            with torch.no_grad():
                given = {key: value.clone() for key, value in self.values.items()}
                y = eval(text, {"F": F, "nn": nn, "torch": torch, "self": self.module, **given})
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return False
        fits = isinstance(y, torch.Tensor) and y.is_floating_point() and 2 < y.dim() < 6
        if not fits or not 0 < y.numel() <= MOST or not y.abs().max() < 1e4:
            return False
        if module:
            self.made.append(f"self.{name} = {module}")
            if "Conv" in module:
                self.layers.append(name)
        value = f"v{self.number()}"
        self.lines.append(f"{value} = {text}")
        self.values[value] = y
        return True

    # --- steps

    def layer(self) -> bool:
        """A convolution, or one that is there already."""
        x, rng = self.pick(), self.rng
        if self.layers and rng.random() < 0.2:
            return self.add(f"self.{rng.choice(self.layers)}({x})")
        channels, rank = self.values[x].shape[1], self.values[x].dim() - 2
        many = rng.choice((2, 4, 6, 8))

        def each(*options: int) -> Any:
            one = tuple(rng.choice(options) for _ in range(rank))
            return one if rng.random() < 0.7 else one[0]

        groups = rng.choice((1, 1, 2, channels))
        if rng.random() < 0.3:
            kind = f"nn.ConvTranspose{rank}d"
            stride = rng.choice((1, 2, 2, 3))
            more = rng.randrange(stride)
            options = (
                f"{each(1, 2, 3, 4)}, stride={stride}, padding={each(0, 1)}, "
                f"output_padding={more}, dilation={each(1, 1, 2)}"
            )
        else:
            kind = f"nn.Conv{rank}d"
            mode = rng.choice(("zeros", "zeros", "reflect", "replicate", "circular"))
            padding = rng.choice((repr(each(0, 1, 2)), "'same'", repr(each(0, 1))))
            stride = 1 if "same" in padding else each(1, 1, 2)
            options = (
                f"{each(1, 2, 3)}, stride={stride}, padding={padding}, dilation={each(1, 1, 2)}, "
                f"padding_mode={mode!r}"
            )
        bias = rng.random() < 0.7
        text = f"{kind}({channels}, {many}, {options}, groups={groups}, bias={bias})"
        if self.values[x].dtype == torch.float64:
            text += ".double()"
        name = f"c{self.number()}"
        call = rng.choice(
            ("self.{m}({x})", "self.{m}({x})", "self.{m}(input={x})", "self.{m}({x}[0])[None]")
        )
        return self.add(call.format(m=name, x=x), text, name)

    def function(self) -> bool:
        """A convolution as a function of parameters, which other functions may share."""
        x, rng = self.pick(), self.rng
        value = self.values[x]
        rank, channels = value.dim() - 2, value.shape[1]
        name, taps = f"p{self.number()}", [rng.choice((1, 2, 3)) for _ in range(rank)]
        shape = [channels, 4, *taps] if rng.random() < 0.4 else [4, channels, *taps]
        text = f"nn.ParameterList([torch.randn({shape}) / 4])"
        if value.dtype == torch.float64:
            text += ".double()"
        kind = f"F.conv{rank}d" if shape[0] == 4 else f"F.conv_transpose{rank}d"
        return self.add(f"{kind}({x}, self.{name}[0], padding=1, stride=2)", text, name)

    def between(self) -> bool:
        """Pools, norms and paddings with all their options."""
        x, rng = self.pick(), self.rng
        value = self.values[x]
        rank, c = value.dim() - 2, value.shape[1]
        ends = [rng.choice((-1, 0, 1, 2)) for _ in range(2 * rng.randint(1, rank))]
        texts = (
            f"nn.MaxPool{rank}d({rng.choice((2, 3))}, {rng.choice((1, 2))}, {rng.choice((0, 1))}, "
            f"dilation={rng.choice((1, 1, 2))}, ceil_mode={rng.random() < 0.5})",
            f"nn.AvgPool{rank}d({rng.choice((2, 3))}, {rng.choice((1, 3))}, {rng.choice((0, 1))}, "
            f"ceil_mode={rng.random() < 0.5}, count_include_pad={rng.random() < 0.5})",
            f"nn.BatchNorm{rank}d({c}, affine={rng.random() < 0.8})", f"nn.GroupNorm(2, {c})",
            f"nn.InstanceNorm{rank}d({c}, affine=True)", f"nn.AdaptiveAvgPool{rank}d(2)",
            f"nn.AdaptiveMaxPool{rank}d(3)", f"nn.Linear({value.shape[-1]}, 4)",
            f"nn.LayerNorm({value.shape[-1]})", "nn.Upsample(scale_factor=2)",
            f"F.pad({{x}}, {ends})", f"F.pad({{x}}, {ends}, value=0.5)",
            f"F.pad({{x}}, {ends}, mode='reflect')", f"F.pad({{x}}, {ends}, mode='replicate')",
            f"F.pad({{x}}, {ends}, mode='circular')", "F.lp_pool2d({x}, 2, 2)",
        )  # fmt: skip
        return self.called(x, rng.choice(texts))

    def called(self, x: str, text: str) -> bool:
        """A module that is made, or a function."""
        text = text.format(x=x, c=self.values[x].shape[1])
        if not text.startswith("nn."):
            return self.add(text)
        text += ".double()" * (self.values[x].dtype == torch.float64)
        name = f"m{self.number()}"
        return self.add(f"self.{name}({x})", text, name)

    def activation(self) -> bool:
        return self.called(self.pick(), self.rng.choice(ACTIVATIONS))

    def join(self) -> bool:
        return self.add(self.rng.choice(JOINS).format(x=self.pick(), y=self.pick()))

    def move(self) -> bool:
        x = self.pick()
        return self.add(self.rng.choice(MOVES).format(x=x, c=self.values[x].shape[1]))

    def change(self) -> bool:
        """A change in place, which views of the value see."""
        text = self.rng.choice(CHANGES).format(x=self.pick(), y=self.pick())
        given = {key: value.clone() for key, value in self.values.items()}
        try:
            with torch.no_grad():
                exec(text, {"torch": torch, **given})
        except (RuntimeError, ValueError, IndexError):
            return False
        self.lines.append(text)
        return True

    def branch(self) -> bool:
        """An `if` of two steps, which are both of the same kind."""
        x = self.pick()
        condition = self.rng.choice(CONDITIONS).format(x=x)
        before = len(self.lines)
        if not self.layer():
            return False
        line = self.lines.pop(before)
        value = line.partition(" = ")[0]
        self.lines += [f"{line}", f"if {condition}:", f"    {value} = {value} * 2"]
        return True


_STEPS: tuple[tuple[float, Callable[[Graph], bool]], ...] = (
    (6, Graph.layer), (1, Graph.function), (3, Graph.between), (3, Graph.activation),
    (3, Graph.join), (3, Graph.move), (0.7, Graph.change), (0.3, Graph.branch),
)  # fmt: skip


class Made:
    """A graph as text, and its example."""

    def __init__(self, seed: int, index: int):
        torch.manual_seed(index)
        graph = Graph(seed, index)
        rng, self.shape = graph.rng, graph.shape
        weights, steps = zip(*_STEPS)
        graph.layer()
        wanted, tries = rng.randint(3, 12), 0
        while len(graph.lines) < wanted and tries < 60:
            tries += 1
            rng.choices(steps, weights)[0](graph)
        names = list(graph.values)
        out = rng.choice(OUTPUTS).format(v=names[-1], o=rng.choice(names))
        # All is used: what is not would raise nothing at other sizes in a model that leaves it out.
        text = " ".join([*(line.partition(" = ")[2] or line for line in graph.lines), out])
        unused = [name for name in names if not re.search(rf"\b{name}\b", text)]
        out = f"{out}, [{', '.join(unused)}]" if unused else out
        after = []
        plain = [name for name in graph.layers if ".double()" not in str(name)]
        if plain and rng.random() < 0.2:
            after.append(rng.choice(AFTER).format(m=rng.choice(plain)))
        self.source = HEAD.format(
            made="\n        ".join(graph.made or ["pass"]),
            lines="\n        ".join([*graph.lines, f"return {out}"]),
            seed=rng.randrange(1 << 30),
            after="\n    ".join(after or ["pass"]),
        )
        self.gradient = rng.random() < 0.3

    def model(self) -> Any:
        """Return the model, made anew."""
        module = types.ModuleType("graph")
        exec(compile(self.source, "<graph>", "exec"), vars(module))
        return module.model()
