"""winogen as a user calls it: `Conv2d` on a numpy array, everything included; and whole nets.

Other versions of winogen are measured by this file, too: see `winogen_lab.bench.own`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.nets import Net
from winogen_lab.peers import Way

if TYPE_CHECKING:  # versions before it have no such module
    from winogen.typing import Layout2d


# By the axes of a layer: channels first, channels last.
_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def layer(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    variants: Mapping[str, Mapping[str, Any]],
) -> dict[str, Callable[[], Way]]:
    """One `Conv2d`, or its like, for each of ``variants``: a name, "dtype" and options that are
    not usual.
    """
    return {n: partial(_conv, layer, x, weight, threads, **one) for n, one in variants.items()}


def torch_net(net: Net, folder: Path, threads: int, **within: Any) -> dict[str, Callable[[], Way]]:
    """`winogen.torch.optimize` on the module as it was built."""

    def build() -> Way:
        import winogen.torch
        from winogen_lab.peers import pytorch

        module, image = pytorch.prepared(net, folder, threads, fold=False)
        faster = winogen.torch.optimize(module, (image,), threads=threads, **within)
        return pytorch.of_module(faster, image)

    return {"optimize": build}


def onnx_net(net: Net, folder: Path, threads: int, **within: Any) -> dict[str, Callable[[], Way]]:
    """ONNX Runtime with winogen's operators, on the file that `winogen.onnx.optimize` wrote."""

    def build() -> Way:
        import winogen.onnx
        from winogen_lab.peers import ort

        faster = folder / f"faster-{os.getpid()}.onnx"  # another winogen may write its own
        source = str(folder / "net.onnx")
        winogen.onnx.optimize(source, str(faster), threads=threads, **within)
        return ort.of_net(faster, folder, threads, winogen.onnx.get_library_path())

    return {"optimize": build}


def _conv(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    dtype: str = "float32",
    layout: Layout2d = "NCHW",
    **options: Any,
) -> Way:
    weight, data = (_as(dtype, array) for array in (weight, x))
    last = layout[-1] == "C"
    data = np.ascontiguousarray(np.moveaxis(data, 1, -1)) if last else data
    conv = getattr(import_module("winogen.conv"), layer.class_name)(
        weight,
        **layer.options,
        layout=_LAYOUTS[layer.rank][last],
        threads=threads,
        **options,
    )
    facts = facts_of(conv.plan(data.shape))

    def output(y: np.ndarray) -> np.ndarray:
        wide = y if y.dtype.itemsize > 2 else y.astype(np.float32)
        return np.moveaxis(wide, -1, 1) if last else wide

    return Way(lambda: conv(data), output, facts)


def facts_of(plan: Any) -> dict[str, Any]:
    """Return what the report says of a plan, as far as its version of winogen knows it."""
    tile = getattr(plan, "tile", None)
    facts = {"algorithm": plan.algorithm, "tile": None if tile is None else list(tile)}
    names = ("variant", "workspace_bytes", "packed_weight_bytes", "multiplications")
    facts |= {name: getattr(plan, name) for name in names if hasattr(plan, name)}
    for best in getattr(plan, "predictions", ())[:1]:
        facts |= {"predicted_s": best[0], "predicted_error": best[1]}
    precision = getattr(plan, "precision", None)
    if precision is not None:
        facts |= {"filter_dtype": precision.filters, "product_dtype": precision.products}
    return facts


def _as(dtype: str, array: np.ndarray) -> np.ndarray:
    if dtype == "bfloat16":
        import ml_dtypes

        return array.astype(ml_dtypes.bfloat16)
    return array.astype(dtype, copy=False)
