"""Plans for the nodes of onnxruntime's sessions: the library asks, Python answers with kernels.

Asked once per node and sizes, by whatever thread runs the session. All that an answer points to
stays alive until the library gives the plan back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Set
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakValueDictionary

from winogen.errors import WinogenError
from winogen.kernels.spec import KernelSpec
from winogen.onnx.answers import Answer
from winogen.onnx.drafts import DraftCall
from winogen.onnx.operators import FAILED, PLANNED, UNKNOWN
from winogen.progress import lines
from winogen.records import Target
from winogen.toolchain import Library
from winogen.toolchain.fork import Lock

_WORK = "planning and compiling for inputs of new sizes"


class Planner:
    """Answers the questions of one loaded library, and keeps what it answered with."""

    def __init__(self, library: Library):
        self._ffi = library.ffi
        self._library = library
        self._answers: dict[int, Answer] = {}
        self._handles = itertools.count(1)
        # (node, its weights, kernel) -> packed weights, shared by the plans of all sizes.
        self._packed: WeakValueDictionary[tuple, Any] = WeakValueDictionary()
        self._lock = Lock()
        self.failure: BaseException | None = None  # the latest
        self._recorded: list[Answer] | None = None  # a list that wants to have all answers
        self._familiar: Set[KernelSpec] | None = None
        self._target: Target | None = None
        self._algorithm = "auto"
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
        """Leave the library alone: nodes that meet new sizes compute them the plain way."""
        null = self._ffi.NULL
        self._library.lib.winogen_onnx_set_planner(null, null)

    @contextmanager
    def recording(
        self,
        familiar: Set[KernelSpec] | None = None,
        target: Target | None = None,
        algorithm: str = "auto",
    ) -> Iterator[list[Answer]]:
        """Give a list of all answers from now on.

        Kernels that are ``familiar`` are preferred to faster ones: these might have to be compiled.
        With a ``target``, answers are for that, and nodes compute the plain way.
        """
        self._recorded, self.failure = [], None
        self._familiar, self._target, self._algorithm = familiar, target, algorithm
        try:
            yield self._recorded
        finally:
            self._recorded = self._familiar = self._target = None
            self._algorithm = "auto"

    @property
    def plans(self) -> int:
        """How many plans are in use."""
        return len(self._answers)

    def _plan(self, question: Any, plan: Any, message: Any, size: int) -> int:
        try:
            if self._target is not None:
                draft = Answer(self._library, question, {}, None, self._target, DraftCall)
                self._record(draft)
                return UNKNOWN
            quiet = self._recorded is not None  # who records tells of what goes on
            with nullcontext() if quiet else lines(_WORK):
                answer = Answer(
                    self._library, question, self._packed, self._familiar, algorithm=self._algorithm
                )
            answer.fill(plan)
            with self._lock:
                plan.handle = next(self._handles)
                self._answers[plan.handle] = answer
            self._record(answer)
        except BaseException as error:  # nothing may escape into C, Ctrl-C neither
            self.failure = error
            expected = isinstance(error, WinogenError)
            text = str(error) if expected else f"{type(error).__name__}: {error}"
            encoded = text.encode("utf-8", "replace")[: size - 1]
            self._ffi.memmove(message, encoded + b"\0", len(encoded) + 1)
            return FAILED
        return PLANNED

    def _record(self, answer: Answer) -> None:
        if self._recorded is not None:
            self._recorded.append(answer)

    def _release(self, handle: int) -> None:
        with self._lock:
            self._answers.pop(handle, None)
