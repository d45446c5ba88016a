"""F(m, r) as transforms: from the catalog if it is there, else derived.

What does not ship is derived, verified, simplified and rendered on first use; what was searched for
is kept by whoever `keeping.keep_by` names.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import index as as_index
from typing import TYPE_CHECKING, Any

from winogen.codegen.keeping import kept
from winogen.codegen.naming import derive_command, digest_name
from winogen.codegen.shipped import entry_made_of, entry_name, entry_of, from_catalog, is_shipped
from winogen.codegen.transform import Transform, check_programs, transform_of
from winogen.errors import InvalidType, InvalidValue
from winogen.program.iterated import programs_of
from winogen.program.kinds import KINDS
from winogen.program.summation import PROGRAM, check_order
from winogen.spelling import ITERATED

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.typing import Exact, ExactPolynomial


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
        entry = entry_of(m, r, name)
        stride = entry.get("stride", 1)
        if order == PROGRAM:
            return from_catalog(name)
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
    return transform_of(*_searched(algorithm, name, source, command, scale, order))


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
        programs = programs_of(algorithm, order)
    name = name or digest_name(algorithm) + ("" if order == PROGRAM else f"_{order}")
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
    transform = transform_of(data, str(header))
    check_programs(transform.matrices, data["programs"])
    return transform


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
        return from_catalog(entry_name(m, r, stride=stride))  # without deriving anything
    algorithm, source = derive(m, r, points, moduli, stride)
    made_of: dict[str, list[str]] = {}
    if not default:
        option = "points" if moduli is None else "moduli"
        values = [str(value) for value in getattr(algorithm, option)]
        made_of = {option: values}
        # The order of the products does not matter: the same set is the same algorithm.
        shipped = entry_made_of(m, r, option, values)
        if order == PROGRAM and shipped is not None:
            return from_catalog(shipped)
        name = None
    if order != PROGRAM:
        name = name and f"{name}_{order}"
    command = derive_command(m, r, "c", made_of, order, stride)
    if order != PROGRAM:  # nothing is searched for
        return from_algorithm(algorithm, name, source=source, command=command, order=order)
    algorithm.verify()
    how = name, source, command
    transform: Transform = kept(
        ["transform", algorithm.to_dict(), *how], lambda: _searched(algorithm, *how), _checked
    )
    return transform


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
        if algebra.parse_points(points) == (ITERATED,):
            return algorithm, "default points of two algorithms, the second within the first"
        return algorithm, "given by the caller"
    if algorithm.moduli:
        return algorithm, DEFAULT_MODULI
    if not algorithm.points:
        return algorithm, "one product per coefficient, nothing to transform"
    return algorithm, algebra.default_points(m, r).source


def _made_of(algorithm: BilinearAlgorithm) -> str:
    values = algorithm.moduli or algorithm.points
    return " on " + ", ".join(map(str, values)) if values else ""


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
