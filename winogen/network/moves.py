"""Nodes of ONNX that move numbers: transposed, cut, repeated, joined, padded, resized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from winogen.network.loops import Along, Loops, Move, Operand, Piece, Shape, all_of
from winogen.network.operands import Operands
from winogen.network.resizing import resized
from winogen.onnx.quantized import Refused
from winogen.onnx.sizes import sliced

_PADDING = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}  # as numpy calls them


class Moves(Operands):
    """Readers of what only moves numbers, and of `Resize`."""

    def same(self, node: Any) -> Move:
        if node.op_type == "Dropout" and self.model.may_drop(node):
            raise Refused("it may be in training mode")
        return self.copied(self.operand(node.input[0]), self.shape(node.output[0]))

    def _Transpose(self, node: Any) -> Move:
        x = self.operand(node.input[0])
        order = self.model.attributes(node).get("perm", range(len(x.shape))[::-1])
        return self._viewed(x, [Along(x.shape[axis], axis) for axis in order])

    def _viewed(self, x: Operand, loops: Sequence[Along], shape: Shape | None = None) -> Move:
        """What loops go through, in a new array with an axis for each, or of another shape."""
        made = tuple(one.turns for one in loops)
        target = all_of(made if shape is None else shape)
        return Move((Piece(x, tuple(loops), tuple(target)),), made if shape is None else shape)

    def _Slice(self, node: Any) -> Move:
        x = self.operand(node.input[0])
        rank = len(x.shape)
        starts, ends = self.whole(node, 1, "starts", "starts"), self.whole(node, 2, "ends", "ends")
        assert starts is not None and ends is not None
        axes = self.whole(node, 3, "axes", "axes") or list(range(len(starts)))
        steps = self.whole(node, 4, "steps") or [1] * len(starts)
        loops = all_of(x.shape)
        for axis, start, end, step in zip(axes, starts, ends, steps):
            places = sliced(x.shape[axis % rank], start, end, step)
            if not places:
                raise Refused("its output is empty")
            loops[axis % rank] = Along(len(places), axis % rank, step, places[0])
        return self._viewed(x, loops)

    def _Split(self, node: Any) -> tuple[Move, ...]:
        x = self.operand(node.input[0])
        axis = self.model.attributes(node).get("axis", 0) % len(x.shape)
        begin, made = 0, []
        for name in node.output:
            count = self.shape(name)[axis]
            loops = all_of(x.shape)
            loops[axis] = Along(count, axis, 1, begin)
            made.append(self._viewed(x, loops))
            begin += count
        return tuple(made)

    def _Gather(self, node: Any) -> Move:
        x = self.operand(node.input[0])
        axis = self.model.attributes(node).get("axis", 0) % len(x.shape)
        indices = self.whole(node, 1, "indices")
        assert indices is not None
        size = x.shape[axis]
        if not all(-size <= one < size for one in indices):
            raise Refused(f"its indices are beyond {size}")
        table = tuple(one % size for one in indices)
        loops = all_of(x.shape)
        loops[axis] = Along(len(table), axis, 1, 0, table)
        return self._viewed(x, loops, self.shape(node.output[0]))

    def _Tile(self, node: Any) -> Move:
        x, repeats = self.operand(node.input[0]), self.whole(node, 1, "repeats")
        assert repeats is not None
        if 0 in repeats:
            raise Refused("its output is empty")
        origin, target = [], []
        for axis, (count, times) in enumerate(zip(x.shape, repeats)):
            origin += [Along(times, axis, 0), Along(count, axis)]
            target += [Along(times, axis, count), Along(count, axis)]
        shape = tuple(count * times for count, times in zip(x.shape, repeats))
        return Move((Piece(x, tuple(origin), tuple(target)),), shape)

    def _Expand(self, node: Any) -> Move:
        x, shape = self.operand(node.input[0]), self.shape(node.output[0])
        more = len(shape) - len(x.shape)
        loops = [Along(count, 0, 0) for count in shape[:more]]
        for axis, count in enumerate(x.shape):
            loops.append(Along(shape[more + axis], axis, int(count > 1)))
        return self._viewed(x, loops)

    def _Concat(self, node: Any) -> Move:
        parts = [self.operand(name) for name in node.input if 0 not in self._sizes(name)]
        axis = self.model.attributes(node)["axis"] % len(parts[0].shape)
        begin, pieces = 0, []
        for part in parts:
            there = all_of(part.shape)
            there[axis] = Along(part.shape[axis], axis, 1, begin)
            pieces.append(Piece(part, tuple(all_of(part.shape)), tuple(there)))
            begin += part.shape[axis]
        shape = list(parts[0].shape)
        shape[axis] = begin
        return Move(tuple(pieces), tuple(shape))

    def _sizes(self, name: str) -> Shape:
        constant = self.model.constant(name)
        if constant is not None:
            return tuple(constant.shape)
        return tuple(size.number for size in self.model.sizes.get(name, ()) if size.known)

    def _Pad(self, node: Any) -> Move:
        x, rank = self.operand(node.input[0]), len(self.shape(node.input[0]))
        values = self.model.attributes(node)
        pads = self.whole(node, 1, "pads", "pads")
        assert pads is not None
        axes = self.whole(node, 3, "axes") or list(range(rank))
        sides = [(0, 0)] * rank
        for number, axis in enumerate(axes):
            sides[axis % rank] = pads[number], pads[number + len(axes)]
        mode, shape = values.get("mode", "constant"), self.shape(node.output[0])
        loops, there = [], []
        for axis, ((before, behind), count) in enumerate(zip(sides, x.shape)):
            if count + min(before, 0) + min(behind, 0) < 1:
                raise Refused("it leaves nothing of an axis")
            kept = np.arange(count)[max(-before, 0) : count - max(-behind, 0)]
            if mode == "constant":
                loops.append(Along(len(kept), axis, 1, int(kept[0])))
                there.append(Along(len(kept), axis, 1, max(before, 0)))
                continue
            ends = max(before, 0), max(behind, 0)
            table = np.pad(kept, ends, mode=_PADDING[mode])  # type: ignore[call-overload]
            loops.append(Along(len(table), axis, 1, 0, tuple(map(int, table))))
            there.append(Along(len(table), axis))
        old = float(values.get("value", 0.0))
        fill = old if "pads" in values else self.scalar(node, 2, 0.0)
        padded = any(max(one) > 0 for one in sides)
        piece = Piece(x, tuple(loops), tuple(there))
        return Move((piece,), shape, fill if mode == "constant" and padded else None)

    def _DepthToSpace(self, node: Any) -> Move:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        size = values["blocksize"]
        batch, channels, height, width = x.shape
        rest = channels // size**2
        planes = (size * size, size, 1) if values.get("mode", "DCR") == "CRD" else None
        steps = planes or (1, rest * size, rest)  # of channel, row and column of a block
        loops = [
            Along(batch, 0), Along(rest, 1, steps[0]), Along(height, 2), Along(size, 1, steps[1]),
            Along(width, 3), Along(size, 1, steps[2]),
        ]  # fmt: skip
        return self._viewed(x, loops, self.shape(node.output[0]))

    def _SpaceToDepth(self, node: Any) -> Move:
        x, size = self.operand(node.input[0]), self.model.attributes(node)["blocksize"]
        batch, channels, height, width = x.shape
        loops = [
            Along(batch, 0), Along(size, 2), Along(size, 3), Along(channels, 1),
            Along(height // size, 2, size), Along(width // size, 3, size),
        ]  # fmt: skip
        return self._viewed(x, loops, self.shape(node.output[0]))

    def _Resize(self, node: Any) -> list[tuple[str, Loops]]:
        x, shape = self.operand(node.input[0]), self.shape(node.output[0])
        steps: list[tuple[str, Loops]] = []
        loops = resized(self.model, node, x, shape)
        for number, make in enumerate(loops):
            made = make(x)
            if number < len(loops) - 1:
                x = self.then(steps, made, node.output[0])
            else:
                steps.append((node.output[0], made))
        return steps

    _Upsample = _Resize
