"""Matrices of an algorithm as LaTeX: for papers in lines of their own, for notebooks in one."""

from __future__ import annotations

from collections.abc import Iterable

from winogen.algebra.scalar import Matrix, to_sympy

Named = Iterable[tuple[str, Matrix]]  # matrices with their names in LaTeX

_BEGIN, _END = r"\begin{bmatrix}", r"\end{bmatrix}"
_WIDTH = 100  # columns of text
_LARGEST = 16  # the most columns of a matrix that a notebook shows


def equations(matrices: Named) -> list[str]:
    """Return lines of at most 100 columns, ``name = matrix``: those of a row begin alike.

    >>> from winogen.algebra import cook_toom
    >>> print(*equations([("G", cook_toom(1, 2).g)]), sep="\\n")
    G = \\begin{bmatrix}
      1 & 0 \\\\
      0 & 1
    \\end{bmatrix}
    """
    lines = []
    for name, rows in matrices:
        lines += [f"{name} = {_BEGIN}", *_lines(rows), _END]
    return lines


def displayed(matrices: Named) -> str | None:
    """Return one formula of all matrices for a notebook, or None where they are too wide."""
    parts = []
    for name, rows in matrices:
        if max(map(len, rows)) > _LARGEST:
            return None
        parts.append(" ".join([f"{name} &= {_BEGIN}", *map(str.strip, _lines(rows)), _END]))
    whole = r" \\[1ex] ".join(parts)
    return rf"$\displaystyle \begin{{aligned}} {whole} \end{{aligned}}$"


def _lines(rows: Matrix) -> list[str]:
    """What stands between begin and end of a matrix."""
    import sympy

    lines = []
    for k, row in enumerate(rows):
        line = "  "
        entries = [sympy.latex(to_sympy(entry)) for entry in row]
        last = r" \\" if k + 1 < len(rows) else ""
        for text in [*(f"{entry} & " for entry in entries[:-1]), entries[-1] + last]:
            if len(line) + len(text.rstrip()) > _WIDTH and line.strip():
                lines.append(line.rstrip())
                line = "    "
            line += text
        lines.append(line)
    return lines
