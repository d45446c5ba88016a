"""Random nets as text of Python: what people write around convolutions, in every order.

A net follows from a seed and an index. Its text defines `model()`, which makes it in evaluation
mode, and `inputs(n, h, w)` and `others(n, h, w)`: positional and keyword arguments, as its users
might give them. Text, because a graph of operations has no `if`, no second name for a tensor and no
attribute that changes; and because it is what a failure should print.
"""

from __future__ import annotations

import linecache
import random
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_pieces import (
    ACTIVATIONS,
    ARGUMENTS,
    ASSERTIONS,
    CHANGES,
    CONDITIONS,
    CONVOLUTIONS,
    HEAD,
    HOOKS,
    KEEPING,
    OUTPUTS,
    PARAMETRIZATIONS,
    ROOT_HOOKS,
    SECOND_NAMES,
    STATES,
)

CHANNELS = (8, 16)  # few, since every other number may take another kernel
MOST_CONVOLUTIONS, MOST_CHANNELS, MOST_HALVINGS = 7, 24, 2
"""Sizes and batches of the example, then of other calls."""
SIZES, OTHER_SIZES = ((16, 16), (24, 16), (20, 20)), ((17, 22), (24, 24), (32, 16), (13, 19))
BATCHES, OTHER_BATCHES = (1, 1, 2, 3), (1, 2, 3, 5)


@dataclass(frozen=True)
class Net:
    """A net, and how its example and the other calls look."""

    source: str
    size: tuple[int, int]
    batch: int
    other_size: tuple[int, int]
    other_batch: int
    mode: str  # "no_grad", "inference_mode" or "gradient"
    opaque: bool  # whether it does what no proof can see through
    name: str

    def load(self) -> dict[str, Any]:
        """Return what its text defines."""
        file = f"<{self.name}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)
        module = types.ModuleType(self.name.replace(" ", "_"))
        sys.modules[module.__name__] = module  # data classes look there
        exec(compile(self.source, file, "exec"), vars(module))
        return vars(module)


@dataclass(frozen=True)
class Value:
    """A map in the making: (N, channels, H, W), H and W being some function of the input's."""

    name: str
    channels: int
    size: str = ""  # names the function: what is the same for two maps fits at every input
    dtype: str = "float32"

    @property
    def halvings(self) -> int:
        """How often its sides were halved."""
        return self.size.count("/")


