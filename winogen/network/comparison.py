"""A network as C beside its model, on numbers of several kinds, before anybody gets it.

The model is run by onnxruntime without its optimizations. How far an output may be off is what is
predicted of the C, and what the model itself shows: it runs again with its weights a little off,
and its outputs move. So numbers that amplify rounding need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.errors import CompilerNotFound, InvalidValue, VerificationError
from winogen.graph.promise import SAFE, certain
from winogen.graph.whole import limit
from winogen.network.bytes_testing import NUDGE, Limits
from winogen.network.trial import Program, Runner
from winogen.onnx.loading import first_line
from winogen.onnx.model import Model
from winogen.onnx.probes import Feed, feed_of
from winogen.onnx.promising import UnseenFeeds
from winogen.onnx.sensitivity import moved, outputs_of

_LEAST = 2.0**-20  # the error of a network without layers: functions round, too
_DRAWS = 2
# Multiplications of a run that are too many for an emulator: some ten seconds.
_MOST_EMULATED = 2e8
# Nodes that jump: what lies near a jump may be on either side of it.
_JUMPING = frozenset(
    "Ceil Floor Round Sign Mod Cast Where Equal Greater GreaterOrEqual Less LessOrEqual And Or Xor "
    "Not ArgMax ArgMin TopK ThresholdedRelu Shrink BitShift".split()
)
_MOST_JUMPS = 1e-3  # the share of numbers that may
# Nodes behind which numbers that are not finite are another's choice: onnxruntime leaves a NaN out
# of a maximum, and multiplies what it does not need by zero.
_CHOOSING = frozenset(
    "MaxPool GlobalMaxPool ReduceMax ReduceMin Max Min Clip Resize Upsample MaxRoiPool".split()
)


class Differs(VerificationError):
    """An output of the C is not that of the model."""

    def __init__(self, output: str, why: str):
        super().__init__(f"output {output}: {why}")
        self.output = output


class Claim(NamedTuple):
    """What a network as C should compute."""

    proto: Any  # the model, a ModelProto
    model: Model  # the same, with sizes
    error: float  # predicted, relative
    products: float  # multiplications of a run
    is_bytes: bool
    optimized: bool  # whether onnxruntime's optimizations are wanted
    allowed: Mapping[str, float]  # how far floats behind codes may be off, by name
    promised: float = 0.0  # the relative L2 error of an output, on
    unseen: UnseenFeeds | None = None


class Runnable(NamedTuple):
    """A program, and where it runs."""

    program: Program
    error: float  # predicted, relative
    runner: Runner
    how: str


Twin = Callable[[], tuple[Program, float]]


def place_of(program: Program, error: float, products: float, twin: Twin) -> Runnable:
    """Return where a program runs, or the same network for any CPU, which ``twin`` makes.

    ``error``: what is predicted of it, as the twin comes with its own; ``products``: how many
    multiplications a run has. Raises CompilerNotFound where there is no compiler.
    """
    try:
        runner = program.runner()
        if runner.is_emulated and products > _MOST_EMULATED:
            raise CompilerNotFound(f"{runner.words[0]} would take too long")
        return Runnable(program, error, runner, runner.how)
    except CompilerNotFound as lack:
        program, error = twin()
        how = f"as the same network for any CPU, since {first_line(lack)}"
        return Runnable(program, error, program.runner(), how)


def compared(claim: Claim, program: Program, twin: Twin) -> str:
    """Return how the program was compared with its model, or why it was not.

    ``twin``: makes the same network for any CPU, and its predicted error, for where the program
    cannot be run. Raises VerificationError that names the output that differs, and InvalidValue
    where an error at the output is larger than promised.
    """
    try:
        program, error, runner, how = place_of(program, claim.error, claim.products, twin)
    except CompilerNotFound as none:
        return f"not compared with the model: {first_line(none)}"
    claim = claim._replace(error=error)
    try:
        trials = list(_trials(claim, program))
    except (InvalidValue, TypeError) as refusal:
        return f"not compared with the model: {first_line(refusal)}"
    unseen = claim.unseen.feeds if claim.unseen else []
    found = program.run(runner, [*(trial.feed for trial in trials), *unseen])
    for trial, outputs in zip(trials, found):
        for place, (one, y) in enumerate(zip(program.outputs, outputs)):
            with np.errstate(all="ignore"):  # infinities have no distance
                why = trial.fault(place, one, y, claim)
            if why:
                raise Differs(
                    one.name, f"the C {how} differs from the model on {trial.kind}: {why}"
                )
    kinds = ", ".join(trial.kind for trial in trials)
    text = f"compared with the model, {how}: right on {kinds}"
    if not claim.unseen:
        return text
    others = iter(found[len(trials) :])
    told = certain(claim.unseen.promise(lambda _: next(others), claim.promised), claim.promised)
    if told.measured > claim.promised:
        raise too_large(claim.promised, told.measured / SAFE)
    return f"{text}; on {told.inputs} inputs not seen before L2 at most {told.measured:.1e}"


def too_large(asked: float, least: float) -> InvalidValue:
    """Return the refusal of what no tolerances of layers keep, but for one of ``least``."""
    return InvalidValue(
        # A number of two digits is less than the whole one by 5 % at most.
        f"output_tolerance: got {asked:g}; allowed: at least {1.05 * least:.1e}, which the network "
        "as C keeps"
    )


class Trial(NamedTuple):
    """Numbers for the inputs, and the model's outputs for them."""

    kind: str
    feed: Feed
    wanted: list[Any]
    moves: list[list[Any]]  # the same of models a little off
    finite: bool
    outputs: frozenset[str]  # those that are compared
    jumps: bool

    def fault(self, place: int, one: Any, y: np.ndarray, claim: Claim) -> str:
        """Return what is wrong with an output, or ""."""
        if one.name not in self.outputs:
            return ""
        wanted = np.asarray(self.wanted[place], np.float64)
        moves = [np.asarray(move[place], np.float64) for move in self.moves]
        if y.shape != wanted.shape:
            return f"it has the shape {y.shape}, not {wanted.shape}"
        y = y.astype(np.float64)
        kept = np.isfinite(wanted)
        # Where the model itself is undecided between infinity and numbers, so may be the C.
        decided = np.ones(wanted.shape, bool)
        for move in moves:
            decided &= np.isfinite(move) == kept
        if self.finite:
            same = np.where(kept, np.isfinite(y), _alike(y, wanted))
        else:  # tiles spread what is not finite over their outputs, and lose none
            same = kept | ~np.isfinite(y)
        strange = int((~same & decided).sum())
        if strange:
            return f"{strange} of {y.size} numbers are not finite, or should not be"
        kept &= np.isfinite(y) & decided
        if not kept.any():
            return ""
        off = np.abs(y - wanted)[kept]
        shifts = [np.abs(move - wanted)[kept] for move in moves]
        largest = float(np.abs(wanted[kept]).max())
        return self._far(off, shifts, largest, one, claim)

    def _far(self, off: Any, shifts: list[Any], largest: float, one: Any, claim: Claim) -> str:
        step = getattr(one, "step", None) if claim.is_bytes else None
        mean = None
        if step is not None:
            most, mean = Limits.of(step, shifts)
            most *= 1.001  # no number fits nothing
        else:
            furthest = max(float(shift.max()) for shift in shifts)
            most = limit(furthest, max(claim.error, _LEAST) * largest)
            most = max(most, claim.allowed.get(one.name, 0.0)) + np.finfo(np.float32).tiny
        beyond = int((off > most).sum())
        if beyond > self.jumps * (3 + _MOST_JUMPS * off.size):
            return (
                f"off by {off.max():.2g}, {most:.2g} allowed; the largest number is {largest:.2g}"
            )
        if mean is not None and off.mean() > mean:
            return f"off by {off.mean():.2g} on average, {mean:.2g} allowed"
        return ""


