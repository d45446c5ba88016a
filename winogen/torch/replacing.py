"""`replace`: the convolutions of a model become winogen's, in place, for training."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, SupportsIndex

import torch
from torch import nn

from winogen.errors import InvalidType, InvalidValue, WinogenError
from winogen.torch import module as ours
from winogen.torch.request import LayerOptions
from winogen.typing import Algorithm, Border, Edge, Order, Real, Texts, Tile


def replace(
    model: nn.Module,
    *,
    exclude: Collection[str | type[nn.Module]] = (),
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
) -> nn.Module:
    """Make every convolution of ``model`` one of `winogen.torch`, and return the model.

    The layers stay the same objects and keep parameters, ``state_dict``, hooks, mode, device and
    type, so that optimizers, checkpoints and other references to them stay right. `print` of the
    model shows what became winogen's. Left to torch are

    - layers of a class derived from torch's, parametrized ones among them, and those with a
      ``forward`` of their own;
    - transposed layers, where an ``edge`` is given, which they lack;
    - layers whose weight or bias is computed anew for every call, by pruning or the older
    ``weight_norm`` and ``spectral_norm``.

    Parameters
    ----------
    model
        Any module; a layer alone, too.
    exclude
        Names of modules that stay torch's with all their parts, or types of modules.

    The options are as for `winogen.torch.conv2d`, for all layers. Layers of winogen already keep
    theirs.

    Raises
    ------
    InvalidType, InvalidValue, Unsupported
        Before any layer is changed. What depends on the size of an input, as a tolerance that is
        out of reach, the first call raises.

    >>> import torch, winogen.torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(inplace=True))
    >>> winogen.torch.replace(model, tolerance=1e-4)
    Sequential(
      (0): winogen.torch.Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), tolerance=0.0001)
      (1): ReLU(inplace=True)
    )
    """
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise InvalidType(
            f"model: got {type(model).__name__}; allowed: an nn.Module that is not scripted"
        )
    check_excluded(exclude, model)
    options = LayerOptions(
        # arguments: algorithm ... border workspace_limit tolerance threads
        algorithm, tile, points, moduli, order, edge, border, workspace_limit, tolerance, threads,
        # end
    )  # fmt: skip
    types = KINDS if edge == "discard" else ORDINARY
    exchange(replaceable(model, exclude, types), options)
    return model


ORDINARY = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
KINDS = (*ORDINARY, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_OURS: dict[type, Any] = {kind: getattr(ours, kind.__name__) for kind in KINDS}


def replaceable(
    model: nn.Module, exclude: Collection[Any] = (), kinds: tuple[type, ...] = (nn.Conv2d,)
) -> dict[str, Any]:
    """Return the layers of ``model`` of these kinds that `exchange` takes, by their first names."""
    types = tuple(one for one in exclude if isinstance(one, type))
    names = model.named_modules(remove_duplicate=False)
    kept = [module for name, module in names if name in exclude]
    kept += [module for module in model.modules() if isinstance(module, types)]
    spared = {id(inner) for module in kept for inner in module.modules()}
    return {
        name: module
        for name, module in model.named_modules()
        if type(module) in kinds
        and id(module) not in spared
        and module._parameters.keys() >= {"weight", "bias"}
        and "forward" not in module.__dict__
    }


def exchange(layers: Mapping[str, Any], options: LayerOptions) -> None:
    """Make layers winogen's, in place; ``layers`` by names for errors.

    Raises what their classes raise, before any of them is changed.
    """
    for name, layer in layers.items():
        try:
            _OURS[type(layer)].from_module(layer, **options._asdict())
        except WinogenError as error:
            raise type(error)(f"{error}; got this for the layer {name!r}") from error
    for layer in layers.values():
        # As torch.nn.utils.parametrize does it: whoever holds the layer holds the new one.
        layer.__class__ = _OURS[type(layer)]
        layer._ask(None, options)


def check_excluded(exclude: Any, model: nn.Module) -> None:
    """Raise InvalidType or InvalidValue for what names no module of ``model`` and no type."""
    allowed = "names of modules of the model, or types of modules"
    if isinstance(exclude, str) or not isinstance(exclude, Collection):
        raise InvalidType(f"exclude: got {exclude!r}; allowed: a collection of {allowed}")
    names = {name for name, _ in model.named_modules(remove_duplicate=False)}
    for one in exclude:
        if not (isinstance(one, str) or (isinstance(one, type) and issubclass(one, nn.Module))):
            raise InvalidType(f"exclude: got {one!r}; allowed: {allowed}")
        if isinstance(one, str) and one not in names:
            raise InvalidValue(f"exclude: got {one!r}; allowed: {allowed}")
