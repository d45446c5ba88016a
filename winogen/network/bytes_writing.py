"""The files of a network of bytes: calls in their order, layers as constants, weights, a test."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from textwrap import dedent, indent
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.ctext import commented
from winogen.codegen.templates import wrapped
from winogen.graph.memory import Life, offsets
from winogen.network.bytes_graph import (
    Add,
    After,
    ByteNetwork,
    Convolution,
    Dequantize,
    Floats,
    Largest,
    Map,
    Mean,
    Nearest,
    Quantize,
    Step,
    Table,
    Window,
)
from winogen.network.bytes_testing import Limits, Sample, is_optimized
from winogen.network.bytes_tiles import Tiles, bias_of, chosen
from winogen.network.context import ByteFilesContext
from winogen.network.float_writing import FloatWriter
from winogen.network.interface import interface, rows
from winogen.network.reading import Network
from winogen.network.schedule import Schedule
from winogen.network.weights import BASIS, HEADER, MAGIC, PRIME, as_file, spelled
from winogen.records import Target

_C = {"float32": "float", "uint8": "uint8_t", "int8": "int8_t"}
_WORD = 2  # bytes of an operand of products
_SIZES = {"int8_t": 1, "int16_t": 2, "int32_t": 4, "float": 4}  # bytes
_DTYPES = {"int8_t": "<i1", "int16_t": "<i2", "int32_t": "<i4", "float": "<f4"}
_LINE = 64  # bytes: in a file constants begin at a multiple of them


class Call(NamedTuple):
    """One line of the schedule."""

    label: str
    function: str
    arguments: tuple[str, ...]
    struct: tuple[str, str, list[str]] | None = None  # that only this call has


class Constant(NamedTuple):
    """An array among the weights."""

    type: str
    name: str
    array: np.ndarray
    about: str
    begin: int  # in bytes, where the weights are no C

    @property
    def numbers(self) -> int:
        """How many there are."""
        return int(self.array.size)

    @property
    def rows(self) -> str:
        """Them in C."""
        words = spelled if self.type == "float" else _integer
        return wrapped(map(words, self.array.reshape(-1).tolist()), 4, ", ", ",")

    @property
    def data(self) -> bytes:
        """Their bytes."""
        return np.asarray(self.array, _DTYPES[self.type]).tobytes()


class ByteWriter:
    """All that is collected while a network is written."""

    def __init__(
        self,
        name: str,
        read: ByteNetwork,
        target: Target,
        command: str,
        limit: int | None = None,
        planned: Callable[[Network], Schedule] | None = None,
        where: str = "const",
    ):
        """Place everything.

        ``where``: weights are, see `winogen.network.generate`.
        ``limit``: bytes of constants, see `chosen`; None: all is direct. ``planned``: how parts of
        floats run; None: there are none.
        """
        self.name, self.read, self.target, self.command = name, read, target, commented(command)
        self.where = where
        self.parts: dict[int, FloatWriter] = {}  # by the numbers of their steps
        for number, step in enumerate(read.steps):
            if isinstance(step.op, Floats):
                assert planned is not None
                stem, network = f"{name}_float{len(self.parts)}", step.op.network
                plan = planned(network)
                self.parts[number] = FloatWriter(stem, network, plan, target, where, command)
        self.part_files = {
            file: data for part in self.parts.values() for file, data in part.part_files().items()
        }
        self.part_begins: dict[int, int] = {}  # where their weights begin, by their numbers
        self.part_data = b""
        for number, part in self.parts.items():
            self.part_begins[number] = len(self.part_data)
            self.part_data += _filled(part.weight_data)
        self.allowed: dict[str, float] = {}  # how far outputs of floats may be off; with the files
        self._begin({})
        if limit is not None:
            self._calls()
            self._begin(chosen(read.steps, self.weight_bytes, limit))

    def _begin(self, tiles: dict[int, Tiles]) -> None:
        """Start with no constants; ``tiles``: algorithms of layers that are not direct."""
        self.tiles = tiles
        self.constants: list[Constant] = []
        self.structs: list[tuple[str, str, list[str]]] = []
        self.known: dict[tuple[str, bytes], str] = {}
        self.data = [self.part_data]  # of weights that are no C
        self._place()

    def _place(self) -> None:
        """Where in the arena maps lie, and what convolutions work in."""
        steps = self.read.steps
        works = [_work_bytes(step, self.tiles.get(number)) for number, step in enumerate(steps)]
        for number, part in self.parts.items():
            works[number] = part.plan.arena_bytes
        maps = {one.number: one for step in steps for one in step.maps if one.outer is None}
        used: dict[int, list[int]] = {number: [] for number in maps}
        for number, step in enumerate(steps):
            for one in step.maps:
                if one.outer is None:
                    used[one.number].append(number)
        lives = [Life(maps[n].bytes, min(when), max(when)) for n, when in used.items()]
        lives += [Life(work, number, number) for number, work in enumerate(works)]
        begins, self.arena_bytes = offsets(lives)
        self.begins, self.works = dict(zip(maps, begins)), begins[len(maps) :]
        self.least_bytes = max(
            sum(life.size for life in lives if life.first <= number <= life.last)
            for number in range(len(steps))
        )

    @property
    def weight_bytes(self) -> int:
        """How many bytes constants take."""
        if self.where != "const":
            return sum(map(len, self.data))
        floats = sum(part.weight_bytes for part in self.parts.values())
        return floats + sum(one.numbers * _SIZES[one.type] for one in self.constants)

    @property
    def flagged(self) -> Target:
        """The target with what its kernels need to widen filters."""
        return next((part.flagged for part in self.parts.values()), self.target)

    @property
    def predicted_error(self) -> float | None:
        """Of what floats compute; None: there are none, and all sums are exact."""
        errors = [part.plan.predicted_error for part in self.parts.values()]
        return sqrt(sum(error**2 for error in errors)) if errors else None

    @property
    def products(self) -> int:
        """How many products all convolutions have."""
        floats = [part.plan.products for part in self.parts.values()]
        saved = sum(
            _products(self.read.steps[number]) - tiles.products_of(self.read.steps[number])
            for number, tiles in self.tiles.items()
        )
        saved += sum(direct - planned for planned, direct in floats)
        return self.direct_products - self.read.batch * saved

    @property
    def direct_products(self) -> int:
        """How many they have by direct convolution."""
        floats = sum(part.plan.products[1] for part in self.parts.values())
        return self.read.batch * (floats + sum(map(_products, self.read.steps)))

    def files(self) -> dict[str, bytes]:
        """Return all files by name."""
        known = self._known(self._calls())
        name = self.name
        made = {
            f"{name}.h": "bytes_net.h",
            f"{name}.c": "bytes_net.c",
            f"{name}_bytes.h": "bytes.h",
            f"{name}_bytes.c": "bytes.c",
            f"{name}_test.c": "bytes_test.c",
            "Makefile": "Makefile",
            "CMakeLists.txt": "CMakeLists.txt",
            "README.md": "bytes_README.md",
        }
        if self.tiles:
            made[f"{name}_tiles.c"] = "bytes_tiles.c"
        if self.where == "const":
            made[f"{name}_weights.c"] = "bytes_weights.c"
        if self.where == "object":
            made[f"{name}_weights.S"] = "weights.S"
        texts = {file: known.render(f"network/{source}.j2") for file, source in made.items()}
        for one in self._algorithms():
            texts[f"{name}_{one.name}.h"] = one.header(f"{name}_{one.name}", self.command)
        contents = {file: text.encode() for file, text in texts.items()} | self.part_files
        if self.where != "const":
            data = b"".join(self.data)
            whole = as_file(data) if self.where == "file" else data
            contents[f"{name}_weights.bin"] = whole
        return contents

    def _symbols(self) -> list[tuple[str, int, int]]:
        """Names of all that lies in the file of weights, where it begins, and its bytes."""
        parts = [
            (f"{part.name}_weights", self.part_begins[number], part.weight_bytes)
            for number, part in self.parts.items()
            if part.weight_bytes
        ]
        return [*parts, *((one.name, one.begin, len(one.data)) for one in self.constants)]

    def _algorithms(self) -> list[Tiles]:
        return sorted({one.name: one for one in self.tiles.values()}.values())

    # ---- calls -----------------------------------------------------------------------------------

    def _calls(self) -> list[Call]:
        return [self._call(number, step) for number, step in enumerate(self.read.steps)]

    def _call(self, number: int, step: Step) -> Call:
        label, op = commented(step.label), step.op
        reads = [self._at(one) for one in step.reads]
        made = self._at(step.output)
        if isinstance(op, Floats):
            function, work = f"{self.parts[number].name}_run", f"arena + {self.works[number]}"
            given = (*map(self._at, step.maps), work)
            if self.where != "file":
                return Call(label, function, given)
            weights = f"WEIGHTS(float, {self.part_begins[number]})"
            return Call(label, f"{function}_with", (weights, *given))
        if isinstance(op, Convolution):
            call = self._convolved(number, label, op, step, reads, made)
            if self.where != "file":
                return call
            return call._replace(struct=self.structs.pop())  # it holds places of the weights
        if isinstance(op, Largest):
            window = f"&{self._window(number, op.window, step)}"
            return self._of(label, "largest", window, *reads, made)
        if isinstance(op, Nearest):
            x, y = step.reads[0], step.output
            tables = [
                self._constant("int32_t", f"{what}_{number}", table, label)
                for what, table in (("rows", op.rows), ("columns", op.columns))
            ]
            counts = map(str, (y.height, y.width, x.width, x.channels))
            return self._of(label, "nearest", *tables, *counts, *reads, made)
        if isinstance(op, Mean):
            window, codes = self._window(number, op.window, step), self._codes(number, op.after)
            factor, padded = spelled(op.multiplier), str(op.padded)
            return self._of(label, "mean", f"&{window}", codes, factor, padded, *reads, made)
        if isinstance(op, Add):
            a, b = map(spelled, op.factors)
            count, codes = str(step.reads[0].count), self._codes(number, op.after)
            z = reads[1], b, str(op.z_zero)
            return self._of(label, "add", codes, count, reads[0], a, *z, made)
        if isinstance(op, Table):
            table = self._constant("int8_t", f"table_{number}", op.table, label)
            x, apart = step.reads[0], step.output.channels
            sizes = len(op.table), x.pixels, x.channels, apart
            there = self._at(step.output, op.begin)
            return self._of(label, "look_up", table, *map(str, sizes), *reads, there)
        return self._end(number, label, step, op)

    def _convolved(
        self, number: int, label: str, op: Convolution, step: Step, reads: list[str], made: str
    ) -> Call:
        tiles, words = self.tiles.get(number), ""
        if tiles is not None:
            words = self._constant("int16_t", f"words_{number}", tiles.words(op.weight), label)
        layer = f"&{self._layer(number, label, op, step)}"
        if op.depthwise:
            return self._of(label, "depthwise", layer, *reads, made)
        work = f"(int16_t *)(void *)(arena + {self.works[number]})"
        if tiles is not None:
            return self._of(label, f"convolve_{tiles.name}", layer, words, *reads, made, work)
        return self._of(label, "convolve", layer, *reads, made, work)

    def _end(self, number: int, label: str, step: Step, op: Quantize | Dequantize) -> Call:
        """What stands between numbers, or codes of the caller, and a map of codes."""
        one = step.output if isinstance(op, Quantize) else step.reads[0]
        sizes = str(one.pixels), str(one.channels)
        both = self._at(step.reads[0]), self._at(step.output)
        if op.scale is None:
            function = "take" if isinstance(op, Quantize) else "give"
            return self._of(label, function, str(op.flip), *sizes, *both)
        scale = spelled(float(np.float32(op.scale)))
        if isinstance(op, Quantize):
            return self._of(label, "quantize", self._codes(number, op.after), scale, *sizes, *both)
        return self._of(label, "dequantize", scale, str(op.zero), *sizes, *both)

    def _of(self, label: str, function: str, *arguments: str) -> Call:
        return Call(label, f"{self.name}_{function}", arguments)

    def _at(self, one: Map, begin: int = 0) -> str:
        if one.outer is not None:
            kind, number = one.outer
            array = (self.read.inputs if kind == "input" else self.read.outputs)[number].identifier
            return f"{array} + picture * {one.count}" if self.read.batch > 1 else array
        place = self.begins[one.number] + begin
        return f"NUMBERS({place})" if one.floats else f"AT({place})"

    # ---- constants -------------------------------------------------------------------------------

    def _layer(self, number: int, label: str, op: Convolution, step: Step) -> str:
        weights, bias = [], op.bias
        if number in self.tiles:
            bias = bias_of(op)
        else:  # as a column of the strip that pixels are read from; depthwise, as pixels
            order = (2, 3, 0, 1) if op.depthwise else (0, 3, 2, 1)
            weight = np.ascontiguousarray(op.weight.transpose(order))
            name = self._constant("int8_t", f"filters_{number}", weight, label)
            weights = [f".weight = {name}"]
        biases = self._constant("int32_t", f"bias_{number}", bias, label)
        multipliers = self._constant("float", f"multiplier_{number}", op.multiplier, label)
        fields = [
            _lines(".window", _window_fields(op.window, step)),
            f".codes = {{ {_codes_fields(op.after)} }}",
            f".filters = {len(op.weight)}, .groups = {op.groups}",
            *weights,
            f".bias = {biases}",
            f".multiplier = {multipliers}",
        ]
        return self._struct("layer", number, fields)

    def _window(self, number: int, window: Window, step: Step) -> str:
        return self._struct("window", number, _window_fields(window, step))

    def _codes(self, number: int, after: After) -> str:
        return "&" + self._struct("codes", number, [_codes_fields(after)])

    def _struct(self, kind: str, number: int, fields: list[str]) -> str:
        name = f"{kind}_{number}"
        self.structs.append((f"{self.name}_{kind}", name, fields))
        return name

    def _constant(self, kind: str, name: str, array: Any, about: str) -> str:
        """An array in C; equal ones are there once."""
        key = kind, array.tobytes()
        if key not in self.known:
            begin = sum(map(len, self.data))
            one = Constant(kind, f"{self.name}_{name}", array, about, begin)
            self.constants.append(one)
            self.data.append(_filled(one.data))
            there = self.where == "file"
            self.known[key] = f"WEIGHTS({kind}, {begin})" if there else one.name
        return self.known[key]

    # ---- files -----------------------------------------------------------------------------------

    def _known(self, calls: list[Call]) -> ByteFilesContext:
        read = self.read
        arrays = (*read.inputs, *read.outputs)
        errors = {number: part.plan.predicted_error for number, part in self.parts.items()}
        sample = Sample(read, errors)
        self.allowed = {read.outputs[number].name: far for number, far in sample.allowed.items()}
        return ByteFilesContext(
            **interface(
                self.name,
                self.flagged,
                self.command,
                read.inputs,
                read.outputs,
                lambda array: _C[array.dtype],
            ),
            batch=read.batch,
            types={a.name: _C[a.dtype] for a in arrays},
            pairs=[
                f"{self.name}_bytes",
                *([f"{self.name}_tiles"] if self.tiles else []),
                *(name for part in self.parts.values() for name in part.objects),
            ],
            parts=[part.name for part in self.parts.values()],
            tiles=self._algorithms(),
            has_maps=False,
            has_arrays=False,
            constants=self.constants,
            layers=self.structs,
            calls=calls,
            where=self.where,
            symbols=self._symbols(),
            header=HEADER,
            magic=MAGIC.decode(),
            basis=f"0x{BASIS:X}",
            prime=f"0x{PRIME:X}",
            arena_bytes=self.arena_bytes,
            least_bytes=self.least_bytes,
            predicted=self.predicted_error,
            optimized=is_optimized(read),
            weight_bytes=self.weight_bytes,
            products=self.products,
            direct_products=self.direct_products,
            feed=[(a, rows(sample.feed[a.name], a.dtype)) for a in read.inputs],
            expected=[
                (a, rows(y, a.dtype), sample.limits.get(n) or Limits(sample.allowed[n], None))
                for n, (a, y) in enumerate(zip(read.outputs, sample.expected))
            ],
        )


def _filled(data: bytes) -> bytes:
    """Bytes up to a multiple of a line."""
    return data + bytes(-len(data) % _LINE)


def _products(step: Step) -> int:
    """How many products a convolution has by direct convolution."""
    op = step.op
    return step.output.pixels * op.weight.size if isinstance(op, Convolution) else 0


def _work_bytes(step: Step, tiles: Tiles | None) -> int:
    """What a convolution works in: a tile, or a strip of rows and two filters, as words."""
    op = step.op
    if not isinstance(op, Convolution) or op.depthwise:
        return 0
    if tiles is not None:
        return _WORD * tiles.products * op.weight.shape[1]
    window = op.window
    reach = (window.kernel[1] - 1) * window.dilation[1]
    columns = (step.output.width - 1) * window.stride[1] + reach + 1
    rows = window.kernel[0] * op.weight.shape[1]
    return _WORD * rows * (columns + 2 * window.kernel[1])


def _window_fields(window: Window, step: Step) -> list[str]:
    x, y = step.reads[0], step.output
    sizes = {
        "height": x.height,
        "width": x.width,
        "channels": x.channels,
        "out_height": y.height,
        "out_width": y.width,
        "top": window.before[0],
        "left": window.before[1],
    }
    for name in ("kernel", "stride", "dilation"):
        sizes[f"{name}_height"], sizes[f"{name}_width"] = getattr(window, name)
    return [f".{name} = {value}" for name, value in sizes.items()]


def _lines(name: str, fields: list[str]) -> str:
    """A struct within a struct, in lines of at most 100 columns where that begins in column 12."""
    return f"{name} = {{\n{indent(dedent(wrapped(fields, 16, ', ')), ' ' * 8)}\n    }}"


def _codes_fields(after: After) -> str:
    names = ("x_zero", "y_zero", "lowest", "highest")
    return ", ".join(f".{name} = {getattr(after, name)}" for name in names)


def _integer(value: int) -> str:
    """An integer as C spells it: the least of 32 bits is no constant with a sign."""
    return str(value) if value > -(2**31) else "-2147483647 - 1"
