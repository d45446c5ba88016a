"""Weights as kernels read them, kept beside the tensors that they come from.

The cache belongs to no module: it is never copied, saved or traced. It is keyed on the weight
tensor itself and dropped with it. `Stamp` tells whether the packed numbers are still the same.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import torch

from winogen.conv.api import CONVOLUTIONS
from winogen.conv.api_transposed import TRANSPOSED
from winogen.conv.phases import ordinary
from winogen.conv.transposed_problem import ORDINARY
from winogen.torch.settings import LayerSettings

_SPREAD = 16  # numbers, about, that show changes which nothing counts


class Stamp:
    """The state of a tensor that is compared to notice changes of its numbers.

    It shows what torch's version counters show: operations in place, optimizer steps,
    `load_state_dict`, and a replaced `.data`. Writes through `tensor.data`, a numpy view or DLPack
    change numbers behind torch's back. A few numbers from all parts are compared for those, which
    finds what changes all or most numbers, as averages of weights do; only a copy, where one is
    kept, shows every change. Tensors made in inference mode have no version counter, so they always
    have a copy.
    """

    __slots__ = (
        "_copy",
        "_pointer",
        "_reference",
        "_some",
        "_some_bytes",
        "_storage",
        "_strides",
        "_version",
    )

    def __init__(self, tensor: torch.Tensor, copy: bool):
        counted = not tensor.is_inference()
        self._reference = weakref.ref(tensor)
        self._pointer = tensor.data_ptr()
        self._strides = tensor.stride()
        # Held, so that no later `.data` of this tensor can lie at the same address unnoticed.
        self._storage = tensor.untyped_storage()
        self._version = tensor._version if counted else None
        self._copy = tensor.detach().numpy().copy("K") if copy or not counted else None
        self._some = _spread(tensor)
        self._some_bytes = self._some.tobytes()  # so that NaN is equal to itself

    def holds(self, tensor: torch.Tensor | None) -> bool:
        """Whether ``tensor`` is the same one, with the same numbers, as far as torch can tell."""
        return (
            tensor is not None
            and self._reference() is tensor
            and self._pointer == tensor.data_ptr()
            and self._strides == tensor.stride()
            and (
                self.agrees(tensor)
                if self._version is None
                else self._version == tensor._version and self._some.tobytes() == self._some_bytes
            )
        )

    def agrees(self, tensor: torch.Tensor) -> bool:
        """Whether the numbers are equal to the copy's; not so without one."""
        if self._copy is None:
            return False
        bits = np.dtype(f"u{self._copy.itemsize}")  # so that NaN is equal to itself
        return np.array_equal(self._copy.view(bits), tensor.detach().numpy().view(bits))


