"""Layers of one or three axes and transposed ones, each on its own: by which way, or by torch.

What runs is the layer as a module of winogen. So its plan tells memory and errors, and the module
is what is measured beside torch's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.nn.modules.conv import _ConvTransposeNd

from winogen.errors import BuildError, OutOfMemory, Unsupported, WinogenError
from winogen.progress import counting
from winogen.tasks.duel import Times
from winogen.tasks.limit import limit
from winogen.torch.arrays import CHANNELS_LAST, PLANAR, memory_format
from winogen.torch.base import sharing
from winogen.torch.calls import array
from winogen.torch.deciding import in_turns
from winogen.torch.drafting import MEMORY
from winogen.torch.packing import layer_of
from winogen.torch.replacing import exchange
from winogen.torch.report import SMALLER, USUAL, Row
from winogen.torch.request import LayerOptions, LayerRequest, checked
from winogen.torch.settings import LayerSettings
from winogen.typing import Algorithm

_TILES = (4, 3, 2)  # whose filters are ever smaller, where those of the fastest are too large


class Layer(NamedTuple):
    """A layer as the model called it first."""

    module: Any
    shape: tuple[int, ...]  # of its input, with a batch
    planar: bool


@dataclass(frozen=True)
class Alone:
    """What became of a layer: its row, and the options of winogen's module; None: torch's."""

    row: Row
    options: LayerOptions | None = None


class _Way(NamedTuple):
    options: LayerOptions
    plan: Any
    why: str


def decided(
    layers: Mapping[str, Layer],
    tolerance: float | None,
    threads: int | None,
    times_weights: float | None,
) -> dict[str, Alone]:
    """Return how layers run, by their names; compiles kernels, and measures each kind once.

    ``times_weights`` bounds the packed filters of a layer by so many times its weights; 0 is as few
    bytes as there can be, None the usual, or as few as there can be. Raises InvalidValue for a
    tolerance that no way keeps.
    """
    found: dict[tuple[Any, ...], Alone] = {}
    made: dict[str, Alone] = {}
    with counting("measuring other layers") as step:
        for place, (name, layer) in enumerate(layers.items()):
            step(place, len(layers), name)
            kind = _kind(layer)
            if kind not in found:
                found[kind] = _decided(layer, tolerance, threads, times_weights)
            made[name] = replace(found[kind], row=replace(found[kind].row, name=name))
    return made


def _kind(layer: Layer) -> tuple[Any, ...]:
    """What two layers have in common that take the same time."""
    one = layer.module
    options = (one.stride, one.padding, one.output_padding, one.dilation, one.groups)
    return (
        type(one), one.weight.dtype, tuple(one.weight.shape), one.bias is None, options,
        one.padding_mode, layer.shape, layer.planar,
    )  # fmt: skip


def _decided(
    layer: Layer, tolerance: float | None, threads: int | None, times_weights: float | None
) -> Alone:
    row = Row("", described(layer.module), "torch", "")
    if not limit().allows():
        return Alone(replace(row, why="no seconds were left to measure it"))
    try:
        way = _chosen(layer, tolerance, threads, times_weights)
    except (BuildError, OutOfMemory):
        raise
    except WinogenError as error:
        if str(error).startswith("tolerance:"):  # an argument that cannot be kept to
            raise
        return Alone(replace(row, why=str(error)))
    if way is None:
        return Alone(replace(row, why="its filters would be larger than the limit of memory"))
    times = _timed(layer, way.options, threads or torch.get_num_threads())
    first = way.plan.predictions[0]
    runs = " ".join([way.plan.algorithm, *_crossed(way.options.tile)])
    row = replace(
        row, runs=runs, why=way.why, predicted=first.seconds,
        measured=times.ours, torch=times.theirs, error=first.error,
        packed_bytes=way.plan.packed_weight_bytes,
    )  # fmt: skip
    if times.is_lost:
        return Alone(row.left_to_torch("torch is faster"))
    return Alone(row, way.options)


def _crossed(tile: Any) -> list[str]:
    return [] if tile is None else ["x".join(map(str, tile))]


def described(module: Any) -> str:
    """Return what a layer computes, in words as a report has them."""
    kernel, stride, padding = (
        "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for value in (module.kernel_size, module.stride, module.padding)
    )
    kind = "transposed conv" if isinstance(module, _ConvTransposeNd) else "conv"
    words = [kind, kernel, f"{module.in_channels}->{module.out_channels}"]
    words += [f"stride {stride}"] * (set(module.stride) != {1})
    words += [f"pad {padding}"] * (set(module.padding) != {0})
    words += [f"groups {module.groups}"] * (module.groups > 1)
    return " ".join(words)


# --- the way


def _chosen(
    layer: Layer, tolerance: float | None, threads: int | None, times_weights: float | None
) -> _Way | None:
    """The fastest way whose packed filters are not too large; None if those of all are."""
    most = MEMORY if times_weights is None else times_weights
    way = None
    for way in _ways(layer, tolerance, threads, times_weights == 0):
        if not most or way.plan.packed_weight_bytes <= most * layer.module.weight.nbytes:
            return way
    return way if times_weights is None else None


def _ways(
    layer: Layer, tolerance: float | None, threads: int | None, least: bool
) -> Iterator[_Way]:
    """Ways with ever smaller filters; the planner's own first, unless only the ``least`` matter."""

    def way(why: str, algorithm: Algorithm = "auto", tile: int | None = None) -> _Way:
        limits = LayerOptions(tolerance=tolerance, threads=threads)
        plan = _plan(layer, limits._replace(algorithm=algorithm, tile=tile))
        # Named, since the planner's choice for another size heeds no limit.
        parts = getattr(plan, "parts", (plan,))
        part = next((one for one in parts if one.tile is not None), plan)
        options = limits._replace(algorithm=part.algorithm, tile=part.tile)
        try:
            _settings(layer, options)
        except Unsupported:  # of a transposed layer that runs as an ordinary one
            options = limits
        return _Way(options, plan, why)

    if not least:
        yield (first := way(USUAL))
        if first.options.tile is not None:
            for m in _TILES:
                try:
                    yield way(SMALLER, algorithm="mcmr", tile=m)
                except WinogenError:  # another tile may do
                    continue
    yield way(SMALLER, algorithm="direct")


def _settings(layer: Layer, options: LayerOptions) -> LayerSettings:
    request = LayerRequest.of(layer.module, (None, ()), options)
    return checked(request, tuple(layer.module.weight.shape))


def _plan(layer: Layer, options: LayerOptions) -> Any:
    """The plan of what the module runs."""
    asked, way = _settings(layer, options), PLANAR if layer.planar else CHANNELS_LAST
    threads = options.threads or torch.get_num_threads()
    conv = layer_of(array(layer.module.weight), None, None, asked, way, threads)
    batch, channels, *sizes = layer.shape
    return conv.plan((batch, channels, *sizes) if layer.planar else (batch, *sizes, channels))


# --- its time


def _timed(layer: Layer, options: LayerOptions, threads: int) -> Times:
    """Seconds of the layer by winogen and by torch, measured in turns."""
    x = torch.randn(layer.shape, dtype=layer.module.weight.dtype)
    if not layer.planar:
        x = x.contiguous(memory_format=memory_format(CHANNELS_LAST, x.dim()))
    theirs, ours = layer.module, sharing(type(layer.module), layer.module)
    exchange({"": ours}, options)
    try:
        return in_turns(lambda: ours(x), lambda: theirs(x), threads)
    finally:
        ours.repack()  # nothing stays packed of a layer that torch computes
