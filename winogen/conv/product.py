"""Products of matrices, planned and bound to their kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.conv import accuracy, memory
from winogen.conv.choice import Choice
from winogen.conv.execute import Call, Environment
from winogen.conv.one_call import CallSolver, OneCall
from winogen.conv.query import Query
from winogen.conv.solver import Offer
from winogen.kernels.gemm import GemmSpec, GemmWork, tuning
from winogen.records import Epilogue, Precision, Tuning

# Multiply-adds that are worth a thread: it takes microseconds to start.
_WORTHWHILE = 1 << 19
_VECTORS = (1, 2, 3, 4)  # of columns: each asks for a register block of its own

Place = tuple[int, int]  # from one row and from one column of a matrix to the next, in numbers


@dataclass(frozen=True)
class ProductProblem:
    """A product of matrices with all its sizes, and where the matrices lie."""

    m: int
    n: int
    k: int
    dtype: str
    a: Place
    b: Place
    c_row: int  # from one row of the output to the next
    packed: bool  # whether b comes packed
    epilogue: Epilogue = Epilogue()
    tuning: Tuning | None = None  # None: the usual sizes of the kernel

    @property
    def shapes(self) -> dict[str, Any]:
        """What a plan says of it."""
        return {
            "input_shape": (self.m, self.k),
            "weight_shape": (self.k, self.n),
            "output_shape": (self.m, self.n),
            "layout": "C",
            "dtype": self.dtype,
            "stride": (),
            "direct_multiplications": self.m * self.n * self.k,
        }


class ProductCall(Call):
    """A product of matrices of certain shapes and strides, bound to its kernel."""

    def __call__(
        self,
        a: np.ndarray,
        b: np.ndarray | None,
        constants: tuple[Any, ...],
        out: np.ndarray | None,
    ) -> np.ndarray:
        """Compute into ``out``, or a new array; nothing is checked.

        ``constants``: pointers to packed b, bias and slopes.
        """
        if out is None:
            out = memory.empty((self.work.m, self.work.n), a.dtype, "output")
        pointer = self.kernel.pointer
        self.run(pointer(a), pointer(b), *constants, pointer(out))
        return out


class Products(CallSolver):
    """Kernels of products: the usual one for so many columns, or else one that is at hand."""

    def candidates(self, query: Query) -> list[OneCall]:
        """Return the usual register block, then those that suit other numbers of columns."""
        problem, target = query.problem, query.target
        lanes = target.lanes(problem.dtype)
        columns = (problem.n, *(lanes * vectors for vectors in _VECTORS))
        sizes = (problem.tuning or tuning(target, n, problem.dtype) for n in columns)
        return [_evaluated(query, one) for one in dict.fromkeys(sizes)]

    def fitting(self, query: Query, candidates: list[OneCall]) -> list[OneCall]:
        """Return the usual one; of a stock, all that are in it."""
        return candidates[:1] if query.stock is None else super().fitting(query, candidates)

    def wanted(self, query: Query) -> str:
        """Return in words what a stock may lack."""
        return f"a product of matrices in {query.problem.dtype}"

    def error(self, query: Query, candidate: OneCall) -> float:
        """Return the predicted error of sums that are added block by block."""
        work = candidate.work
        return accuracy.sum_error(work.spec.precision, work.k, work.k_block)

    def bind(self, offer: Offer, environment: Environment) -> ProductCall:
        """Return it bound to its kernel."""
        return ProductCall(offer.best.work.spec, offer.best.work, environment)

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the sizes and the C of its kernel."""
        return {**super().described(offer), "operation": "gemm"}


def _evaluated(query: Query, sizes: Tuning) -> OneCall:
    """A product by a kernel, with its predicted time."""
    one, machine = query.problem, query.machine
    threads = max(1, min(query.request.threads, one.m * one.n * one.k // _WORTHWHILE))
    spec = GemmSpec(Precision.of(one.dtype), query.target, sizes)
    places = one.a, one.b, one.c_row
    work = GemmWork(spec, one.m, one.n, one.k, *places, one.epilogue, one.packed, machine, threads)
    choice = Choice("direct", threads=threads, variant=f"gemm {sizes.rows} x {sizes.vectors}")
    return OneCall(choice, work, work.cycles(machine) / (machine.clock_ghz * 1e9))