@dataclass
class Writer:
    """The text of a net as far as it is written."""

    rng: random.Random
    made: list[str] = field(default_factory=list)  # lines of __init__
    lines: list[str] = field(default_factory=list)  # lines of forward
    after: list[str] = field(default_factory=list)  # lines of model()
    values: list[Value] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)  # second names, which are returned as well
    convolutions: list[tuple[str, int, int]] = field(default_factory=list)  # keep sizes: reusable
    plain: list[str] = field(default_factory=list)  # names of modules that are nn.Conv2d
    indent: int = 0
    opaque: bool = False
    count: int = 0

    def number(self) -> int:
        """A number that no name has."""
        self.count += 1
        return self.count

    def say(self, line: str) -> None:
        """Write a line of forward."""
        self.lines.append("    " * self.indent + line)

    def module(self, text: str, kind: str = "m") -> str:
        """Make a module, and return the name by which forward calls it."""
        name = f"{kind}{self.number()}"
        self.made.append(f"self.{name} = {text}")
        if text.startswith("nn.Conv2d("):
            self.plain.append(name)
        return f"self.{name}"

    def new(self, text: str, like: Value, **changed: Any) -> Value:
        """Write `v = text`, and return the value."""
        fields = {"channels": like.channels, "size": like.size, "dtype": like.dtype} | changed
        value = Value(f"v{self.number()}", **fields)
        self.say(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def pick(self, *, late: bool = True) -> Value:
        """A value, rather one of the last."""
        recent = self.values[-2:] if late and self.rng.random() < 0.7 else self.values
        return self.rng.choice(recent)

    def like(self, value: Value) -> Value:
        """Another value of the same sizes, made by a convolution where there is none."""
        same = [
            other for other in self.values
            if other != value and (other.channels, other.size, other.dtype)
            == (value.channels, value.size, value.dtype)
        ]  # fmt: skip
        if same and self.rng.random() < 0.8:
            return self.rng.choice(same)
        return conv(self, value, value.channels)


def conv(w: Writer, x: Value, channels: int | None = None, *, kinds: tuple = CONVOLUTIONS) -> Value:
    """A convolution; one that is there already, now and then."""
    usable = [c for c in w.convolutions if c[1] == x.channels and channels in (None, c[2])]
    if x.dtype == "float32" and usable and w.rng.random() < 0.2:
        name, _, many = w.rng.choice(usable)
        return w.new(f"{name}({x.name})", x, channels=many)
    fitting = [
        kind for kind in kinds
        if (channels is None or not kind.size)
        and (x.halvings < MOST_HALVINGS or "/" not in kind.size)
        and (not kind.depthwise or channels in (None, x.channels)) and x.channels % kind.groups == 0
    ]  # fmt: skip
    kind = w.rng.choices(fitting, [k.weight for k in fitting])[0]
    many = x.channels if kind.depthwise else channels or w.rng.choice(CHANNELS)
    text = kind.text.format(c=x.channels, k=many)
    name = w.module(text + ".double()" * (x.dtype == "float64"), "c")
    if not kind.size and x.dtype == "float32":
        w.convolutions.append((name, x.channels, many))
    return w.new(f"{name}({x.name})", x, channels=many, size=x.size + kind.size)


Step = Callable[[Writer], None]
_STEPS: list[tuple[float, Step]] = []


def step(weight: float) -> Callable[[Step], Step]:
    """Enter a step with its weight among all."""

    def entered(function: Step) -> Step:
        _STEPS.append((weight, function))
        return function

    return entered


@step(8)
def _conv(w: Writer) -> None:
    conv(w, w.pick())


@step(4)
def _block(w: Writer) -> None:
    x = w.pick()
    many = w.rng.choice(CHANNELS)
    act = w.rng.choice([a for a in ACTIVATIONS if a.startswith("nn.") and "{c}" not in a])
    text = (
        f"nn.Sequential(nn.Conv2d({x.channels}, {many}, 3, padding=1, bias=False), "
        f"nn.BatchNorm2d({many}), {act})"
    )
    if x.dtype == "float64":
        text += ".double()"
    w.new(f"{w.module(text, 'b')}({x.name})", x, channels=many)


@step(8)
def _activation(w: Writer) -> None:
    x = w.pick()
    text = w.rng.choice(ACTIVATIONS).format(c=x.channels, x=x.name)
    if text.startswith("nn."):
        text = f"{w.module(text + '.double()' * (x.dtype == 'float64'))}({x.name})"
    w.new(text, x)


@step(6)
def _keeping(w: Writer) -> None:
    """A step of one map that keeps its sizes: normalization, attention, shuffles, casts."""
    x = w.pick()
    kind = w.rng.choice(KEEPING)
    parts = {"c": x.channels, "x": x.name, "half": x.channels // 2}
    for line in kind.made:
        name = f"m{w.number()}"
        text = line.format(**parts)
        if x.dtype == "float64" and text.startswith("nn.Parameter("):
            text = f"nn.Parameter(({text[13:-1]}).double())"
        elif x.dtype == "float64":
            text += ".double()"
        w.made.append(f"self.{name} = {text}")
        parts[f"m{len(parts) - 3}"] = f"self.{name}"
    for line in kind.lines:
        w.say(line.format(**parts, v=f"t{w.count}"))
    w.opaque |= kind.opaque
    w.new(kind.text.format(**parts, v=f"t{w.count}"), x, size=x.size + kind.size)


@step(7)
def _residual(w: Writer) -> None:
    x = w.pick()
    y = w.like(x)
    texts = (
        "{0} + {1}", "{0} + {1}", "{0} - {1}", "{0} * torch.sigmoid({1})", "{0}.add({1}, alpha=2)",
        "torch.add({0}, {1})", "F.relu({0} + {1})", "{0} + 0.5 * {1}", "torch.maximum({0}, {1})",
        "sum([{0}, {1}])", "0.1 * {0} + {1}", "torch.where({1} > 1e6, {0}, {1})",
        "torch.stack([{0}, {1}]).sum(0)", "torch.lerp({0}, {1}, 0.3)", "{0} / ({1}.abs() + 1)",
    )  # fmt: skip
    w.new(w.rng.choice(texts).format(x.name, y.name), x)


@step(5)
def _in_place(w: Writer) -> None:
    """A change in place, which a second name for the tensor may see."""
    x = w.pick()
    y = w.like(x)
    w.opaque |= x.name in ("x", "wide")  # what the caller has changes
    if w.rng.random() < 0.5:
        w.opaque = True
        k = f"k{w.number()}"
        w.say(f"{k} = {w.rng.choice(SECOND_NAMES).format(v=x.name, half=x.channels // 2)}")
        w.extras.append(k)
        if w.rng.random() < 0.3:
            w.say(f"{k} *= 0.5")
    change = w.rng.choice(CHANGES).format(v=x.name, w=y.name, half=x.channels // 2)
    w.say(change)
    if w.rng.random() < 0.5:
        conv(w, x)


@step(4)
def _concatenation(w: Writer) -> None:
    x = w.pick()
    y = w.like(x)
    if x.channels + y.channels > MOST_CHANNELS:
        return _residual(w)
    texts = (
        "torch.cat(({0}, {1}), 1)", "torch.cat([{0}, {1}], dim=-3)", "torch.hstack([{0}, {1}])",
        "torch.concat(({1}, {0}), dim=1)",
    )  # fmt: skip
    both = w.new(w.rng.choice(texts).format(x.name, y.name), x, channels=x.channels + y.channels)
    conv(w, both, w.rng.choice(CHANNELS))


@step(3)
def _chunks(w: Writer) -> None:
    x = w.pick()
    if x.channels % 2 or x.channels < 8:
        return _conv(w)
    half, a, b = x.channels // 2, w.number(), w.number()
    texts = (
        "{0}.chunk(2, 1)", "torch.split({0}, {1}, dim=1)", "({0}[:, :{1}], {0}[:, {1}:])",
        "{0}.tensor_split(2, dim=1)",
    )  # fmt: skip
    w.say(f"v{a}, v{b} = {w.rng.choice(texts).format(x.name, half)}")
    first, second = (Value(f"v{n}", half, x.size, x.dtype) for n in (a, b))
    if w.rng.random() < 0.4:
        w.say(w.rng.choice(CHANGES).format(v=first.name, w=second.name, half=half // 2))
    w.values += [first, second]
    joined = w.rng.choice(("{0} * torch.sigmoid({1})", "torch.cat(({1}, {0}), 1)", "{0} + {1}"))
    many = 2 * half if "cat" in joined else half
    conv(w, w.new(joined.format(first.name, second.name), x, channels=many), w.rng.choice(CHANNELS))


@step(3)
def _resize(w: Writer) -> None:
    """Up to the size of an earlier map, as decoders do, and join it."""
    x, y = w.pick(), w.rng.choice(w.values)
    to = f"{y.name}.shape[2:]" if w.rng.random() < 0.5 else f"({y.name}.size(2), {y.name}.size(-1))"
    mode = w.rng.choice(
        ("'nearest'", "'bilinear', align_corners=False", "'bilinear', align_corners=True")
    )
    up = w.new(f"F.interpolate({x.name}, size={to}, mode={mode})", x, size=y.size)
    if up.channels == y.channels and up.dtype == y.dtype:
        w.new(f"{up.name} + {y.name}", up)


@step(2)
def _transposed(w: Writer) -> None:
    x = w.pick()
    if "*" in x.size or x.dtype != "float32":
        return _conv(w)
    many = w.rng.choice(CHANNELS)
    options = w.rng.choice(
        ("2, stride=2", "4, stride=2, padding=1", "3, stride=2, padding=1, output_padding=1")
    )
    up = w.module(f"nn.ConvTranspose2d({x.channels}, {many}, {options})")
    w.new(f"{up}({x.name})", x, channels=many, size=x.size + "*")


@step(3)
def _guard(w: Writer) -> None:
    """An `if`, on what follows from the sizes or from the numbers; both branches fit."""
    x = w.pick()
    condition, opaque = w.rng.choice(CONDITIONS)
    w.opaque |= opaque
    many = w.rng.choice((x.channels, *CHANNELS))
    out = Value(f"v{w.number()}", many, x.size, x.dtype)
    w.say(f"if {condition.format(x=x.name)}:")
    for word in ("then", "else"):
        before = list(w.values), list(w.convolutions)
        w.indent += 1
        if word == "else" and many == x.channels and w.rng.random() < 0.5:
            w.say(f"{out.name} = {x.name}")
        else:
            y = conv(w, x, many, kinds=tuple(k for k in CONVOLUTIONS if not k.size))
            w.say(f"{out.name} = {y.name}")
        w.indent -= 1
        w.values, w.convolutions = before
        if word == "then":
            w.say("else:")
    w.values.append(out)


@step(1.5)
def _assertion(w: Writer) -> None:
    x = w.pick()
    w.say(w.rng.choice(ASSERTIONS).format(x=x.name, c=x.channels))


@step(1)
def _state(w: Writer) -> None:
    x = w.pick()
    state = w.rng.choice(STATES)
    name = f"s{w.number()}"
    w.opaque |= state.opaque
    w.made += [line.format(s=name, c=x.channels) for line in state.made]
    for line in state.lines:
        w.say(line.format(s=name, x=x.name))
    w.new(state.text.format(s=name, x=x.name), x)


@step(1.5)
def _loop(w: Writer) -> None:
    """Modules in a list, used in a loop."""
    x = w.pick()
    if x.dtype != "float32":
        return _conv(w)
    name = w.module(
        f"nn.ModuleList(nn.Conv2d({x.channels}, {x.channels}, 3, padding=1) for _ in range(2))"
    )
    y = w.new(f"{x.name}", x)
    loop = w.rng.choice(
        (
            "for layer in {m}:",
            "for layer in [{m}[i] for i in (1, 0)]:",
            "for layer in reversed({m}):",
        )
    )
    w.say(loop.format(m=name))
    bodies = (
        "{0} = F.relu(layer({0}))", "{0} = {0} + layer({0})", "{0} = {0} - 0.1 * layer({0})",
        "{0} = torch.relu_(layer({0}))",
    )  # fmt: skip
    w.say("    " + w.rng.choice(bodies).format(y.name))


def net_of(seed: int, index: int) -> Net:
    """Return net ``index`` of a seed."""
    rng = random.Random(f"{seed} {index}")
    w = Writer(rng)
    arguments = rng.choice(ARGUMENTS) if rng.random() < 0.4 else ARGUMENTS[0]
    for line in arguments.lines:
        w.say(line)
    w.values.append(Value("x", 3))
    if rng.random() < 0.1:
        w.values.append(Value("wide", 3, "", "float64"))
        w.say("wide = x.double()")
    conv(w, w.values[-1])
    wanted = rng.randint(3, MOST_CONVOLUTIONS)
    weights, steps = zip(*_STEPS)
    while sum("Conv2d" in line for line in w.made) < wanted and len(w.lines) < 40:
        rng.choices(steps, weights)[0](w)
    _finish(w, arguments.hookable)
    body = "\n        ".join(w.lines)
    source = HEAD.format(
        made="\n        ".join(w.made),
        arguments=arguments.signature,
        body=body,
        seed=rng.randrange(1 << 30),
        after="\n    ".join(w.after or ["pass"]),
        inputs=arguments.inputs,
        others=arguments.others,
    )
    mode = rng.choices(("no_grad", "inference_mode", "gradient"), (4, 3, 1))[0]
    return Net(
        source,
        rng.choice(SIZES),
        rng.choice(BATCHES),
        rng.choice(OTHER_SIZES),
        rng.choice(OTHER_BATCHES),
        mode,
        w.opaque,
        f"net {index} of seed {seed}",
    )


def _finish(w: Writer, hookable: bool) -> None:
    """Outputs, hooks and parametrizations."""
    rng = w.rng
    last = w.values[-1]
    while last.channels == 3 and last.name == "x":
        last = conv(w, last)
    others = [v.name for v in rng.sample(w.values, min(2, len(w.values)))] + w.extras[-2:]
    output = rng.choice(OUTPUTS) if rng.random() < 0.5 or w.extras else "return {v}"
    if w.extras and "{o}" not in output:
        output = "return [{v}, {o}]"
    w.say(output.format(v=last.name, o=", ".join(others)))
    for name in w.plain:
        if rng.random() < 0.05:
            w.after.append(rng.choice(HOOKS).format(m=name))
            w.opaque = True
        elif rng.random() < 0.04:
            w.after.append(rng.choice(PARAMETRIZATIONS).format(m=name))
            w.opaque |= "nn.utils.weight_norm" in w.after[-1] or "spectral" in w.after[-1]
    if hookable and rng.random() < 0.06:
        w.after.append(rng.choice(ROOT_HOOKS))
        w.opaque = True
