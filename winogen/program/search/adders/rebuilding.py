"""A set of values is improved by making a part of it anew.

Some members stay, with all that can be computed of them. What is missing becomes rows again, of
signed digits or of what it differs by from a member, and rows share pairs of terms.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.exchange import Weight, prune
from winogen.program.search.adders.forms import LinearForms
from winogen.program.search.adders.sharing import Digit, share
from winogen.program.search.adders.splitting import bounded, chain


def rebuild(
    forms: LinearForms,
    values: list[int],
    targets: Collection[int],
    depth: int | None,
    weight: Weight,
    rng: random.Random,
    rounds: int,
) -> list[int]:
    """Return the cheapest set that so many attempts lead to, each from the cheapest one so far."""
    best, least = values, sum(map(weight, values))
    for _ in range(rounds):
        closure = Closure(forms, best)
        inner = sorted(value for value in best if value not in targets)
        if not inner:
            break
        gone = set(rng.sample(inner, rng.randint(1, min(len(inner), 6))))
        if rng.random() < 0.5:  # targets of few readers may be made in another way, too
            gone |= set(rng.sample(sorted(targets), rng.randint(1, min(len(targets), 3))))
        level = closure.levels(gone, depth)
        missing = sorted(target for target in targets if target not in level)
        if not missing:
            continue
        rows: dict[int, list[Digit]] = {}
        kept = {value: k for value, k in level.items() if k}
        chain(forms, missing, rows, rng, rng.choice((0.3, 0.9)), kept)
        bound = dict.fromkeys(missing, depth) if depth is not None else {}
        made = bounded(forms, rows, bound, kept)
        if made is None:
            continue
        values = sorted({*kept, *share(forms, made, rng, 0.3, kept)})
        closure = Closure(forms, values)
        reached = closure.levels(depth=depth)
        if not all(target in reached for target in targets):
            continue
        prune(closure, targets, depth, weight, rng)
        cost = sum(map(weight, closure.sums))
        if cost <= least:
            best, least = sorted(closure.sums), cost
    return best
