"""Weights that files of C carry, so that a program neither loads nor packs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from winogen.codegen.constants import Constant
from winogen.codegen.interface import Interface
from winogen.codegen.standalone import check_name
from winogen.conv.packing import packed
from winogen.errors import InvalidType, InvalidValue
from winogen.kernels.kind import Spec

# Of numbers in C, as numpy calls them; those of 16 bits are packed, and C knows the bits alone.
_NUMBERS = {
    "float": "float32",
    "double": "float64",
    "int8_t": "int8",
    "int32_t": "int32",
    "uint8_t": "uint8",
    "uint16_t": "uint16",
}


def carried(
    name: str,
    spec: Spec,
    fields: Mapping[str, Any],
    interface: Interface,
    weights: Any,
    shape: Sequence[int],
    filters: int | None = None,
) -> tuple[Interface, list[Constant]]:
    """Return the interface of a layer whose C carries its weights, and what `run` reads of them.

    These are arrays of C named after the layer. ``weights``: an array of this ``shape``, or a
    mapping from names to arrays: all that the interface packs, and any that `run` reads for each
    filter; a bias may be missing. None: the interface as it is, which packs, and no arrays.
    ``fields``: of the call. ``filters``: how many there are, None for the shape's first size.
    Raises InvalidType for arrays of other numbers, InvalidValue for other names or shapes,
    BuildError.
    """
    if weights is None:
        return interface, []
    check_name(name)
    first = next(iter(interface.packing))
    types = {**interface.packing, **interface.reading}
    read = [one for one in interface.reading if one in ("bias", "slopes")]
    known = [*interface.packing, *read]
    given = dict(weights) if isinstance(weights, Mapping) else {first: weights}
    if unknown := sorted(map(str, given.keys() - {*known})):
        raise InvalidValue(f"weights: got {', '.join(unknown)}; allowed: {', '.join(known)}")
    if missing := [one for one in known if one != "bias" and one not in given]:
        raise InvalidValue(f"weights: got no {', '.join(missing)}; allowed: {', '.join(known)}")
    count = shape[0] if filters is None else filters
    sizes = dict.fromkeys(known, (count,)) | {first: tuple(shape)}
    arrays = {one: _array(one, value, types[one], sizes[one]) for one, value in given.items()}
    made = packed(spec, fields, arrays)
    number = interface.packed if interface.packed != "void" else _bits(spec)
    kept = [Constant(number, f"{name}_packed", made.view(_NUMBERS[number]), "As `run` reads them.")]
    kept += [
        Constant(types[one], f"{name}_{one}", arrays[one], "A number for each filter.")
        for one in read
        if one in arrays
    ]
    return replace(interface, packing={}), kept


def _bits(spec: Spec) -> str:
    """The type of C that packed filters are written as, where it has none for their numbers."""
    precision = getattr(spec, "precision", None)
    return "uint16_t" if precision and precision.filter_itemsize == 2 else "uint8_t"


def _array(name: str, value: Any, type_: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array in the numbers that the kernel reads; floats may be rounded to them."""
    array, wanted = np.asarray(value), np.dtype(_NUMBERS[type_])
    if wanted.kind == "f":
        allowed, fits = "floats", array.dtype.kind == "f"
    else:
        allowed = f"integers that {wanted.name} has"
        fits = array.dtype.kind in "iu" and np.array_equal(array.astype(wanted), array)
    if not fits:
        raise InvalidType(f"weights: got {name} of {array.dtype.name}; allowed: {allowed}")
    if array.shape != shape:
        raise InvalidValue(f"weights: got {name} of shape {array.shape}; allowed: {shape}")
    return np.ascontiguousarray(array, wanted)
