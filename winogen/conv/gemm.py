"""Products of matrices: `gemm` for one call, `Gemm` for many with the same right factor.

For small and skinny products, and for those who have no BLAS. Large square ones run near the peak,
too, but there a BLAS does as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from winogen import environment
from winogen.conv import arguments, memory, seams
from winogen.conv.execute import Environment, remembered
from winogen.conv.plan import Plan
from winogen.conv.product import Place, ProductCall, ProductProblem, Products
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.weighted import Weighted
from winogen.errors import InvalidValue
from winogen.records import Epilogue, Machine, Tuning
from winogen.toolchain import host_target
from winogen.toolchain.machine import current, described
from winogen.typing import Activation, Array, NDArray

_NOWHERE = (0, 0)  # of a matrix that is to be copied


def gemm(
    a: Array,
    b: Array,
    bias: Array | None = None,
    *,
    # parameters: activation threads
    activation: Activation | None = None,
    threads: SupportsIndex | None = None,
    # end
    out: NDArray | None = None,
) -> NDArray:
    """Return the product of two matrices, ``activation(a @ b + bias)``.

    Parameters
    ----------
    a
        (M, K), float32 or float64 in native byte order. A view whose rows or columns lie side by
        side, such as a slice or a transposed matrix, is read in place; others are copied.
    b
        (K, N), dtype and views as ``a``. Where it stays the same, `Gemm` packs it once.
    bias
        None or (N,), dtype as ``a``; added to every row.
    activation
        None, or what is done to every sum: "relu", ("leaky_relu", slope) and all others of
        `conv2d`; the slopes of ("prelu", slopes) are a number for each column.
    threads
        None for all CPUs that this process may use, or a positive int; a small product takes fewer.
        The result does not depend on it.
    out
        None for a new array, or one of shape (M, N) to write to, whose columns lie side by side; it
        may overlap no other argument.

    Returns
    -------
    (M, N): ``out``, or a new C-contiguous array.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work; also TypeError and ValueError.
    BuildError
        When no kernel can be compiled.
    OutOfMemory
        When an array or the workspace cannot be allocated; also MemoryError.

    >>> import numpy as np
    >>> a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.eye(3, dtype=np.float32)
    >>> gemm(a, b, np.float32([0, -1, -9]), activation="relu").tolist()
    [[0.0, 0.0, 0.0], [3.0, 3.0, 0.0]]
    """
    b = _matrix("b", b)
    request = _Request.of(b, bias, activation, threads)
    a = _left(a, b)
    view = None if out is None else _writeable(out, (len(a), b.shape[1]), {"a": a, "b": b,
                                               "bias": request.bias})  # fmt: skip
    if not len(a) or not b.shape[1]:
        return memory.empty((len(a), b.shape[1]), a.dtype, "output") if view is None else view
    if not a.shape[1]:
        a, b = np.zeros((len(a), 1), a.dtype), np.zeros((1, b.shape[1]), b.dtype)
    a, b = _readable("a", a), _readable("b", b)
    columns = b.shape[1]
    place, right, row = _placed(a), _placed(b), _row(view, columns)
    dtype = arguments.DTYPE_NAMES[b.dtype]
    problem = ProductProblem(
        len(a), columns, len(b), dtype, place, right, row, False, request.epilogue
    )
    call = prepare(problem, request.threads, *_environment())
    return call(a, b, request.constants(call, None), view)


class Gemm(Weighted):
    """``activation(a @ b + bias)`` for many ``a``, with ``b`` packed once.

    The arguments are the same as for `gemm`. The matrices may change later, what was packed stays.

    >>> import numpy as np
    >>> product = Gemm(np.eye(3, dtype=np.float32))
    >>> product(np.float32([[1, 2, 3]])).tolist()
    [[1.0, 2.0, 3.0]]
    """

    def __init__(
        self,
        b: Array,
        bias: Array | None = None,
        *,
        # parameters: activation threads
        activation: Activation | None = None,
        threads: SupportsIndex | None = None,
        # end
        tuning: Tuning | None = None,
    ):
        """Pack ``b``. ``tuning``: other sizes of blocks, and other prefetching, than by default."""
        given = _matrix("b", b)
        self._request = _Request.of(
            given, None if bias is None else np.array(bias), activation, threads
        )
        self._b = memory.empty(given.shape, given.dtype, "copy of b")
        self._b[...] = given
        self._tuning = tuning
        self._forget()

    _STATE = ("_b", "_request", "_tuning")

    def _forget(self) -> None:
        super()._forget()
        self._environment = _environment()
        self._constants: tuple[Any, ...] | None = None
        columns = self._b.shape[1]
        b = self._b if len(self._b) else np.zeros((1, columns), self._b.dtype)
        self._terms = len(b)
        if b.size:
            call = self._call(1, (self._terms, 1), columns)
            self._constants = self._request.constants(call, call.pack(b))

    @property
    def shape(self) -> tuple[int, int]:
        """(K, N), of ``b``."""
        return self._b.shape[0], self._b.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Of all matrices."""
        return self._b.dtype

    def __call__(self, a: Array, *, out: NDArray | None = None) -> NDArray:
        """Return the product with ``a``, (M, K), in ``out`` if that is given; see `gemm`."""
        a = arguments.float_array("a", a)
        terms, columns = self.shape
        if a.ndim != 2 or a.shape[1] != terms or a.dtype != self.dtype:
            _refuse_left(a, terms, self.dtype)
        rows = len(a)
        view = None
        if out is not None:
            view = _writeable(out, (rows, columns), {"a": a, "bias": self._request.bias})
        if self._constants is None or not rows:
            return memory.empty((rows, columns), a.dtype, "output") if view is None else view
        if not terms:
            a = np.zeros((rows, 1), a.dtype)
        key = (rows, a.strides, None if view is None else view.strides)
        call = self._bound.get(key) if a.flags.aligned else None
        if call is None:
            given, a = a, _readable("a", a)
            call = self._call(rows, _placed(a), _row(view, columns))
            if a is given:
                with self._lock:
                    self._keep(key, call)
        return call(a, None, self._constants, view)

    def plan(self, input_shape: tuple[int, ...]) -> Plan:
        """Return what a call with an ``a`` of this shape, (M, K), does; nothing is compiled.

        Its seconds are what multiply-adds, or else arrays, take at least. Raises InvalidValue for a
        shape that does not fit.
        """
        shape = arguments.input_shape(input_shape)
        if len(shape) != 2 or shape[1] != self.shape[0] or 0 in (shape[0], *self.shape):
            raise InvalidValue(
                f"a: got shape {shape}; allowed: (M, {self.shape[0]}), as b has {self.shape[0]} "
                "rows, and nothing empty"
            )
        problem = self._problem(shape[0], (shape[1], 1), self.shape[1])
        request, machine = Request(threads=self._request.threads), self._environment[1]
        query = Query.here(problem, request, host_target(), machine)
        return replace(Plan.of(Products().offer(query)), machine=described())

    @property
    def source(self) -> str:
        """The C of the kernel."""
        return self._call(1, (self._terms, 1), self.shape[1]).kernel.source

    def _call(self, rows: int, place: Place, c_row: int) -> ProductCall:
        problem = self._problem(rows, place, c_row)
        return prepare(problem, self._request.threads, *self._environment)

    def _problem(self, rows: int, place: Place, c_row: int) -> ProductProblem:
        columns, dtype = self.shape[1], arguments.DTYPE_NAMES[self.dtype]
        sizes = rows, columns, self._terms, dtype, place, (columns, 1), c_row, True
        return ProductProblem(*sizes, self._request.epilogue, self._tuning)


