"""Bilinear algorithms from files that a person writes: TOML, or JSON with the same keys.

    map = "matrix product 2x2x2"       # a name, formulas, or instead of it tensor = [[[...]]]
    left = "a b c d"                   # names for the numbers of the operands and of the outputs
    right = "e f g h"
    outputs = "c11 c12 c21 c22"
    formulas = '''
    m1 = a*(f - h)
    ...
    '''                                # or the matrices u, v, w

What `winogen derive --format json` prints is read, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.decomposition import Decomposition
from winogen.algebra.formulas import map_of_formulas, read_formulas
from winogen.algebra.maps import BilinearMap, by_tensor, named_map, relabel
from winogen.errors import InvalidType, InvalidValue
from winogen.files import parse_json, parse_toml, read_bytes

_KEYS = ("name", "source", "map", "tensor", "left", "right", "outputs", "formulas", "u", "v", "w")
_MOST_BYTES = 4 << 20
_MOST_WORK = 20_000_000  # products of coefficients, some seconds of proof
_MATRICES = ("u", "v", "w")


def read_file(path: str | Path) -> Decomposition:
    """Return the algorithm in a file of TOML or, if its name ends in .json, of JSON.

    Raises
    ------
    InvalidValue, InvalidType
        It is no such file, or says something that is not allowed; `Decomposition.verify` proves it.
        Or it cannot be read, is no regular file, or larger than any algorithm.
    """
    path = Path(path)
    data = read_bytes("file", path, "TOML, or JSON by its name", _MOST_BYTES)
    parse = parse_json if path.suffix == ".json" else parse_toml
    return read(parse("file", data, path.name))


def known(name: str) -> Decomposition:
    """Return an algorithm that ships, by its name: "strassen".

    >>> known("strassen").products, known("gauss").verify()
    (7, True)
    """
    folder = files("winogen.algebra").joinpath("known")
    names = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir())
    if name not in names:
        raise InvalidValue(f"name: got {name!r}; allowed: {', '.join(names)}")
    file = folder.joinpath(f"{name}.toml")
    return read(parse_toml("file", file.read_bytes(), file.name))


def read(data: Mapping[str, Any]) -> Decomposition:
    """Return the algorithm in the data of such a file.

    >>> f = read({"map": "complex product", "formulas": "real = a*c - b*d\\nimag = a*d + b*c"})
    >>> f.products, f.verify()
    (4, True)
    """
    if not isinstance(data, Mapping):
        raise InvalidType(f"file: got a {type(data).__name__}; allowed: keys with values")
    if "AT" in data:
        return _bearable(BilinearAlgorithm.from_dict(data).decomposition)
    unknown = next((key for key in data if key not in _KEYS), None)
    if unknown is not None:
        raise InvalidValue(f"file: got the key {unknown!r}; allowed: {', '.join(_KEYS)}")
    one = _map(data)
    given = [name for name in _MATRICES if name in data]
    if ("formulas" in data) == bool(given) or (given and len(given) < len(_MATRICES)):
        got = ", ".join(["formulas"] * ("formulas" in data) + given) or "neither"
        raise InvalidValue(f"file: got {got}; allowed: either formulas, or u, v and w")
    if given:
        return _bearable(Decomposition(one, *(data[name] for name in _MATRICES)))
    return read_formulas(_text(data, "formulas"), one)


def _bearable(one: Decomposition) -> Decomposition:
    """Return an algorithm whose proof ends soon; raises InvalidValue for others."""
    columns = zip(*one.w)
    work = sum(
        sum(map(bool, left)) * sum(map(bool, right)) * sum(map(bool, column))
        for left, right, column in zip(one.u, one.v, columns)
    )
    if work > _MOST_WORK:
        raise InvalidValue(
            f"file: got matrices whose proof takes {work:,} products; allowed: {_MOST_WORK:,}"
        )
    return one


def _map(data: Mapping[str, Any]) -> BilinearMap:
    if ("map" in data) == ("tensor" in data):
        got = "both map and tensor" if "map" in data else "neither map nor tensor"
        raise InvalidValue(f"file: got {got}; allowed: one of them")
    labels = {side: _names(data, side) for side in ("left", "right", "outputs") if side in data}
    name = _text(data, "name") if "name" in data else None
    if "tensor" in data:
        return _relabelled(by_tensor(data["tensor"]), name, labels)
    text = _text(data, "map")
    if "=" not in text:
        return _relabelled(named_map(text), None, labels)
    if "left" not in labels or "right" not in labels:
        raise InvalidValue("file: got a map by formulas; allowed: with the names left and right")
    made = map_of_formulas(text, labels.pop("left"), labels.pop("right"))
    return relabel(made, name, outputs=labels.get("outputs"))


def _relabelled(one: BilinearMap, name: str | None, labels: dict[str, list[str]]) -> BilinearMap:
    return relabel(one, name, *map(labels.get, ("left", "right", "outputs")))


def _text(data: Mapping[str, Any], key: str) -> str:
    if not isinstance(data[key], str):
        raise InvalidType(f"{key}: got {data[key]!r}; allowed: text")
    return data[key]


def _names(data: Mapping[str, Any], side: str) -> list[str]:
    names = data[side].replace(",", " ").split() if isinstance(data[side], str) else data[side]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidType(f"{side}: got {data[side]!r}; allowed: names, as 'a b c d'")
    return names
