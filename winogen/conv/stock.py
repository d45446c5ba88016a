"""Which kernels can be used: all where a compiler may make them, else those at hand.

At hand is what was compiled before or lies in an archive. Planners keep to a `Stock`, so that what
they choose can run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any, Protocol, TypeVar, get_args

from winogen import environment
from winogen.codegen.render import cdef, parts, recipe, render
from winogen.errors import CompilerNotFound, InvalidValue, Unsupported
from winogen.kernels import named
from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision, Target
from winogen.toolchain import background, host_targets, prebuilt, threads
from winogen.toolchain.cache import stores
from winogen.toolchain.compiler import lack, mode
from winogen.toolchain.loader import Build
from winogen.toolchain.texts import Text
from winogen.typing import Layout2d

FLAGS = ("-DWINOGEN_APART",)  # what kernels have in common is compiled once


def build_of(spec: Spec) -> Build:
    """Return what the library of a kernel is built from."""
    # Rendering is most of what loading a kernel takes that was compiled before.
    source = Text(recipe(spec), partial(render, spec))
    return Build(source, cdef(spec), spec.target, FLAGS, spec.name, partial(parts, spec))


def at_hand(spec: Spec) -> bool:
    """Return whether a kernel needs no compiler."""
    return build_of(spec).at_hand()


class _Way(Protocol):
    def specs(self, problem: Any) -> Sequence[Spec]: ...


T = TypeVar("T", bound=_Way)


class Stock:
    """The kernels at hand when they were first asked for: plans stay the same all process long."""

    tells = True  # whether somebody wants to know what would be faster

    def __init__(self, reason: str = "") -> None:
        self.reason = reason  # why nothing is compiled now; "": it may be, if nothing else helps
        self._known: dict[Spec, bool] = {}
        self._digests: dict[str, str] = {}  # by target

    def digest(self, target: Target) -> str:
        """Return a digest of what was at hand at first for a target, or for those behind it."""
        known = self._digests.get(target.name)
        if known is None:
            store = next(stores(), None)
            kernels = set() if store is None else set(store.kernels())
            for one in self.targets(target):
                kernels.update(*(archive.entries for archive in prebuilt.archives(one.name)))
            text = repr((self.reason, sorted(kernels)))
            known = self._digests[target.name] = hashlib.sha256(text.encode()).hexdigest()
        return known

    def has(self, specs: Iterable[Spec]) -> bool:
        """Return whether all of these kernels are at hand."""
        return all(map(self._has, specs))

    def lacking(self, specs: Iterable[Spec]) -> tuple[str, ...]:
        """Return the names of those of these kernels that are not at hand."""
        return tuple(spec.name for spec in specs if not self._has(spec))

    def _has(self, spec: Spec) -> bool:
        known = self._known.get(spec)
        if known is None:
            known = self._known[spec] = at_hand(spec)
        return known

    def first(
        self,
        problem: Any,
        ways: Sequence[T],
        target: Target,
        on: Callable[[Target], Sequence[T]],
        what: str,
    ) -> list[T]:
        """Return the ways at hand to compute a problem.

        ``ways``: those that a compiler would allow, by time. If the first is at hand, what is at
        hand of them; else it is compiled in the background where that is allowed, and those that
        are at hand ``on`` the first target that has any come back. Without any: ``ways``, if
        something compiles. Else raises CompilerNotFound for ``what``, or the InvalidValue of the
        last target if a compiler would not help.
        """
        if ways:
            wanted = ways[0].specs(problem)
            if self.has(wanted):
                return self.among(problem, ways)
            self.wants(wanted)
        refusal: InvalidValue | None = None
        for one in self.targets(target):
            try:
                found = on(one)
            except Unsupported:
                continue
            except InvalidValue as too_much:  # another target's kernels may keep to the limits
                refusal = too_much
                continue
            if found:
                return list(found)
        if ways and not self.reason:
            return list(ways)
        raise self.missing(what) if ways or refusal is None else refusal

    def among(self, problem: Any, ways: Iterable[T]) -> list[T]:
        """Return those of these ways to compute a problem that are at hand."""
        return [way for way in ways if self.has(way.specs(problem))]

    def targets(self, target: Target) -> tuple[Target, ...]:
        """Return a target and those behind it that this CPU runs, too: the last is for any CPU."""
        runs = host_targets()
        place = [one.name for one in runs].index(target.name)
        return (target, *runs[place + 1 :])

    def wants(self, specs: Iterable[Spec]) -> None:
        """Have kernels compiled in the background, where that is allowed, for later processes."""
        if not self.reason:
            background.compile([build_of(spec) for spec in specs if not self._has(spec)])

    def missing(self, what: str) -> CompilerNotFound:
        """Return the error of whoever finds nothing at hand."""
        return CompilerNotFound(
            f"{what}: no kernel for it was compiled before or is prebuilt, and {self.reason}"
        )


class _Few(Stock):
    """These kernels and no others."""

    tells = False

    def __init__(self, specs: frozenset[Spec]) -> None:
        super().__init__("others are not wanted")
        self._specs = specs

    def digest(self, target: Target) -> str:
        """Return a digest of these kernels."""
        return hashlib.sha256(repr(sorted(map(repr, self._specs))).encode()).hexdigest()

    def _has(self, spec: Spec) -> bool:
        return spec in self._specs

    def targets(self, target: Target) -> tuple[Target, ...]:
        """Return the targets that these kernels are for, in the order of any stock."""
        names = {spec.target.name for spec in self._specs}
        runs_here = any(one.name == target.name for one in host_targets())
        considered = super().targets(target) if runs_here else (target,)
        return tuple(one for one in considered if one.name in names)


@lru_cache(maxsize=32)
def only(specs: frozenset[Spec]) -> Stock:
    """Return the stock of these kernels, for whom no others are wanted; the same for the same."""
    return _Few(specs)


def stock_of(target: Target) -> Stock | None:
    """Return the kernels that plans for a target must keep to; None if there is no need."""
    if all(one.name != target.name for one in host_targets()):
        return None  # C for another machine is wanted
    mode_, get = mode(), os.environ.get
    reason = "WINOGEN_COMPILE=off; allowed: missing or background"
    if mode_ != "off":
        reason = lack(get("CC"), get("PATH"))
    if mode_ == "missing" and not reason:
        return None
    return _stock(
        reason, environment.value("WINOGEN_CACHE"), environment.value("WINOGEN_PREBUILT"), get("CC")
    )


@lru_cache(maxsize=32)
def _stock(reason: str, *_: str | None) -> Stock:
    return Stock(reason)


def forget() -> None:
    """Look again at what is at hand."""
    for known in (lack, _stock, only):
        known.cache_clear()


def floor() -> list[Build]:
    """Return what computes all problems of float32 and bytes, slowly, on any CPU of this kind."""
    from winogen.kernels import gemm
    from winogen.kernels.quantized import QuantizedSpec, RealsSpec

    target, real, layouts = TARGETS["generic"], Precision.of("float32"), get_args(Layout2d)
    usual, plain = named("direct").tuning(target, real).compiled, ("direct", "depthwise")
    bytes_ = [
        kind.of(algorithm, layout, sums, target)
        for kind, sums in ((QuantizedSpec, True), (QuantizedSpec, False), (RealsSpec, False))
        for algorithm, layout in product(plain, layouts)
    ]
    reals = [KernelSpec("direct", layout, real, target, usual) for layout in layouts]
    products = gemm.GemmSpec(real, target, gemm.tuning(target, target.lanes("float32")))
    return [threads.build_of(), *map(build_of, (*reals, *bytes_, products))]


def first_at_hand(target: Target, build: Callable[[Target], Build]) -> Build:
    """Return the build for a target, or for one behind it if nothing else is at hand."""
    stock = stock_of(target)
    builds = map(build, stock.targets(target) if stock else (target,))
    return next((one for one in builds if stock is None or one.at_hand()), build(target))
