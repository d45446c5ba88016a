"""Nets as ncnn keeps them: a text of layers (.param), and their weights in one piece (.bin).

The text: a magic number; how many layers and blobs; a line for each layer with its type, its name,
how many inputs and outputs, their names, and options ``number=value``. An option -23300-k is option
k with an array: ``count,value,value``. The weights follow one another in the order of the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from winogen.errors import InvalidValue

MAGIC = 7767517
_ARRAY = -23300
# What stands before weights: float16, padded to four bytes; or float32.
_HALF, _SINGLE = 0x01306B47, 0

Option = float | int | tuple[float, ...]


@dataclass(frozen=True)
class NcnnLayer:
    """One line of the text with its weights."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: dict[int, Option] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)  # float32

    def integer(self, number: int, default: int = 0) -> int:
        """Return an option that is an integer."""
        value = self.options.get(number, default)
        if isinstance(value, tuple) or value != int(value):
            raise InvalidValue(f"option {number} of {self.name}: got {value}; allowed: an integer")
        return int(value)

    def number(self, number: int, default: float) -> float:
        """Return an option that is a number."""
        value = self.options.get(number, default)
        if isinstance(value, tuple):
            raise InvalidValue(f"option {number} of {self.name}: got {value}; allowed: a number")
        return float(value)

    def numbers(self, number: int) -> tuple[float, ...]:
        """Return an option that is an array; empty if it is not there."""
        value = self.options.get(number, ())
        return value if isinstance(value, tuple) else (value,)

    def pair(self, number: int, default: int = 0) -> tuple[int, int]:
        """Return an option of both axes, height first: widths have ``number``, heights 10 more."""
        width = self.integer(number, default)
        return self.integer(number + 10, width), width


def read(param: str | Path, bin: str | Path) -> list[NcnnLayer]:
    """Return the layers of a net; raises InvalidValue for files that are something else."""
    layers = _read_text(Path(param))
    numbers = _Numbers(Path(bin))
    filled = [
        NcnnLayer(*_fields(layer), _WEIGHTS[layer.kind](layer, numbers))
        if layer.kind in _WEIGHTS
        else layer
        for layer in layers
    ]
    numbers.end()
    return filled


def write(layers: Iterable[NcnnLayer], param: str | Path, bin: str | Path) -> None:
    """Write a net, its filters as float16: half the size, and what ncnn's converter does."""
    layers = list(layers)
    blobs = {name for layer in layers for name in (*layer.inputs, *layer.outputs)}
    lines = [str(MAGIC), f"{len(layers)} {len(blobs)}"]
    pieces = []
    for layer in layers:
        counts = f"{len(layer.inputs)} {len(layer.outputs)}"
        options = (_option(key, value) for key, value in layer.options.items())
        words = (layer.kind, layer.name, counts, *layer.inputs, *layer.outputs, *options)
        lines.append(" ".join(words))
        for name, values in layer.weights.items():
            pieces.append(_packed(values) if name == "weight" else values.astype("<f4").tobytes())
    Path(param).write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path(bin).write_bytes(b"".join(pieces))


def _option(key: int, value: Option) -> str:
    if isinstance(value, tuple):
        return f"{_ARRAY - key}={','.join(map(str, (len(value), *value)))}"
    return f"{key}={value}"


def _packed(values: np.ndarray) -> bytes:
    halves = values.astype("<f2").tobytes()
    return _HALF.to_bytes(4, "little") + halves + bytes(-len(halves) % 4)


def _fields(layer: NcnnLayer) -> tuple[str, str, tuple[str, ...], tuple[str, ...], dict]:
    return layer.kind, layer.name, layer.inputs, layer.outputs, layer.options


def _read_text(path: Path) -> list[NcnnLayer]:
    def wrong(what: str) -> InvalidValue:
        return InvalidValue(f"param: got {path} with {what}; allowed: a net of ncnn, as text")

    try:
        lines = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(str(error)) from None
    if len(lines) < 2 or lines[0] != [str(MAGIC)] or len(lines[1]) != 2:
        raise wrong(f"other first lines than {MAGIC} and two counts")
    layers = []
    for words in lines[2:]:
        try:
            layers.append(_layer(words))
        except (ValueError, IndexError):
            raise wrong(f"the line {' '.join(words)!r}") from None
    if str(len(layers)) != lines[1][0]:
        raise wrong(f"{len(layers)} layers where it says {lines[1][0]}")
    unknown = sorted({layer.kind for layer in layers} - KINDS)
    if unknown:
        raise InvalidValue(
            f"param: got {path} with {', '.join(unknown)}; allowed: {', '.join(sorted(KINDS))}"
        )
    return layers


