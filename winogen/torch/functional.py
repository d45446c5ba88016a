"""`conv2d` on tensors, and which of three ways a call takes: a kernel, the operator, or torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, SupportsIndex

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from winogen.conv import arguments
from winogen.errors import InvalidType
from winogen.torch import activations, gradients, ops
from winogen.torch.settings import LayerSettings, settings
from winogen.torch.shortcut import like_before
from winogen.typing import (
    Activation,
    Algorithm,
    Border,
    Edge,
    IntOrInts,
    Order,
    Padding,
    PaddingMode,
    Real,
    Texts,
    Tile,
)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    # parameters: stride ... padding_mode activation
    stride: IntOrInts = 1,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    groups: SupportsIndex = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    activation: Activation | None = None,
    # end
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    # parameters: algorithm ... border threads ... tolerance
    algorithm: Algorithm = "auto",
    tile: Tile | None = None,
    points: Texts | None = None,
    moduli: Texts | None = None,
    order: Order | None = None,
    edge: Edge = "discard",
    border: Border = "unswitch",
    threads: SupportsIndex | None = None,
    workspace_limit: SupportsIndex | None = None,
    tolerance: Real | None = None,
    # end
) -> Tensor:
    """Return activation(convolution + bias + ``add``) + ``add_after`` of torch tensors.

    Options are the same as for `winogen.conv2d`, which explains them. Autograd works to any order.

    Tensors
    -------
    input
        (N, C, H, W), or (C, H, W), one image; with any strides. A channels-last input gives a
        channels-last result, without copies.
    weight, bias
        (M, C/groups, KH, KW), and None or (M,).
    add, add_after
        None, or tensors with the shape of the result.

    What torch computes
    -------------------
    Everything on other devices than the CPU, in other dtypes than float32 and float64, and under
    autocast. Where gradients are required, also activations whose derivative cannot be told from
    their output.

    Options that differ
    -------------------
    activation
        The slopes of ("prelu", slopes) are a number, or a tensor (M,) or (1,).
    points, moduli
        Texts, or pairs (height, width) of texts.
    threads
        None for as many as torch uses.

    Returns
    -------
    (N, M, OH, OW), or (M, OH, OW) for one image.

    Raises
    ------
    InvalidType, InvalidValue, Unsupported, BuildError, OutOfMemory
        As `winogen.conv2d`, before any work; where torch computes, what it raises.

    >>> import torch, winogen.torch
    >>> x, w = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)
    >>> winogen.torch.conv2d(x, w, padding=1, activation="relu")[0, 0].tolist()
    [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]
    """
    name, parameters, slopes = activation_parts(activation)
    tile, points, moduli = frozen(tile), frozen(points), frozen(moduli)
    options = LayerOptions(
        # arguments: algorithm ... border workspace_limit tolerance threads
        algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance, threads,
        # end
    )  # fmt: skip
    request = LayerRequest(
        frozen(stride),
        frozen(padding),
        frozen(dilation),
        groups,
        padding_mode,
        name,
        parameters,
        options,
        tuple(weight.shape[2:]),
    )
    return call(input, weight, bias, slopes, add, add_after, request)


class LayerOptions(NamedTuple):
    """How to compute, as `winogen.conv2d` takes it."""

    # fields: algorithm ... border workspace_limit tolerance threads
    algorithm: Algorithm = "auto"
    tile: Tile | None = None
    points: Texts | None = None
    moduli: Texts | None = None
    order: Order | None = None
    edge: Edge = "discard"
    border: Border = "unswitch"
    workspace_limit: SupportsIndex | None = None
    tolerance: Real | None = None
    threads: SupportsIndex | None = None
    # end


class LayerRequest(NamedTuple):
    """What a call asks for besides tensors, as a user spells it but for the activation."""

    stride: Any
    padding: Any
    dilation: Any
    groups: SupportsIndex
    padding_mode: PaddingMode
    activation: str | None
    parameters: tuple[float, ...]
    options: LayerOptions
    kernel: tuple[int, ...]

    def plain(self) -> tuple:
        """The arguments of the operator; kept simple, since dynamo traces it."""
        options = self.options
        return (
            _pair(self.stride),
            _sides(self),
            _pair(self.dilation),
            self.groups,
            self.padding_mode,
            self.activation,
            self.parameters,
            options.algorithm,
            _listed(options.tile),
            _joined(options.points),
            _joined(options.moduli),
            *options[4:],
        )


@lru_cache(maxsize=1024)
def _settings(wanted: LayerRequest) -> LayerSettings:
    return settings(*wanted.plain())


# Others, as fake tensors, may have no memory; only the dispatcher knows what to do with them.
_PLAIN = (Tensor, torch.nn.Parameter, type(None))


def call(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    slopes: Tensor | None,
    add: Tensor | None,
    add_after: Tensor | None,
    wanted: LayerRequest,
) -> Tensor:
    """Compute by a kernel at once, by the operator where somebody watches, or by torch.

    The input is (N, C, H, W) or (C, H, W); ``add`` and ``add_after`` have as many axes.
    """
    watched = _watched()
    if (
        not (watched or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
        and add is None
        and add_after is None
        and type(input) in _PLAIN
        and type(weight) in _PLAIN
    ):
        y = like_before(input, weight, bias, slopes, wanted)
        if y is not None:
            return y
    taken = takes(input, weight)
    if input.dim() == 3:
        add, add_after = (None if one is None else one.unsqueeze(0) for one in (add, add_after))
        image = input.unsqueeze(0)
        return call(image, weight, bias, slopes, add, add_after, wanted).squeeze(0)
    if not taken or (watched and (exported() or transformed())):
        return by_torch(input, weight, bias, slopes, add, add_after, wanted)
    tensors = (input, weight, bias, slopes, add, add_after)
    needed = torch.is_grad_enabled() and any(
        one is not None and one.requires_grad for one in tensors
    )
    if not (needed or watched) and all(type(one) in _PLAIN for one in tensors):
        asked = _settings(wanted)
        ops.check(*tensors)
        return ops.run(input, weight, bias, asked, slopes, add, add_after, wanted=wanted)
    name, parameters = wanted.activation, wanted.parameters
    if needed and not (activations.told_by_output(name, parameters) and add_after is None):
        # Fused, the backward pass would have to compute again what went into the activation.
        plain = wanted._replace(activation=None, parameters=())
        z = _operator(input, weight, bias, None, add, None, plain)
        y = activations.apply(name, parameters if slopes is None else (slopes,), z)
        return y if add_after is None else y + add_after
    return _operator(input, weight, bias, slopes, add, add_after, wanted)


def _operator(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    slopes: Tensor | None,
    add: Tensor | None,
    add_after: Tensor | None,
    wanted: LayerRequest,
) -> Tensor:
    plain = wanted.plain()
    return gradients.conv2d(input, weight, bias, *plain[:7], slopes, add, add_after, *plain[7:])


def takes(input: Tensor, weight: Tensor) -> bool:
    """Whether the kernels compute with such tensors; raises InvalidType for what is no tensor."""
    if not isinstance(input, Tensor):
        raise InvalidType(f"input: got {type(input).__name__}; allowed: a torch tensor")
    dtype = input.dtype
    return (
        input.is_cpu
        and weight.is_cpu
        and (dtype is torch.float32 or dtype is torch.float64)
        and weight.dtype is dtype
        and input.layout is torch.strided
        and not torch.is_autocast_enabled("cpu")
    )


def by_torch(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    slopes: Tensor | None,
    add: Tensor | None,
    add_after: Tensor | None,
    wanted: LayerRequest,
) -> Tensor:
    """Compute the same by torch's own functions, whatever the device and the dtype."""
    top, bottom, left, right = _sides(wanted)
    padding = (top, left)
    mode: Any = {} if wanted.padding_mode == "zeros" else {"mode": wanted.padding_mode}
    if mode or (top, left) != (bottom, right):
        input = F.pad(input, (left, right, top, bottom), **mode)
        padding = (0, 0)
    z = F.conv2d(input, weight, bias, wanted.stride, padding, wanted.dilation, wanted.groups)
    if add is not None:
        z = z + add
    parameters = wanted.parameters if slopes is None else (slopes,)
    y = activations.apply(wanted.activation, parameters, z)
    return y if add_after is None else y + add_after


