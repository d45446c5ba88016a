"""Ways through a space: which settings to try next, given what the earlier ones cost.

A traversal is a generator. It yields a `Batch` of paths, is sent their costs (seconds, say;
infinity for one that failed), and yields the next; whoever measures may stop at any time, and the
same seed with the same costs gives the same batches. `elite` is what the thesis calls genetic and
`narrowing` what it calls narrowing (section 4.6).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import isfinite
from random import Random
from typing import Any, NamedTuple

from winogen.errors import InvalidValue
from winogen.tasks.halving import answer, halving
from winogen.tasks.space import Space
from winogen.tasks.tree import Tree, drawn

Decisions = dict[str, Any]


class Batch(NamedTuple):
    """Paths to measure, and how thoroughly: ``effort`` 2 is twice the repetitions of 1."""

    paths: list[Decisions]
    effort: int = 1


Traversal = Generator[Batch, Sequence[float], None]


class Best:
    """The paths with the least costs so far, and the settings of the best ones."""

    def __init__(self, space: Space):
        self._space = space
        self._tried = 0
        self._scored: list[tuple[float, int, Decisions]] = []

    def take(self, paths: Sequence[Decisions], costs: Sequence[float]) -> None:
        """Take in the costs of a batch; failed paths cannot be among the best."""
        scored = ((c, self._tried + k, path) for k, (path, c) in enumerate(zip(paths, costs)))
        new = [one for one in scored if isfinite(one[0])]
        self._scored = sorted([*self._scored, *new], key=lambda one: one[:2])
        self._tried += len(paths)

    def settings(self, size: int) -> list[dict[str, Any]]:
        """Return the settings of the ``size`` best, or as many as there are."""
        return [self._space.settings(path) for _, _, path in self._scored[:size]]


def random(space: Space, n: int, *, seed: int = 0) -> Traversal:
    """Draw ``n`` different paths, or all."""
    _check(n=n)
    tree, source = Tree(space), Random(seed)
    yield Batch(_draws(tree, source, [space] * n))


def elite(space: Space, n: int, s: int, r: int, *, seed: int = 0) -> Traversal:
    """Draw ``n`` paths, then keep to the values that the ``s`` best have; ``r`` times in all.

    Every parameter is restricted for itself, so what is drawn combines values of several of the
    best. Where the restricted space runs out, the whole one fills the batch.
    """
    _check(n=n, s=s, r=r)
    tree, source, best, within = Tree(space), Random(seed), Best(space), space
    for _ in range(r):
        paths = _draws(tree, source, [within] * n)
        if not paths:
            return
        best.take(paths, (yield Batch(paths)))
        if chosen := best.settings(s):
            ranges = {name: {one[name] for one in chosen} for name in space.parameters}
            within = space.restrict(**ranges)


def narrowing(space: Space, n: int, s: int, r: int, q: int, p: int, *, seed: int = 0) -> Traversal:
    """Draw ``n`` paths, then ``r`` times ``q`` near each of the ``s`` best.

    Near is what shares ``p`` parameters or more, and which ones is drawn anew for each. Where all
    of them were tried, a path is drawn from the whole space.
    """
    _check(n=n, s=s, r=r, q=q, p=p)
    if p >= len(space.parameters):
        raise InvalidValue(f"p: got {p}; allowed: less than {len(space.parameters)} parameters")
    tree, source, best = Tree(space), Random(seed), Best(space)
    paths = _draws(tree, source, [space] * n)
    for turn in range(r + 1):
        if not paths:
            return
        best.take(paths, (yield Batch(paths)))
        if turn == r:
            return
        spaces = []
        for one in best.settings(s):
            for _ in range(q):
                shared = sorted(space.parameters, key=lambda name: source.random())[:p]
                spaces.append(space.restrict(**{name: {one[name]} for name in shared}))
        paths = _draws(tree, source, spaces)


def descent(
    space: Space,
    n: int,
    r: int,
    *,
    width: int = 8,
    effort: int = 1,
    seed: int = 0,
    known: Sequence[Decisions] = (),
) -> Traversal:
    """Improve one parameter after the other, while all others stay as far as they can.

    Starts from the best of ``n`` draws and of the paths that are ``known``. In each of ``r`` rounds
    over all parameters, in an order drawn anew, up to ``width`` values of the parameter compete by
    successive halving, so that the last two are compared with the most repetitions. Ends early when
    a round changes nothing.
    """
    _check(n=n, r=r, width=width, effort=effort)
    source = Random(seed)
    tree = Tree(space)
    starts = [*known, *_draws(tree, source, [space] * n)]
    choices: dict[tuple, tuple] = {}  # neighbours share most of their paths
    (current,) = yield from _compete(starts, effort)
    for _ in range(r):
        before = current
        for name in sorted(space.parameters, key=lambda name: source.random()):
            rivals = _neighbours(space, current, name, width, source, choices)
            if rivals:
                (current,) = yield from _compete([current, *rivals], effort)
        if current == before:
            return


def run(traversal: Traversal, cost: Callable[[Decisions], float]) -> list[tuple[float, Decisions]]:
    """Follow a traversal to its end; return (cost, path) of all that it tried, the best first."""
    tried: list[tuple[float, Decisions]] = []

    def reply(batch: Batch) -> list[float]:
        costs = [cost(path) for path in batch.paths]
        tried.extend(zip(costs, batch.paths))
        return costs

    answer(traversal, reply)
    return sorted(tried, key=lambda one: one[0])


def _check(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise InvalidValue(f"{name}: got {value}; allowed: a number >= 1")


def _draws(tree: Tree, source: Random, spaces: Sequence[Space]) -> list[Decisions]:
    """A new path from each of the spaces, or from the whole one; fewer where all are out."""
    paths = []
    for within in spaces:
        path = tree.draw(source, within)
        if path is None:
            path = tree.draw(source)
        if path is None:
            break
        paths.append(path)
    return paths


def _compete(
    paths: list[Decisions], effort: int
) -> Generator[Batch, Sequence[float], list[Decisions]]:
    """The best by successive halving; one that failed can win only if all did."""
    rounds = halving(paths, effort=effort)
    try:
        left, amount = next(rounds)
        while True:
            costs = yield Batch(left, amount)
            left, amount = rounds.send(costs)
    except StopIteration as end:
        return end.value


def _neighbours(
    space: Space,
    current: Decisions,
    parameter: str,
    width: int,
    source: Random,
    known: dict[tuple, tuple],
) -> list[Decisions]:
    """Up to ``width`` paths with other values of one parameter, and what it entails.

    ``known``: the choices below the paths that were walked so far, by their values.
    """
    neighbours: dict[tuple, Decisions] = {}
    for _ in range(3 * width):
        path, changed = space.begin(), False
        while (level := space.level(path)) is not None:
            above = tuple(path.values())
            choices = known[above] = known.get(above) or space.choices(path)
            value = current[level.name]
            if level.parameter == parameter or value not in choices:
                value = drawn(choices, level, path, source)
            changed = changed or (level.parameter == parameter and value != current[level.name])
            space.extend(path, value)
        if changed:
            decisions = space.decisions(path)
            neighbours.setdefault(tuple(decisions.items()), decisions)
        if len(neighbours) == width:
            break
    return list(neighbours.values())
