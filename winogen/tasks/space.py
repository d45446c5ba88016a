"""A space of settings as a decision tree that nobody writes down: levels, facts, constraints.

A *path* decides one parameter after the other. The values of a level may depend on earlier
decisions, and each level names these (`needs`), for three reasons. A level sees nothing else, so it
cannot depend on more than it says. A subtree is the same below all paths that agree in the needs of
its levels, so the leaves are counted without walking. And a choice with no leaf below it is not a
choice, so there are no dead ends. (The parameters, their ranges and the tree are the thesis',
sections 4.5 and 4.6; counting and pruning by shared subtrees are ours.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from winogen.errors import InvalidValue

Path = Mapping[str, Any]  # name of a level or fact -> its value
Weight = Callable[[Hashable, Path], float]


def even(value: Hashable, path: Path) -> float:
    """Weigh all values alike."""
    return 1.0


@dataclass(frozen=True)
class Level:
    """One decision.

    ``values`` returns the legal values, given what the level ``needs`` of the path. Levels named
    "order.0", "order.1", ... are the parts of one parameter "order". ``weight(value, path)``, which
    may look at all of the path, is how often a value is drawn in proportion to the others.
    """

    name: str
    values: Callable[[Path], Iterable[Hashable]]
    needs: tuple[str, ...] = ()
    weight: Weight = even

    @property
    def parameter(self) -> str:
        """The parameter that it is, or is a part of."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Fact:
    """Something that follows from the path and is no decision: what later levels need to know.

    A level that needs the fact instead of all decisions behind it has fewer different subtrees:
    "the loops left", not "the order of the loops taken".
    """

    name: str
    value: Callable[[Path], Hashable]
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Constraint:
    """A condition on paths: ``holds`` gets what it ``needs`` as soon as all of that is decided."""

    needs: tuple[str, ...]
    holds: Callable[[Path], bool]


