"""Contestants of our own: what `Conv2d`, or `QConv2d`, is asked for, and where it runs.

The benchmark has a main one and any number beside it, each of which says only in what it differs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from winogen.conv import arguments
from winogen.conv.options import NAMES
from winogen.conv.request import Request
from winogen.errors import InvalidValue, WinogenError
from winogen.kernels import is_tiled
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.kinds import DTYPES
from winogen_lab.bench.team import Contestant, ContestantFailed

MAIN = "winogen"
ALGORITHMS = ("direct", "im2col", "winograd2d", "winograd1d", "mcmr")
QUANTIZED_ALGORITHMS = ("direct", "im2col", "mcmr")
# What the benchmark itself says of a layer; the other options of `Conv2d` are for contestants.
_FIXED = ("stride", "padding", "dilation", "groups", "padding_mode", "activation", "threads")
OPTIONS = tuple(name for name in NAMES if name not in _FIXED)
QUANTIZED_OPTIONS = ("layout", "algorithm", "tile", "product_dtype", "tolerance")  # of `QConv2d`
# Where a contestant runs: in a process with this in its environment, or of this interpreter.
_VARIABLES = {"isa": "WINOGEN_ISA", "cc": "CC"}
PLACES = (*_VARIABLES, "python")
_TILES = ("tile", "points", "moduli", "order")
# A named option takes the place of these: they say the same or do not go with it.
_REPLACES = {
    "tile": ("points", "moduli"),
    "points": ("tile", "moduli"),
    "moduli": ("tile", "points"),
    "filter_dtype": ("product_dtype",),
    "product_dtype": ("filter_dtype",),
    "dtype": ("filter_dtype", "product_dtype"),
}


@dataclass(frozen=True)
class Own:
    """A contestant of our own.

    >>> main = Own(options={"algorithm": "mcmr", "tile": 4, "filter_dtype": "float16"})
    >>> main.but("other", algorithm="direct").options
    {'algorithm': 'direct', 'filter_dtype': 'float16'}
    """

    name: str = MAIN  # in the report
    dtype: str = "float32"  # of arrays, one of `DTYPES`; "int8": `QConv2d`
    # Of `OPTIONS`, what is not usual.
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    isa: str | None = None
    cc: str | None = None  # the compiler of its kernels
    python: str | None = None

    @property
    def layout(self) -> str:
        """Of its arrays."""
        return str(self.options.get("layout", "NCHW"))

    @property
    def quantized(self) -> bool:
        """Whether its arrays are of 8-bit integers."""
        return self.dtype == "int8"

    def but(self, name: str, **changes: Any) -> Own:
        """Return another contestant, which is asked for the same but for ``changes``.

        They are of `OPTIONS`, `PLACES` and "dtype"; None takes one back. What it would inherit and
        does not go with them is left out. Raises InvalidValue for other names.
        """
        for option in changes:
            if option not in (*OPTIONS, "dtype", *PLACES):
                allowed = ", ".join((*OPTIONS, "dtype", *PLACES))
                raise InvalidValue(f"option: got {option!r}; allowed: {allowed}")
        dtype = changes.get("dtype") or self.dtype
        left_out = {other for option in changes for other in _REPLACES.get(option, ())}
        algorithm = changes.get("algorithm")
        if algorithm in ALGORITHMS and not is_tiled(algorithm):
            left_out.update(_TILES)
            if dtype == "int8":  # only tiles are rounded to another type there
                left_out.add("product_dtype")
        kept = {option: value for option, value in self.options.items() if option not in left_out}
        if dtype == "int8":
            kept = {option: kept[option] for option in QUANTIZED_OPTIONS if option in kept}
        given = {
            option: value
            for option, value in {**kept, **changes}.items()
            if option in OPTIONS and value is not None
        }
        places = {place: changes.get(place, getattr(self, place)) for place in PLACES}
        return replace(self, name=name, dtype=dtype, options=given, **places)

    def check(self, layers: Sequence[BenchLayer]) -> None:
        """Raise InvalidValue or InvalidType unless it applies to at least one of the layers."""
        arguments.choice("dtype", self.dtype, DTYPES)
        if self.quantized:
            for layer in layers:
                layer.problem()  # raises for transposed layers
        refused: WinogenError | None = None
        for layer in layers:
            try:
                return self._check(layer)
            except (ValueError, TypeError) as error:
                assert isinstance(error, WinogenError)
                refused = refused or error
        if refused is not None:
            raise refused

    def _check(self, layer: BenchLayer) -> None:
        if self.quantized:
            for name, value in self.options.items():
                if name not in QUANTIZED_OPTIONS:
                    raise InvalidValue(f"{name}: got {value!r} with int8; allowed: none")
            from winogen.conv.quantized import QConv2d

            QConv2d(
                np.zeros(layer.weight, np.int8), **layer.options, **self.options,
                x_scale=1.0, w_scale=1.0, y_scale=1.0,
            )  # fmt: skip
            return
        arguments.dtype_named(self.dtype)
        asked = {name: value for name, value in self.options.items() if name != "layout"}
        if layer.transposed:
            layer.transposed_layer(layout=self.layout, dtype=self.dtype, **asked)
        else:
            Request.of(layer.problem(self.layout, self.dtype).layer, **asked)

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON form, which has what is not usual."""
        places = {place: getattr(self, place) for place in PLACES if getattr(self, place)}
        return {"dtype": self.dtype, **self.options, **places}

    @property
    def process(self) -> dict[str, Any]:
        """The arguments of `Contestant` that say where it runs: interpreter and environment."""
        return {
            "python": None if self.python is None else os.path.expanduser(self.python),
            "environment": {
                variable: getattr(self, place)
                for place, variable in _VARIABLES.items()
                if getattr(self, place) is not None
            },
        }

    def about(self, contestant: Contestant) -> dict[str, Any]:
        """Return what a report says of it; ``contestant`` is its process.

        Raises InvalidValue where that has no winogen, or not for this instruction set.
        """
        try:
            return {**self.to_dict(), **contestant.ask("about", self.cc is not None)}
        except ContestantFailed as failure:
            raise InvalidValue(
                f"beside: got {self.name!r} ({failure}); allowed: an instruction set of this CPU, "
                "a C compiler, an interpreter that has winogen"
            ) from None
