"""Layers drawn at random, of every number of axes: what torch computes in float64, and what comes
back through them, once and twice.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import winogen.torch  # noqa: E402

F = torch.nn.functional
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
ACTIVATIONS = (None, "relu", "silu", ("leaky_relu", 0.1), "prelu")
MODES = ("zeros", "zeros", "reflect", "replicate", "circular")


@dataclass(frozen=True)
class Case:
    """A layer and how its arrays lie."""

    rank: int
    transposed: bool
    batch: int | None  # None: one image without it
    size: tuple[int, ...]
    channels: int  # of a group
    filters: int  # of a group
    groups: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    more: tuple[int, ...]  # output padding
    mode: str
    activation: Any
    operands: frozenset  # of bias, add, add_after
    lies: str
    dtype: torch.dtype
    algorithm: str

    def output(self):
        """The sizes of the output."""
        sizes = []
        for n, k, s, d, ends, more in zip(
            self.size, self.kernel, self.stride, self.dilation, self.padding, self.more
        ):
            reach = d * (k - 1) + 1
            if self.transposed:
                sizes.append((n - 1) * s + reach - sum(ends) + more)
            else:
                sizes.append((n + sum(ends) - reach) // s + 1 if n + sum(ends) >= reach else 0)
        return tuple(sizes)

    def possible(self):
        """Whether torch and winogen take it."""
        spare = {"reflect": 1, "circular": 0}.get(self.mode)
        fits = spare is None or all(
            max(ends) <= n - spare for n, ends in zip(self.size, self.padding)
        )
        return fits and min(self.output()) > 0


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 3))
    each = lambda least, most: draw(st.tuples(*[st.integers(least, most)] * rank))
    transposed = draw(st.booleans())
    stride = each(1, 3) if draw(st.booleans()) else (1,) * rank
    dilation = each(1, 2)
    if draw(st.booleans()):
        padding = tuple(zip(each(0, 2), each(0, 2)))
    else:
        padding = tuple((end, end) for end in each(0, 3))
    more = (0,) * rank
    if transposed:
        more = tuple(min(n, max(s, d) - 1) for n, s, d in zip(each(0, 2), stride, dilation))
    wide = draw(st.integers(0, 4)) == 0  # enough for kernels of gradients
    count = st.sampled_from((16, 17)) if wide else st.integers(1, 5)
    return Case(
        rank, transposed, draw(st.sampled_from((None, 0, 1, 2))), each(2, 6), draw(count),
        draw(count), draw(st.integers(1, 2)), each(1, 3), stride, dilation, padding, more,
        "zeros" if transposed else draw(st.sampled_from(MODES)),
        draw(st.sampled_from(ACTIVATIONS)),
        frozenset(draw(st.sets(st.sampled_from(("bias", "add", "add_after"))))),
        draw(st.sampled_from(("planar", "last", "slice", "strided"))),
        draw(st.sampled_from((torch.float32, torch.float64, torch.float64))),
        draw(st.sampled_from(("auto", "direct"))),
    )  # fmt: skip


def lying(x, lies):
    """The same numbers, somewhere else in memory."""
    if lies == "last" and x.dim() in FORMATS:
        return x.contiguous(memory_format=FORMATS[x.dim()])
    if lies == "slice" and x.dim() > 2:
        channels = x.shape[1]
        return torch.cat([x, x, x], 1)[:, channels : 2 * channels]
    if lies == "strided":
        return torch.stack([x, x], -1)[..., 1]
    return x


def tensors(case, generator):
    """Input, weight, and the operands that there are."""
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=case.dtype)
    first, second = case.groups * case.filters, case.channels
    if case.transposed:
        first, second = case.groups * case.channels, case.filters
    shape = (case.batch or (0 if case.batch == 0 else 1), case.groups * case.filters)
    found = {
        "input": draw(shape[0], case.groups * case.channels, *case.size),
        "weight": draw(first, second, *case.kernel),
    }
    if "bias" in case.operands:
        found["bias"] = draw(shape[1])
    for name in ("add", "add_after"):
        if name in case.operands:
            found[name] = draw(*shape, *case.output())
    if case.activation == "prelu":
        found["slopes"] = draw(shape[1])
    for name in ("input", "add", "add_after"):
        if name in found:
            found[name] = lying(found[name], case.lies)
            if case.batch is None:
                found[name] = found[name][0]
    return {name: one.detach().requires_grad_() for name, one in found.items()}


def ours(case, operands):
    """What winogen computes, by its function."""
    operands = dict(operands)
    activation = case.activation
    if activation == "prelu":
        activation = ("prelu", operands.pop("slopes"))
    kind = {"output_padding": case.more} if case.transposed else {"padding_mode": case.mode}
    name = f"conv_transpose{case.rank}d" if case.transposed else f"conv{case.rank}d"
    return getattr(winogen.torch, name)(
        **operands, stride=case.stride, padding=case.padding, dilation=case.dilation,
        groups=case.groups, activation=activation, algorithm=case.algorithm, **kind,
    )  # fmt: skip


def theirs(case, operands):
    """The same by torch's functions."""
    x, weight, bias = (operands.get(name) for name in ("input", "weight", "bias"))
    batched = case.batch is not None
    x = x if batched else x[None]
    if case.transposed:
        full = getattr(F, f"conv_transpose{case.rank}d")(
            x, weight, bias, case.stride, 0, 0, case.groups, case.dilation
        )
        spare = [0 for _ in range(2 * case.rank)]
        for axis, more in enumerate(case.more):
            spare[-2 * axis - 1] = more
        z = F.pad(full, spare)
        if bias is not None:  # which the padding lacks
            inside = F.pad(torch.ones_like(full), spare)
            z = z + (1 - inside) * bias.reshape(-1, *[1] * case.rank)
        for axis, ((before, _), count) in enumerate(zip(case.padding, case.output()), 2):
            z = z.narrow(axis, before, count)
    else:
        ends = [end for both in reversed(case.padding) for end in both]
        mode = "constant" if case.mode == "zeros" else case.mode
        if not x.shape[0]:  # which torch pads by zeros only
            mode = "constant"
        x = F.pad(x, ends, mode=mode)
        z = getattr(F, f"conv{case.rank}d")(
            x, weight, bias, case.stride, 0, case.dilation, case.groups
        )
    z = z if batched else z[0]
    z = z + operands.get("add", 0)
    if case.activation == "prelu":
        slopes = operands["slopes"].reshape(-1, *[1] * case.rank)
        z = torch.where(z > 0, z, slopes * z)
    elif case.activation is not None:
        name = case.activation if isinstance(case.activation, str) else case.activation[0]
        z = getattr(F, name)(z, *case.activation[1:] if name == "leaky_relu" else ())
    return z + operands.get("add_after", 0)