class Space:
    """All paths through ``steps`` that satisfy ``constraints``.

    >>> tiny = Space([
    ...     Level("lanes", lambda path: (4, 8)),
    ...     Level("rows", lambda path: range(1, 16 // path["lanes"] + 1), needs=("lanes",)),
    ... ])
    >>> tiny.count(), tiny.restrict(rows={1, 4}).count()
    (6, 3)
    >>> [dict(path) for path in tiny.restrict(lanes={8}).paths()]
    [{'lanes': 8, 'rows': 1}, {'lanes': 8, 'rows': 2}]

    Raises InvalidValue if nothing satisfies the constraints.
    """

    def __init__(
        self,
        steps: Sequence[Level | Fact],
        constraints: Sequence[Constraint] = (),
        allowed: Mapping[str, frozenset] | None = None,
    ):
        self.steps = tuple(steps)
        self.constraints = tuple(constraints)
        self.allowed = dict(allowed or {})
        self.levels = tuple(step for step in self.steps if isinstance(step, Level))
        self.parameters = tuple(dict.fromkeys(level.parameter for level in self.levels))
        place = {step.name: index for index, step in enumerate(self.steps)}
        # Constraints by the step that decides the last of what they need.
        self._checks: list[list[Constraint]] = [[] for _ in self.steps]
        for one in self.constraints:
            self._checks[max(place[name] for name in one.needs)].append(one)
        self._live = self._live_names(place)
        self._leads: dict[tuple, bool] = {}
        self._counts: dict[tuple, int] = {}
        self._choices: dict[tuple, tuple] = {}
        self._start: dict[str, Any] = {}  # the facts before the first level
        first = self._settle(0, self._start)
        if first is None or not self._alive(first, self._start):
            ranges = "; ".join(f"{name}: {_shown(v)}" for name, v in sorted(self.allowed.items()))
            raise InvalidValue(
                f"space: got {ranges or 'constraints that exclude each other'}, which leaves "
                "nothing; allowed: ranges with a legal path"
            )

    def _live_names(self, place: Mapping[str, int]) -> list[tuple[str, ...]]:
        """For every step, what it and all later ones need of what was decided before it."""
        live: list[tuple[str, ...]] = [()] * (len(self.steps) + 1)
        later: set[str] = set()
        for index in reversed(range(len(self.steps))):
            later |= {*self.steps[index].needs}
            later |= {name for one in self._checks[index] for name in one.needs}
            later.discard(self.steps[index].name)
            late = [name for name in later if place[name] >= index]
            if late:
                raise InvalidValue(
                    f"needs: got {late[0]!r} for {self.steps[index].name!r}; allowed: names of "
                    "earlier steps"
                )
            live[index] = tuple(sorted(later))
        return live

    def restrict(self, **ranges: Collection) -> Space:
        """Return the paths on which each of these parameters has one of these values.

        The values of a parameter in parts are tuples, or strings of one letter a part. Raises
        InvalidValue for unknown parameters, values that no path has, and combinations without any
        path.
        """
        allowed, constraints = dict(self.allowed), list(self.constraints)
        for name, values in ranges.items():
            if name not in self.parameters:
                names = ", ".join(self.parameters)
                raise InvalidValue(f"range: got {name!r}; allowed: {names}")
            if name in {level.name for level in self.levels}:
                allowed[name] = frozenset(values) & allowed.get(name, frozenset(values))
            else:
                constraints += _beginnings(self._parts(name), values)
        try:
            return Space(self.steps, constraints, allowed)
        except InvalidValue:
            for name, values in ranges.items():
                seen = self.values(name)
                in_parts = len(self._parts(name)) > 1
                tried = {tuple(value) if in_parts else value for value in values}
                if not seen & tried:
                    raise InvalidValue(
                        f"{name}: got {_shown(tried)}; allowed: {_shown(seen)}"
                    ) from None
            raise

    def where(self, *needs: str, holds: Callable[[Path], bool]) -> Space:
        """Return the paths on which ``holds`` is true of what it ``needs``."""
        return Space(self.steps, [*self.constraints, Constraint(needs, holds)], self.allowed)

    def values(self, parameter: str) -> frozenset:
        """Return the values that a parameter has on any path; values of parts as tuples."""
        parts = self._parts(parameter)
        # Level by level the paths that differ in what later steps need, or in the parameter.
        index, paths = len(self._start), [self._start]
        while parts[-1] not in paths[0]:
            states: dict[tuple, dict[str, Any]] = {}
            behind = index
            for path in paths:
                for _, following, longer in self._following(index, path, parts):
                    if self._alive(following, longer):
                        keep = {*self._live[following], *parts}
                        state = {name: v for name, v in longer.items() if name in keep}
                        states[tuple(state.items())] = state
                        behind = following
            index, paths = behind, [*states.values()]
        if len(parts) == 1:
            return frozenset(path[parts[0]] for path in paths)
        return frozenset(
            tuple(path[part] for part in parts if path[part] is not None) for path in paths
        )

    def _parts(self, parameter: str) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels if level.parameter == parameter)

    def choices(self, path: Path) -> tuple:
        """Return the values of the next level below a path of decisions and facts."""
        return self._choose(len(path), path)

    def begin(self) -> dict[str, Any]:
        """Return the path before the first decision: the facts that hold anyway."""
        return dict(self._start)

    def extend(self, path: dict[str, Any], value: Hashable) -> None:
        """Add one more decision to a path, and the facts that follow from it."""
        path[self.steps[len(path)].name] = value
        self._settle(len(path), path)

    def level(self, path: Path) -> Level | None:
        """Return the level that is decided next; None behind the last."""
        if len(path) == len(self.steps):
            return None
        step = self.steps[len(path)]
        assert isinstance(step, Level), "paths are made by `begin` and `extend`"
        return step

    def decisions(self, path: Path) -> dict[str, Any]:
        """Return what was decided: a path without its facts."""
        return {level.name: path[level.name] for level in self.levels if level.name in path}

    def settings(self, path: Path) -> dict[str, Any]:
        """Return parameter -> value; the parts of one as a tuple, without None."""
        settings: dict[str, Any] = {}
        for name in self.parameters:
            parts = self._parts(name)
            if len(parts) == 1:
                settings[name] = path[parts[0]]
            else:
                settings[name] = tuple(path[part] for part in parts if path[part] is not None)
        return settings

    def complete(self, decisions: Path) -> dict[str, Any] | None:
        """Return the path with these decisions and its facts; None if it is not in the space."""
        path = self.begin()
        while (level := self.level(path)) is not None:
            value = decisions.get(level.name)
            if value not in self.choices(path):
                return None
            self.extend(path, value)
        return path

    def count(self) -> int:
        """Return how many paths there are, without walking them."""
        return self._count(len(self._start), self._start)

    def paths(self) -> Iterator[dict[str, Any]]:
        """Yield the decisions of every path, one after the other: for small spaces."""
        path = self.begin()
        yield from (self.decisions(path) for _ in self._leaves(path))

    def _leaves(self, path: dict[str, Any]) -> Iterator[None]:
        """Come by every leaf below a path, which is then the path to it."""
        if len(path) == len(self.steps):
            yield
            return
        for value in self.choices(path):
            with self.longer(path, value):
                yield from self._leaves(path)

    @contextmanager
    def longer(self, path: dict[str, Any], value: Hashable) -> Iterator[None]:
        """Extend a path for a while."""
        size = len(path)
        self.extend(path, value)
        try:
            yield
        finally:
            while len(path) > size:
                path.popitem()

    def _state(self, index: int, path: Path) -> tuple:
        """What tells the subtree below a path from others at the same step."""
        return (index, *[path[name] for name in self._live[index]])

    def _choose(self, index: int, path: Path) -> tuple:
        """The values of a level that satisfy the constraints and lead to a leaf."""
        state = self._state(index, path)
        if state not in self._choices:
            self._choices[state] = tuple(
                value
                for value, following, longer in self._following(index, path)
                if self._alive(following, longer)
            )
        return self._choices[state]

    def _following(
        self, index: int, path: Path, also: Iterable[str] = ()
    ) -> Iterator[tuple[Hashable, int, dict[str, Any]]]:
        """Each legal value of a level, the level behind it, and what that and later ones look at.

        The dict is the same every time, with other values. It has what ``also`` names, too.
        """
        step = self.steps[index]
        assert isinstance(step, Level)
        here = {name: path[name] for name in self._live[index]}
        here |= {name: path[name] for name in also if name in path}
        allowed = self.allowed.get(step.name)
        for value in step.values({name: path[name] for name in step.needs}):
            if allowed is None or value in allowed:
                here[step.name] = value
                if self._checks[index] and not self._holds(index, here):
                    continue
                following = self._settle(index + 1, here)
                if following is not None:
                    yield value, following, here

    def _settle(self, index: int, path: dict[str, Any]) -> int | None:
        """Add the facts from a step on; return the level behind, None if a constraint fails."""
        steps, checks = self.steps, self._checks
        while index < len(steps):
            step = steps[index]
            if isinstance(step, Level):
                break
            path[step.name] = step.value({name: path[name] for name in step.needs})
            if checks[index] and not self._holds(index, path):
                return None
            index += 1
        return index

    def _holds(self, index: int, path: Path) -> bool:
        """Whether the constraints that a step decides are satisfied."""
        return all(one.holds({n: path[n] for n in one.needs}) for one in self._checks[index])

    def _alive(self, index: int, path: Path) -> bool:
        """Whether a leaf lies below."""
        if index == len(self.steps):
            return True
        state = self._state(index, path)
        if state not in self._leads:
            self._leads[state] = any(
                self._alive(following, longer)
                for _, following, longer in self._following(index, path)
            )
        return self._leads[state]

    def _count(self, index: int, path: Path) -> int:
        if index == len(self.steps):
            return 1
        state = self._state(index, path)
        number = self._counts.get(state)
        if number is None:
            number = self._counts[state] = sum(
                self._count(following, longer)
                for _, following, longer in self._following(index, path)
            )
        return number


def _beginnings(parts: tuple[str, ...], values: Collection) -> list[Constraint]:
    """What holds of every beginning of a parameter in parts that has one of these values."""
    wholes = {tuple(value) for value in values}
    begun = frozenset(whole[:size] for whole in wholes for size in range(len(whole) + 1))

    def holds(names: tuple[str, ...], path: Path) -> bool:
        some = tuple(path[name] for name in names if path[name] is not None)
        return some in (wholes if names == parts else begun)

    sizes = range(1, len(parts) + 1)
    return [Constraint(parts[:size], partial(holds, parts[:size])) for size in sizes]


def _shown(values: Collection) -> str:
    texts = [" ".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in values]
    return ", ".join(sorted(texts))
