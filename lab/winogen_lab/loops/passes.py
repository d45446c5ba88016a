"""Passes over a nest: (predicate, rewrite) pairs, applied until nothing changes.

- A copy of inputs, or of widened filters, moves out of every loop whose index it does not need, but
  not out of the parallel one, because every part of the work has memory of its own.
- A guard moves out of a loop that does nothing else, if it does not need the loop's index.
- Guards that always hold disappear, and so do branches whose guards never hold.
- Unrolled loops do several steps with registers of their own; sums are shared.
- Accesses that a predicate accepts are followed by a prefetch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from winogen_lab.loops.nest import (
    Affine,
    Body,
    Copy,
    Fetch,
    For,
    Guard,
    Let,
    Load,
    Nest,
    Node,
    Store,
    Widen,
    depends,
    rebuilt,
    substituted,
)
from winogen_lab.loops.parameters import Parameters

Spans = Mapping[str, tuple[int, int]]
Predicate = Callable[[Node, Spans], bool]
Rewrite = Callable[[Node, Spans], Body]


def lowered(nest: Nest, parameters: Parameters) -> Nest:
    """Return the nest after all passes."""
    # Loops are unrolled when all that moves out of them has done so.
    body = fixpoint(nest.body, (HOIST_COPY, HOIST_GUARD, DROP_GUARD))
    body = fixpoint(body, RULES)
    ahead = parameters.prefetch
    if ahead is not None:
        arrays = {"image": ("image", "tile"), "kernel": ("kernel", "wide"),
                  "output": ("output", "sums")}  # fmt: skip
        accepted = frozenset(name for stream in ahead.streams for name in arrays[stream])
        body = prefetched(
            body, lambda node: accesses(node) in accepted, ahead.distance, ahead.level
        )
    return replace(nest, body=body)


def fixpoint(body: Body, rules: tuple[tuple[Predicate, Rewrite], ...]) -> Body:
    """Apply rules everywhere, again and again, until none changes anything."""
    while True:
        changed = _once(body, rules, {})
        if changed == body:
            return body
        body = changed


def _once(body: Body, rules: tuple[tuple[Predicate, Rewrite], ...], spans: Spans) -> Body:
    result: list[Node] = []
    for node in body:
        inside = spans
        if isinstance(node, For):
            inside = {**spans, node.index: _ends(node, spans)}
        node = rebuilt(node, lambda inner, inside=inside: _once(inner, rules, inside))  # type: ignore[misc]
        for applies, rewrite in rules:
            if applies(node, spans):
                result += rewrite(node, spans)
                break
        else:
            result.append(node)
    return tuple(result)


def _ends(node: For, spans: Spans) -> tuple[int, int]:
    """The least and the largest value of a loop's index."""
    low = node.low.span(spans)[0]
    last = min(form.span(spans)[1] for form in node.high) - 1
    if not node.low.names:  # else the last step depends on where the loop begins
        last -= (last - low) % node.step
    return low, max(low, last)


# ---- hoisting ------------------------------------------------------------------------------------


def _leads_with_copy(node: Node, spans: Spans) -> bool:
    if not isinstance(node, For) or node.parallel:
        return False
    copies = [one for one in node.body if isinstance(one, (Copy, Widen))]
    return any(not depends(one, node.index) for one in copies)


def _copy_out(node: Node, spans: Spans) -> Body:
    assert isinstance(node, For)
    copies = tuple(
        one for one in node.body if isinstance(one, (Copy, Widen)) and not depends(one, node.index)
    )
    return *copies, replace(node, body=tuple(one for one in node.body if one not in copies))


def _is_all_guard(node: Node, spans: Spans) -> bool:
    if not isinstance(node, For) or node.parallel or node.resumes or len(node.body) != 1:
        return False
    guard = node.body[0]
    return isinstance(guard, Guard) and not depends(guard, node.index)


def _guard_out(node: Node, spans: Spans) -> Body:
    assert isinstance(node, For)
    guard = node.body[0]
    assert isinstance(guard, Guard)
    otherwise = (replace(node, body=guard.otherwise),) if guard.otherwise else ()
    return (replace(guard, body=(replace(node, body=guard.body),), otherwise=otherwise),)


def _is_decided(node: Node, spans: Spans) -> bool:
    """Whether a condition always holds, or one never does."""
    if not isinstance(node, Guard):
        return False
    ranges = [form.span(spans) for form in node.conditions]
    return not node.body or any(low >= 0 or high < 0 for low, high in ranges)


def _decide(node: Node, spans: Spans) -> Body:
    assert isinstance(node, Guard)
    if any(form.span(spans)[1] < 0 for form in node.conditions):
        return node.otherwise
    open_ = tuple(form for form in node.conditions if form.span(spans)[0] < 0)
    if not open_:
        return node.body
    return (replace(node, conditions=open_),) if node.body or node.otherwise else ()


HOIST_COPY: tuple[Predicate, Rewrite] = (_leads_with_copy, _copy_out)
HOIST_GUARD: tuple[Predicate, Rewrite] = (_is_all_guard, _guard_out)
DROP_GUARD: tuple[Predicate, Rewrite] = (_is_decided, _decide)


# ---- unrolling -----------------------------------------------------------------------------------


def _is_to_unroll(node: Node, spans: Spans) -> bool:
    return isinstance(node, For) and node.unroll > 1 and not node.parallel


def _unrolled(node: Node, spans: Spans) -> Body:
    """for (i; i < n; i += s) {a} → for (i; i < n-s; i += 2s) {a; a} for (; i < n; i += s) {a}."""
    assert isinstance(node, For)
    times, step = node.unroll, node.step
    copies: list[Node] = []
    for turn in range(times):
        place = {node.index: Affine.of(node.index) + turn * step}
        names = {one.symbol.name: f"{one.symbol.name}_{turn}" for one in node.body
                 if isinstance(one, Let)}  # fmt: skip
        copies += substituted(node.body, place, names)
    reach = (times - 1) * step
    many = replace(
        node,
        high=tuple(form - reach for form in node.high),
        step=times * step,
        body=tuple(copies),
        unroll=1,
    )
    rest = replace(node, unroll=1, resumes=True)
    low, high = node.low, node.high
    if not low.names and len(high) == 1 and not high[0].names:
        count = -(-(high[0].const - low.const) // step)
        if count < times:
            return (replace(node, unroll=1),)
        if count % times == 0:
            return (many,)
    return many, rest


UNROLL: tuple[Predicate, Rewrite] = (_is_to_unroll, _unrolled)
RULES = (HOIST_COPY, HOIST_GUARD, DROP_GUARD, UNROLL)


# ---- prefetching ---------------------------------------------------------------------------------


def accesses(node: Node) -> str:
    """Return the array that a statement reads or writes; "" if none."""
    return node.array if isinstance(node, (Load, Store)) else ""


def prefetched(body: Body, accepts: Callable[[Node], bool], distance: int, level: int) -> Body:
    """Return the body with a prefetch after every access that is accepted.

    x = load(a) → x = load(a); prefetch(a + distance).
    """
    result: list[Node] = []
    for node in body:
        result.append(rebuilt(node, lambda inner: prefetched(inner, accepts, distance, level)))
        if accepts(node):
            assert isinstance(node, (Load, Store))
            result.append(Fetch(node.array, node.address, distance, level, isinstance(node, Store)))
    return tuple(result)
