"""1D transforms as the kernels use them: exact matrices, operation counts and C text.

What the catalog ships is read from ``transforms/`` and needs neither sympy nor Jinja2; anything
else is derived, verified, simplified and rendered on first use; what was searched for is kept by
whoever `keep_by` names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from operator import index as as_index
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from winogen import resources
from winogen.errors import InvalidType, InvalidValue
from winogen.program.ir import Program, exact
from winogen.program.kinds import KINDS
from winogen.program.summation import PROGRAM, check_order, ordered

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.algebra.residues import Residues
    from winogen.algebra.scalar import Matrix
    from winogen.typing import Exact, ExactPolynomial


# What keeps the result of a search: (key, make, check) -> check of what make returns, or returned
# in an earlier process; see `winogen.toolchain.derived`.
Keeper: TypeAlias = "Callable[[list[Any], Callable[[], Any], Callable[[Any], Any]], Any]"
_keeper: list[Keeper] = []

RESIDUES = "_residues"  # ends the names of transforms that leave complex products as such


@dataclass(frozen=True)
class Transform:
    """F(m, r) ready for use in C: y = A^T [(G g) ⊙ (B^T d)].

    >>> t = load(4, 3)
    >>> t.name, t.products, t.points[:3], t.ops["input"]["instructions"]
    ('f4_3', 6, ('0', '5/8', '-5/8'), 12)
    >>> len(t.g), len(t.g[0]), "winogen_f4_3_input" in t.header
    (6, 3, True)
    """

    name: str  # "f4_3", "f4_3_s2", "f4_3_<tag>" or, for others' points, "f4_3_<digest>"
    m: int  # outputs
    r: int  # taps
    n: int  # inputs, stride * (m - 1) + r
    products: int  # multiplications; n, or more where a modulus has degree 2 or above
    points: tuple[str, ...]  # exact, "inf" for infinity; () where moduli, parts or nothing made it
    moduli: tuple[str, ...]  # polynomials in x; () where points or nothing made it
    texts: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = field(repr=False)
    ops: dict[str, dict[str, int]] = field(
        repr=False, compare=False
    )  # as in `derive --format json`
    listings: dict[str, dict] = field(repr=False, compare=False)  # the programs as JSON, by kind
    header: str = field(repr=False)  # the C text of the whole header
    source: str = ""  # where the points or moduli come from
    order: str = PROGRAM  # in which the programs add, see `winogen.program.summation`
    stride: int = 1  # inputs from one output to the next
    # Of `residues`: w^2 + b w + c of the ring in which all rows behind the first ``reals`` are
    # multiplied pair by pair, and the instructions that join one axis' pairs with the other's:
    # those of one pair, those of two, for inputs and outputs.
    ring: tuple[str, ...] = ()
    reals: int = 0
    joins: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def step(self) -> int:
        """Inputs from one tile to the next."""
        return self.m * self.stride

    @cached_property
    def at(self) -> Matrix:
        """A^T, m x products, exact (Fractions, or algebraic scalars where a point is one).

        Its columns may be scaled against the rows of G; see ``winogen.program.search.scaling``.
        """
        return self._exact("at")

    @cached_property
    def g(self) -> Matrix:
        """G, products x r, exact."""
        return self._exact("g")

    @cached_property
    def bt(self) -> Matrix:
        """B^T, products x n, exact."""
        return self._exact("bt")

    @property
    def matrices(self) -> dict[str, Matrix]:
        """The matrix of every transform: {"input": B^T, "filter": G, "output": A^T}."""
        return {"input": self.bt, "filter": self.g, "output": self.at}

    @cached_property
    def programs(self) -> dict[str, Program]:
        """The programs of the C functions: {"input" | "filter" | "output": Program}."""
        return {kind: Program.from_json(data) for kind, data in self.listings.items()}

    @property
    def rows(self) -> int:
        """Numbers that an input becomes: products, or less where some are multiplied in pairs."""
        return len(dict(self.texts)["g"])

    @property
    def output_multiplies(self) -> int:
        """Multiplications of the output transform, those within multiply-adds included."""
        return self.ops["output"]["mul"]

    @cached_property
    def instructions(self) -> tuple[int, int, int]:
        """Instructions of one 1D transform once FMAs are formed: (input, filter, output)."""
        count = {kind: self.ops[kind]["instructions"] for kind in KINDS}
        return count["input"], count["filter"], count["output"]

    def __hash__(self) -> int:
        # Kernels are looked up by their transforms on every call; a text's hash is kept by Python.
        return hash(self.header)

    def _exact(self, matrix: str) -> Matrix:
        return tuple(tuple(map(exact, row)) for row in dict(self.texts)[matrix])


def load(
    m: int,
    r: int,
    points: str | Iterable[Exact] | None = None,
    name: str | None = None,
    *,
    moduli: str | Iterable[ExactPolynomial] | None = None,
    order: str = PROGRAM,
    stride: int = 1,
) -> Transform:
    """Return the transform F(m, r): from the catalog if it is there, else derived and rendered.

    ``points``: None for the default ones, text ("0,1,-1,inf") or a sequence of exact scalars.
    ``moduli``: polynomials instead of points, text ("x, x-1, x^2+1") or a sequence. ``name``: an
    entry of the catalog ("f4_3_classic"). ``order``: "program" for the shortest programs; "naive",
    "huffman" or "pairwise" to sum every row of the three matrices on its own, in this order. The
    same request returns the same object. ``stride``: inputs from one output to the next; above 1
    the polyphase parts of the filter have their default points.
    Raises InvalidValue for m, r or stride < 1, unknown names and orders, and point or moduli sets
    that do not fit.

    >>> load(4, 3, "0,1,-1,2,-2,inf").name
    'f4_3_classic'
    >>> load(4, 3, order="huffman").name, load(4, 3, stride=2).name
    ('f4_3_huffman', 'f4_3_s2')
    """
    check_order(order)
    m, r, stride = _count("m", m), _count("r", r), _count("stride", stride)
    if points is not None and moduli is not None:
        raise InvalidValue("moduli: got both moduli and points; allowed: one of them")
    if name is not None:
        entry = _entry(m, r, name)
        stride = entry.get("stride", 1)
        if order == PROGRAM:
            return _from_catalog(name)
        if name != entry_name(m, r, stride=stride):
            points, moduli = (tuple(entry[option]) or None for option in ("points", "moduli"))
    return _load(m, r, _freeze("points", points), _freeze("moduli", moduli), order, stride)


def from_algorithm(
    algorithm: BilinearAlgorithm,
    name: str | None = None,
    *,
    source: str = "",
    command: str | None = None,
    scale: bool = True,
    order: str = PROGRAM,
) -> Transform:
    """Verify a BilinearAlgorithm, shorten its three transforms and render them as a header.

    ``name``: how the C functions are called, by default one made of m, r and a digest of the
    matrices. ``source``: provenance for the head comment. ``command``: what the first line of the
    header says regenerates it. ``scale``: whether constants may move from B^T and A^T into G where
    that saves instructions. ``order``: as in ``load``; rows that are summed on their own stay as
    they are. Raises VerificationError if the algorithm is wrong.

    >>> from winogen.algebra import cook_toom
    >>> from_algorithm(cook_toom(2, 3), "mine", source="by hand").instructions
    (4, 4, 4)
    """
    algorithm.verify()
    return _transform(*_searched(algorithm, name, source, command, scale, order))


def keep_by(keeper: Keeper) -> None:
    """Have programs that are searched for kept by this from now on."""
    _keeper[:] = [keeper]


def _kept(key: list[Any], make: Callable[[], Any], check: Callable[[Any], Any]) -> Any:
    return _keeper[0](key, make, check) if _keeper else check(make())


def _searched(
    algorithm: BilinearAlgorithm,
    name: str | None,
    source: str,
    command: str | None,
    scale: bool = True,
    order: str = PROGRAM,
) -> tuple[dict[str, Any], str]:
    """A transform as plain data, and its header; see `from_algorithm`."""
    from winogen.codegen.headers import WRITE_COMMAND, render_header
    from winogen.program import shortest_transforms

    textbook = algorithm
    if scale and order == PROGRAM:
        short = shortest_transforms(algorithm)
        algorithm, programs = short.algorithm, short.programs
    else:
        programs = shorten(algorithm, order)
    name = name or _digest_name(algorithm) + ("" if order == PROGRAM else f"_{order}")
    data = algorithm.to_dict()
    ops = {kind: programs[kind].counts().to_dict() for kind in KINDS}
    header = render_header(
        algorithm,
        programs,
        name,
        source=source,
        textbook=textbook,
        command=command or WRITE_COMMAND,
        order=order,
    )
    listings = {kind: programs[kind].to_json() for kind in KINDS}
    data |= {"name": name, "ops": ops, "programs": listings, "source": source, "order": order}
    return data, header


def _checked(found: Any) -> Transform:
    """A transform that was kept, proven again. Raises whatever damaged data leads to."""
    from winogen.algebra import BilinearAlgorithm

    data, header = found
    BilinearAlgorithm.from_dict(data).verify()
    transform = _transform(data, str(header))
    _check_programs(transform.matrices, data["programs"])
    return transform


def _check_programs(matrices: Mapping[str, Matrix], listings: Mapping[str, Any]) -> None:
    for kind, matrix in matrices.items():
        Program.from_json(listings[kind]).verify(matrix)


def shorten(algorithm: BilinearAlgorithm | Residues, order: str = PROGRAM) -> dict[str, Program]:
    """Return {"input" | "filter" | "output": Program}, each proven equal to its matrix.

    The shortest ones that are found, unless ``order`` asks for sums row by row.
    """
    return {
        kind: ordered(matrix, order, KINDS[kind].source, KINDS[kind].target)
        for kind, matrix in algorithm.matrices.items()
    }


# ---- products that several axes join -----------------------------------------------------------


def joined(height: Transform, width: Transform) -> tuple[Transform, Transform]:
    """Return what both axes have before complex products are real ones, where they can be joined.

    Where one axis has none, or one in another ring, both transforms stay as they are.

    >>> f = load(6, 3, name="f6_3_gaussian")
    >>> h, w = joined(f, f)
    >>> h.name, h.rows, h.products, joined(f, load(6, 3))[0].name
    ('f6_3_gaussian_residues', 8, 9, 'f6_3_gaussian')
    """
    pair = residues(height), residues(width)
    if pair[0] is None or pair[1] is None or pair[0].ring != pair[1].ring:
        return height, width
    return pair[0], pair[1]


@lru_cache(maxsize=256)
def residues(transform: Transform) -> Transform | None:
    """Return the same F(m, r) with complex products as such; None where it has no complex ones."""
    if not transform.moduli:
        return None
    name, data = transform.name + RESIDUES, None
    if transform.order == PROGRAM and transform.name in catalog():
        data = catalog()[transform.name].get("residues")
    else:
        made_of = transform.m, transform.r, transform.moduli, transform.order
        data = _kept(["residues", *made_of], lambda: derive_residues(*made_of), _checked_residues)
    if data is None:
        return None
    shared = {"m": transform.m, "r": transform.r, "n": transform.n, "order": transform.order}
    shared |= {"points": (), "moduli": transform.moduli, "source": transform.source}
    return _transform({**shared, **data, "name": name}, transform.header)


def _checked_residues(data: Any) -> Any:
    """Residues that were kept, their programs proven again."""
    if data is not None:
        rows = {kind: data[name] for kind, name in (("input", "BT"), ("filter", "G"),
                                                    ("output", "AT"))}  # fmt: skip
        matrices = {
            kind: tuple(tuple(map(exact, row)) for row in matrix) for kind, matrix in rows.items()
        }
        _check_programs(matrices, data["programs"])
    return data


def derive_residues(
    m: int, r: int, moduli: Iterable[ExactPolynomial], order: str = PROGRAM
) -> dict[str, Any] | None:
    """Return the matrices and programs of F(m, r) by complex products, proven, as plain data.

    None where no modulus is of degree 2 without real roots.
    """
    from winogen import algebra
    from winogen.algebra.residues import is_complex, residues
    from winogen.program.pairs import instructions

    algorithm = algebra.winograd(m, r, moduli)
    if not any(map(is_complex, algorithm.moduli or ())):
        return None
    made = residues(algorithm)
    made.verify()
    programs = shorten(made, order)
    data: dict[str, Any] = {
        "ring": [str(made.ring.b), str(made.ring.c)],
        "reals": made.reals,
        "joins": instructions((str(made.ring.b), str(made.ring.c))),
    }
    for key, rows in (("AT", made.at), ("G", made.g), ("BT", made.bt)):
        data[key] = [[str(value) for value in row] for row in rows]
    data["ops"] = {kind: programs[kind].counts().to_dict() for kind in KINDS}
    data["programs"] = {kind: programs[kind].to_json() for kind in KINDS}
    return data


# ---- the catalog, as shipped ---------------------------------------------------------------------


@cache
def catalog() -> dict[str, dict[str, Any]]:
    """Return the generated index of the catalog: name -> the fields of ``derive --format json``,
    plus "source", "header" (a file name) and "products". Empty where nothing was generated yet."""
    path = _folder() / "index.json"
    return json.loads(path.read_text("utf-8"))["transforms"] if path.is_file() else {}


def entry_name(m: int, r: int, tag: str = "", stride: int = 1) -> str:
    """Return what the catalog calls F(m, r) at a stride, or one of its tagged variants.

    >>> entry_name(4, 3), entry_name(4, 3, "gaussian"), entry_name(4, 3, stride=2)
    ('f4_3', 'f4_3_gaussian', 'f4_3_s2')
    """
    return f"f{m}_{r}" + (f"_s{stride}" if stride > 1 else "") + (f"_{tag}" if tag else "")


def is_shipped(m: int, r: int, tag: str = "", stride: int = 1) -> bool:
    """Whether the catalog has F(m, r) at a stride, so that nothing need be derived."""
    return entry_name(m, r, tag, stride) in catalog()


def shipped_tiles(r: int, tag: str = "", stride: int = 1) -> list[int]:
    """Return every m for which the catalog has F(m, r) at a stride, with this tag."""
    sizes = sorted({entry["m"] for entry in catalog().values() if entry["r"] == r})
    return [m for m in sizes if is_shipped(m, r, tag, stride)]


def _folder() -> Path:
    return resources.folder("transforms")


@cache
def _from_catalog(name: str) -> Transform:
    entry = catalog()[name]
    return _transform({**entry, "name": name}, (_folder() / entry["header"]).read_text("utf-8"))


def _entry(m: int, r: int, name: str) -> dict[str, Any]:
    entry = catalog().get(name)
    if entry is None or (entry["m"], entry["r"]) != (m, r):
        names = [key for key, e in catalog().items() if (e["m"], e["r"]) == (m, r)]
        raise InvalidValue(
            f"name: got {name!r}; allowed for F({m}, {r}): {', '.join(names) or 'none'}"
        )
    return entry


def _transform(data: dict[str, Any], header: str) -> Transform:
    rows = len(data["G"])
    reals = data.get("reals", rows)
    return Transform(
        name=data["name"],
        m=data["m"],
        r=data["r"],
        n=data["n"],
        products=reals + 3 * ((rows - reals) // 2),
        points=tuple(map(str, data["points"])),
        moduli=tuple(map(str, data.get("moduli") or ())),
        texts=tuple(
            (key.lower(), tuple(tuple(map(str, row)) for row in data[key]))
            for key in ("AT", "G", "BT")
        ),
        ops=data["ops"],
        listings=data["programs"],
        header=header,
        source=data["source"],
        order=data.get("order", PROGRAM),
        stride=data.get("stride", 1),
        ring=tuple(data.get("ring", ())),
        reals=reals,
        joins=tuple(data.get("joins", (0, 0, 0, 0))),
    )


# ---- everything else -----------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _load(
    m: int,
    r: int,
    points: str | tuple[Any, ...] | None,
    moduli: str | tuple[Any, ...] | None,
    order: str,
    stride: int,
) -> Transform:
    name: str | None = entry_name(m, r, stride=stride)
    default = points is None and moduli is None
    if default and order == PROGRAM and is_shipped(m, r, stride=stride):
        return _from_catalog(entry_name(m, r, stride=stride))  # without deriving anything
    algorithm, source = derive(m, r, points, moduli, stride)
    made_of: dict[str, list[str]] = {}
    if not default:
        option = "points" if moduli is None else "moduli"
        values = [str(value) for value in getattr(algorithm, option)]
        made_of = {option: values}
        # The order of the products does not matter: the same set is the same algorithm.
        shipped = _catalog_name(m, r, option, values)
        if order == PROGRAM and shipped is not None:
            return _from_catalog(shipped)
        name = None
    if order != PROGRAM:
        name = name and f"{name}_{order}"
    command = derive_command(m, r, "c", made_of, order, stride)
    if order != PROGRAM:  # nothing is searched for
        return from_algorithm(algorithm, name, source=source, command=command, order=order)
    algorithm.verify()
    how = name, source, command
    transform: Transform = _kept(
        ["transform", algorithm.to_dict(), *how], lambda: _searched(algorithm, *how), _checked
    )
    return transform


def derive_command(
    m: int,
    r: int,
    format: str,
    made_of: Mapping[str, Iterable[str]],
    order: str = PROGRAM,
    stride: int = 1,
) -> str:
    """Return the command that writes F(m, r) in a format.

    ``made_of``: {"points" or "moduli": what was given}, or nothing.

    >>> derive_command(2, 3, "rust", {"points": ["0", "1", "-1", "inf"]}, "huffman")
    "winogen derive 2 3 --format rust --points '0,1,-1,inf' --order huffman"
    """
    words = [f"winogen derive {m} {r} --format {format}"]
    words += [f"--stride {stride}"] if stride > 1 else []
    words += [f"--{option} '{','.join(values)}'" for option, values in made_of.items()]
    words += [f"--order {order}"] if order != PROGRAM else []
    return " ".join(words)


def name_of(algorithm: BilinearAlgorithm, default: bool = False) -> str:
    """Return what functions of an algorithm are called: as the catalog has it, or by a digest.

    ``default``: whether nobody named its points or moduli.

    >>> from winogen.algebra import cook_toom
    >>> name_of(cook_toom(4, 3, "0,1,-1,2,-2,inf")), name_of(cook_toom(2, 3), default=True)
    ('f4_3_classic', 'f2_3')
    """
    m, r = algorithm.m, algorithm.r
    if default:
        return entry_name(m, r, stride=algorithm.stride)
    for option in ("points", "moduli"):
        values = [str(value) for value in getattr(algorithm, option) or ()]
        known = _catalog_name(m, r, option, values) if values else None
        if known is not None:
            return known
    return _digest_name(algorithm)


def _catalog_name(m: int, r: int, option: str, values: list[str]) -> str | None:
    for name, entry in catalog().items():
        if (entry["m"], entry["r"]) == (m, r) and sorted(entry[option]) == sorted(values):
            return name
    return None


def derive(
    m: int,
    r: int,
    points: str | Iterable[Exact] | None = None,
    moduli: str | Iterable[ExactPolynomial] | None = None,
    stride: int = 1,
) -> tuple[BilinearAlgorithm, str]:
    """Return an algorithm and its provenance, for given points or moduli or the default ones."""
    from winogen import algebra
    from winogen.algebra.circle import SOURCE as DEFAULT_MODULI

    if stride > 1:
        for name, value in (("points", points), ("moduli", moduli)):
            if value is not None:
                raise InvalidValue(
                    f"{name}: got {value!r} with stride {stride}; allowed: None, since the parts "
                    "of the filter have different sizes, and their default points"
                )
        algorithm = algebra.strided(m, r, stride)
        return algorithm, "the polyphase parts of the filter: " + "; ".join(
            f"F({m}, {len(taps)})" + _made_of(algebra.cook_toom(m, len(taps)))
            for taps in algebra.strided_parts(r, stride)
        )
    if moduli is not None:
        return algebra.winograd(m, r, moduli), "given by the caller"
    algorithm = algebra.cook_toom(m, r, points)
    if points is not None:
        return algorithm, "given by the caller"
    if algorithm.moduli:
        return algorithm, DEFAULT_MODULI
    if not algorithm.points:
        return algorithm, "one product per coefficient, nothing to transform"
    return algorithm, algebra.default_points(m, r).source


def _made_of(algorithm: BilinearAlgorithm) -> str:
    values = algorithm.moduli or algorithm.points
    return " on " + ", ".join(map(str, values)) if values else ""


def _digest_name(algorithm: BilinearAlgorithm) -> str:
    """f4_3_<digest>: the digest is of the matrices, so that scaled algorithms differ, too."""
    what = json.dumps([algorithm.to_dict()[key] for key in ("AT", "G", "BT")])
    digest = hashlib.sha256(what.encode()).hexdigest()[:8]
    return entry_name(algorithm.m, algorithm.r, digest, algorithm.stride)


def _freeze(name: str, values: object) -> str | tuple[Any, ...] | None:
    """Points or moduli as something hashable; what they mean is for the algebra to say."""
    if values is None or isinstance(values, str):
        return values
    if not isinstance(values, Iterable):
        raise InvalidType(f"{name}: got {values!r}; allowed: text or a sequence")
    return tuple(values)


def _count(name: str, value: Any) -> int:
    try:
        number = as_index(value)
    except TypeError:
        raise InvalidType(f"{name}: got {value!r}; allowed: an integer >= 1") from None
    if number < 1:
        raise InvalidValue(f"{name}: got {number}; allowed: an integer >= 1")
    return number
