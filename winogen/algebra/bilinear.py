"""Bilinear algorithms for correlation: three exact matrices, and the proof that they are right.

    y = A^T [ (G g) * (B^T d) ]        (* element by element)

computes y[i] = sum_k g[k] d[i+k], the m outputs of a filter of r taps on n = m + r - 1 inputs; with
a stride s, y[i] = sum_k g[k] d[s*i+k] on n = s (m - 1) + r inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from winogen.algebra.decomposition import Decomposition, check_shape
from winogen.algebra.figures import Condition, Operations, condition
from winogen.algebra.latex import displayed, equations
from winogen.algebra.maps import correlation, polynomial_product, relabel
from winogen.algebra.moduli import Modulus, parse_moduli
from winogen.algebra.points import Point, check_size, check_stride, parse_points
from winogen.algebra.scalar import Matrix, Scalar, as_scalar, matrix, to_sympy
from winogen.errors import InvalidType, InvalidValue
from winogen.spelling import in_one_line

if TYPE_CHECKING:
    import numpy as np
    import sympy
    from numpy.typing import DTypeLike


_SHOWN = 8  # points or moduli that `repr` lists


@dataclass(frozen=True, repr=False)
class BilinearAlgorithm:
    """F(m, r): m outputs of an r-tap filter from n inputs by ``products`` products.

    Made by ``cook_toom``, ``winograd`` and ``strided``; immutable, and every change of form returns
    a new one.

    >>> from winogen.algebra import cook_toom
    >>> f = cook_toom(2, 3)
    >>> f.m, f.r, f.n, f.products, f.verify()
    (2, 3, 4, 4, True)
    >>> f.BT
    Matrix([
    [1,  0, -1, 0],
    [0,  1,  1, 0],
    [0, -1,  1, 0],
    [0, -1,  0, 1]])
    """

    m: int
    r: int
    at: Matrix  # A^T: output rows x products
    g: Matrix  # G: products x r
    bt: Matrix  # B^T: products x input columns
    points: tuple[Point, ...] | None = (
        None  # Scalars, INFINITY, WITHIN; () needs none; None when made by moduli
    )
    moduli: tuple[Modulus, ...] | None = None  # Polynomials and INFINITY; None when made by points
    # "fir": y[i] = sum g[k] d[i+k], n inputs and m outputs. "linear": the transposed problem,
    # s[k] = sum g[j] h[k-j], m inputs and n outputs.
    form: str = "fir"
    stride: int = 1  # inputs from one output to the next

    def __post_init__(self) -> None:
        check_size(self.m, self.r)
        if self.form not in ("fir", "linear"):
            raise InvalidValue(f"form: got {self.form!r}; allowed: 'fir', 'linear'")
        check_stride(self.stride)
        for name in ("at", "g", "bt"):
            object.__setattr__(self, name, matrix(getattr(self, name), name))
        inputs, outputs = (self.n, self.m) if self.form == "fir" else (self.m, self.n)
        check_shape("at", self.at, outputs, self.products)
        check_shape("g", self.g, self.products, self.r)
        check_shape("bt", self.bt, self.products, inputs)

    @property
    def n(self) -> int:
        """The number of inputs of one tile, stride * (m - 1) + r."""
        return self.stride * (self.m - 1) + self.r

    @property
    def products(self) -> int:
        """The number of general multiplications; at stride 1 n at the least."""
        return len(self.g)

    @property
    def matrices(self) -> dict[str, Matrix]:
        """The matrix of every transform: {"input": B^T, "filter": G, "output": A^T}."""
        return {"input": self.bt, "filter": self.g, "output": self.at}

    @property
    def AT(self) -> sympy.Matrix:
        """A^T as a sympy matrix, m x products."""
        return _sympy_matrix(self.at)

    @property
    def G(self) -> sympy.Matrix:
        """G as a sympy matrix, products x r."""
        return _sympy_matrix(self.g)

    @property
    def BT(self) -> sympy.Matrix:
        """B^T as a sympy matrix, products x n."""
        return _sympy_matrix(self.bt)

    def arrays(self, dtype: DTypeLike = "float64") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (A^T, G, B^T) as numpy arrays, each entry rounded from its exact value.

        Shapes: m x products, products x r, products x n. ``dtype``: a floating-point type of numpy.

        >>> from winogen.algebra import cook_toom
        >>> [matrix.shape for matrix in cook_toom(4, 3).arrays()]
        [(4, 6), (6, 3), (6, 6)]
        """
        import numpy

        def rounded(rows: Matrix) -> np.ndarray:
            return numpy.array([[float(c) for c in row] for row in rows], dtype)

        return rounded(self.at), rounded(self.g), rounded(self.bt)

    def latex(self) -> str:
        r"""Return A^T, G and B^T as LaTeX, after two lines of comment.

        A row of a matrix is a line, or as many as it takes with at most 100 columns.

        >>> from winogen.algebra import cook_toom
        >>> print(cook_toom(1, 2).latex())
        % F(1, 2):
        % y = A^T \left[ (G g) \odot (B^T d) \right]
        A^T = \begin{bmatrix}
          1 & 1
        \end{bmatrix}
        G = \begin{bmatrix}
          1 & 0 \\
          0 & 1
        \end{bmatrix}
        B^T = \begin{bmatrix}
          1 & 0 \\
          0 & 1
        \end{bmatrix}
        """
        origin = in_one_line(self.moduli or self.points or ())
        head = f"F({self.m}, {self.r}){self._strided}: {origin}".rstrip()
        lines = wrap(head, 100, initial_indent="% ", subsequent_indent="%   ")
        lines.append(r"% y = A^T \left[ (G g) \odot (B^T d) \right]")
        return "\n".join([*lines, *equations(self._named)])

    def _repr_latex_(self) -> str | None:
        """What notebooks show."""
        return displayed(self._named)

    @property
    def _named(self) -> tuple[tuple[str, Matrix], ...]:
        return ("A^T", self.at), ("G", self.g), ("B^T", self.bt)

    @cached_property
    def operations(self) -> dict[str, Operations]:
        """The operations of every transform: {"input": B^T, "filter": G, "output": A^T}.

        Short programs of the catalog's algorithms ship, others take seconds to find.

        >>> import winogen
        >>> winogen.cook_toom(4, 3).operations["filter"]
        Operations(additions=6, multiplications=8, matrix_additions=8, matrix_multiplications=13)
        """
        # Programs are made of what is here, further down; the front door knows where.
        from winogen import programs

        made = programs(self)
        return {kind: Operations.of(rows, made[kind]) for kind, rows in self.matrices.items()}

    @property
    def condition(self) -> dict[str, Condition]:
        """The condition numbers of every transform: {"input": B^T, "filter": G, "output": A^T}.

        B^T is made of the inverse of a Vandermonde matrix, the others of its columns. Points close
        to each other, or far from 1, make them ill-conditioned (Pan, How bad are Vandermonde
        matrices?, 2016), as do unequal factors of ``scale``. A large number allows a large error
        and does not prove one: `winogen.numerics` estimates and measures errors.

        >>> from winogen.algebra import cook_toom
        >>> cook_toom(4, 3).condition["input"].infinity
        Fraction(27885, 1792)
        """
        return {kind: condition(matrix) for kind, matrix in self.matrices.items()}

    def __call__(self, g: Sequence[Scalar | int], d: Sequence[Scalar | int]) -> tuple[Scalar, ...]:
        """Run the algorithm exactly on filter ``g`` (r taps) and inputs ``d`` (n; m if linear).

        Raises
        ------
        InvalidValue
            Another number of taps or inputs.

        >>> from winogen.algebra import cook_toom
        >>> [int(y) for y in cook_toom(2, 3)([1, 10, 100], [1, 2, 3, 4])]
        [321, 432]
        """
        return self.decomposition(g, d)

    @property
    def decomposition(self) -> Decomposition:
        """The three matrices as an algorithm for a bilinear map: correlation, or its transpose."""
        if self.form == "fir":
            return Decomposition(correlation(self.m, self.r, self.stride), self.g, self.bt, self.at)
        name = f"F({self.m},{self.r}){self._strided}"
        linear = relabel(polynomial_product(self.r, self.m, self.stride), name)
        return Decomposition(linear, self.g, self.bt, self.at)

    def verify(self) -> bool:
        """Prove that the algorithm is right: sum_a A^T[i,a] G[a,j] B^T[a,k] = [k = s*i + j].

        (In the linear form the condition is [i = j + s*k].) `Decomposition.verify` is the proof.

        Raises
        ------
        VerificationError
            Names the first (i, j, k) that is wrong.
        """
        return self.decomposition.verify()

    def scale(
        self,
        input: Iterable[object] | None = None,
        filter: Iterable[object] | None = None,
        output: Iterable[object] | None = None,
    ) -> BilinearAlgorithm:
        """Multiply row a of B^T, row a of G and column a of A^T by input[a], filter[a], output[a].

        The three factors of a product must multiply to 1. A side that is left out takes what is
        missing: the filter if it is free (it is transformed only once), else the input, else the
        output.

        Raises
        ------
        InvalidValue
            Wrong number of factors, a factor 0, or factors that do not cancel.

        >>> from winogen.algebra import cook_toom
        >>> f = cook_toom(2, 3).scale(input=[1, -1, 1, -1])
        >>> f.verify(), f.g[1] == tuple(-c for c in cook_toom(2, 3).g[1])
        (True, True)
        """
        arguments = {"input": input, "filter": filter, "output": output}
        factors: dict[str, list[Scalar]] = {}
        for name, values in arguments.items():
            if values is None:
                continue
            factors[name] = [as_scalar(c, name) for c in values]
            if len(factors[name]) != self.products:
                raise InvalidValue(
                    f"{name}: got {len(factors[name])} factors; "
                    f"allowed: {self.products}, one per product"
                )
            if any(c == 0 for c in factors[name]):
                raise InvalidValue(f"{name}: got the factor 0; allowed: non-zero factors")
        ones = [as_scalar(1)] * self.products
        free = next((name for name in ("filter", "input", "output") if name not in factors), None)
        for name in arguments:
            factors.setdefault(name, ones)
        excess = [a * b * c for a, b, c in zip(*factors.values())]
        if free is not None:
            factors[free] = [1 / c for c in excess]
        elif any(c != 1 for c in excess):
            a = next(a for a, c in enumerate(excess) if c != 1)
            raise InvalidValue(
                f"input, filter, output: got factors of product {a} that multiply to {excess[a]}; "
                "allowed: 1"
            )
        return replace(
            self,
            at=tuple(tuple(c * f for c, f in zip(row, factors["output"])) for row in self.at),
            g=tuple(tuple(f * c for c in row) for row, f in zip(self.g, factors["filter"])),
            bt=tuple(tuple(f * c for c in row) for row, f in zip(self.bt, factors["input"])),
        )

    def balanced(self) -> BilinearAlgorithm:
        """Scale rows of B^T and of G by powers of 2 to norms near 1; A^T takes the rest.

        Transformed numbers are then about as large as the data, as formats with few bits of
        exponent want it. Other rounding errors stay the same, for sums in the same order.

        >>> from winogen.algebra import cook_toom
        >>> f = cook_toom(4, 3, "0, 1, -1, 4, -4, inf")
        >>> [float(abs(row[0])) for row in f.g[2:]]  # doctest: +ELLIPSIS
        [0.033..., 0.002..., 0.002..., 0.0]
        >>> largest = [float(max(map(abs, row))) for row in f.balanced().g[2:]]
        >>> [round(size, 2) for size in largest], f.balanced().verify()
        ([0.53, 1.07, 1.07, 1.0], True)
        """

        def factors(rows: Matrix) -> list[Scalar]:
            norms = (math.hypot(*(float(c) for c in row)) for row in rows)
            return [as_scalar(2) ** -round(math.log2(norm)) for norm in norms]

        return self.scale(input=factors(self.bt), filter=factors(self.g))

    def transpose(self) -> BilinearAlgorithm:
        """Return the algorithm of the transposed problem, by the matrix-exchange theorem.

        sum_a A^T[i,a] G[a,j] B^T[a,k] does not care which index is called an output: exchanging
        A^T with B turns correlation ("fir", n inputs to m outputs) into linear convolution
        ("linear", m inputs to n outputs) with the same products, and back.

        >>> from winogen.algebra import cook_toom
        >>> linear = cook_toom(2, 3).transpose()
        >>> linear.form, [int(s) for s in linear([1, 10, 100], [1, 2])]
        ('linear', [1, 12, 120, 200])
        """
        form = "linear" if self.form == "fir" else "fir"
        return replace(self, at=tuple(zip(*self.bt)), bt=tuple(zip(*self.at)), form=form)

    def exchange(self) -> BilinearAlgorithm:
        """Return F(r, m) with the same products and the same B^T: filter and outputs change places.

        With y[i] = sum_k g[k] d[i+k], the gradient of g is dg[k] = sum_i dy[i] d[i+k]: r outputs
        of a "filter" dy of m taps, on the same n inputs. So what F(m, r) is to a convolution, this
        is to the gradient of its weights: dg = G^T [ (A dy) * (B^T d) ].

        Raises
        ------
        InvalidValue
            The form is not "fir", or the stride is not 1.

        >>> from winogen.algebra import cook_toom
        >>> f = cook_toom(4, 3).exchange()
        >>> f, f.verify()
        (<BilinearAlgorithm F(3, 4) on 0, 5/8, -5/8, 3/2, -3/2, inf>, True)
        """
        if self.form != "fir":
            raise InvalidValue(f"form: got {self.form!r}; allowed: 'fir'")
        if self.stride != 1:
            raise InvalidValue(
                f"stride: got {self.stride}; allowed: 1, since a gradient's taps would lie apart"
            )
        turned = tuple(zip(*self.g)), tuple(zip(*self.at))
        return replace(self, m=self.r, r=self.m, at=turned[0], g=turned[1])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: numbers as text such as "-5/2", keys m, r, n, points, AT, G,
        BT, and moduli, form or stride where they apply.

        >>> from winogen.algebra import cook_toom
        >>> cook_toom(1, 2).to_dict()["G"]
        [['1', '0'], ['0', '1']]
        """
        data: dict[str, Any] = {
            "m": self.m,
            "r": self.r,
            "n": self.n,
            "points": _texts(self.points or ()),
        }
        if self.moduli is not None:
            data["moduli"] = _texts(self.moduli)
        if self.form != "fir":
            data["form"] = self.form
        if self.stride != 1:
            data["stride"] = self.stride
        for name, rows in (("AT", self.at), ("G", self.g), ("BT", self.bt)):
            data[name] = [_texts(row) for row in rows]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BilinearAlgorithm:
        """Read what ``to_dict`` wrote; other keys are left alone. Does not verify.

        Raises
        ------
        InvalidValue, InvalidType
            A key is missing, or holds what cannot be read.
        """
        if not isinstance(data, Mapping):
            raise InvalidType(f"data: got a {type(data).__name__}; allowed: a dict, from to_dict")
        try:
            moduli = data.get("moduli")
            return cls(
                m=data["m"],
                r=data["r"],
                at=data["AT"],
                g=data["G"],
                bt=data["BT"],
                points=parse_points(data["points"]) if moduli is None else None,
                moduli=None if moduli is None else parse_moduli(moduli),
                form=data.get("form", "fir"),
                stride=data.get("stride", 1),
            )
        except KeyError as error:
            raise InvalidValue(
                f"data: got no key {error}; allowed: m, r, points, AT, G, BT (and moduli, "
                "form, stride)"
            ) from None

    def __str__(self) -> str:
        return f"F({self.m},{self.r}){self._strided} with {self.products} products"

    def __repr__(self) -> str:
        values = _texts(self.points or self.moduli or ())
        if len(values) > _SHOWN:
            values[_SHOWN:] = ["..."]
        form = "" if self.form == "fir" else f" {self.form}"
        made_of = " by " if self.moduli else " on "
        text = made_of + in_one_line(values) if values else ""
        return f"<BilinearAlgorithm F({self.m}, {self.r}){self._strided}{form}{text}>"

    @property
    def _strided(self) -> str:
        return f" at stride {self.stride}" if self.stride != 1 else ""


def _sympy_matrix(rows: Matrix) -> sympy.Matrix:
    import sympy

    return sympy.Matrix([[to_sympy(c) for c in row] for row in rows])


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]
