"""A loop nest as pseudo-code, for people to read."""

from __future__ import annotations

from winogen_lab.loops.nest import (
    Add,
    Affine,
    Begin,
    Body,
    Bound,
    Copy,
    Fetch,
    Finish,
    Fma,
    For,
    Guard,
    HAdd,
    Let,
    Load,
    Nest,
    Node,
    Permute,
    Region,
    Store,
    Unscramble,
    Widen,
)


def pseudo_code(nest: Nest) -> str:
    """Return the nest, a statement a line; loops over registers are kept together.

    >>> from winogen_lab.loops.build import build
    >>> from winogen_lab.loops.parameters import LoopProblem, Parameters
    >>> from winogen.records import TARGETS
    >>> layer = LoopProblem.of("NHWC", 8, 8, (4, 4), (1, 1))
    >>> nest = Parameters("filters-c", "HWC", "MYXCm", "HWM", ("H", "Y", "X", "W", "M"), pixels=2)
    >>> print(pseudo_code(build(layer, nest, TARGETS["generic"])))
    parallel for h in 0 .. 4
        for y in 0 .. 1
            for x in 0 .. 1
                for w in 0 .. 4 step 2
                    for m in 0 .. 8 step 4
                        vector sum[2][1]
                        for j < 2:
                            sum[j][0] = bias[m ...]
                        for c in 0 .. 8
                            vector filter[1]
                            filter[0] = kernel[8*m + 4*c + 32*y + 32*x ...]
                            for j < 2:
                                vector pixel
                                pixel = broadcast(image[32*h + 32*y + 8*w + 8*x + c + 8*j])
                                sum[j][0] += filter[0] * pixel
                        for j < 2:
                            output[m + 32*h + 8*w + 8*j ...] = sum[j][0]
        finish outputs m 0 .. 8, h h .. h + 1, w 0 .. 4
    """
    return "\n".join(_indented(nest.body, 0))


def _indented(body: Body, depth: int) -> list[str]:
    lines: list[str] = []
    for node in body:
        lines.append("    " * depth + _line(node))
        if isinstance(node, For):
            lines += _indented(node.body, depth + 1)
        elif isinstance(node, Guard):
            lines += _indented(node.body, depth + 1)
            if node.otherwise:
                lines += ["    " * depth + "else:", *_indented(node.otherwise, depth + 1)]
    return lines


def _bound(bound: Bound) -> str:
    texts = list(dict.fromkeys(map(str, bound)))
    return texts[0] if len(texts) == 1 else f"min({', '.join(texts)})"


def _line(node: Node) -> str:
    if isinstance(node, For):
        if node.role == "register":
            return f"for {node.index} < {_bound(node.high)}:"
        step = f" step {node.step}" if node.step > 1 else ""
        low = "..." if node.resumes else str(node.low)
        word = "parallel for" if node.parallel else "for"
        return f"{word} {node.index} in {low} .. {_bound(node.high)}{step}"
    if isinstance(node, Guard):
        return f"if {' and '.join(f'{form} >= 0' for form in node.conditions)}:"
    if isinstance(node, Let):
        shape = "".join(f"[{count}]" for count in node.symbol.shape)
        return f"{node.symbol.kind} {node.symbol.name}{shape}{' = 0' if node.zero else ''}"
    if isinstance(node, Load):
        return f"{node.to} = {_loaded(node)}"
    if isinstance(node, Store):
        some = "" if node.scalar else _some(node.some)
        return f"{node.array}[{node.address}{some}] = {node.value}"
    if isinstance(node, Fma):
        lane = "" if node.lane is None else f".lane({node.lane})"
        return f"{node.sum} += {node.a} * {node.b}{lane}"
    if isinstance(node, (Add, HAdd)):
        return f"{node.sum} += {node.a if isinstance(node, Add) else f'sum of lanes of {node.a}'}"
    if isinstance(node, Permute):
        return f"{node.to} = lanes {' '.join(map(str, node.lanes))} of {node.a}"
    if isinstance(node, Unscramble):
        return f"{node.to}[...] = unscramble({node.sums}[...])"
    if isinstance(node, Copy):
        ranges = (
            f"{name} {low} .. {low + size}"
            for name, low, size in zip(("row", "column", "channel"), node.low, node.size)
        )
        return f"tile = copy of {', '.join(ranges)}"
    if isinstance(node, Widen):
        return f"wide = kernel[{node.address} ..., {node.count}] widened"
    if isinstance(node, Begin):
        return f"begin {_outputs(node.region)}: bias"
    if isinstance(node, Finish):
        return f"{'write' if node.waits else 'finish'} {_outputs(node.region)}"
    assert isinstance(node, Fetch)
    return f"prefetch {node.array}[{node.address}] + {node.distance} bytes into L{node.level}"


def _some(some: Affine | None) -> str:
    return " ..." if some is None else f" ..., at most {some}"


def _loaded(node: Load) -> str:
    place = f"{node.array}[{node.address}"
    if node.kind != "vector":
        text = f"{place}]"
        text = f"broadcast({text})" if node.kind == "broadcast" else text
    elif node.run > 1 or (node.run == 1 and node.stride != 1):
        text = f"{place} ... in runs of {node.run}, {node.stride} apart{_some(node.some)[4:]}]"
    else:
        text = f"{place}{_some(node.some)}]"
    if node.inside is not None:
        text += f" where 0 <= {node.inside.position} (+ lanes) < {node.inside.extent}"
    return text


def _outputs(region: Region) -> str:
    ranges = []
    for name, low, size in zip("mhw", region.low, region.size):
        end = _bound(tuple(low + one for one in size))
        ranges.append(f"{name} {low} .. {end}")
    return f"outputs {', '.join(ranges)}"