# Who must see an operator instead of what it does.


def _private(path: str) -> Callable[[], Any]:
    """Return one of torch's own functions; where a version lacks it, one that always answers yes.

    Then every call goes through the operator, which is right, and some microseconds slower.
    """
    function: Any = torch
    for name in path.split("."):
        function = getattr(function, name, None)
    return function or (lambda: 1)


_profiler = torch.autograd.profiler
_is_tracing = _private("_C._is_tracing")
_dispatch_modes = _private("_C._len_torch_dispatch_stack")  # fake tensors, make_fx, counters
_function_modes = _private("_C._len_torch_function_stack")
_transforms = _private("_C._functorch.peek_interpreter_stack")  # vmap, grad and the like
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # since torch 2.7


def _watched() -> bool:
    """Whether calls are traced, profiled or transformed."""
    return bool(
        torch.compiler.is_compiling()
        or _is_tracing()
        or _profiler._is_profiler_enabled
        or _dispatch_modes()
        or _function_modes()
        or transformed()
    )


def unwatched(*tensors: Tensor | None) -> bool:
    """Whether a call needs no operator, for nobody looks at it: no trace and no gradient."""
    if _watched() or not all(type(one) in _PLAIN for one in tensors):
        return False
    return not torch.is_grad_enabled() or not any(
        one is not None and one.requires_grad for one in tensors
    )