def backward(y, leaves, generator):
    """The output, gradients of all leaves, and gradients of these."""
    draw = lambda one: torch.randn(one.shape, generator=generator, dtype=torch.float64).to(
        one.dtype
    )
    first = torch.autograd.grad(y, leaves, draw(y), create_graph=True)
    total = sum((one * draw(one)).sum() for one in first)
    second = [None] * len(leaves)
    if total.requires_grad:  # where no output sees an input, nothing goes back twice
        second = torch.autograd.grad(total, leaves, allow_unused=True)
    return [y, *first, *(0 * x if one is None else one for x, one in zip(leaves, second))]


@settings(max_examples=120)
@given(cases().filter(Case.possible), st.integers(0, 2**31))
def test_random_layers(case, seed):
    operands = tensors(case, torch.Generator().manual_seed(seed))
    exact = {name: one.detach().double().requires_grad_() for name, one in operands.items()}
    results = []
    for compute, given_operands in ((ours, operands), (theirs, exact)):
        y = compute(case, given_operands)
        results.append(backward(y, [*given_operands.values()], torch.Generator().manual_seed(seed)))
    scales = [float(one.detach().abs().max()) if one.numel() else 0 for one in results[1]]
    bound = 1e-4 if case.dtype == torch.float32 else 1e-11
    for one, other, scale in zip(*results, scales):
        assert one.dtype == case.dtype and one.shape == other.shape
        torch.testing.assert_close(one.double(), other, rtol=0, atol=bound * max(scale, 1))
    with torch.no_grad():  # by the short ways, the second time
        for _ in range(2):
            y = ours(case, {name: one.detach() for name, one in operands.items()})
            torch.testing.assert_close(
                y.double(), results[1][0], rtol=0, atol=bound * max(scales[0], 1)
            )
    if case.lies == "last" and case.batch and case.rank > 1 and case.channels * case.groups > 1:
        assert y.is_contiguous(memory_format=FORMATS[case.rank + 2])


@settings(max_examples=25)
@given(cases().filter(Case.possible), st.sampled_from((torch.float16, torch.bfloat16)))
def test_types_that_are_torchs(case, dtype):
    """Layers of 16 bits are computed by torch, with every option."""
    operands = tensors(case, torch.Generator().manual_seed(0))
    narrow = {name: one.detach().to(dtype) for name, one in operands.items()}
    y = ours(case, narrow)
    expected = theirs(case, {name: one.double() for name, one in narrow.items()})
    assert y.dtype == dtype and y.shape == expected.shape
    scale = float(expected.abs().max()) if expected.numel() else 0
    bound = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=bound * max(scale, 1))
