"""Weights as kernels read them, kept beside the tensors that they come from.

The cache belongs to no module: it is never copied, saved or traced. It is keyed on the weight
tensor itself and dropped with it. `Stamp` tells whether the packed numbers are still the same.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.weak import WeakIdKeyDictionary

from winogen.conv import Conv2d
from winogen.torch.settings import LayerSettings
from winogen.typing import Layout2d

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

    conv: Conv2d
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

    Raises InvalidValue, InvalidType and Unsupported, as `winogen.Conv2d` does.
    """
    threads = settings.threads or torch.get_num_threads()
    return _layer(weight, (bias, slopes), (settings, layout, threads), _forward, trained)


def turned_layer(
    weight: torch.Tensor, settings: LayerSettings, layout: str, trained: bool
) -> Conv2d:
    """Return the layer that computes the gradient of the input of a layer with ``weight``.

    ``settings`` are for the returned layer.
    """
    threads = settings.threads or torch.get_num_threads()
    return _layer(weight, (), (settings, layout, threads, "turned"), _turned, trained).conv


def _layer(weight: torch.Tensor, others: tuple, key: tuple, make: Any, trained: bool) -> Packed:
    entry = _weights.get(id(weight))
    if entry is None or not entry.holds(weight, trained):
        entry = _weights[id(weight)] = _Weight(weight, trained)
    packed = entry.layers.get(key)
    if packed is None or not (packed.agrees(others) if trained else packed.holds(others)):
        stamps = tuple(None if other is None else Stamp(other, copy=True) for other in others)
        conv = make(weight.detach().numpy(), *others, *key[:3])
        addresses = _address(conv._bias), _address(conv._slopes)
        packed = entry.layers[key] = Packed(conv, stamps, addresses)
    return packed


def _address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.ctypes.data


def _forward(
    weight: np.ndarray,
    bias: torch.Tensor | None,
    slopes: torch.Tensor | None,
    settings: LayerSettings,
    layout: Layout2d,
    threads: int,
) -> Conv2d:
    options = settings.options()
    if slopes is not None:
        per_filter = np.broadcast_to(slopes.detach().numpy(), weight.shape[:1])
        options["activation"] = (settings.activation, per_filter)
    numbers = None if bias is None else bias.detach().numpy()
    return Conv2d(weight, numbers, layout=layout, threads=threads, **options)


def _turned(weight: np.ndarray, settings: LayerSettings, layout: Layout2d, threads: int) -> Conv2d:
    filters, channels, *kernel = weight.shape
    groups = settings.groups
    apart = weight.reshape(groups, filters // groups, channels, *kernel)
    turned = apart.swapaxes(1, 2)[..., ::-1, ::-1].reshape(groups * channels, -1, *kernel)
    return Conv2d(turned, layout=layout, threads=threads, **settings.options())


# --- layers of other axes than two, and transposed ones

_LAYERS_KEPT = 16  # of one weight tensor
_others: Any = WeakIdKeyDictionary()  # weight -> (stamp, {what is asked for: layer})


def packed_layer(
    made: Any, weight: torch.Tensor, bias: torch.Tensor | None, options: dict[str, Any]
) -> Any:
    """Return the layer of a class with packed weights, made again where a tensor has other numbers
    than then.
    """
    arrays = [None if one is None else one.detach().numpy() for one in (weight, bias)]
    stamp, layers = _others.get(weight, (None, {}))
    if not _holds(stamp, weight):
        stamp, layers = _stamp(weight), {}
        _others[weight] = stamp, layers
    key = (made, *options.values())
    other, layer = layers.get(key, (None, None))
    if layer is None or not _holds(other, bias):
        if len(layers) >= _LAYERS_KEPT:
            layers.clear()
        layer = made(*arrays, **options)
        layers[key] = _stamp(bias), layer
    return layer


def _stamp(tensor: torch.Tensor | None) -> Stamp | None:
    # Optimizers may change what is trained behind torch's back: only a copy shows that.
    return None if tensor is None else Stamp(tensor, copy=tensor.requires_grad)


def _holds(stamp: Stamp | None, tensor: torch.Tensor | None) -> bool:
    if stamp is None or tensor is None:
        return stamp is None and tensor is None
    return stamp.holds(tensor) and (not tensor.requires_grad or stamp.agrees(tensor))


def forget_layers(weight: torch.Tensor) -> None:
    """Forget what `packed_layer` made of ``weight``."""
    _others.pop(weight, None)
