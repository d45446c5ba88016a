"""The files of a network of bytes: calls in their order, layers as constants, weights, a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod, sqrt
from textwrap import dedent, indent
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.constants import Constant, spelled
from winogen.codegen.ctext import commented
from winogen.codegen.templates import wrapped
from winogen.graph.ir import Node
from winogen.graph.memory import Life, least, offsets
from winogen.graph.ops import (
    Dequantize,
    Lookup,
    MaxPool,
    Nearest,
    QAdd,
    QConv,
    QMean,
    Quantize,
    Recast,
    Shape,
    Spread,
)
from winogen.graph.ops.quantized import After
from winogen.network.bytes_reading import ByteNetwork
from winogen.network.bytes_testing import Limits, Sample, is_optimized
from winogen.network.bytes_tiles import Tiles, bias_of, chosen
from winogen.network.context import ByteFilesContext
from winogen.network.float_writing import FloatWriter
from winogen.network.interface import interface, rows
from winogen.network.reading import Network
from winogen.network.schedule import Schedule
from winogen.network.weights import BASIS, HEADER, MAGIC, PRIME, as_file
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


@dataclass(frozen=True)
class Weight(Constant):
    """An array among the weights."""

    begin: int  # in bytes, where the weights are no C

    @property
    def data(self) -> bytes:
        """Its bytes."""
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
        self.shapes = read.shapes
        # What is joined is written where it belongs: a value's array, and its first channel there.
        self.homes: dict[str, tuple[str, int]] = {}
        for node in read.graph.nodes:
            begin = 0
            for joined in node.inputs if node.op.is_concat else ():
                self.homes[joined] = node.output, begin
                begin += self.shapes[joined][1]
        self.steps = [node for node in read.graph.nodes if not node.op.is_concat]
        self.parts: dict[int, FloatWriter] = {}  # by the numbers of their steps
        for number, node in enumerate(self.steps):
            if node.op.is_opaque:
                assert planned is not None
                stem, network = f"{name}_float{len(self.parts)}", node.op.payload
                plan = planned(network)
                self.parts[number] = FloatWriter(stem, network, plan, target, where, command)
        made = (part.code_files(part=True) for part in self.parts.values())
        self.part_files = {file: data for files in made for file, data in files.items()}
        self.part_begins: dict[int, int] = {}  # where their weights begin, by their numbers
        self.part_data = b""
        for number, part in self.parts.items():
            self.part_begins[number] = len(self.part_data)
            self.part_data += _filled(part.weight_data)
        self.allowed: dict[str, float] = {}  # how far outputs of floats may be off; with the files
        self._begin({})
        if limit is not None:
            self._calls()
            self._begin(chosen(self._layers, self.weight_bytes, limit))

    def _begin(self, tiles: dict[int, Tiles]) -> None:
        """Start with no constants; ``tiles``: algorithms of layers that are not direct."""
        self.tiles = tiles
        self.constants: list[Weight] = []
        self.structs: list[tuple[str, str, list[str]]] = []
        self.known: dict[tuple[str, bytes], str] = {}
        self.data = [self.part_data]  # of weights that are no C
        self._place()

    def _place(self) -> None:
        """Where in the arena maps lie, and what convolutions work in."""
        works = [0] * len(self.steps)
        for number, (op, made) in self._layers.items():
            works[number] = _work_bytes(op, made, self.tiles.get(number))
        for number, part in self.parts.items():
            works[number] = part.plan.arena_bytes
        outer = {*self.read.graph.inputs, *self.read.graph.outputs}
        used: dict[str, list[int]] = {}  # when each value in the arena is
        for number, node in enumerate(self.steps):
            for name in (*node.inputs, *node.outputs):
                name, _ = self.homes.get(name, (name, 0))
                if name not in outer:
                    used.setdefault(name, []).append(number)
        lives = [Life(self._bytes(name), min(when), max(when)) for name, when in used.items()]
        lives += [Life(work, number, number) for number, work in enumerate(works)]
        begins, self.arena_bytes = offsets(lives)
        self.begins, self.works = dict(zip(used, begins)), begins[len(used) :]
        self.least_bytes = least(lives)

    @property
    def _layers(self) -> dict[int, tuple[QConv, Shape]]:
        """The convolutions by the numbers of their steps, and the shapes of their outputs."""
        convs = ((number, node, node.op.quantized) for number, node in enumerate(self.steps))
        return {n: (op, self.shapes[node.output]) for n, node, op in convs if op is not None}

    def _bytes(self, name: str) -> int:
        return prod(self.shapes[name]) * (4 if self.read.codes[name] is None else 1)

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
            _products(*self._layers[number]) - tiles.products_of(*self._layers[number])
            for number, tiles in self.tiles.items()
        )
        saved += sum(direct - planned for planned, direct in floats)
        return self.direct_products - self.read.batch * saved

    @property
    def direct_products(self) -> int:
        """How many they have by direct convolution."""
        floats = sum(part.plan.products[1] for part in self.parts.values())
        direct = sum(_products(*layer) for layer in self._layers.values())
        return self.read.batch * (floats + direct)

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
        return [self._call(number, node) for number, node in enumerate(self.steps)]

    def _call(self, number: int, node: Node) -> Call:
        """The call of a step, by the method named after its kind."""
        label = commented(node.label)
        if node.op.is_opaque:
            function, work = f"{self.parts[number].name}_run", f"arena + {self.works[number]}"
            given = (*map(self._at, (*node.inputs, *node.outputs)), work)
            if self.where != "file":
                return Call(label, function, given)
            weights = f"WEIGHTS(float, {self.part_begins[number]})"
            return Call(label, f"{function}_with", (weights, *given))
        write: Callable[..., list[str]] = getattr(self, f"_{node.op.kind}")
        function, *arguments = write(number, label, node, node.op)
        call = Call(label, f"{self.name}_{function}", (*arguments,))
        if node.op.quantized is None or self.where != "file":
            return call
        return call._replace(struct=self.structs.pop())  # it holds places of the weights

    def _convolve(self, number: int, label: str, node: Node, op: QConv) -> list[str]:
        tiles, words = self.tiles.get(number), ""
        if tiles is not None:
            words = self._constant("int16_t", f"words_{number}", tiles.words(op.weight), label)
        given = [f"&{self._layer(number, label, node, op)}", *self._ends(node)]
        work = f"(int16_t *)(void *)(arena + {self.works[number]})"
        if tiles is None:
            return ["convolve", *given, work]
        return [f"convolve_{tiles.name}", given[0], words, *given[1:], work]

    def _depthwise(self, number: int, label: str, node: Node, op: QConv) -> list[str]:
        return ["depthwise", f"&{self._layer(number, label, node, op)}", *self._ends(node)]

    def _max(self, number: int, label: str, node: Node, op: MaxPool) -> list[str]:
        return ["largest", f"&{self._window(number, node)}", *self._ends(node)]

    def _nearest(self, number: int, label: str, node: Node, op: Nearest) -> list[str]:
        tables = [
            self._constant("int32_t", f"{what}_{number}", table, label)
            for what, table in (("rows", op.down), ("columns", op.across))
        ]
        (_, channels, _, width), (_, _, *size) = map(self.shapes.__getitem__, _ends_of(node))
        return ["nearest", *tables, *map(str, (*size, width, channels)), *self._ends(node)]

    def _spread_pixels(self, number: int, label: str, node: Node, op: Spread) -> list[str]:
        (_, whole, _, width), (_, channels, *size) = map(self.shapes.__getitem__, _ends_of(node))
        assert whole == channels * prod(op.factor)
        apart = prod(op.factor) if op.is_of_channels else 1
        top, _, left, _ = op.crop
        numbers = *op.factor, top, left, *size, width, channels, apart
        return ["spread", *map(str, numbers), *self._ends(node)]

    _spread_channels = _spread_pixels

    def _mean(self, number: int, label: str, node: Node, op: QMean) -> list[str]:
        window = f"&{self._window(number, node)}"
        codes = self._codes(number, op.after, op.x.zero)
        padded = prod(op.kernel) if op.counted else 0
        return ["mean", window, codes, spelled(op.multiplier), str(padded), *self._ends(node)]

    def _add(self, number: int, label: str, node: Node, op: QAdd) -> list[str]:
        x, z = map(self._at, node.inputs)
        a, b = map(spelled, op.factors)
        count, codes = str(prod(self.shapes[node.output])), self._codes(number, op.after, op.x.zero)
        return ["add", codes, count, x, a, z, b, str(op.z.zero), self._at(node.output)]

    def _look_up(self, number: int, label: str, node: Node, op: Lookup) -> list[str]:
        table = self._constant("int8_t", f"table_{number}", op.in_order, label)
        pixels, channels = self._sizes(node.output)
        whole, _ = self.homes.get(node.output, (node.output, 0))
        sizes = len(op.table), pixels, channels, self.shapes[whole][1]
        return ["look_up", table, *map(str, sizes), *self._ends(node)]

    # What stands between numbers, or codes of the caller, and codes.

    def _quantize(self, number: int, label: str, node: Node, op: Quantize) -> list[str]:
        after, sizes = op.after, map(str, self._sizes(node.output))
        scale = spelled(float(np.float32(after.codes.scale)))
        return ["quantize", self._codes(number, after, 0), scale, *sizes, *self._ends(node)]

    def _dequantize(self, number: int, label: str, node: Node, op: Dequantize) -> list[str]:
        (scale, zero), sizes = op.x, map(str, self._sizes(node.inputs[0]))
        return ["dequantize", spelled(float(np.float32(scale))), str(zero), *sizes,
                *self._ends(node)]  # fmt: skip

    def _take(self, number: int, label: str, node: Node, op: Recast) -> list[str]:
        sizes = map(str, self._sizes(node.inputs[0]))
        return [op.kind, str(op.flip), *sizes, *self._ends(node)]

    _give = _take

    def _sizes(self, name: str) -> tuple[int, int]:
        """The pixels and channels of a value."""
        _, channels, height, width = self.shapes[name]
        return height * width, channels

    def _ends(self, node: Node) -> list[str]:
        return [self._at(name) for name in _ends_of(node)]

    def _at(self, name: str) -> str:
        read = self.read
        for ends in (*read.inputs, *read.outputs):
            if ends.name == name:
                count = prod(self.shapes[name])
                array = ends.identifier
                return f"{array} + picture * {count}" if read.batch > 1 else array
        name, begin = self.homes.get(name, (name, 0))
        place = self.begins[name] + begin
        return f"NUMBERS({place})" if read.codes[name] is None else f"AT({place})"

    # ---- constants -------------------------------------------------------------------------------

    def _layer(self, number: int, label: str, node: Node, op: QConv) -> str:
        weights = []
        bias = np.zeros(len(op.weight), np.int32) if op.bias is None else op.bias
        if number in self.tiles:
            bias = bias_of(op)
        else:  # as a column of the strip that pixels are read from; depthwise, as pixels
            order = (2, 3, 0, 1) if op.kind == "depthwise" else (0, 3, 2, 1)
            weight = np.ascontiguousarray(op.weight.transpose(order))
            name = self._constant("int8_t", f"filters_{number}", weight, label)
            weights = [f".weight = {name}"]
        biases = self._constant("int32_t", f"bias_{number}", bias, label)
        multipliers = self._constant("float", f"multiplier_{number}", op.multiplier, label)
        fields = [
            _lines(".window", self._window_fields(node)),
            f".codes = {{ {_codes_fields(op.x_zero, op.y_zero, *op.limits)} }}",
            f".filters = {len(op.weight)}, .groups = {op.groups}",
            *weights,
            f".bias = {biases}",
            f".multiplier = {multipliers}",
        ]
        return self._struct("layer", number, fields)

    def _window(self, number: int, node: Node) -> str:
        return self._struct("window", number, self._window_fields(node))

    def _window_fields(self, node: Node) -> list[str]:
        x, y = map(self.shapes.__getitem__, _ends_of(node))
        window = node.op.window
        sizes = dict(zip(("height", "width", "channels"), (*x[2:], x[1])))
        sizes |= {"out_height": y[2], "out_width": y[3]}
        sizes |= {"top": window.padding[0], "left": window.padding[2]}
        for name in ("kernel", "stride", "dilation"):
            sizes[f"{name}_height"], sizes[f"{name}_width"] = getattr(window, name)
        return [f".{name} = {value}" for name, value in sizes.items()]

    def _codes(self, number: int, after: After, x_zero: int) -> str:
        codes = x_zero, after.codes.zero, after.lowest, after.highest
        return "&" + self._struct("codes", number, [_codes_fields(*codes)])

    def _struct(self, kind: str, number: int, fields: list[str]) -> str:
        name = f"{kind}_{number}"
        self.structs.append((f"{self.name}_{kind}", name, fields))
        return name

    def _constant(self, kind: str, name: str, array: Any, about: str) -> str:
        """An array in C; equal ones are there once."""
        key = kind, array.tobytes()
        if key not in self.known:
            begin = sum(map(len, self.data))
            one = Weight(kind, f"{self.name}_{name}", array, about, begin)
            self.constants.append(one)
            self.data.append(_filled(one.data))
            there = self.where == "file"
            self.known[key] = f"WEIGHTS({kind}, {begin})" if there else one.name
        return self.known[key]

    # ---- files -----------------------------------------------------------------------------------

    def _known(self, calls: list[Call]) -> ByteFilesContext:
        read = self.read
        arrays = (*read.inputs, *read.outputs)
        errors = {
            self.steps[number].outputs[0]: part.plan.predicted_error
            for number, part in self.parts.items()
        }
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


def _products(op: QConv, made: Shape) -> int:
    """How many products a convolution has by direct convolution."""
    return made[2] * made[3] * int(op.weight.size)


def _work_bytes(op: QConv, made: Shape, tiles: Tiles | None) -> int:
    """What a convolution works in: a tile, or a strip of rows and two filters, as words."""
    if op.kind == "depthwise":
        return 0
    if tiles is not None:
        return _WORD * tiles.products * op.weight.shape[1]
    window = op.window
    reach = (window.kernel[1] - 1) * window.dilation[1]
    columns = (made[3] - 1) * window.stride[1] + reach + 1
    rows = window.kernel[0] * op.weight.shape[1]
    return _WORD * rows * (columns + 2 * window.kernel[1])


def _ends_of(node: Node) -> tuple[str, str]:
    """What a step of one input reads, and what it makes."""
    (name,) = node.inputs
    return name, node.output


def _lines(name: str, fields: list[str]) -> str:
    """A struct within a struct, in lines of at most 100 columns where that begins in column 12."""
    return f"{name} = {{\n{indent(dedent(wrapped(fields, 16, ', ')), ' ' * 8)}\n    }}"


def _codes_fields(x_zero: int, y_zero: int, lowest: int, highest: int) -> str:
    return f".x_zero = {x_zero}, .y_zero = {y_zero}, .lowest = {lowest}, .highest = {highest}"