class _Request(NamedTuple):
    """What is to be done beside the product."""

    bias: np.ndarray | None
    slopes: np.ndarray | None
    epilogue: Epilogue
    threads: int

    @classmethod
    def of(cls, b: np.ndarray, bias: Any, activation: Any, threads: Any) -> _Request:
        columns = b.shape[1]
        if bias is not None:
            bias = arguments.float_array("bias", bias)
            arguments.same_dtype("bias", bias, b.dtype, "b")
            if bias.shape != (columns,):
                raise InvalidValue(
                    f"bias: got shape {bias.shape}; allowed: ({columns},), one for each column of b"
                )
            bias = memory.contiguous(bias, "bias")
        epilogue = arguments.activation(activation)
        slopes = arguments.slopes(activation, columns, b.dtype, "column of b")
        return cls(bias, slopes, epilogue, arguments.threads(threads))

    def constants(self, call: ProductCall, packed: np.ndarray | None) -> tuple[Any, ...]:
        """What a product takes of arrays that stay the same, which this keeps alive."""
        return tuple(map(call.kernel.pointer, (packed, self.bias, self.slopes)))


def _matrix(argument: str, value: Any) -> np.ndarray:
    array = arguments.float_array(argument, value)
    if array.ndim != 2:
        raise InvalidValue(f"{argument}: got shape {array.shape}; allowed: 2 axes")
    if max(array.shape) > arguments.LARGEST:
        raise InvalidValue(
            f"{argument}: got shape {array.shape}; allowed: sizes of at most {arguments.LARGEST}"
        )
    return array