def exported() -> bool:
    """Whether a call is written down for others, who may know torch's functions only."""
    if torch.compiler.is_compiling():  # dynamo does not look into the other question
        return bool(_is_exporting() or torch.onnx.is_in_onnx_export())
    if _is_tracing():
        return True
    # Whoever has not imported it exports nothing, and need not wait until it is imported.
    return "torch.onnx" in sys.modules and bool(torch.onnx.is_in_onnx_export())


def transformed() -> bool:
    """Whether a call is differentiated forward or vectorised, which only torch's functions know.

    An operator would drop the tangents, and is refused by `torch.func.grad`.
    """
    if torch.compiler.is_compiling():  # dynamo knows transforms by itself
        return False
    return _transforms() is not None or forward_ad._current_level >= 0


# Spellings of arguments.


def activation_parts(activation: Any) -> tuple[str | None, tuple[float, ...], Tensor | None]:
    """Return the name, numbers and slopes of an operator for ``activation=``.

    Raises InvalidType and InvalidValue.
    """
    asked = arguments.activation(activation)
    if not asked.per_filter:
        return asked.activation, asked.parameters, None
    slopes = activation[1]
    if isinstance(slopes, (int, float)):  # the same for all channels
        return "leaky_relu", (float(slopes),), None
    if not isinstance(slopes, Tensor):
        raise InvalidType(f"activation: got {activation!r}; allowed: slopes as a tensor")
    return asked.activation, (), slopes


def frozen(value: Any) -> Any:
    """Lists as tuples, which caches can look up."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    return value


def _pair(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value, value)


def _listed(tile: Any) -> tuple:
    """None, one size, or a pair, as the list of a schema; 0 is for the default."""
    if tile is None:
        return ()
    return tuple(size or 0 for size in tile) if isinstance(tile, tuple) else (tile,)


def _joined(value: Any) -> Any:
    """None, a text, or a pair of them, as one text."""
    return ";".join(text or "" for text in value) if isinstance(value, tuple) else value


def _sides(wanted: LayerRequest) -> tuple:
    """Top, bottom, left, right of padding in any spelling; raises InvalidType and InvalidValue."""
    stride = arguments.per_axis("stride", wanted.stride, 1, 2)
    dilation = arguments.per_axis("dilation", wanted.dilation, 1, 2)
    ends = arguments.padding(wanted.padding, wanted.kernel, stride, dilation)
    return tuple(end for both in ends for end in both)
