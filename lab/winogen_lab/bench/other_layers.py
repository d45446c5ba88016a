"""The time of what lies between the convolutions of a net, operation by operation in PyTorch.

Maps have their channels last there, for that is how PyTorch pools fast. Batch normalizations
directly behind convolutions are left out: any program folds them into filters.
"""

from __future__ import annotations

from typing import Any

from winogen.tasks.turns import clock_of

# Operations of PyTorch; in a net all others are "rest".
KINDS = {
    "pools": ("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "mean"),
    "activations": (
        "relu", "leaky_relu", "_prelu_kernel", "elu", "gelu", "hardtanh", "sigmoid", "hardsigmoid",
        "silu", "hardswish",
    ),
    "sums": ("add",),
    "concatenations": ("cat",),
    "connected": ("addmm",),
}  # fmt: skip
REST = "rest"
_WARM = 8  # runs: in the first ones the allocator takes pages from the system, three times as slow
_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}


def kind_of(operation: str) -> str:
    """Return which of `KINDS` an operation of PyTorch is, or "rest".

    >>> kind_of("relu_"), kind_of("addmm"), kind_of("_softmax")
    ('activations', 'connected', 'rest')
    """
    return _KIND_OF.get(operation.removesuffix("_"), REST)


def other_seconds(module: Any, shape: tuple[int, ...], rounds: int) -> dict[str, float]:
    """Return the seconds of a module's other layers by kind, those that it has; on one thread.

    Every operation counts with its least time in so many rounds, in each of which the whole module
    runs on one input. Its weights are laid out channels last.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        last = torch.channels_last
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(memory_format=last)
        module.to(memory_format=last)
        taken = [_operations(module, x) for _ in range(_WARM + rounds)][_WARM:]
    finally:
        torch.set_num_threads(threads)
    seconds = dict.fromkeys((*KINDS, REST), 0.0)
    for (operation, _), *times in zip(taken[0], *taken):
        seconds[kind_of(operation)] += min(time for _, time in times)
    return {kind: total for kind, total in seconds.items() if total}


def _operations(module: Any, x: Any) -> list[tuple[str, float]]:
    """Each operation that is no convolution, nor folded into one, and how long it took."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    clock = clock_of(1)
    taken: list[tuple[str, float]] = []
    convolved: list[Any] = []  # kept, so that no later tensor takes the place of one

    class Timing(TorchDispatchMode):
        def __torch_dispatch__(
            self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            begin = clock()
            result = operation(*args, **(kwargs or {}))
            seconds = clock() - begin
            name = operation.overloadpacket.__name__
            if name == "convolution" and not args[6]:  # transposed ones are not among the layers
                convolved.append(result)
            elif name != "empty" and not (
                name == "native_batch_norm" and any(args[0] is one for one in convolved)
            ):
                taken.append((name, seconds))
            return result

    with torch.no_grad(), Timing():
        module(x)
    return taken