def _left(a: Any, b: np.ndarray) -> np.ndarray:
    a = _matrix("a", a)
    if a.shape[1] != len(b) or a.dtype != b.dtype:
        _refuse_left(a, len(b), b.dtype)
    return a


def _refuse_left(a: np.ndarray, terms: int, dtype: np.dtype) -> None:
    """Raise what is wrong with the left factor."""
    _matrix("a", a)
    arguments.same_dtype("a", a, dtype, "b")
    raise InvalidValue(f"a: got shape {a.shape}; allowed: (M, {terms}), as b has {terms} rows")


def _placed(array: np.ndarray) -> Place:
    """Where the numbers of a matrix lie; (0, 0) if neither rows nor columns are contiguous.

    >>> array = np.zeros((5, 8))
    >>> [_placed(one) for one in (array[:, 1:3], array.T, array[:, ::2])]
    [(8, 1), (1, 8), (0, 0)]
    """
    rows, columns = array.shape
    size = array.itemsize
    row, column = array.strides
    if not array.flags.aligned or row % size or column % size:
        return _NOWHERE
    row, column = row // size, column // size
    if column == 1 or columns == 1:
        return (columns if rows == 1 else row), 1
    return (1, column) if row == 1 or rows == 1 else _NOWHERE


def _readable(argument: str, array: np.ndarray) -> np.ndarray:
    """Return the matrix, copied if kernels can't read it as it lies."""
    return memory.contiguous(array, argument) if _placed(array) == _NOWHERE else array


def _row(out: np.ndarray | None, columns: int) -> int:
    """From one row of the output to the next."""
    return columns if out is None or len(out) == 1 else out.strides[0] // out.itemsize


def _writeable(out: Any, shape: tuple[int, int], others: dict[str, Any]) -> np.ndarray:
    """Return ``out`` as a plain array; raises InvalidType and InvalidValue."""
    view = seams.plain_output(out, others["a"].dtype, shape, "a")
    for name, other in others.items():
        if other is not None and seams.share_memory(view, other):
            raise InvalidValue(
                f"out: got an array that overlaps {name}; allowed: memory of its own"
            )
    if view.flags.carray:
        return view
    flags, size = view.flags, view.itemsize
    allowed = "an aligned and writeable array whose columns lie side by side"
    if not (flags.aligned and flags.writeable):
        wrong = "not aligned" if flags.writeable else "not writeable"
        raise InvalidValue(f"out: got an array that is {wrong}; allowed: {allowed}")
    row, column = view.strides
    wide = shape[1] <= 1 or column == size
    high = shape[0] <= 1 or (row >= shape[1] * size and row % size == 0)
    if view.size and not (wide and high):
        raise InvalidValue(f"out: got strides {view.strides}; allowed: {allowed}")
    return view


_Surroundings = tuple[tuple[str, str], Machine, Environment]


def _environment() -> _Surroundings:
    """What a call depends on besides its arguments; of the target the variables that choose it.

    Finding the target takes longer than many a product.
    """
    return (
        (environment.value("WINOGEN_CPU"), environment.value("WINOGEN_ISA")),
        current(),
        Environment.now(),
    )


@remembered(1024)
def prepare(
    problem: ProductProblem,
    threads: int,
    chosen: tuple[str | None, str | None],
    machine: Machine,
    environment: Environment,
) -> ProductCall:
    """Return a product planned for this machine and bound to its compiled kernel.

    ``chosen``: WINOGEN_CPU and WINOGEN_ISA.
    """
    query = Query.here(problem, Request(threads=threads), host_target(), machine)
    return Products().offer(query).bind(environment)
