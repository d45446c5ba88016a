"""What random nets are made of: pieces of text, in tables.

Holes: {x} is a map with {c} channels, {v} one that is changed, {w} another of the same sizes, {m} a
module, {s} a name for state, {k} a number of filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from winogen import records

HEAD = """
import collections
import dataclasses
import functools

import torch
from torch import nn
from torch.nn import functional as F

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Box:
    value: object = None
    name: str = "box"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, {arguments}):
        {body}


def model():
    torch.manual_seed({seed})
    self = Model().eval()
    for module in self.modules():
        if isinstance(module, nn.BatchNorm2d) and module.affine:
            module.running_mean.normal_(std=0.2)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(std=0.2)
    {after}
    return self


def tensor(n, h, w, channels=3, seed=1):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(n, channels, h, w, generator=made)


def inputs(n, h, w):
    x = tensor(n, h, w)
    return {inputs}


def others(n, h, w):
    x = tensor(n, h, w)
    return {others}
"""


@dataclass(frozen=True)
class Convolution:
    """A convolution; ``size`` tells how it changes height and width, "/" being about a half."""

    text: str
    weight: float = 1.0
    size: str = ""
    groups: int = 1
    depthwise: bool = False


CONVOLUTIONS = (
    Convolution("nn.Conv2d({c}, {k}, 3, padding=1)", 8),
    Convolution("nn.Conv2d({c}, {k}, 3, padding=1, bias=False)", 3),
    Convolution("nn.Conv2d({c}, {k}, 1)", 4),
    Convolution("nn.Conv2d({c}, {k}, 3)", 2, "v"),
    Convolution("nn.Conv2d({c}, {k}, 3, stride=2, padding=1)", 3, "/"),
    Convolution("nn.Conv2d({c}, {k}, (3, 3), padding='same')", 1),
    Convolution("nn.Conv2d({c}, {k}, 5, padding=2)", 1),
    Convolution("nn.Conv2d({c}, {k}, 3, padding=2, dilation=2)", 1),
    Convolution("nn.Conv2d({c}, {k}, 3, padding=1, groups=2)", 1, groups=2),
    Convolution("nn.Conv2d({c}, {k}, 3, padding=1, groups={c})", 3, depthwise=True),
    Convolution("nn.Conv2d({c}, {k}, 3, padding=1, padding_mode='reflect')", 1),
    Convolution("nn.Conv2d({c}, {k}, 3, padding=1, padding_mode='circular')", 0.5),
    Convolution("nn.Conv2d({c}, {k}, (1, 3), padding=(0, 1))", 1),
    Convolution("nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d({c}, {k}, 3))", 0.5),
)


def _of_the_table() -> Iterator[str]:
    """Every way to call what winogen fuses: modules, functions, methods."""
    given = {"leaky_relu": (0.3,), "clip": (-0.5, 1.5)}
    for known in records.ACTIVATIONS.values():
        for function in () if known.per_filter else known.torch:
            values = known.given(function, given.get(known.name, known.defaults)) or {}
            texts = [f"{name}={value!r}" for name, value in values.items()]
            if function.module:
                yield f"nn.{function.module}({', '.join(texts)})"
            for name in function.names.split():
                for home in (F, torch):
                    if hasattr(home, name):
                        short = "F" if home is F else "torch"
                        yield f"{short}.{name}({', '.join(['{x}', *texts])})"
                if hasattr(torch.Tensor, name):
                    yield f"{{x}}.{name}({', '.join(texts)})"


ACTIVATIONS = (
    *_of_the_table(),
    "nn.ReLU()", "nn.ReLU(inplace=True)", "nn.ReLU6()", "nn.ReLU6(inplace=True)", "nn.SiLU()",
    "nn.SiLU(inplace=True)", "nn.GELU()", "nn.GELU(approximate='tanh')", "nn.Hardswish()",
    "nn.Hardswish(inplace=True)", "nn.Hardsigmoid()", "nn.LeakyReLU(0.2)", "nn.Mish()",
    "nn.LeakyReLU(0.1, inplace=True)", "nn.PReLU()", "nn.PReLU({c})", "nn.Hardtanh(-1, 2)",
    "nn.Hardtanh(inplace=True)", "nn.Sigmoid()", "nn.Tanh()", "nn.ELU()",
    "nn.ELU(0.5, inplace=True)",
    "nn.CELU()", "nn.SELU()", "nn.Softplus()", "nn.Softsign()", "nn.LogSigmoid()",
    "nn.Tanhshrink()",
    "nn.Softshrink(0.1)", "nn.RReLU()", "nn.Softmax(1)", "nn.Softmax2d()", "nn.LogSoftmax(dim=1)",
    "nn.Softmin(1)", "nn.Identity()", "nn.Dropout(0.3)", "nn.Dropout2d(inplace=True)",
    "F.relu({x})", "F.relu({x}, inplace=True)", "F.relu({x}, True)", "F.relu6({x})", "F.silu({x})",
    "F.gelu({x})", "F.gelu({x}, approximate='tanh')", "F.hardswish({x})", "F.mish({x})",
    "F.leaky_relu({x}, 0.2)", "F.leaky_relu({x}, negative_slope=0.1, inplace=True)", "F.elu({x})",
    "F.elu({x}, 0.7)", "F.hardtanh({x}, -2, 2)", "F.softplus({x})", "F.selu({x})",
    "F.celu({x}, 2.0)",
    "F.relu_({x})", "F.leaky_relu_({x}, 0.3)", "F.logsigmoid({x})", "F.softsign({x})",
    "torch.relu({x})", "torch.relu_({x})", "torch.sigmoid({x})", "torch.tanh({x})",
    "torch.abs({x})",
    "torch.clamp({x}, -1, 1)", "torch.clamp({x}, min=0)", "torch.clamp({x}, max=0.5)",
    "torch.sin({x})",
    "{x}.relu()", "{x}.sigmoid()", "{x}.tanh()", "{x}.clamp(0, 6)", "{x}.clamp(min=-0.5)",
    "{x}.abs()",
    "{x}.clamp_(-0.7, 0.7)", "{x}.relu_()", "{x}.sigmoid_()", "{x}.neg()", "-{x}", "abs({x})",
    "{x} * torch.sigmoid({x})", "{x} * F.relu6({x} + 3) / 6", "{x}.square()", "{x} ** 2",
    "torch.maximum({x}, 0.1 * {x})", "{x}.softmax(1)", "torch.exp(-{x}.abs())", "0.5 * {x}",
    "{x} / 3 + 1",
    "F.threshold({x}, 0, 0)", "torch.atan({x})", "torch.erf({x})", "{x}.exp().log1p()", "1 - {x}",
)  # fmt: skip


@dataclass(frozen=True)
class Keeping:
    """A step of one map: modules, lines before, and what is the result."""

    text: str
    made: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    size: str = ""
    opaque: bool = False


_TOKENS = ("n{v}, c{v}, h{v}, w{v} = {x}.shape",)
KEEPING = (
    Keeping("{m0}({x})", ("nn.BatchNorm2d({c})",)),
    Keeping("{m0}({x})", ("nn.BatchNorm2d({c}, affine=False)",)),
    Keeping("{m0}({x})", ("nn.GroupNorm({half}, {c})",)),
    Keeping("{m0}({x})", ("nn.GroupNorm(1, {c})",)),
    Keeping("{m0}({x})", ("nn.InstanceNorm2d({c}, affine=True)",)),
    Keeping("{m0}({x})", ("nn.LocalResponseNorm(3)",)),
    Keeping("F.layer_norm({x}, {x}.shape[1:])"),
    Keeping("F.normalize({x}, dim=1)"),
    Keeping("{m0}({x}.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)", ("nn.LayerNorm({c})",)),
    Keeping("{m0}({x}.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).contiguous()",
        ("nn.Linear({c}, {c})",)),
    Keeping("{m0}({x})", ("nn.MaxPool2d(3, 1, 1)",)),
    Keeping("{m0}({x})", ("nn.AvgPool2d(3, 1, 1)",)),
    Keeping("{m0}({x})", ("nn.AvgPool2d(3, 1, 1, count_include_pad=False)",)),
    Keeping("{m0}({x})", ("nn.MaxPool2d(2)",), size="/m"),
    Keeping("F.max_pool2d({x}, 2, ceil_mode=True)", size="/c"),
    Keeping("F.avg_pool2d({x}, 2)", size="/m"),
    Keeping("F.max_pool2d({x}, 3, stride=2, padding=1)", size="/"),
    Keeping("F.max_pool2d({x}, 2, return_indices=True)[0]", size="/m"),
    Keeping("F.adaptive_avg_pool2d({x}, ({x}.shape[2] // 2, {x}.shape[3] // 2))", size="/m"),
    Keeping("{x} * {m1}({m0}({x}))",
            ("nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d({c}, {half}, 1), nn.ReLU(True))",
             "nn.Sequential(nn.Conv2d({half}, {c}, 1), nn.Sigmoid())")),
    Keeping("{x} * torch.sigmoid({m0}({x}.mean((2, 3))))[:, :, None, None]", ("nn.Linear({c}, {c})",
        )),
    Keeping("{x} * {m1}(F.relu({m0}(torch.flatten(F.adaptive_avg_pool2d({x}, 1), 1))))"
            ".sigmoid().view({x}.size(0), -1, 1, 1)",
            ("nn.Linear({c}, {half})", "nn.Linear({half}, {c})")),
    Keeping("{x} + {m0}({x}.mean((-1, -2))[:4]).mean(0)[:, None, None]", ("nn.Linear({c}, {c})",)),
    Keeping("{m2}(F.gelu({m1}({m0}({x}.permute(0, 2, 3, 1))))).permute(0, 3, 1, 2) + {x}",
            ("nn.LayerNorm({c}, eps=1e-2)", "nn.Linear({c}, 16)", "nn.Linear(16, {c})")),
    Keeping("({x}l * {m1}).permute(0, 3, 1, 2)",
            ("nn.LayerNorm({c}, elementwise_affine=False)", "nn.Parameter(torch.randn({c}))"),
            lines=("{x}l = {m0}({x}.permute(0, 2, 3, 1))", "{x}l += {x}.permute(0, 2, 3, 1)")),
    Keeping("F.softmax({x}, 1)"),
    Keeping("{x}.permute(0, 2, 3, 1).softmax(-1).permute(0, 3, 1, 2) * {x}"),
    Keeping("{x} + {x}.softmax(dim=-1)"),
    Keeping("F.silu({m0}({x} + {m1}({x}.mean((2, 3)))[:, :, None, None]))",
            ("nn.GroupNorm({half}, {c}, eps=0.1)", "nn.Linear({c}, {c})")),
    Keeping("{x} + {x}.mean(dim=(2, 3), keepdim=True)"),
    Keeping("{x} - {x}.amax(1, keepdim=True)"),
    Keeping("{x} * {m0}", ("nn.Parameter(torch.randn({c}, 1, 1))",)),
    Keeping("{x} + {m0}", ("nn.Parameter(torch.randn(1, {c}, 1, 1))",)),
    Keeping("{m0} * {x}", ("nn.Parameter(torch.tensor(0.7))",)),
    Keeping("{x} + torch.randn({c}, 1, 1, generator=torch.Generator().manual_seed(3)).to({x})"),
    Keeping("F.pad({x}, (1, 1, 1, 1))[:, :, 1:-1, 1:-1]"),
    Keeping("{x}.flip(-1)"),
    Keeping("torch.roll({x}, 1, 2)"),
    Keeping("{x}.transpose(2, 3).contiguous().transpose(2, 3)"),
    Keeping("{x}.contiguous()"),
    Keeping("{x}.contiguous(memory_format=torch.channels_last)"),
    Keeping("{x}.clone()"),
    Keeping("{x}.detach()"),
    Keeping("F.dropout({x}, 0.2, self.training)"),
    Keeping("{x}.double().float().to({x}.dtype)"),
    Keeping("{x}.to(torch.float64).mul(2).type_as({x})"),
    Keeping("{x}.reshape(n{v}, g{v}, c{v} // g{v}, h{v}, w{v}).transpose(1, 2)"
            ".reshape(n{v}, c{v}, h{v}, w{v})",
            lines=(*_TOKENS, "g{v} = 2 - c{v} % 2")),
    Keeping("{x}.view(n{v}, c{v}, h{v} * w{v}).view(n{v}, c{v}, h{v}, w{v})", lines=_TOKENS),
    Keeping("{x}.flatten(2).transpose(1, 2).softmax(1).transpose(1, 2).unflatten(2, (h{v}, w{v}))",
            lines=_TOKENS),
    Keeping("F.pixel_shuffle(F.pixel_unshuffle({x}p, 2), 2)[..., :{x}.shape[2], :{x}.shape[3]]",
            lines=("{x}p = F.pad({x}, (0, {x}.shape[3] % 2, 0, {x}.shape[2] % 2))",)),
    Keeping("{x}q[:, :, :{x}.shape[2], :{x}.shape[3]]",
            lines=("h{v}, w{v} = (8 - {x}.shape[2] % 8) % 8, (8 - {x}.shape[3] % 8) % 8",
                   "{x}q = F.pad({x}, (0, w{v}, 0, h{v}), mode='replicate')")),
    Keeping("{x}q[:, :, :{x}.shape[2], :{x}.shape[3]] * 1",
            lines=("{x}q = {x}", "if {x}.shape[2] % 8 or {x}.shape[3] % 8:",
                   "    {x}q = F.pad({x}, (0, -{x}.shape[3] % 8, 0, -{x}.shape[2] % 8))")),
    Keeping("F.conv2d({x}, {m0}, padding=1)", ("nn.Parameter(torch.randn({c}, {c}, 3, 3) / 9)",)),
    Keeping("F.conv2d({x}, {m0}.weight, {m0}.bias, padding='same')", ("nn.Conv2d({c}, {c}, 3)",)),
    Keeping("torch.stack([{m0}(one[None])[0] for one in {x}]) if len({x}) else {x}",
            ("nn.Conv2d({c}, {c}, 3, padding=1)",), opaque=True),
    Keeping("torch.cat([{m0}(part) for part in {x}.split(1)])",
        ("nn.Conv2d({c}, {c}, 3, padding=1)",),
            opaque=True),
    Keeping("(lambda y: {m0}(y) + y)({x})", ("nn.Conv2d({c}, {c}, 3, padding=1)",)),
    Keeping("functools.partial({m0}.forward)({x})", ("nn.Conv2d({c}, {c}, 3, padding=1)",)),
    Keeping("{m0}(input={x})", ("nn.Conv2d({c}, {c}, 3, padding=1)",)),
    Keeping("{m0}['only']({x})", ("nn.ModuleDict({{'only': nn.Conv2d({c}, {c}, 3, padding=1)}})",)),
    Keeping("{x}t", lines=("try:", "    {x}t = {x} + torch.zeros(1, {c}, 16, 16).to({x})",
                           "except RuntimeError:", "    {x}t = -{x}"), opaque=True),
    Keeping("{x}g", lines=("with torch.no_grad():", "    {x}g = {x} * 2")),
    Keeping("torch.einsum('nchw,dc->ndhw', {x}, {m0})", ("nn.Parameter(torch.randn({c}, {c}) / 4)",
        )),
)  # fmt: skip

# In place: of a map {v}, by another {w}.
CHANGES = (
    "{v} += {w}", "{v} -= {w}", "{v} *= {w}", "{v} /= {w}.abs() + 1", "{v} += 1", "{v} *= 0.5",
    "{v} /= 2", "{v} -= 0.1", "{v} **= 2", "{v}.add_({w})", "{v}.sub_({w})", "{v}.mul_({w})",
    "{v}.clamp_(-1, 1)", "{v}.relu_()", "F.relu({v}, inplace=True)", "torch.relu_({v})",
    "{v}.mul_(0.5).add_(1)", "torch.add({v}, {w}, out={v})", "F.leaky_relu_({v}, 0.1)",
    "{v}.copy_({w})",
    "{v}[:, :{half}] += 1", "{v}[:, 0] = 0", "{v}[..., ::2] *= 2",
    "{v}[:, :{half}] = {w}[:, :{half}]",
    "{v}.neg_()", "{v}.data.mul_(2)", "{v}.clamp_min_(0)", "{v}.mul_({w}.sigmoid())",
    "{v}.detach().add_(1)",
    "F.hardtanh({v}, inplace=True)", "nn.functional.elu_({v})", "{v}.view(-1)[:1] = 0",
    "{v}.lerp_({w}, 0.5)",
    "{v}.addcmul_({w}, {w}, value=0.1)", "F.silu({v}, inplace=True)",
    "{v}.masked_fill_({w} > 1e6, 0)",
    "torch._foreach_add_([{v}], 1)", "{v}.chunk(2, 1)[0].add_(1)", "{v}.add_({v})", "{v} += {v}",
)  # fmt: skip
SECOND_NAMES = (
    "{v}", "{v}[:, :{half}]", "{v}.view({v}.shape)", "[{v}][0]", "{v}.chunk(2, 1)[0]",
    "{v}.detach()",
    "{v}.transpose(2, 3)", "{v}.permute(0, 2, 3, 1)", "nn.Identity()({v})", "{v}.contiguous()",
    "F.dropout({v}, training=self.training)", "{v}.flatten(2)", "{v}.float()", "{v}.to({v}.dtype)",
    "{v}.reshape({v}.shape)", "{v}.expand_as({v})", "{v}.unbind(1)[0]", "{v}.narrow(1, 0, 2)",
    "{v}.data",
    "{v}.split({half}, 1)[1]", "{v}[..., 1:]", "{v}.clone()", "({v}, 1)[0]", "{v}.real",
    "{v}[None][0]",
    "{v}.unsqueeze(0).squeeze(0)", "{v}.select(1, 0)", "{v}.movedim(1, -1)", "torch.as_tensor({v})",
    "{v}.contiguous(memory_format=torch.channels_last)", "{v}.swapaxes(1, 2)", "{v}.mT",
    "torch.flatten({v}, 1)",
)  # fmt: skip

# Conditions, and whether no proof can see through them.
CONDITIONS = (
    ("{x}.shape[2] > 10", False), ("x.shape[2] > 18", False), ("x.shape[0] > 1", False),
    ("{x}.shape[2] == {x}.shape[3]", False), ("x.size(-1) % 8 == 0", False), ("{x}.dim() == 4",
    False),
    ("self.training", False), ("{x}.requires_grad", False), ("len(x) == 2", False),
    ("isinstance({x}, torch.Tensor)", False), ("{x}.dtype == torch.float32", False),
    ("torch.is_grad_enabled()", True), ("x.is_contiguous()", True), ("torch.jit.is_scripting()",
    False),
    ("{x}.abs().sum() > 1e-9", True), ("{x}.shape[1] > 12", False), ("min(x.shape[2:]) < 15",
    False),
    ("{x}.numel() > 5000", False), ("x.stride(1) == 1", True), ("not {x}.is_cuda", False),
    ("float(x.sum()) > 1e9", True), ("torch.is_inference_mode_enabled()", True),
    ("x.shape[2] * x.shape[3] > 300 and x.shape[0] < 4", False), ("{x}.shape[-1] in (8, 16)",
    False),
)  # fmt: skip
ASSERTIONS = (
    "assert {x}.dim() == 4", "assert {x}.shape[1] == {c}, 'channels'", "assert x.shape[0] < 4",
    "assert x.shape[2] >= 14 and x.shape[3] >= 14", "assert x.shape[2] % 2 == 0, x.shape",
    "if x.shape[0] == 0: raise ValueError('empty')", "assert isinstance({x}, torch.Tensor)",
    "torch._assert({x}.shape[1] == {c}, 'channels')",
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """What is made once, changed in forward, and used."""

    made: tuple[str, ...]
    lines: tuple[str, ...]
    text: str
    opaque: bool = True


_ZERO = "self.register_buffer('{s}', torch.zeros(()))"
STATES = (
    State((_ZERO,), ("self.{s}.add_(1)",), "{x} * self.{s}.to({x}.dtype)"),
    State((_ZERO,), ("self.{s} += 1",), "{x} + self.{s}.to({x}.dtype)"),
    State((_ZERO,), ("self.{s}.mul_(0.5).add_({x}.abs().sum().float() * 1e-6)",),
        "{x} * (1 + self.{s}).to({x}.dtype)"),
    State((_ZERO,), ("self.{s} = self.{s} + 1",), "{x} - self.{s}.to({x}.dtype)"),
    State(("self.{s} = 0",), ("self.{s} += 1",), "{x} * self.{s}"),
    State(("self.{s} = []",), ("self.{s}.append(1)",), "{x} * len(self.{s})"),
    State(("self.{s} = {{}}",), ("self.{s}[len(self.{s})] = {x}.shape",), "{x} + len(self.{s})"),
    State(("self.{s} = None",),
        ("if self.{s} is None: self.{s} = {x}.mean(dim=(0, 2, 3), keepdim=True)",),
          "{x} - self.{s}"),
    State(("self.{s} = 1.5",), (), "{x} * self.{s}", opaque=False),
    State(("self.register_buffer('{s}', torch.rand({c}, 1, 1))",), (),
        "{x} * self.{s}.to({x}.dtype)",
          opaque=False),
)  # fmt: skip


@dataclass(frozen=True)
class Arguments:
    """How a net takes its input, and calls of it; hooks of the root know a single tensor."""

    signature: str
    inputs: str
    others: str = "[]"
    lines: tuple[str, ...] = ()
    hookable: bool = False


ARGUMENTS = (
    Arguments("x", "(x,), {}", "[((), {'x': x})]", hookable=True),
    Arguments("x, scale=1.0", "(x,), {}",
        "[((x, 2.0), {}), ((x,), {'scale': 0.5}), ((), {'scale': 3, 'x': x})]",
              ("x = x * scale",)),
    Arguments("x, clip=False", "(x,), {}",
        "[((x,), {'clip': True}), ((x, True), {}), ((x,), {'clip': False})]",
              ("if clip:", "    x = x.clamp(-0.5, 0.5)")),
    Arguments("x, mask=None", "(x,), {}",
        "[((x,), {'mask': x[:, :1] > 0}), ((x, None), {}), ((x, x > 0), {})]",
              ("if mask is not None:", "    x = x.masked_fill(mask, 0)")),
    Arguments("x, mask", "(x, x[:, :1] > 0), {}", "[((x,), {'mask': x > 0.5})]", ("x = x * mask",)),
    Arguments("xs", "([x, 2 * x],), {}",
        "[(([x, x, x],), {}), (((x, -x),), {}), ((), {'xs': [x]})]",
              ("x = sum(xs)",)),
    Arguments("xs", "((x, x.flip(-1)),), {}", "[(([x, x],), {}), (((x, x, x),), {})]",
        ("x = xs[0] - xs[1]",)),
    Arguments("batch", "({'image': x, 'name': 'picture', 'scale': 2},), {}",
              "[(({'image': x, 'name': 'picture', 'scale': 3},), {}), "
              "(({'scale': 2, 'name': '', 'image': x},), {})]",
              ("x = batch['image'] * batch['scale']",)),
    Arguments("pair", "(Pair(x, x.abs()),), {}", "[((Pair(-x, x),), {}), (((x, x),), {})]",
              ("x = pair.first + pair.second",)),
    Arguments("box", "(Box(x, 'b'),), {}", "[((Box(x, 'c'),), {}), ((Box(2 * x),), {})]",
              ("x = box.value if box.name == 'b' else -box.value",)),
    Arguments("x, y", "(x, x.double()), {}", "[((x,), {'y': x}), ((x, x), {})]",
        ("x = x + y.to(x.dtype)",)),
    Arguments("x, factor", "(x, 2), {}", "[((x, 3), {}), ((x,), {'factor': 2}), ((x, 2.0), {})]",
        ("x = x * factor",)),
    Arguments("x, size=None", "(x, (16, 16)), {}", "[((x,), {}), ((x, (20, 24)), {})]",
              ("if size is not None:", "    x = F.interpolate(x, size=size)")),
    Arguments("*xs", "(x, x.abs()), {}", "[((x,), {}), ((x, x, x), {})]",
        ("x = torch.stack(xs).mean(0)",)),
    Arguments("x, **options", "(x,), {}",
        "[((x,), {'gain': 2.0}), ((x,), {'gain': 1.0, 'bias': 1})]",
              ("x = x * options.get('gain', 1.0) + options.get('bias', 0)",)),
    Arguments("nested", "([{'a': (x, None)}, [x.abs()]],), {}",
        "[(([{'a': (2 * x, None)}, [x, x]],), {})]",
              ("x = nested[0]['a'][0] + sum(nested[1])",)),
)  # fmt: skip

OUTPUTS = (
    "return {v}", "return {v}, {o}", "return [{v}, {o}]", "return {{'out': {v}, 'aux': [{o}]}}",
    "return Pair({v}, ({o},))", "return Box({v}, 'out')", "return {v}, None, 3, 'text', ({o},)",
    "return {v}.mean((2, 3))", "return {v}, {v}", "return ({v},)", "return [{v}]",
    "return collections.OrderedDict(out={v}, shape={v}.shape, rest=[{o}])",
    "return {v}, {v}.shape[2]",
    "return torch.flatten({v}, 1), {o}", "return {v}.sum()",
    "return {v}, True, 0.5, [], {{}}, [{o}]",
    "return {{'x': x, 'v': {v}}}", "return {v}.argmax(1).shape, {v}",
    "return [[{v}], ({o},), {{1: {v}}}]",
)  # fmt: skip

HOOKS = (
    "self.{m}.register_forward_hook(lambda module, args, out: out * 2)",
    "self.{m}.register_forward_hook(lambda module, args, out: None)",
    "self.{m}.register_forward_hook(lambda module, args, out: [out.add_(1)] and None)",
    "self.{m}.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))",
    "self.{m}.register_forward_pre_hook(lambda module, args: args[0] + 1)",
    "self.{m}.register_forward_hook(lambda module, args, kw, out: out - 1, with_kwargs=True)",
)
ROOT_HOOKS = (
    "self.register_forward_pre_hook(lambda module, args: (args[0] * 0.5 - 0.5,) if args else None)",
    "self.register_forward_hook(lambda module, args, out: (out, 1))",
    "self.register_forward_hook(lambda m, args, y: y * 2 if torch.is_tensor(y) else None)",
    "self.register_forward_pre_hook(lambda module, args, kw: (args, kw), with_kwargs=True)",
)
PARAMETRIZATIONS = (
    "nn.utils.parametrizations.weight_norm(self.{m})",
    "nn.utils.parametrizations.spectral_norm(self.{m}).eval()",
    "nn.utils.weight_norm(self.{m})",
    "nn.utils.spectral_norm(self.{m}).eval()",
    "import torch.nn.utils.prune as p; p.l1_unstructured(self.{m}, 'weight', 0.3)",
    "self.{m}.weight.requires_grad_(False)",
    "nn.utils.fuse_conv_bn_eval(self.{m}, nn.BatchNorm2d(self.{m}.out_channels).eval())",
)
