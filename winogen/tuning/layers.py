"""Layer sets: which convolutions are measured, from the package or from a file of the user's own.

A set is JSON: a list of ``{"name", "net", "input": [N, C, H, W], "weight": [M, C/groups, KH, KW],
"stride": 1, "padding": P}``. ``net``, ``stride``, ``padding``, ``dilation`` and ``groups`` may be
left out; ``stride``, ``padding`` and ``dilation`` are an int or a list with one for each axis. Of
signals, [N, C, W], and volumes, [N, C, D, H, W], alike. With ``"transposed": true`` it is a
transposed layer, whose weights are [C, M/groups, KH, KW], and which may have an ``output_padding``.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from winogen.conv import Layer, Problem
from winogen.conv.arguments import LAYOUTS, choice
from winogen.conv.options import Options
from winogen.conv.transposed_problem import TransposedLayer, TransposedProblem
from winogen.errors import InvalidValue
from winogen.files import read_json

_SETS = Path(__file__).parent / "sets"
DEFAULT_SET = "thesis27"

_REQUIRED = ("name", "input", "weight")
_OPTIONAL = {
    "net": "", "stride": 1, "padding": 0, "dilation": 1, "groups": 1, "transposed": False,
    "output_padding": 0,
}  # fmt: skip


@dataclass(frozen=True)
class BenchLayer:
    """One convolution to measure: float32, zero padding, no bias; or a transposed one.

    >>> layer = BenchLayer.from_dict(
    ...     {"name": "stem", "input": [1, 3, 32, 32], "weight": [8, 3, 3, 3], "stride": 2})
    >>> layer.output, layer.flops
    ((1, 8, 15, 15), 97200)
    """

    name: str
    net: str
    input: tuple[int, ...]  # N, C, H, W whatever the layout that is measured
    weight: tuple[int, ...]  # M, C/groups, KH, KW; of a transposed layer C, M/groups, KH, KW
    stride: tuple[int, ...]  # along each axis
    padding: tuple[int, ...]  # at both ends of each
    dilation: tuple[int, ...]
    groups: int
    transposed: bool = False
    output_padding: tuple[int, ...] = ()  # of a transposed layer, along each axis

    @classmethod
    def from_dict(cls, fields: Any, where: str = "layers") -> BenchLayer:
        """Return the checked layer.

        Raises InvalidValue, whose message begins with ``where``.
        """
        if not isinstance(fields, dict):
            raise InvalidValue(f"{where}: got {_short(fields)}; allowed: an object with a name")
        for field in _REQUIRED:
            if field not in fields:
                raise InvalidValue(f"{where}: got no {field!r}; allowed: {_field_names()}")
        unknown = sorted(set(fields) - {*_REQUIRED, *_OPTIONAL})
        if unknown:
            raise InvalidValue(f"{where}: got unknown {unknown[0]!r}; allowed: {_field_names()}")
        given = {**_OPTIONAL, **fields}
        for field in ("name", "net"):
            if not isinstance(given[field], str):
                raise InvalidValue(f"{where}, {field}: got {_short(given[field])}; allowed: text")
        if not given["name"]:
            raise InvalidValue(f"{where}, name: got ''; allowed: text that is not empty")
        where = f"{where}, {given['name']}"
        transposed = given["transposed"]
        if not isinstance(transposed, bool):
            raise InvalidValue(
                f"{where}, transposed: got {_short(transposed)}; allowed: true or false"
            )
        if not transposed and "output_padding" in fields:
            raise InvalidValue(
                f"{where}, output_padding: got {_short(given['output_padding'])}; allowed: only "
                "of a transposed layer"
            )
        weight = given["weight"]
        rank = len(weight) - 2 if isinstance(weight, list) and len(weight) in (3, 5) else 2
        layer = cls(
            name=given["name"],
            net=given["net"],
            input=_ints(f"{where}, input", given["input"], rank + 2, 1),
            weight=_ints(f"{where}, weight", weight, rank + 2, 1),
            stride=_per_axis(f"{where}, stride", given["stride"], rank, 1),
            padding=_per_axis(f"{where}, padding", given["padding"], rank, 0),
            dilation=_per_axis(f"{where}, dilation", given["dilation"], rank, 1),
            groups=_ints(f"{where}, groups", [given["groups"]], 1, 1)[0],
            transposed=transposed,
            output_padding=_per_axis(f"{where}, output_padding", given["output_padding"], rank, 0)
            if transposed
            else (),
        )
        try:  # what fits together is the business of the convolution itself
            layer.posed()
        except InvalidValue as error:
            raise InvalidValue(f"{where}, {error}") from None
        return layer

    def to_dict(self) -> dict:
        """Return the JSON form; equal numbers of all axes as one number."""
        pairs = {field: _shortened(getattr(self, field)) for field in ("stride", "padding")}
        fields = {
            "name": self.name,
            "net": self.net,
            "input": list(self.input),
            "weight": list(self.weight),
            **pairs,
        }
        if max(self.dilation) > 1:
            fields["dilation"] = _shortened(self.dilation)
        if self.groups != 1:
            fields["groups"] = self.groups
        if self.transposed:
            fields["transposed"] = True
            if max(self.output_padding):
                fields["output_padding"] = _shortened(self.output_padding)
        return fields

    def with_batch(self, batch: int) -> BenchLayer:
        """Return the layer applied to ``batch`` images at once."""
        return dataclasses.replace(self, input=(batch, *self.input[1:]))

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Return input and weights from the normal distribution, the same in every run; float32."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        x = rng.standard_normal(self.input, dtype=np.float32)
        return x, rng.standard_normal(self.weight, dtype=np.float32)

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.weight) - 2

    @property
    def options(self) -> dict[str, Any]:
        """What `Conv2d`, or `ConvTranspose2d`, is told of it besides the weights."""
        return {
            "stride": self.stride,
            "padding": tuple((size, size) for size in self.padding),
            "dilation": self.dilation,
            "groups": self.groups,
            **({"output_padding": self.output_padding} if self.transposed else {}),
        }

    @property
    def filters(self) -> int:
        """M."""
        return self.weight[1] * self.groups if self.transposed else self.weight[0]

    @property
    def class_name(self) -> str:
        """What torch and winogen call the class of such layers."""
        return f"Conv{'Transpose' if self.transposed else ''}{self.rank}d"

    def problem(self, layout: str = "NCHW", dtype: str = "float32") -> Problem:
        """Return the convolution in ``layout``.

        ``layout``: "NCHW", channels first, or "NHWC", channels last, of layers of any rank. Raises
        InvalidValue when sizes do not fit, and of a transposed layer: see `posed`.
        """
        if self.transposed:
            raise InvalidValue(
                f"layers: got {self.name}, a transposed layer; allowed: ordinary ones here"
            )
        layer = Layer.of(self.weight, dtype, **self.options, layout=layout_of(layout, self.rank))
        return layer.problem(self._shape(layer.planar))

    def posed(self, layout: str = "NCHW", dtype: str = "float32") -> Problem | TransposedProblem:
        """Return the problem of a layer of either kind; see `problem`."""
        if not self.transposed:
            return self.problem(layout, dtype)
        layer = self.transposed_layer(layout=layout, dtype=dtype)
        return layer.problem(self._shape(layer.sample.planar))

    def transposed_layer(
        self, *, layout: str = "NCHW", dtype: str = "float32", **asked: Any
    ) -> TransposedLayer:
        """Return a transposed layer, ``asked`` for by these options of `ConvTranspose2d`."""
        given = {**self.options, **asked, "layout": layout_of(layout, self.rank)}
        more = given.pop("output_padding")
        return TransposedLayer.of(self.weight, dtype, Options(**given), more)

    def _shape(self, planar: bool) -> tuple[int, ...]:
        """The shape of the input, its channels first or last."""
        batch, channels, *size = self.input
        return (batch, channels, *size) if planar else (batch, *size, channels)

    @cached_property
    def output(self) -> tuple[int, ...]:
        """N, M, OH, OW."""
        return self.posed().output_shape

    @cached_property
    def flops(self) -> int:
        """Operations of the direct convolution, 2·N·OH·OW·M·(C/groups)·KH·KW; of a transposed layer
        2·N·H·W·C·(M/groups)·KH·KW.
        """
        return 2 * self.posed().direct_multiplications


def layer_sets() -> tuple[str, ...]:
    """Return the names of the sets in the package.

    >>> layer_sets()[:4]
    ('axes', 'densenet121', 'few-filters', 'filters')
    """
    return tuple(sorted(path.stem for path in _SETS.glob("*.json")))


def load_layers(name_or_file: str = DEFAULT_SET) -> tuple[BenchLayer, ...]:
    """Return a set by name, or from a JSON file.

    Raises InvalidValue that names the file, the layer and the field.

    >>> len(load_layers("thesis27")), load_layers("vgg16")[0].input
    (27, (1, 3, 224, 224))
    """
    path = Path(name_or_file)
    if str(name_or_file) in layer_sets():
        path = _SETS / f"{name_or_file}.json"
    elif not path.is_file():
        names = ", ".join(layer_sets())
        raise InvalidValue(
            f"layers: got {str(name_or_file)!r}, which is no file; allowed: {names}, or a JSON file"
        )
    rows = read_json("layers", path, "a JSON file")
    if not isinstance(rows, list) or not rows:
        raise InvalidValue(f"layers: got {_short(rows)} in {path}; allowed: a list of layers")
    layers = tuple(BenchLayer.from_dict(row, f"{path}, layer {i}") for i, row in enumerate(rows, 1))
    for name, count in Counter(layer.name for layer in layers).items():
        if count > 1:
            raise InvalidValue(f"layers: got two layers named {name!r} in {path}; allowed: one")
    return layers


def layout_of(layout: str, rank: int) -> str:
    """Return the layout of so many axes with the channels where another layout has them.

    >>> layout_of("NCHW", 3), layout_of("NHWC", 1)
    ('NCDHW', 'NWC')
    """
    choice("layout", layout, LAYOUTS[2])
    first, last = LAYOUTS[rank]
    return first if layout[1] == "C" else last


def _per_axis(where: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    if not isinstance(value, list):
        value = [value] * rank
    return _ints(where, value, rank, least)


def _ints(where: str, value: Any, count: int, least: int) -> tuple:
    good = isinstance(value, list) and len(value) == count
    # JSON true is a Python int, and 3.0 is no size.
    if not good or any(type(item) is not int or item < least for item in value):
        lists = f"a list of {count} ints"
        what = "an int or a pair of ints" if count == 2 else lists
        value = value[0] if count == 1 else value
        raise InvalidValue(
            f"{where}: got {_short(value)}; allowed: {'an int' if count == 1 else what} >= {least}"
        )
    return tuple(value)


def _field_names() -> str:
    return f"{', '.join(_REQUIRED)} and optionally {', '.join(_OPTIONAL)}"


def _shortened(numbers: tuple[int, ...]) -> int | list[int]:
    return numbers[0] if len(set(numbers)) == 1 else list(numbers)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
