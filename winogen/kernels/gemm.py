"""The product of two matrices: what is compiled in, how a call is cut into blocks, its memory.

Blocks follow Goto and van de Geijn (Anatomy of high-performance matrix multiplication, 2008): a
block of b stays in the last cache, a block of rows of a in L2, a panel of a or of b in L1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from winogen.kernels import tuning as sizes
from winogen.kernels.kind import EPILOGUE, MEMORY, SCHEDULE, Buffer, Fields, Spec, finish
from winogen.kernels.work import blocks, even, round_up
from winogen.records import Epilogue, Machine, Precision, Target, Tuning
from winogen.records.machine import LINE
from winogen.records.tuning import STREAMS

_XEON = "measured on Intel Xeon (AVX-512), 2026-11"
USES = ("rows", "vectors", "chains")
_PARTS = 4  # of a phase, for each thread
# Of b: while a block of it is no larger than this share of L2, it stays there, and each panel of a
# meets all of it; else a block of rows of a stays there.
_SHARE = 2

_FIELDS: Fields = (
    ("Size of c, m x n, and terms of its sums.", "int64_t", ("m", "n", "k")),
    (
        "Steps to the next row and column.",
        "int64_t",
        ("a_row", "a_column", "b_row", "b_column", "c_row"),
    ),
    ("Size of a block along each axis.", "int64_t", ("m_block", "n_block", "k_block")),
    ("Rows of a part of the work.", "int64_t", ("m_part",)),
    ("How many blocks there are.", "int64_t", ("n_blocks", "k_blocks")),
    ("Shares of the panels of a block of b.", "int64_t", ("shares",)),
    ("What is done where the sums are.", "int", ("relu", "capped")),
    *EPILOGUE,
    *SCHEDULE,
    ("Whether outputs go past the caches.", "int", ("non_temporal",)),
    ("Whether denormals count as zeros.", "int", ("flush_denormals",)),
    *MEMORY,
    ("A block of b, packed.", "winogen_buffer", ("b_packed",)),
    ("A block of rows of a, packed.", "winogen_buffer", ("a_packed",)),
    ("A tile at the edge of c, and its bias.", "winogen_buffer", ("edge", "bias_row")),
)


def tuning(target: Target, columns: int, dtype: str = "float32") -> Tuning:
    """Return the sizes of the register block, rows of a by vectors of ``columns`` columns of b.

    ``depth`` is k of a block. Loads of a step over its multiply-adds are 1/rows + 1/vectors. So a
    squarer block has fewer among the blocks that fill the registers, where columns suffice for it.

    >>> from winogen.records import TARGETS
    >>> [(t.rows, t.vectors) for t in (tuning(TARGETS["avx512"], n) for n in (64, 96, 1024))]
    [(14, 2), (9, 3), (9, 3)]
    """
    vectors = blocks(columns, target.lanes(dtype))
    fetched = {
        "prefetch": 1024,
        "prefetch_streams": STREAMS["A"] | STREAMS["output"],
        "prefetch_level": 1,
    }
    if target.broadcasts and (vectors == 3 or vectors > 4):
        return Tuning(_XEON, rows=9, vectors=3, depth=512, **fetched)
    return replace(sizes.gemm(target, depth=512, **fetched), provenance=_XEON)


@dataclass(frozen=True)
class GemmSpec(Spec):
    """All that is fixed when the C of a kernel is written."""

    inputs = ("a", "b", "packed", "bias", "slopes")
    packs = ("b",)
    fields = _FIELDS

    precision: Precision
    target: Target
    tuning: Tuning

    @property
    def name(self) -> str:
        """What files of its kernel are called."""
        return f"gemm_{self.precision.arrays}"

    def given(self, work: GemmWork) -> dict[str, Any]:
        """Return the fields for a call that are not attributes of ``work`` by the same name."""
        return finish(work.epilogue, work.epilogue.ends_early(False))


@dataclass(frozen=True)
class GemmWork:
    """One call with all its sizes, and how it is cut.

    How long sums are depends on k and the tuning alone, so that results do, too.
    """

    spec: GemmSpec
    m: int
    n: int
    k: int
    a: tuple[int, int]  # from one row and one column to the next, in numbers: one of them is 1
    b: tuple[int, int]
    c_row: int
    epilogue: Epilogue = Epilogue()
    packed: bool = False  # whether b comes packed
    machine: Machine = Machine()
    threads: int = 1

    @property
    def lanes(self) -> int:
        """Numbers of a vector."""
        return self.spec.precision.lanes(self.spec.target.vector_bytes)

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return self.spec.precision.itemsize

    @property
    def panel(self) -> int:
        """Columns of a panel of b."""
        return self.spec.tuning.vectors * self.lanes

    @cached_property
    def k_block(self) -> int:
        """Terms of a sum that are added in registers; blocks are about equal."""
        return int(round_up(even(self.k, self.spec.tuning.depth), self.lanes))

    @cached_property
    def n_block(self) -> int:
        """Columns of a block of b, which has room in half of the last cache."""
        room = self.machine.l3_bytes // 2 // (self.k_block * self.itemsize)
        most = max(self.panel, room // self.panel * self.panel)
        return int(round_up(even(self.n, most), self.panel))

    @cached_property
    def m_block(self) -> int:
        """Rows of a block of a: a panel if all of a block of b stays in L2, else as many as do."""
        rows, room = self.spec.tuning.rows, self.machine.l2_bytes // _SHARE
        step = self.k_block * self.itemsize
        if min(self.n_block, round_up(self.n, self.lanes)) * step <= room:
            return int(even(self.m, rows))
        most = max(rows, room // step // rows * rows)
        if self.threads > 1:
            most = min(most, int(round_up(blocks(self.m, _PARTS * self.threads), rows)))
        return int(min(self.m, round_up(even(self.m, most), rows)))

    @cached_property
    def m_part(self) -> int:
        """Rows of a part of the work: some blocks, all of them for one thread."""
        parts = 1 if self.threads == 1 else _PARTS * self.threads
        return int(round_up(blocks(self.m, parts), self.m_block))

    @property
    def m_parts(self) -> int:
        """Parts that the rows make."""
        return int(blocks(self.m, self.m_part))

    @property
    def n_blocks(self) -> int:
        """Blocks of columns of b."""
        return int(blocks(self.n, self.n_block))

    @property
    def k_blocks(self) -> int:
        """Blocks of terms."""
        return int(blocks(self.k, self.k_block))

    @property
    def panels(self) -> int:
        """Panels of a block of b, at most."""
        return int(blocks(min(self.n, self.n_block), self.panel))

    @property
    def shares(self) -> int:
        """Pieces of the columns of a block, where blocks of rows are few."""
        if self.threads == 1:
            return 1
        return int(min(self.panels, blocks(_PARTS * self.threads, self.m_parts)))

    @property
    def schedule(self) -> tuple[int, int]:
        """(phases, parts of each)."""
        phases, product = self.n_blocks * self.k_blocks, self.m_parts * self.shares
        return (phases, product) if self.packed else (2 * phases, max(product, self.panels))

    @property
    def packed_bytes(self) -> int:
        """Bytes of all of b, packed."""
        return int(round_up(self.n, self.lanes)) * self.k * self.itemsize

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers of a call by name."""
        width = min(self.n_block, int(round_up(self.n, self.lanes)))
        size, rows = self.itemsize, self.spec.tuning.rows
        return {
            "b_packed": Buffer(0 if self.packed else self.k_block * width * size, shared=True),
            "a_packed": Buffer(self.m_block * self.k_block * size),
            "edge": Buffer(rows * self.panel * size),
            "bias_row": Buffer(self.panel * size),
        }

    @property
    def products(self) -> int:
        """Multiplications."""
        return self.m * self.n * self.k

    def cycles(self, machine: Machine) -> float:
        """Return the cycles that its multiply-adds take at least, or reading and writing arrays."""
        rows = round_up(self.m, self.spec.tuning.rows)
        steps = rows * round_up(self.n, self.lanes) // self.lanes * self.k
        size = self.itemsize * (self.m * self.k + self.k * self.n + self.m * self.n)
        busy = steps / machine.vectors_per_cycle / self.threads
        return max(busy, size / float(machine.read_rate(size)))

    @property
    def non_temporal(self) -> bool:
        """Whether outputs are stored past the caches, where they begin at cache lines."""
        size = self.m * self.n * self.itemsize
        return (
            size >= self.spec.tuning.non_temporal
            and self.k_blocks == 1
            and self.epilogue.ends_early(False)
            and self.c_row * self.itemsize % LINE == 0
            and self.lanes * self.itemsize == LINE
        )
