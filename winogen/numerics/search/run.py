"""The search for good algorithms: propose by estimate, then measure, the fewer the longer.

1. For every structure (which kinds of points, with or without 0 and infinity) the estimated error,
cheap and free of noise, leads to promising candidates. 2. The best of all are measured, by
successive halving: each round keeps a quarter and measures it
   with four times the trials. All candidates of a round see the same random tiles, so noise that
   they share cannot decide.
3. The remaining ones get row scalings to lower the error, if wanted; or, where instructions count,
the scalings with the shortest programs. 4. The last few are measured with fresh random numbers, so
that nobody profits from past luck.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from itertools import count
from time import monotonic

from winogen.algebra import cook_toom
from winogen.errors import InvalidType, InvalidValue
from winogen.numerics.search import tasks
from winogen.numerics.search.candidate import Candidate
from winogen.numerics.search.propose import is_small
from winogen.numerics.search.spaces import Structure, structures
from winogen.numerics.search.whole import WHOLE, check_whole
from winogen.rounding.data import DISTRIBUTIONS
from winogen.rounding.formats import Arithmetic, format_named
from winogen.rounding.variance import estimate
from winogen.tasks import Executor, halving

OBJECTIVES = ("error", "instructions", "pareto")
DEFAULTS = {  # the protocol of the literature
    "channels": 1,
    "order": "huffman",
    "distribution": "uniform",
    "dtype": "float32",
    "filters": None,
    "fused": False,
    "block": 64,
}
_FIRST_TRIALS = 250
_SHRINK = 4
_FINALISTS = 6
_COUNTED = 16  # candidates whose programs are searched for, which takes seconds each
# The share of `Search.seconds` at whose end each stage stops.
_PROPOSED, _HALVED, _SCALED, _COUNTED_BY = 0.5, 0.75, 0.85, 0.9


@dataclass(frozen=True)
class Search:
    """What to search for and how hard."""

    m: int
    r: int
    families: tuple[str, ...] = ("pairs",)
    zero: bool | None = None  # whether 0 is a point; None: both are tried
    infinity: bool | None = None
    objective: str = "error"  # or "instructions", "pareto": both
    scalings: bool = False  # whether row scalings are searched, too
    height: int = 8  # the largest numerator and denominator of a point
    starts: int = 4  # random starts for structures too large to be searched to the end
    keep: int = 64  # candidates that are measured
    trials: int = 20_000  # of the final measurement
    dims: int = 2
    settings: dict = field(default_factory=dict)  # of `measure` where they are not DEFAULTS
    seed: int = 0
    seconds: float | None = None  # after these nothing new begins, and the best so far is found

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InvalidValue(
                f"objective: got {self.objective!r}; allowed: {', '.join(OBJECTIVES)}"
            )
        for name in ("height", "starts", "keep", "trials"):
            if getattr(self, name) < 1:
                raise InvalidValue(f"{name}: got {getattr(self, name)}; allowed: a number >= 1")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InvalidValue(f"seconds: got {self.seconds}; allowed: None or a positive number")
        drawn = self.settings.get("distribution", DEFAULTS["distribution"])
        if not isinstance(drawn, str):  # tasks are text, for other processes and for the file
            raise InvalidType(
                f"distribution: got {drawn!r}; allowed in a search: {', '.join(DISTRIBUTIONS)}"
            )
        # What cannot be is said before any work: the structures, and what is measured.
        _families(self)
        settings = {**DEFAULTS, **self.settings}
        estimate(cook_toom(1, 1), dims=self.dims, **settings)
        Arithmetic(format_named(settings["dtype"]), settings["fused"])


@dataclass(frozen=True)
class Found:
    """A candidate with all that was found out about it."""

    candidate: Candidate
    mean: float  # |error|, the final measurement
    half_width: float  # of its 95 % confidence interval
    instructions: dict | None = None  # of the input, filter and output transform in 1D
    on_front: bool = True  # no other is better in both error and cost

    @property
    def cost(self) -> int:
        """Instructions at run time: input and output transform; filters are transformed once."""
        assert self.instructions is not None, "instructions were not counted"
        return self.instructions["input"] + self.instructions["output"]

    def to_dict(self) -> dict:
        """Plain data for JSON."""
        return {**asdict(self), "candidate": self.candidate.to_dict(), "text": str(self.candidate)}


def search(wanted: Search, execute: Executor) -> list[Found]:
    """Run the search; return what it found, the best first.

    >>> from winogen.numerics.search import Results, executor
    >>> with executor(Results()) as execute:
    ...     found = search(Search(2, 3, keep=4, trials=500), execute)
    >>> str(found[0].candidate)
    '0, ±1, inf'
    """
    settings = {**DEFAULTS, **wanted.settings}
    clock = _Clock(wanted.seconds)
    candidates, leaders = _proposals(wanted, settings, execute, clock)
    if not candidates:
        raise InvalidValue(
            f"dtype: got {settings['dtype']}, in which every candidate for F({wanted.m}, "
            f"{wanted.r}) overflows; allowed: a type with more bits of exponent, or fewer outputs"
        )
    survivors = _halve(wanted, settings, candidates, execute, clock)
    survivors = list(dict.fromkeys([*survivors, *leaders]))
    if wanted.scalings:
        work = [tasks.scale_task(c, wanted.dims, settings) for c in survivors]
        made = filter(None, execute("scale rows", work, clock.until(_SCALED)))
        survivors = list(dict.fromkeys([*survivors, *map(Candidate.from_dict, made)]))
    counts: list[dict | None] = [None] * len(survivors)
    if wanted.objective != "error":
        work = [tasks.count_task(c) for c in survivors]
        done = execute("count instructions", work, clock.until(_COUNTED_BY))
        counted = [one for one in done if one]
        survivors = [Candidate.from_dict(entry["candidate"]) for entry in counted]
        counts = [entry["instructions"] for entry in counted]
    final = execute(
        "measure the last",
        [
            tasks.measure_task(c, wanted.dims, settings, wanted.trials, wanted.seed + 1000)
            for c in survivors
        ],
        clock.until(1),
    )
    results = [
        Found(candidate, result["mean"], result["half_width"], count)
        for candidate, result, count in zip(survivors, final, counts)
        if result
    ]
    return _ranked(results, wanted.objective)


class _Clock:
    """When the stages of a search end that has only so many seconds."""

    def __init__(self, seconds: float | None):
        self._seconds = seconds
        self._begin = monotonic()

    def until(self, share: float) -> float | None:
        """Return when this share of the time is over, as `Executor` takes it."""
        return None if self._seconds is None else self._begin + share * self._seconds


def _proposals(
    wanted: Search, settings: dict, execute: Executor, clock: _Clock
) -> tuple[list[Candidate], list[Candidate]]:
    """The candidates with the least estimated error, a fair number of every structure.

    And the best of every family that is known as a whole, which all are measured to the end: they
    are asked for to be compared.
    """
    kinds, whole = _families(wanted)
    work = [
        tasks.propose_task(
            *(family, wanted.m, wanted.r, wanted.height, wanted.dims, settings),
            *(wanted.seed, wanted.keep),
        )
        for family in whole
    ]
    work += [
        tasks.propose_task(
            *(structure, wanted.m, wanted.r, wanted.height, wanted.dims, settings),
            *(wanted.seed + start, wanted.keep),
        )
        for start in range(wanted.starts)  # all structures once, before any twice
        for structure in kinds
        if start == 0 or not is_small(structure, wanted.height)
    ]
    by_structure: dict[str, dict] = {}
    for task, proposals in zip(work, execute("propose", work, clock.until(_PROPOSED))):
        if proposals is None:
            continue
        group = by_structure.setdefault(str(task.get("structure", task.get("family"))), {})
        for error, data in proposals:
            group[Candidate.from_dict(data)] = error
    share = max(1, wanted.keep // (2 * len(by_structure)))
    chosen: dict[Candidate, float] = {}
    everything: dict[Candidate, float] = {}
    for group in by_structure.values():
        ordered = sorted(group.items(), key=lambda item: (item[1], str(item[0])))
        chosen.update(ordered[:share])
        everything.update(ordered)
    for candidate, error in sorted(everything.items(), key=lambda item: (item[1], str(item[0]))):
        if len(chosen) >= wanted.keep:
            break
        chosen[candidate] = error
    leaders = [
        min(by_structure[name], key=lambda c: (by_structure[name][c], str(c)))
        for name in whole
        if by_structure.get(name)
    ]
    return sorted(chosen, key=lambda c: (chosen[c], str(c))), leaders


def _families(wanted: Search) -> tuple[list[Structure], list[str]]:
    """The structures to fill, and the names of families whose candidates are known as a whole."""
    whole = [name for name in wanted.families if name in WHOLE]
    filled = tuple(name for name in wanted.families if name not in WHOLE)
    for name in whole:
        check_whole(name, wanted.m, wanted.r)
    if not filled:
        return [], whole
    return structures(wanted.m, wanted.r, filled, wanted.zero, wanted.infinity), whole


def _halve(
    wanted: Search, settings: dict, candidates: list, execute: Executor, clock: _Clock
) -> list[Candidate]:
    """Successive halving over trials. A round that is not done in time does not count."""
    turns = count(1)
    by_error = wanted.objective == "error"
    last = _FINALISTS if by_error else _COUNTED

    def means(question: tuple[list[Candidate], int]) -> list[float] | None:
        turn = next(turns)
        work = [
            tasks.measure_task(c, wanted.dims, settings, question[1], wanted.seed + turn)
            for c in question[0]
        ]
        done = execute(f"measure, round {turn}", work, clock.until(_HALVED))
        return None if None in done else [result["mean"] for result in done]

    def choose(ordered: list[Candidate], keep: int) -> list[Candidate]:
        # Some of the simplest go on whatever their error: they may have the shortest programs.
        simplest = sorted(ordered, key=tasks.simplicity)
        return list(dict.fromkeys([*ordered[: keep - keep // 2], *simplest]))

    rounds = halving(
        candidates,
        effort=_FIRST_TRIALS,
        shrink=_SHRINK,
        last=last,
        choose=None if by_error else choose,
    )
    question = next(rounds)
    try:
        while (costs := means(question)) is not None:
            question = rounds.send(costs)
    except StopIteration as end:
        survivors: list[Candidate] = end.value
        return survivors
    return question[0][:last]  # time is over: the best of the round before


def _ranked(found: list[Found], objective: str) -> list[Found]:
    """Sorted by the objective, with what lies on the front of error and instructions marked."""
    if objective == "error":
        ordered = sorted(found, key=lambda f: f.mean)
        return [_marked(f, k == 0) for k, f in enumerate(ordered)]
    marked = [
        _marked(
            f,
            not any(
                (o.mean <= f.mean and o.cost <= f.cost) and (o.mean, o.cost) != (f.mean, f.cost)
                for o in found
            ),
        )
        for f in found
    ]
    if objective == "instructions":
        return sorted(marked, key=lambda f: (f.cost, f.mean))
    return sorted(marked, key=lambda f: (not f.on_front, f.mean))


def _marked(found: Found, on_front: bool) -> Found:
    return Found(found.candidate, found.mean, found.half_width, found.instructions, on_front)
