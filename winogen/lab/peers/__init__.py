"""The rivals, one adapter each, and winogen itself behind the same small interface.

An adapter is a module with one function::

    def ways(layer, x, weight, threads) -> dict[str, Callable[[], Way]]

``layer`` is a `BenchLayer`, ``x`` (N, C, H, W) and ``weight`` (M, C/groups, KH, KW) are float32
arrays. It returns the ways in which the rival may be used, under names for the report, each as a
function that does everything that happens once: building the model, packing weights, bringing the
input into the native layout. The benchmark measures the fastest of them. Adapters import their
library inside `ways`, in a process of their own.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from winogen.errors import InvalidValue


@dataclass(frozen=True)
class Way:
    """One way to compute a layer, ready to run."""

    run: Callable[[], Any]  # the timed part
    output: Callable[[Any], np.ndarray]  # what `run` returned, as (N, M, OH, OW) float32; not timed
    facts: dict = field(default_factory=dict)  # for the report
    alive: tuple = ()  # memory that `run` uses and the library does not hold on to


@dataclass(frozen=True)
class Peer:
    """A rival that may or may not be installed."""

    name: str
    adapter: str  # module
    needs: tuple[str, ...]  # modules that must be there
    distribution: str  # whose version is reported

    def missing(self) -> str | None:
        """Return the first module that is not installed, or None."""
        return next((name for name in self.needs if importlib.util.find_spec(name) is None), None)

    def version(self) -> str:
        """Return the installed version, "" if nobody knows."""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return ""


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("torch", f"{__name__}.pytorch", ("torch",), "torch"),
        Peer("onnxruntime", f"{__name__}.ort", ("onnxruntime", "onnx"), "onnxruntime"),
        Peer("openvino", f"{__name__}.ov", ("openvino", "onnx"), "openvino"),
        Peer("ncnn", f"{__name__}.ncnn_net", ("ncnn",), "ncnn"),
        Peer("mnn", f"{__name__}.mnn_net", ("MNN", "onnx"), "MNN"),
    )
}
OURS = f"{__name__}.ours"

# On layers of 8 bits: ``x`` and ``weight`` are int8, `winogen.lab.bench.quantized` has their
# scales, and `Way.output` returns integers less their zero point, as float32.
QUANTIZED: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("onnxruntime", f"{__name__}.ort_int8", ("onnxruntime", "onnx"), "onnxruntime"),
        Peer("openvino", f"{__name__}.ov_int8", ("openvino", "onnx"), "openvino"),
        Peer("ncnn", f"{__name__}.ncnn_int8", ("ncnn",), "ncnn"),
    )
}
OURS_QUANTIZED = f"{__name__}.ours_int8"


def chosen(names: str | None, table: Mapping[str, Peer] = PEERS) -> tuple[Peer, ...]:
    """Return the rivals in a comma-separated list; None is all of ``table``, "none" or "" nobody.

    Raises InvalidValue for an unknown name.

    >>> [peer.name for peer in chosen("ncnn,torch")]
    ['ncnn', 'torch']
    """
    if names is None:
        return tuple(table.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if wanted == ["none"]:
        return ()
    for name in wanted:
        if name not in table:
            raise InvalidValue(f"peers: got {name!r}; allowed: none, or {', '.join(table)}")
    return tuple(table[name] for name in dict.fromkeys(wanted))