def _alike(y: Any, wanted: Any) -> Any:
    """Where numbers are NaN, or the same infinity."""
    return np.where(np.isnan(wanted), np.isnan(y), y == wanted)


def _trials(claim: Claim, program: Program) -> Iterable[Trial]:
    names = [one.name for one in program.outputs]
    model, kinds = claim.model, {node.op_type for node in claim.proto.graph.node}
    shapes = program.fed
    first = feed_of(model, {**shapes, **model.fixed}, 1)
    relative = NUDGE if claim.is_bytes else max(claim.error, _LEAST)
    chosen = frozenset(names) - _behind(claim.proto, _CHOOSING)
    for kind, feed in _feeds(first, [one.name for one in program.inputs], claim.is_bytes):
        finite = kind != _STRANGE
        if not finite and not chosen:
            continue
        optimized = claim.optimized
        wanted = outputs_of(claim.proto, names, feed, optimized=optimized)
        moves = list(moved(claim.proto, names, feed, relative, _DRAWS, optimized))
        compared = frozenset(names) if finite else chosen
        yield Trial(kind, feed, wanted, moves, finite, compared, bool(kinds & _JUMPING))


_STRANGE = "infinities and NaN"


def _feeds(first: Feed, read: Sequence[str], is_bytes: bool) -> Iterable[tuple[str, Feed]]:
    """Numbers of several kinds for all inputs, of which ``read`` are read."""

    def changed(how: Callable[[Any], Any]) -> Feed:
        return {n: how(x) if x.dtype == np.float32 else x for n, x in first.items()}

    yield "random numbers", first
    if not any(first[name].dtype == np.float32 for name in read):
        return
    yield "large numbers", changed(lambda x: x * np.float32(1e3))
    yield "small numbers", changed(lambda x: x * np.float32(1e-4))
    yield "zeros of both signs", changed(lambda x: x * np.float32(0))
    if not is_bytes:  # no code is a NaN
        yield _STRANGE, changed(_strange)


def _strange(x: Any) -> Any:
    """Numbers among which are a NaN and both infinities, as far as there is room."""
    y = np.array(x)
    flat = y.reshape(-1)
    for place, value in zip((0, prod(x.shape) // 2, prod(x.shape) - 1), (np.nan, np.inf, -np.inf)):
        if place < flat.size:
            flat[place] = value
    return y


def _behind(proto: Any, kinds: frozenset[str]) -> set[str]:
    """The values that nodes of some kinds have a part in."""
    found: set[str] = set()
    for node in proto.graph.node:
        if node.op_type in kinds or found.intersection(node.input):
            found.update(node.output)
    return found
