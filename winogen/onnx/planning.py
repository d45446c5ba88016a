"""Plans for the nodes of onnxruntime's sessions: the library asks, Python answers with kernels.

Asked once per node and sizes, by whatever thread runs the session; a node that onnxruntime computes
meanwhile is told to ask again, until a thread has its plan. All that an answer points to stays
alive until the library gives the plan back.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakValueDictionary

from winogen.conv import memory
from winogen.errors import BuildError, WinogenError
from winogen.extras import MissingPackage
from winogen.graph import later
from winogen.graph.code_segment import CodeSegment
from winogen.graph.compiling import compile_soon
from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.onnx.answers import Answer, constants_of
from winogen.onnx.code_answers import CodeAnswer
from winogen.onnx.drafts import DraftCall
from winogen.onnx.operators import FAILED, LATER, PLANNED, UNKNOWN
from winogen.progress import lines
from winogen.records import Target
from winogen.tasks.limit import Limit
from winogen.toolchain import Library
from winogen.toolchain.fork import Lock

# Bytes of weights that a call copies, of those that ask: half a millisecond, about.
_COPIED_AT_ONCE = 4 << 20
_WORK = "planning and compiling for inputs of new sizes"


class _Pending:
    """A plan that a thread is making.

    What it reads belongs to a node, which may go at any time: it waits until nobody reads. Weights
    belong to the session, which frees them before its nodes go: calls copy them, some at a time.
    """

    def __init__(self, planner: Planner, question: Any):
        self._planner, self._ffi = planner, planner._ffi
        self._question = self._ffi.new("winogen_question *", question[0])
        self._arrays = self._ffi.new("winogen_array[]", question.arrays)
        self._ffi.memmove(self._arrays, question.array, self._ffi.sizeof(self._arrays))
        self._question.array = self._arrays
        sizes = constants_of(self._ffi, question)
        self._left = {number: (0, size) for number, size in sizes.items()}  # copied, of all bytes
        self._copies = {n: memory.aligned(max(1, size), "weights") for n, size in sizes.items()}
        self._lock = Lock()
        self._draft: Answer | CodeAnswer | None = None
        self._gone = False
        self.answer: Answer | CodeAnswer | None = None

    @property
    def specs(self) -> Sequence[Spec] | None:
        """The kernels of its plan, once it is there."""
        return None if self._draft is None else self._draft.wanted

    def copy_some(self) -> bool:
        """Copy some of what all calls share; return whether it is there. To be called by a call."""
        most = _COPIED_AT_ONCE
        while self._left and most > 0:
            number, (begin, size) = next(iter(self._left.items()))
            end = min(size, begin + most)
            most -= max(1, end - begin)
            copy = self._ffi.cast("char *", self._copies[number].ctypes.data)
            shared = self._ffi.cast("char *", self._arrays[number].constant)
            self._ffi.memmove(copy + begin, shared + begin, end - begin)
            self._left[number] = end, size
            if end == size:
                del self._left[number]
                self._arrays[number].constant = copy
        return not self._left

    def advance(self) -> None:
        """Make the plan; when its kernels are there, load them and pack."""
        with self._lock:
            if self._gone:
                return
            if self._draft is None:
                self._draft = self._planner._answer(self._question)
        if not compile_soon(self._draft.wanted):
            return
        with self._lock:  # a busy machine is no place to measure
            if not self._gone:
                answer = self._draft.bind(measures=False)
                packed = set(answer.weights)  # of which there is a copy by now
                answer.held = [x for number, x in self._copies.items() if number not in packed]
                self._copies, self.answer = {}, answer

    def give_up(self) -> None:
        """Return when the question is read no more."""
        with self._lock:
            self._gone = True


class Planner:
    """Answers the questions of one loaded library, and keeps what it answered with."""

    def __init__(self, library: Library):
        self._ffi = library.ffi
        self._library = library
        self._answers: dict[int, Answer | CodeAnswer] = {}
        self._pending: dict[int, _Pending] = {}
        self._told: set[str] = set()  # why plans could not be made
        self._handles = itertools.count(1)
        # (node, its weights, kernel) -> packed weights, shared by the plans of all sizes.
        self._packed: WeakValueDictionary[tuple, Any] = WeakValueDictionary()
        # Of nodes of codes, shared in the same way.
        self._segments: WeakValueDictionary[int, CodeSegment] = WeakValueDictionary()
        self._lock = Lock()
        self.failure: BaseException | None = None  # the latest
        # A list that wants to have all answers.
        self._recorded: list[Answer | CodeAnswer] | None = None
        self._familiar: Set[KernelSpec] | None = None
        self._target: Target | None = None
        self._algorithm = "auto"
        self._limit = Limit(None)
        self.late: dict[str, set[int]] = {}  # layers whose kernels no time was left for, by nodes
        self._ask = self._ffi.callback("winogen_planner", self._plan, error=FAILED)
        self._take_back = self._ffi.callback("winogen_release", self._release)

    @property
    def path(self) -> str:
        """Of the library."""
        return str(self._library.path)

    def install(self) -> None:
        """Answer the library's questions from now on."""
        self._library.lib.winogen_onnx_set_planner(self._ask, self._take_back)

    def remove(self) -> None:
        """Leave the library alone: nodes that meet new sizes compute them without a plan."""
        null = self._ffi.NULL
        self._library.lib.winogen_onnx_set_planner(null, null)
        for pending in list(self._pending.values()):
            pending.give_up()

    @contextmanager
    def recording(
        self,
        familiar: Set[KernelSpec] | None = None,
        target: Target | None = None,
        algorithm: str = "auto",
        limit: Limit | None = None,
    ) -> Iterator[list[Answer | CodeAnswer]]:
        """Give a list of all answers from now on.

        Kernels that are ``familiar`` are preferred to faster ones: these might have to be compiled.
        With a ``target``, answers are for that, and nodes compute without a plan. A ``limit`` is
        for compiling: a node fails whose kernels it leaves no time for, as `late` has it.
        """
        self._recorded, self.failure, self.late = [], None, {}
        self._limit = limit or self._limit
        self._familiar, self._target, self._algorithm = familiar, target, algorithm
        try:
            yield self._recorded
        finally:
            self._recorded = self._familiar = self._target = None
            self._algorithm, self._limit = "auto", Limit(None)

    @property
    def plans(self) -> int:
        """How many plans are in use."""
        return len(self._answers)

    def _plan(self, question: Any, plan: Any, message: Any, size: int) -> int:
        try:
            if self._target is not None:
                self._record(self._drafted(question, self._target))
                return UNKNOWN
            quiet = self._recorded is not None  # who records tells of what goes on
            if quiet or question.waits or later.waits():
                self._release(plan.handle)
                with nullcontext() if quiet else lines(_WORK):
                    answer = self._in_time(question).bind()
            else:
                made = self._soon(question, plan)
                if made is None:
                    return LATER
                answer = made
            answer.fill(plan)
            with self._lock:
                plan.handle = next(self._handles)
                self._answers[plan.handle] = answer
            self._record(answer)
        except MissingPackage:  # without onnx, nobody reads what a node of codes stands for
            return UNKNOWN
        except BaseException as error:  # nothing may escape into C, Ctrl-C neither
            self.failure = error
            expected = isinstance(error, WinogenError)
            text = str(error) if expected else f"{type(error).__name__}: {error}"
            encoded = text.encode("utf-8", "replace")[: size - 1]
            self._ffi.memmove(message, encoded + b"\0", len(encoded) + 1)
            return FAILED
        return PLANNED

    def _answer(self, question: Any) -> Answer | CodeAnswer:
        """The answer without its kernels."""
        if question.codes != self._ffi.NULL:
            made = CodeAnswer(self._ffi, question, self._segments.get(question.node))
            self._segments[question.node] = made.segment
            return made
        return Answer(
            self._library, question, self._packed, self._familiar, algorithm=self._algorithm
        )

    def _drafted(self, question: Any, target: Target) -> Answer | CodeAnswer:
        """The answer for another target, without its kernels."""
        if question.codes != self._ffi.NULL:
            return CodeAnswer(self._ffi, question)
        return Answer(self._library, question, {}, None, target, DraftCall).bind()

    def _in_time(self, question: Any) -> Answer | CodeAnswer:
        """The answer, whose kernels are compiled where there is a limit; raises BuildError."""
        answer = self._answer(question)
        if self._limit.seconds is not None:
            late = answer.late(self._limit)
            if late:
                self.late[self._ffi.string(question.name).decode(errors="replace")] = late
                raise BuildError("no time was left to compile its kernels")
        return answer

    def _soon(self, question: Any, plan: Any) -> Answer | CodeAnswer | None:
        """The answer if a thread has made it; if not, one does so, and the plan gets a handle."""
        pending = self._pending.get(plan.handle)
        if pending is None:
            pending = _Pending(self, question)
            with self._lock:
                plan.handle = next(self._handles)
                self._pending[plan.handle] = pending
        if pending.answer is None:
            try:
                if pending.copy_some():
                    later.go_on(pending, (), pending.specs)
            except Exception as problem:  # of the thread
                self._tell(problem)
            return None
        self._release(plan.handle)
        return pending.answer

    def _tell(self, problem: Exception) -> None:
        """Warn, once, that onnxruntime goes on to compute a node."""
        text = str(problem) or type(problem).__name__
        if text not in self._told:
            self._told.add(text)
            warnings.warn(
                "onnxruntime computes a part of an optimized model, since there is no plan for "
                f"inputs of these sizes: {text} (docs/onnx.md says more of new sizes)",
                RuntimeWarning,
                stacklevel=3,
            )

    def _record(self, answer: Answer | CodeAnswer) -> None:
        if self._recorded is not None:
            self._recorded.append(answer)

    def _release(self, handle: int) -> None:
        with self._lock:
            self._answers.pop(handle, None)
            pending = self._pending.pop(handle, None)
        if pending is not None:
            pending.give_up()
