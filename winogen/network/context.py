"""What templates know of a network: records whose fields are the names in their text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winogen.codegen.constants import Constant
from winogen.codegen.functions import TypedConstants
from winogen.codegen.templates import Context

if TYPE_CHECKING:
    from winogen.network.array_calls import Written
    from winogen.network.bytes_testing import Limits
    from winogen.network.bytes_tiles import Tiles
    from winogen.network.bytes_writing import Call as ByteCall
    from winogen.network.calls import Call, Loop
    from winogen.network.pieces import Pieces
    from winogen.network.promising import KeptPromise
    from winogen.network.reading import Array
    from winogen.network.weights import Weights


@dataclass(frozen=True, kw_only=True)
class FilesContext(Context):
    """What the templates of all networks know."""

    name: str
    NAME: str  # in capitals, as macros have it
    command: str  # what regenerates the files
    isa: str
    flags: str  # of the compiler
    bare: bool  # whether the target has no operating system
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    sizes: Mapping[str, int]  # of each array, in numbers
    signature: str  # the parameters of the function that runs it
    call_arguments: str  # its arguments by their names, and below those of the test
    tested_arguments: str
    where: str  # weights are: "const", "object" or "file"
    weight_bytes: int
    symbols: Sequence[tuple[str, int, int]]  # names of weights, where they begin, and bytes
    # Of a file of weights: the bytes of its head, its first bytes, and constants of its check.
    header: int
    magic: str
    basis: str
    prime: str
    arena_bytes: int
    pieces: Pieces | None = None  # of signals, where those come in some, and what is kept
    shared: bool = False  # whether threads are the caller's
    part_bytes: int = 0  # of the arena, what each part needs that runs at the same time
    pairs: Sequence[str]  # names of files that are compiled besides
    has_maps: bool
    has_arrays: bool


_CODE = ("net.h", "net.c", "maps.h", "maps.c", "arrays.h", "arrays.c", "weights.c", "weights.S")
_WHOLE = ("test.c", "Makefile", "CMakeLists.txt", "README.md")
_BYTES = ("bytes_net.h", "bytes_net.c", "bytes.h", "bytes.c", "bytes_tiles.c", "bytes_weights.c",
          "weights.S", "bytes_test.c", "Makefile", "CMakeLists.txt", "bytes_README.md")  # fmt: skip


def paths(names: Sequence[str]) -> tuple[str, ...]:
    """Return where the templates of files lie."""
    return tuple(f"network/{name}.j2" for name in names)


@dataclass(frozen=True, kw_only=True)
class FloatCodeContext(FilesContext, templates=paths(_CODE)):
    """What the templates know of the C of a network of float32."""

    headers: Sequence[str]  # names of those of kernels, of which calls may share a file
    is_part: bool  # whether a larger network calls it, and holds its weights
    items: Sequence[Call | Loop]
    uses_arena: bool
    weights: Weights
    halves: Weights
    narrow: str  # numbers of halves
    # Maps: constant structs, kinds that are called, whether layouts change; see `SegmentsContext`.
    structs: Sequence[tuple[str, str, str]]
    kinds: Collection[str]
    turns: bool
    lays: bool = False
    reals: Collection[str]
    functions: Mapping[str, TypedConstants]
    # Loops over arrays: the functions that are called, and their constants.
    most_axes: int
    array_functions: Collection[str]
    array_each: Sequence[Written]
    array_limited: bool  # whether one of these has limits
    array_reductions: Sequence[Written]
    array_loops: bool  # whether any has loops of its own
    array_structs: Sequence[tuple[str, str, str]]
    tables: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, kw_only=True)
class FloatFilesContext(FloatCodeContext, templates=paths((*_CODE, *_WHOLE))):
    """What the test, and what compiles and explains a network, know besides."""

    layout: str
    least_bytes: int  # that any arena has
    predicted: float  # error, and below how far tested outputs may be off
    limit: float
    kept: KeptPromise | None = None  # what is promised of the outputs' errors
    products: int  # of all convolutions, and below what direct convolution has
    direct_products: int
    feed: Sequence[tuple[Array, str]]  # numbers of each input of the test
    expected: Sequence[tuple[Array, str]]
    exact: bool  # whether these were computed in float64


@dataclass(frozen=True, kw_only=True)
class ByteFilesContext(FilesContext, templates=paths(_BYTES)):
    """What the templates of a network of bytes know."""

    batch: int
    types: Mapping[str, str]  # of each array, in C
    parts: Sequence[str]  # names of parts that compute in float32
    tiles: Sequence[Tiles]  # algorithms of layers that are not direct
    constants: Sequence[Constant]
    layers: Sequence[tuple[str, str, list[str]]]  # constant structs
    calls: Sequence[ByteCall]
    least_bytes: int  # that any arena has
    predicted: float | None  # error of parts in float32
    optimized: bool  # whether onnxruntime may optimize the model
    products: int  # of all convolutions, and below what direct convolution has
    direct_products: int
    feed: Sequence[tuple[Array, str]]  # numbers of each input of the test
    expected: Sequence[tuple[Array, str, Limits]]
