"""The files of a network of float32: calls in their order, kernels, weights, and a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from winogen.codegen.constants import spelled_double
from winogen.codegen.ctext import commented
from winogen.codegen.functions import FUNCTIONS
from winogen.codegen.interface import Interface, float_interface
from winogen.codegen.standalone import render_pair
from winogen.conv import arguments
from winogen.conv.standalone import about_of
from winogen.graph import maps, runtime
from winogen.graph.chains import Chain
from winogen.graph.lower import Step
from winogen.graph.ops import Repeat
from winogen.graph.places import Place
from winogen.graph.relayout import turning
from winogen.graph.strips import Compute, Move
from winogen.graph.whole import GROWTH
from winogen.kernels.kind import wishes_of
from winogen.network.array_calls import ArrayCalls
from winogen.network.calls import PICTURE, Call, Loop, Spot, folded
from winogen.network.context import FloatCodeContext, FloatFilesContext
from winogen.network.example import UNSEEN, USUAL, example
from winogen.network.interface import interface, rows
from winogen.network.once import Once
from winogen.network.reading import Network
from winogen.network.schedule import Kernel, Schedule
from winogen.network.trial import Program
from winogen.network.weights import BASIS, HEADER, MAGIC, PRIME, Weights, as_file, packed
from winogen.records import Target
from winogen.toolchain import host_target

if TYPE_CHECKING:
    from winogen.network.promising import KeptPromise

_SHARE = "part", "parts"  # the last arguments of what runs in parts


class Rows(NamedTuple):
    """From which row on a call reads and writes, of each of so many images."""

    input: int = 0
    output: int = 0
    add: int = 0
    images: int = 1  # of a loop over them; 1: the call itself computes all


class FloatWriter:
    """All that is collected while a network is written."""

    def __init__(
        self,
        name: str,
        read: Network,
        plan: Schedule,
        target: Target,
        where: str,
        command: str,
        kept: KeptPromise | None = None,
    ):
        """``kept``: what is promised of the error at the output."""
        self.name, self.read, self.plan, self.target = name, read, plan, target
        self.where, self.command, self.kept = where, commented(command), kept
        self.weights, self.halves = Weights(), Weights("uint16")
        self.pairs: dict[Any, str] = {}  # names of kernels, by all that they are made of
        self.texts: dict[str, str] = {}
        self.files_of: dict[Any, str] = {}  # of kernels, by what their texts are made of
        self.structs = Once()
        self.kinds: set[str] = set()  # of maps that are called
        self.turns = False  # whether some change their layout
        self.library = runtime.library(host_target(), "float32")
        self.arrays = ArrayCalls(name, plan.planned, self._at, self._weight)

    def files(self) -> dict[str, bytes]:
        """Return everything by name."""
        known = self._known(list(self._items()))
        name, render = self.name, partial(_rendered, known)
        return self._code(render) | {
            f"{name}_test.c": render("test.c"),
            "Makefile": render("Makefile"),
            "CMakeLists.txt": render("CMakeLists.txt"),
            "README.md": render("README.md"),
        }

    def code_files(self, part: bool = False) -> dict[str, bytes]:
        """Return all but the test, and what compiles and explains; ``part``: for a larger network.

        Then weights that are not in C lie among those of the larger network.
        """
        known = FloatCodeContext(**self._told(list(self._items())), is_part=part)
        return self._code(partial(_rendered, known), part)

    def program(self, contents: Mapping[str, bytes]) -> Program:
        """Return these files as what can be compiled and run."""
        read, pieces = self.read, self.read.pieces
        ends, times = (read.inputs, read.outputs), pieces.times if pieces else 0
        in_file = self.where == "file"
        return Program(self.name, contents, self.flagged, *ends, in_file, self.plan.shared, times)

    @property
    def weight_data(self) -> bytes:
        """All weights, once the files are made."""
        return self.weights.data().tobytes() + self.halves.data().tobytes()

    @property
    def objects(self) -> list[str]:
        """The names of all files that are compiled, once they are made."""
        more = ["maps"] * bool(self.structs) + ["arrays"] * bool(self.arrays.functions)
        more += ["weights"] * (self.where == "const" and self.weight_bytes > 0)
        return [self.name, *(f"{self.name}_{one}" for one in more), *self.kernels]

    @property
    def kernels(self) -> list[str]:
        """The names of the files of kernels, once these are made."""
        return [file.removesuffix(".c") for file in self.texts if file.endswith(".c")]

    @property
    def _narrow(self) -> str:
        """Of what numbers filters are that are no float32."""
        plan = self.plan
        kernels = [one for some in (*plan.kernels, *plan.strips.values()) for one in some if one]
        found = {one.spec.precision.filters for one in kernels} - {"float32"}
        return " and ".join(sorted(found))

    @property
    def flagged(self) -> Target:
        """The target with what its kernels need to widen filters."""
        kept = self.plan.planned.settings.filter_dtype
        return self.target.storing(kept) if kept else self.target

    @property
    def weight_bytes(self) -> int:
        """How many bytes all weights take; known once the files are made."""
        return 4 * self.weights.count + 2 * self.halves.count

    def _code(self, render: Callable[[str], bytes], part: bool = False) -> dict[str, bytes]:
        """The files that compute."""
        name = self.name
        contents = {f"{name}.h": render("net.h"), f"{name}.c": render("net.c")}
        contents |= {file: text.encode() for file, text in self.texts.items()}
        if self.structs:
            contents |= {f"{name}_maps.h": render("maps.h"), f"{name}_maps.c": render("maps.c")}
        if self.arrays.functions:
            contents[f"{name}_arrays.h"] = render("arrays.h")
            contents[f"{name}_arrays.c"] = render("arrays.c")
        if part and self.where != "const":
            return contents
        return contents | self._weight_files(render)

    # ---- calls -----------------------------------------------------------------------------------

    def _items(self) -> Iterator[Call | Loop]:
        """All calls in their order; chains of steps run strip by strip."""
        planned = self.plan.planned
        chains = {chain.first: chain for chain in planned.chains}
        number = 0
        while number < len(planned.steps):
            chain = chains.get(number)
            yield from self._calls(number) if chain is None else self._chain(chain)
            number += 1 if chain is None else chain.steps

    def _calls(self, number: int) -> list[Call]:
        """The calls of a step."""
        step, kernels = self.plan.planned.steps[number], self.plan.kernels[number]
        label, whole = _label(step), Rows()
        if step.op.origin:
            return [self._turning(label, step)]
        if step.op.loops is not None:
            return list(self.arrays.calls(label, step))
        if step.op.samples_before:
            return list(self._histories(label, step, step.op.samples_before))
        if not kernels:
            return [self._moving(label, step, whole)]
        workspace = self.plan.workspaces[number]
        return [self._convolution(label, step, one, workspace, whole) for one in kernels]

    def _chain(self, chain: Chain) -> list[Call | Loop]:
        """The calls of a chain, image by image."""
        strips: list[list[Call]] = [[]]
        ended = False
        for job, kernel in zip(chain.strips.jobs, self.plan.strips[chain.first]):
            if ended:
                strips.append([])
            strips[-1].append(self._job(chain, job, kernel))
            ended = job.step == chain.steps - 1
        items = folded(strips)
        return items if chain.images == 1 else [Loop(PICTURE, chain.images, tuple(items))]

    def _job(self, chain: Chain, job: Compute | Move, kernel: Kernel | None) -> Call:
        """What is done to some rows."""
        step = self.plan.planned.steps[chain.first + job.step]
        label = _label(step)
        if isinstance(job, Move):
            copy = replace(step, op=Repeat((1, 1)), input=step.output, add=None)
            part = maps.Part(0, job.rows, job.rows)
            rows = Rows(job.up, 0, images=chain.images)
            return self._moving(f"{label}: rows move up", copy, rows, part)
        rows = Rows(job.source, job.target, job.begin, chain.images)
        if kernel is None:
            part = maps.Part(job.above, job.last - job.first, job.end - job.begin)
            return self._moving(label, step, rows, part)
        return self._convolution(label, step, kernel, self.plan.workspaces[chain.first], rows)

    def _convolution(self, label: str, step: Step, one: Kernel, workspace: int, rows: Rows) -> Call:
        op = step.op.conv
        interface = self._interface(one)
        slopes = arguments.slopes(op.activation, len(op.weight), np.dtype(np.float32))
        given = {
            "input": self._at(step.input, rows.input, rows.images),
            "packed": self._filters(f"filters of {step.label}", packed(one, op.weight)),
            "bias": "NULL" if op.bias is None else self._weight(f"bias of {step.label}", op.bias),
            "slopes": "NULL" if slopes is None else self._weight(f"slopes of {step.label}", slopes),
            "add": self._at(step.add, rows.add, rows.images),
            "add_after": self._at(step.add_after, rows.add, rows.images),
        }
        pointers = [given[what] for what in interface.reading]
        output = self._at(step.output, rows.output, rows.images)
        function, shares = ("run_part", self._share) if self.plan.shared else ("run", ("1",))
        arguments_ = (*pointers, output, f"arena + {workspace}", *shares)
        return Call(label, f"{self._pair(one)}_{function}", arguments_)

    def _interface(self, one: Kernel) -> Interface:
        """What a layer's C has: filters are packed here, and never on the device."""
        interface = float_interface(one.spec, one.fields)
        return replace(interface, shared=self.plan.shared, packing={})

    def _pair(self, one: Kernel) -> str:
        """The name of a kernel's pair of files."""
        key = one.spec, repr(one.fields)
        if key not in self.pairs:
            name = self.pairs[key] = f"{self.name}_{len(self.pairs):02}"
            about = about_of(one.problem, one.choice, one.spec)
            given = one.spec, one.fields, self._interface(one), about, self.command
            # Microcontrollers have little room for code: calls of one kernel share its text, where
            # other compilers know the sizes of the only call.
            kernel = one.spec, repr(wishes_of(one.fields))
            file = self.files_of.get(kernel) if self.target.bare else None
            beside = (file, self.texts[file]) if file else None
            made = render_pair(name, *given, beside=beside)
            self.files_of.setdefault(kernel, f"{name}.c")
            self.texts |= made
        return self.pairs[key]

    def _moving(self, label: str, step: Step, rows: Rows, part: maps.Part | None = None) -> Call:
        """What only moves numbers, pools or adds; ``part`` of it, if it is not all."""
        planned, op = self.plan.planned, step.op
        assert op.kinds
        struct, parts = planned.map_struct(self.library, step, part)
        self.kinds.add(self._spelled("kind", struct.kind))
        more: list[str | Spot] = []
        for what, array in zip(("scale", "shift"), op.weights or ()):
            found = "NULL" if array is None else self._weight(f"{what} of {step.label}", array)
            more.append(found)
        if step.add is not None:
            more.append(self._at(step.add))
        more += ["NULL"] * (3 - len(more))
        ends = zip((step.input, step.output), (rows.input, rows.output))
        pointers = [self._at(place, row, rows.images) for place, row in ends]
        struct_name = self._struct("winogen_map", struct)
        given = struct_name, str(parts), *pointers, *more
        return Call(label, f"{self.name}_map", (*given, *self._share))

    def _histories(self, label: str, step: Step, samples: int) -> Iterator[Call]:
        """What puts the last samples of the pieces before those of this one, signal by signal."""
        assert self.read.pieces is not None
        begin, channels = self.read.pieces.places[step.key], step.input.channels
        for image in range(step.shape[0]):
            past = f"KEPT({begin + image * channels * samples})"
            ends = (self._at(place, image=image) for place in (step.input, step.output))
            sizes = map(str, (channels, samples, step.shape[-1]))
            yield Call(label, f"{self.name}_history", (*sizes, past, *ends))

    def _turning(self, label: str, step: Step) -> Call:
        self.turns = True
        struct, _, parts = turning(self.library, step.op.origin, step.shape, "float32")
        struct_name = self._struct("winogen_relayout", struct)
        places = self._at(step.input), self._at(step.output)
        given = struct_name, str(parts), *places
        return Call(label, f"{self.name}_relayout", (*given, *self._share))

    @property
    def _share(self) -> tuple[str, ...]:
        """The last arguments of what runs in parts."""
        return _SHARE if self.plan.shared else ()

    def _struct(self, kind: str, struct: Any) -> str:
        """The name of a constant struct; equal ones are there once."""
        fields = [field for field, _ in self.library.ffi.typeof(struct).item.fields]
        values = [(field, getattr(struct, field)) for field in fields]
        filled = [f".{field} = {self._spelled(field, value)}" for field, value in values if value]
        return "&" + self.structs.named(kind, filled, kind.removeprefix("winogen_"))

    def _spelled(self, field: str, value: float) -> str:
        """A value of a struct; kinds of maps by their names."""
        if field != "kind":
            return spelled_double(value) if isinstance(value, float) else str(value)
        kinds = self.library.ffi.typeof("enum winogen_map_kinds").elements
        return str(kinds[int(value)])

    # ---- where things are ------------------------------------------------------------------------

    def _at(self, place: Place | None, row: int = 0, images: int = 1, image: int = 0) -> str | Spot:
        """Where channels of a buffer begin, from a row of an image on, in C; of each of so many."""
        if place is None:
            return "NULL"
        kind, number = place.buffer
        planned = self.plan.planned
        offset = planned.offset(place, row, image)
        further = planned.offset(place, row, 1) - offset if images > 1 else 0
        pictures = ((PICTURE, further),) if further else ()
        if kind == "arena":
            begin = self.plan.begins[place.buffer]
            return Spot(None, begin + 4 * offset, tuple((one, 4 * step) for one, step in pictures))
        array = (self.read.inputs if kind == "input" else self.read.outputs)[number].identifier
        return Spot(array, offset, pictures)

    def _weight(self, name: str, array: Any) -> str:
        return f"w + {self.weights.add(commented(name), array)}"

    def _filters(self, name: str, array: Any) -> str:
        if array.dtype == np.float32:
            return self._weight(name, array)
        return f"h + {self.halves.add(commented(name), array)}"

    # ---- files -----------------------------------------------------------------------------------

    def _known(self, items: Sequence[Call | Loop]) -> FloatFilesContext:
        """What templates know: all files, the test and the description among them."""
        plan, read, kept = self.plan, self.read, self.kept
        inputs, expected, exact = example(read, UNSEEN if kept else USUAL)
        planned, direct = plan.products
        measured = kept.promise.measured if kept else 0.0
        split = read.pieces.split if read.pieces else np.asarray
        return FloatFilesContext(
            **self._told(items),
            is_part=False,
            layout=plan.planned.settings.layout,
            least_bytes=plan.least_bytes,
            predicted=plan.predicted_error,
            limit=GROWTH * max(plan.predicted_error, measured),
            kept=kept,
            products=planned,
            direct_products=direct,
            feed=[(array, rows(split(inputs[array.name]))) for array in read.inputs],
            expected=[(a, rows(split(y))) for a, y in zip(read.outputs, expected)],
            exact=exact,
        )

    def _told(self, items: Sequence[Call | Loop]) -> dict[str, Any]:
        """What templates know that compute."""
        plan, read = self.plan, self.read
        return {
            **interface(
                self.name,
                self.flagged,
                self.command,
                read.inputs,
                read.outputs,
                lambda _: "float",
                ("state",) if read.pieces else (),
            ),
            # gcc's -std=c11 alone keeps products and sums apart, which takes up to a third longer.
            "flags": " ".join(("-ffp-contract=fast", *self.flagged.told)),
            "pieces": read.pieces,
            "headers": list(self.pairs.values()),
            "pairs": self.kernels,
            "items": items,
            "uses_arena": any(_uses_arena(item) for item in items),
            **self.arrays.told(),
            "symbols": [(f"{self.name}_weights", 0, self.weight_bytes)],
            "has_maps": bool(self.structs),
            "structs": self.structs.listed(),
            "kinds": self.kinds,
            "turns": self.turns,
            "functions": FUNCTIONS,
            "reals": ["float"],
            "where": self.where,
            "weights": self.weights,
            "halves": self.halves,
            "narrow": self._narrow,
            "weight_bytes": self.weight_bytes,
            "header": HEADER,
            "arena_bytes": plan.arena_bytes,
            "shared": plan.shared,
            "part_bytes": plan.part_bytes,
            "magic": MAGIC.decode(),
            "basis": f"0x{BASIS:X}",
            "prime": f"0x{PRIME:X}",
        }

    def _weight_files(self, render: Any) -> dict[str, bytes]:
        data, name = self.weight_data, self.name
        if self.where == "const" and not data:
            return {}
        if self.where == "const":
            return {f"{name}_weights.c": render("weights.c")}
        if self.where == "object":
            return {f"{name}_weights.bin": data, f"{name}_weights.S": render("weights.S")}
        return {f"{name}_weights.bin": as_file(data)}


def _uses_arena(item: Call | Loop) -> bool:
    if isinstance(item, Loop):
        return any(map(_uses_arena, item.items))
    spots = (str(argument) for argument in item.arguments)
    return any(spot.startswith(("AT(", "arena")) for spot in spots)


def _rendered(known: FloatCodeContext, template: str) -> bytes:
    return known.render(f"network/{template}.j2").encode()


def _label(step: Step) -> str:
    """What a comment calls a step."""
    text = f"{step.label}: {step.op}" if step.label != str(step.op) else step.label
    return commented(text)
