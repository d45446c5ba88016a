"""Plans of nodes of codes, carried by a library: weights stand in it, and are packed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from winogen.graph import code_tiles
from winogen.graph.code_calls import CodeCall, offer_of, unpacked
from winogen.graph.code_segment import pointers_of, steps_of
from winogen.graph.ir import Node
from winogen.graph.ops import Shape
from winogen.graph.shapes import shapes
from winogen.kernels.kind import Spec
from winogen.onnx.code_answers import CodeAnswer
from winogen.onnx.drafts import DraftCall
from winogen.records import Target
from winogen.records.machine import LINE


class HeldArrays:
    """Arrays one behind the other, each at an address of its own."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self._places: dict[bytes, int] = {}

    def place(self, array: np.ndarray | None) -> int:
        """Return where an array lies, which is written once; -1 for none."""
        if array is None:
            return -1
        content = np.ascontiguousarray(array).tobytes()
        if content not in self._places:
            self.bytes += bytes(-len(self.bytes) % LINE)
            self._places[content] = len(self.bytes)
            self.bytes += content
        return self._places[content]


def plan_of(
    answer: CodeAnswer,
    target: Target | None,
    data: HeldArrays,
    name_of: Callable[[Spec], str],
    number_of: Callable[[bytes], int],
) -> dict[str, Any]:
    """Return the plan of an answer as the template has it.

    ``target``: whom it is for; None: this machine. ``name_of``: names a kernel. ``number_of``:
    numbers the content of a struct.
    """
    graph = answer.graph
    values = shapes(graph, dict(zip(graph.inputs, answer.shapes)))
    packs: list[tuple[Any, ...]] = []

    def convolution_of(node: Node, shape: Shape) -> CodeCall:
        op: Any = node.op.quantized
        offer = offer_of(op, shape, answer.threads, elsewhere=target)
        (work,), (spec,) = offer.best.works(offer.problem), offer.best.specs(offer.problem)
        near = code_tiles.is_near(offer)
        packs.append(code_tiles.unpacked(op) if near else unpacked(op, spec))
        call = DraftCall(spec, work, offer.best.seconds)
        if near:
            code_tiles.set_codes(call, op)
        struct, nothing = call.struct, (np.empty(0, np.uint8),) * (1 + near)
        return CodeCall(
            0, 0, 0, nothing, struct.phases * struct.parts, struct.parts, call.threads,
            call.workspace_bytes, (call.kernel, struct), spec,
        )  # fmt: skip

    steps = steps_of(graph, values, answer.threads, convolution_of)
    laid, scratch = pointers_of(graph, values, steps)
    arrays = iter(packs)
    made = []
    for (call, *_), pointers in zip(steps, laid):
        code, struct = call.kept
        own = next(arrays) if call.spec else call.arrays
        held = [data.place(array) for array in own]
        content = bytes(code.ffi.buffer(struct))
        spots = ", ".join(f"{{ {slot}, {offset if slot else 0} }}" for slot, offset in pointers)
        kernel = name_of(call.spec) if call.spec else ""
        fixed = 0 if kernel else len(pointers) - len(held)
        packed_bytes = struct.packed_bytes if kernel else 0
        made.append(
            {
                "part": f"{kernel}_part" if kernel else call.function,
                "numbers": f"{{ {spots} }}, 0, {call.parts}, {call.phase_parts}, {call.threads}",
                "struct": number_of(content),
                "packs": _packs(kernel, len(held)),
                "arrays": ", ".join(map(str, held or [0])),
                "counts": ", ".join(map(str, (len(held), fixed, packed_bytes))),
            }
        )
    arrays_asked = [f"{len(one)}, {{ {', '.join(map(str, one))} }}, NULL" for one in answer.asked]
    numbers = answer.bytes, f"{answer.key}u", len(answer.asked), len(made), scratch
    return {"steps": made, "arrays": arrays_asked, "numbers": ", ".join(map(str, numbers))}


def _packs(kernel: str, arrays: int) -> str:
    """What packs four arrays, what packs five, and what packs one and reads another."""
    names = (f"{kernel}_pack" if kernel and arrays == count else "NULL" for count in (4, 5, 2))
    return ", ".join(names)
