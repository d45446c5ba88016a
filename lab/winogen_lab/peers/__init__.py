"""The rivals, one module each, and winogen itself behind the same small interface.

A module has a function for each task that its rival can do::

    def layer(layer, x, weight, threads) -> dict[str, Callable[[], Way]]
    def int8(layer, x, weight, threads) -> dict[str, Callable[[], Way]]
    def net(net, folder, threads) -> dict[str, Callable[[], Way]]

``layer`` is a `BenchLayer`, ``x`` (N, C, H, W) and ``weight`` (M, C/groups, KH, KW) are float32
arrays. For ``int8`` they are int8, `winogen_lab.bench.quantized` has their scales, and `Way.output`
returns integers less their zero point, as float32. ``net`` is a `winogen_lab.nets.Net`, and
``folder`` has what `winogen_lab.nets.files` wrote. One that narrows takes tolerances, too.

A function returns the ways to use the rival, under names for the report, each as a function that
does everything needed once: building the model, packing weights, bringing the input into the native
layout. The benchmark measures the fastest of them. Modules import their library inside, in a
process of their own.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.tuning.layers import BenchLayer


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
    adapter: str  # module:function
    needs: tuple[str, ...]  # modules that must be there
    distribution: str  # whose version is reported
    filters_only: bool = False  # of layers: one filter for each channel, outputs as many as inputs
    narrows: bool = False  # nets are computed in fewer bits within a tolerance

    def missing(self) -> str | None:
        """Return the first module that is not installed, or None."""
        return next((name for name in self.needs if importlib.util.find_spec(name) is None), None)

    def serves(self, layer: BenchLayer) -> bool:
        """Whether it computes layers of this kind."""
        plain = {*layer.stride, *layer.dilation} == {1} and not layer.transposed and layer.rank < 3
        ends = zip(layer.weight[2:], layer.padding)
        filters = layer.groups == layer.input[1] == layer.weight[0] and layer.input[0] == 1
        centred = all(taps == 2 * padding + 1 for taps, padding in ends)
        return not self.filters_only or (plain and filters and centred)

    def version(self) -> str:
        """Return the installed version, "" if nobody knows."""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return ""


def _rivals(task: str) -> dict[str, Peer]:
    """Those who can do a task, by name."""
    peers = (
        Peer(
            name,
            f"{__name__}.{module}:{functions[task]}",
            needs,
            distribution,
            task == "layer" and name in _OF_FILTERS,
            task == "net" and name in _NARROWING,
        )
        for name, module, needs, distribution, functions in _RIVALS
        if task in functions
    )
    return {peer.name: peer for peer in peers}


_LAYER, _INT8, _NET = {"layer": "layer"}, {"int8": "int8"}, {"net": "net"}
_RIVALS: tuple[tuple[str, str, tuple[str, ...], str, dict[str, str]], ...] = (
    ("torch", "pytorch", ("torch",), "torch", {**_LAYER, **_NET}),
    ("torch.compile", "pytorch", ("torch",), "torch", {"net": "compiled"}),
    ("onnxruntime", "ort", ("onnxruntime", "onnx"), "onnxruntime", {**_LAYER, **_INT8, **_NET}),
    ("openvino", "openvino", ("openvino", "onnx"), "openvino", {**_LAYER, **_INT8, **_NET}),
    ("ncnn", "ncnn", ("ncnn",), "ncnn", {**_LAYER, **_INT8, **_NET}),
    ("mnn", "mnn", ("MNN", "onnx"), "MNN", {**_LAYER, **_NET}),
    ("opencv", "opencv", ("cv2",), "opencv-python-headless", {**_LAYER, **_NET}),
    ("scipy", "scipy", ("scipy",), "scipy", _LAYER),
)
_OF_FILTERS = ("opencv", "scipy")
_NARROWING = ("openvino", "mnn")
# Task -> name -> who can do it.
RIVALS: dict[str, dict[str, Peer]] = {task: _rivals(task) for task in ("layer", "int8", "net")}
# Adapters of ours for layers, which take contestants' options besides.
OURS = {"layer": f"{__name__}.ours:layer", "int8": f"{__name__}.ours_int8:ways"}
OUR_NETS = {
    name: Peer(name, f"{__name__}.ours:{function}", needs, "winogen", narrows=True)
    for name, function, needs in (
        ("winogen.torch", "torch_net", ("torch",)),
        ("winogen.onnx", "onnx_net", ("onnx", "onnxruntime")),
    )
}
# What each of them starts from, and is to be faster than.
FRAMEWORKS = {"winogen.torch": "torch", "winogen.onnx": "onnxruntime"}


def present(every: Iterable[Peer]) -> tuple[dict[str, dict], list[Peer]]:
    """Return what a document says of each peer, by its name, and those that are installed."""
    lacking = {peer: peer.missing() for peer in every}
    said = {
        peer.name: {"absent": f"not installed: {lack}"} if lack else {"version": peer.version()}
        for peer, lack in lacking.items()
    }
    return said, [peer for peer, lack in lacking.items() if not lack]


def output_shape(folder: Path) -> tuple[int, ...]:
    """Return the shape of the output of the net in a folder."""
    return np.load(folder / "y64.npy", mmap_mode="r").shape


def chosen(
    names: str | None, task: str = "layer", say: Callable[[str], None] = lambda text: None
) -> tuple[Peer, ...]:
    """Return the rivals in a comma-separated list; None is all for the task, "none" or "" nobody.

    ``say`` is told of every named one that is not installed. Raises InvalidValue for an unknown
    name, and where none of those named is installed.

    >>> [peer.name for peer in chosen("")]
    []
    """
    table = RIVALS[task]
    if names is None:
        return tuple(table.values())
    words = [name.strip() for name in names.split(",") if name.strip()]
    if words == ["none"]:
        return ()
    for name in words:
        if name not in table:
            raise InvalidValue(f"peers: got {name!r}; allowed: none, or {', '.join(table)}")
    peers = tuple(table[name] for name in dict.fromkeys(words))
    absent = {peer.name: peer.missing() for peer in peers if peer.missing()}
    if absent and len(absent) == len(peers):
        there = [name for name, peer in table.items() if not peer.missing()]
        lacking = ", ".join(dict.fromkeys(filter(None, absent.values())))
        raise InvalidValue(
            f"peers: got {names!r}, but {lacking} is not installed; allowed: "
            f"{', '.join(('none', *there))}; pip install 'winogen-lab[peers]' installs more"
        )
    for name, lack in absent.items():
        say(f"{name} is left out: {lack} is not installed")
    return peers