def _layer(words: Sequence[str]) -> NcnnLayer:
    """Return a line of the text as a layer without weights.

    >>> layer = _layer("Convolution conv 1 1 x y 0=16 -23310=1,0.1".split())
    >>> layer.inputs, layer.outputs, layer.options
    (('x',), ('y',), {0: 16, 10: (0.1,)})
    """
    inputs, outputs = int(words[2]), int(words[3])
    blobs = words[4 : 4 + inputs + outputs]
    if len(blobs) != inputs + outputs or any("=" in blob for blob in blobs):
        raise ValueError
    options: dict[int, Option] = {}
    for word in words[4 + inputs + outputs :]:
        key, _, value = word.partition("=")
        if int(key) <= _ARRAY:
            count, *values = value.split(",")
            if int(count) != len(values):
                raise ValueError
            options[_ARRAY - int(key)] = tuple(float(number) for number in values)
        else:
            options[int(key)] = int(value) if value.lstrip("-").isdigit() else float(value)
    return NcnnLayer(words[0], words[1], tuple(blobs[:inputs]), tuple(blobs[inputs:]), options)


class _Numbers:
    """The file of weights, read from its beginning to its end."""

    def __init__(self, path: Path):
        self._path, self._at = path, 0
        try:
            self._data = path.read_bytes()
        except OSError as error:
            raise self._wrong(str(error)) from None

    def filters(self, count: int) -> np.ndarray:
        """Return ``count`` numbers behind a word that says how they are written."""
        flag = int.from_bytes(self._take(4), "little")
        if flag == _HALF:
            values = np.frombuffer(self._take(2 * count), "<f2").astype(np.float32)
            self._take(2 * (count % 2))
            return values
        if flag != _SINGLE:
            raise self._wrong(f"weights of kind {flag:#x}")
        return self.plain(count)

    def plain(self, count: int) -> np.ndarray:
        """Return ``count`` float32 numbers."""
        return np.frombuffer(self._take(4 * count), "<f4").astype(np.float32)

    def end(self) -> None:
        """Raise if anything is left."""
        left = len(self._data) - self._at
        if left:
            raise self._wrong(f"{left} bytes left over")

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if count < 0 or len(piece) != count:
            raise self._wrong("too few bytes")
        self._at += count
        return piece

    def _wrong(self, what: str) -> InvalidValue:
        return InvalidValue(f"bin: got {self._path} with {what}; allowed: the weights of the net")


def _convolution(layer: NcnnLayer, numbers: _Numbers) -> dict[str, np.ndarray]:
    """(M, C, KH, KW), or (M, C) for an inner product; for a transposed one, too, outputs first."""
    outputs = layer.integer(0)
    inner = layer.kind == "InnerProduct"
    bias, size = layer.integer(1 if inner else 5), layer.integer(2 if inner else 6)
    kernel = () if inner else layer.pair(1)
    taps = int(np.prod(kernel))
    if outputs < 1 or taps < 1 or size < 1 or size % (outputs * taps):
        raise InvalidValue(
            f"param: got {layer.name} with {size} weights; allowed: a multiple of {outputs * taps}"
        )
    weight = numbers.filters(size).reshape(outputs, size // outputs // taps, *kernel)
    return {"weight": weight} | ({"bias": numbers.plain(outputs)} if bias else {})


def _slopes(layer: NcnnLayer, numbers: _Numbers) -> dict[str, np.ndarray]:
    return {"slopes": numbers.plain(layer.integer(0))}


def _scales(layer: NcnnLayer, numbers: _Numbers) -> dict[str, np.ndarray]:
    count = layer.integer(0)
    if count == -233:  # the scales come as a second input
        return {}
    scales = {"scales": numbers.plain(count)}
    return scales | ({"bias": numbers.plain(count)} if layer.integer(1) else {})


_WEIGHTS: dict[str, Callable[[NcnnLayer, Any], dict[str, np.ndarray]]] = {
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "InnerProduct": _convolution,
    "PReLU": _slopes,
    "Scale": _scales,
}
# What the nets in the packages are made of.
KINDS = {
    *_WEIGHTS, "Input", "Split", "Concat", "Crop", "Eltwise", "BinaryOp", "Interp", "PixelShuffle",
    "Pooling", "ReLU",
}  # fmt: skip


def sweep(layers: Sequence[NcnnLayer], calls: Iterable[Callable[..., Any]], x: Any) -> Any:
    """Send ``x`` through the net; ``calls``: a function for each layer. Returns the last output."""
    blobs: dict[str, Any] = {}
    last = x
    for layer, call in zip(layers, calls):
        if layer.kind == "Input":
            last = x
        elif layer.kind == "Split":
            (last,) = (blobs[name] for name in layer.inputs)
        else:
            last = call(*(blobs[name] for name in layer.inputs))
        for name in layer.outputs:
            blobs[name] = last
    return last