def _spread(tensor: torch.Tensor) -> np.ndarray:
    """Return a view of a few numbers of a tensor, of its first and of others at equal distances."""
    sides = zip(tensor.shape, tensor.stride())
    span = 1 + sum((size - 1) * stride for size, stride in sides) if tensor.numel() else 0
    # An odd distance, so that not all of them have the same place in a filter.
    step = max(1, span // _SPREAD) | 1
    flat = torch.as_strided(tensor.detach(), (-(-span // step),), (step,), tensor.storage_offset())
    return flat.numpy()


class Packed(NamedTuple):
    """A layer with packed weights, and the tensors beside the weight that it was made of."""

    conv: Any  # one of `CONVOLUTIONS` or `TRANSPOSED`
    others: tuple[Stamp | None, ...]  # bias, slopes
    addresses: tuple[int, int]  # of the layer's bias and slopes, 0 where there are none

    def holds(self, others: tuple[torch.Tensor | None, ...]) -> bool:
        """Whether it was made of these, with the same numbers, as far as torch can tell."""
        for stamp, tensor in zip(self.others, others):
            if stamp is not tensor and (stamp is None or not stamp.holds(tensor)):
                return False
        return True

    def agrees(self, others: tuple[torch.Tensor | None, ...]) -> bool:
        """Whether the numbers are equal to these."""
        return all(
            stamp is tensor if stamp is None or tensor is None else stamp.agrees(tensor)
            for stamp, tensor in zip(self.others, others)
        )


class _Weight:
    """All layers that were made of one weight tensor."""

    __slots__ = ("__weakref__", "dropped", "layers", "shortcut", "stamp", "trained")

    def __init__(self, tensor: torch.Tensor, trained: bool):
        self.stamp = Stamp(tensor, copy=trained)
        self.trained = trained
        self.layers: dict[Any, Packed] = {}
        self.shortcut: Any = None  # how the last call was computed
        key = id(tensor)
        reference = weakref.ref(self)
        self.dropped = weakref.ref(tensor, lambda _: _drop(key, reference()))

    def holds(self, tensor: torch.Tensor, trained: bool) -> bool:
        """Whether its layers may be used for ``tensor`` as it is now."""
        return (
            self.trained == trained
            and self.stamp.holds(tensor)
            and (not trained or self.stamp.agrees(tensor))
        )


# Every access is one atomic step, so that threads need no lock: at worst two pack the same weights.
_weights: dict[int, _Weight] = {}


def _drop(key: int, weight: _Weight | None) -> None:
    """Forget a tensor that is gone, unless another with its id took its place."""
    if weight is not None and _weights.get(key) is weight:
        _weights.pop(key, None)


def repack(weight: torch.Tensor) -> None:
    """Forget what was packed of ``weight``, whose numbers changed where no counter shows it."""
    _weights.pop(id(weight), None)


def entry(weight: torch.Tensor) -> _Weight | None:
    """Return what was made of ``weight`` the last time, whatever its numbers are now."""
    return _weights.get(id(weight))


def keep(weight: torch.Tensor, shortcut: Any) -> None:
    """Remember how a call with ``weight`` was computed, for as long as its numbers are the same."""
    kept = _weights.get(id(weight))
    if kept is not None:
        kept.shortcut = shortcut


def layer(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    slopes: torch.Tensor | None,
    settings: LayerSettings,
    layout: str,
    trained: bool,
) -> Packed:
    """Return the layer with these parameters and options, its weights packed once.

    ``trained`` parameters are compared with copies of the packed ones, because fused optimizers and
    `gradcheck` change numbers without counting. It reads all numbers once more than the kernel
    does. What was packed for the one use is not taken for the other: an optimizer's last step comes
    after the last call that compares.

    Raises what `layer_of` raises.
    """
    threads = settings.threads or torch.get_num_threads()
    others, key = (bias, slopes), (settings, layout, threads)
    entry = _weights.get(id(weight))
    if entry is None or not entry.holds(weight, trained):
        entry = _weights[id(weight)] = _Weight(weight, trained)
    packed = entry.layers.get(key)
    if packed is None or not (packed.agrees(others) if trained else packed.holds(others)):
        stamps = tuple(None if other is None else Stamp(other, copy=True) for other in others)
        arrays = [None if one is None else one.detach().numpy() for one in (weight, *others)]
        conv = layer_of(arrays[0], arrays[1], arrays[2], settings, layout, threads)
        addresses = _address(conv._bias), _address(conv._slopes)
        packed = entry.layers[key] = Packed(conv, stamps, addresses)
    return packed


def _address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.ctypes.data


def layer_of(
    weight: Any, bias: Any, slopes: Any, settings: LayerSettings, layout: str, threads: Any
) -> Any:
    """Return winogen's layer of arrays, which computes what the settings say.

    A transposed layer of stride 1 is an ordinary one with turned filters, for which there are more
    kernels. Raises InvalidValue, InvalidType and Unsupported, as winogen's layers do.
    """
    plain = settings
    if settings.transposed:
        settings.check(weight.shape)
        plain = settings.turned(weight.shape[2:]) or settings
    if plain is not settings:
        weight = np.flip(ordinary(weight, plain.groups), tuple(range(2, weight.ndim)))
    options = plain.options(layout)
    kinds: Any = TRANSPOSED if plain.transposed else CONVOLUTIONS
    if plain.transposed:
        options = {name: one for name, one in options.items() if name not in ORDINARY}
    if slopes is not None:
        options["activation"] = ("prelu", slopes)
    return kinds[plain.rank](weight, bias, threads=threads, **options)
