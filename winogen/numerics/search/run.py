"""The search for good algorithms: propose by estimate, then measure, the fewer the longer.

1. For every structure (which kinds of points, with or without 0 and infinity) promising candidates
   are found by the estimated error, which is cheap and has no noise.
2. The best of all are measured, by successive halving: each round keeps a quarter and measures it
   with four times the trials. All candidates of a round see the same random tiles, so noise that
   they share cannot decide.
3. Those left get row scalings that lower the error, if wanted; or, where instructions count, the
   scalings that make their programs shortest.
4. The last few are measured with fresh random numbers, so that nobody profits from past luck.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import count

from winogen.algebra import cook_toom
from winogen.errors import InvalidType, InvalidValue
from winogen.numerics.search import tasks
from winogen.numerics.search.candidate import Candidate
from winogen.numerics.search.propose import is_small
from winogen.numerics.search.spaces import structures
from winogen.rounding.data import DISTRIBUTIONS
from winogen.rounding.variance import estimate
from winogen.tasks import Executor, answer, halving

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

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InvalidValue(
                f"objective: got {self.objective!r}; allowed: {', '.join(OBJECTIVES)}"
            )
        for name in ("height", "starts", "keep", "trials"):
            if getattr(self, name) < 1:
                raise InvalidValue(f"{name}: got {getattr(self, name)}; allowed: a number >= 1")
        drawn = self.settings.get("distribution", DEFAULTS["distribution"])
        if not isinstance(drawn, str):  # tasks are text, for other processes and for the file
            raise InvalidType(
                f"distribution: got {drawn!r}; allowed in a search: {', '.join(DISTRIBUTIONS)}"
            )
        # What cannot be is said before any work: the structures, and what is measured.
        structures(self.m, self.r, self.families, self.zero, self.infinity)
        smallest = cook_toom(1, 1)
        estimate(smallest, dims=self.dims, **{**DEFAULTS, **self.settings})


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
    candidates = _proposals(wanted, settings, execute)
    survivors = _halve(wanted, settings, candidates, execute)
    if wanted.scalings:
        made = execute(
            "scale rows", [tasks.scale_task(c, wanted.dims, settings) for c in survivors]
        )
        survivors = list(dict.fromkeys([*survivors, *map(Candidate.from_dict, made)]))
    counts: list[dict | None] = [None] * len(survivors)
    if wanted.objective != "error":
        made = execute("count instructions", [tasks.count_task(c) for c in survivors])
        survivors = [Candidate.from_dict(entry["candidate"]) for entry in made]
        counts = [entry["instructions"] for entry in made]
    final = execute(
        "measure the last",
        [
            tasks.measure_task(c, wanted.dims, settings, wanted.trials, wanted.seed + 1000)
            for c in survivors
        ],
    )
    found = [
        Found(candidate, result["mean"], result["half_width"], count)
        for candidate, result, count in zip(survivors, final, counts)
    ]
    return _ranked(found, wanted.objective)


def _proposals(wanted: Search, settings: dict, execute: Executor) -> list[Candidate]:
    """The candidates with the least estimated error, a fair number of every structure."""
    kinds = structures(wanted.m, wanted.r, wanted.families, wanted.zero, wanted.infinity)
    work = [
        tasks.propose_task(
            *(structure, wanted.m, wanted.r, wanted.height, wanted.dims, settings),
            *(wanted.seed + start, wanted.keep),
        )
        for structure in kinds
        for start in range(1 if is_small(structure, wanted.height) else wanted.starts)
    ]
    by_structure: dict[str, dict] = {}
    for task, found in zip(work, execute("propose", work)):
        group = by_structure.setdefault(str(task["structure"]), {})
        for error, data in found:
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
    return sorted(chosen, key=lambda c: (chosen[c], str(c)))


def _halve(wanted: Search, settings: dict, candidates: list, execute: Executor) -> list[Candidate]:
    """Successive halving over trials."""
    turns = count(1)

    def means(question: tuple[list[Candidate], int]) -> list[float]:
        turn = next(turns)
        work = [
            tasks.measure_task(c, wanted.dims, settings, question[1], wanted.seed + turn)
            for c in question[0]
        ]
        return [result["mean"] for result in execute(f"measure, round {turn}", work)]

    def choose(ordered: list[Candidate], keep: int) -> list[Candidate]:
        # Some of the simplest go on whatever their error: they may have the shortest programs.
        simplest = sorted(ordered, key=tasks.simplicity)
        return list(dict.fromkeys([*ordered[: keep - keep // 2], *simplest]))

    by_error = wanted.objective == "error"
    rounds = halving(
        candidates,
        effort=_FIRST_TRIALS,
        shrink=_SHRINK,
        last=_FINALISTS if by_error else _COUNTED,
        choose=None if by_error else choose,
    )
    return answer(rounds, means)


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
