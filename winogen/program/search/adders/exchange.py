"""A set of values is improved by exchanging members.

Without one member others cannot be computed any more. A new value that makes up for it costs as
much, and may make a further member superfluous.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection

from winogen.program.search.adders.closure import Closure, further
from winogen.program.search.adders.forms import LinearForms

Weight = Callable[[int], int]  # what a value costs
_LOOKS = 300  # multiples of members that are subtracted from a value to find what it lacks
_OPTIONS = 12  # values that are tried in the place of one


def prune(
    closure: Closure,
    targets: Collection[int],
    depth: int | None,
    weight: Weight,
    rng: random.Random,
) -> None:
    """Remove members that the targets do without, dear ones first."""
    _keep(closure, closure.reached(depth=depth))
    order = [value for value in closure.sums if value not in targets]
    rng.shuffle(order)
    needed = closure.needed(targets)
    for value in sorted(order, key=weight, reverse=True):
        if value in closure.sums and value not in needed:
            level = closure.reached(value, depth)
            if all(target in level for target in targets):
                _keep(closure, level)
                needed = closure.needed(targets)


def _keep(closure: Closure, level: Collection[int]) -> None:
    for value in [value for value in closure.sums if value not in level]:
        closure.remove(value)


class _Reach:
    """All sums of two members of a set, which grows and shrinks: value -> pairs of members."""

    def __init__(self, forms: LinearForms, closure: Closure) -> None:
        self.forms = forms
        self.closure = closure
        self.pairs: dict[int, list[tuple[int, int]]] = {}
        self.members: list[int] = []
        for value in closure.values:
            self.add(value)

    def add(self, value: int) -> None:
        if value in self.members:
            return
        self.members.append(value)
        canonical = self.forms.value
        own = [form for form, _, sign in self.forms.multiples(value) if sign > 0]
        for member in self.members:
            sums = [form + member for form in own] + [form - member for form in own]
            if member != value:
                shifted = [f for f, shift, _ in self.forms.multiples(member) if shift]
                sums += [form + value for form in shifted]
            for form in sums:
                if form:
                    self.pairs.setdefault(canonical(form), []).append((value, member))


def exchange(
    closure: Closure,
    targets: Collection[int],
    depth: int | None,
    weight: Weight,
    rng: random.Random,
    moves: int,
    heat: float = 0.0,
) -> list[int]:
    """Return the cheapest set seen in so many moves.

    ``heat``: what a move may cost; it cools down to nothing.
    """
    forms = closure.forms
    prune(closure, targets, depth, weight, rng)
    best = list(closure.sums)
    cost = least = sum(map(weight, best))
    reach = _Reach(forms, closure)
    for move in range(moves):
        inner = sorted(value for value in closure.sums if value not in targets)
        if not inner:
            break
        gone = rng.choice(inner)
        level = closure.reached(gone, depth)
        missing = [value for value in closure.sums if value not in level and value != gone]
        allowed = heat * (1 - move / moves)
        found = _substitute(closure, reach, targets, depth, weight, rng, gone, level, missing)
        if found is None:
            continue
        new, saved = found
        change = weight(new) - saved
        if change > 0 and (allowed <= 0 or rng.random() >= math.exp(-change / allowed)):
            continue
        closure.remove(gone)
        closure.add(new)
        reach.add(new)
        prune(closure, targets, depth, weight, rng)
        cost = sum(map(weight, closure.sums))
        if cost < least:
            best, least = list(closure.sums), cost
        if len(reach.members) > 3 * len(closure.values) + 20:
            reach = _Reach(forms, closure)
    return best


def _substitute(
    closure: Closure,
    reach: _Reach,
    targets: Collection[int],
    depth: int | None,
    weight: Weight,
    rng: random.Random,
    gone: int,
    level: dict[int, int],
    missing: list[int],
) -> tuple[int, int] | None:
    """A value in the place of another, and the cost of all members that are not needed then."""
    canonical, pairs = closure.forms.value, reach.pairs
    wanted = rng.choice(missing)
    options: dict[int, None] = {}
    multiples = list(closure.multiples.items())
    for form, member in rng.sample(multiples, min(len(multiples), _LOOKS)):
        if member not in level or form == wanted:
            continue
        new = canonical(wanted - form)
        if new in pairs and new not in closure.values and new != gone and new not in options:
            for a, b in pairs[new]:
                if a in level and b in level:
                    options[new] = None
                    break
            if len(options) == _OPTIONS:
                break
    best: tuple[int, int] | None = None
    for new in options:
        sums = {new: closure.sums_of(new), **{value: closure.sums[value] for value in missing}}
        for target, pair in closure.uses_of(new, missing):
            sums[target] = {*sums[target], pair}
        reached = further(level, sums, depth)
        if all(target in reached for target in targets):
            saved = weight(gone) + sum(weight(v) for v in missing if v not in reached)
            if best is None or weight(new) - saved < weight(best[0]) - best[1]:
                best = new, saved
    return best
