"""The page: one file of HTML with its pictures inside, made from a report's document alone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winogen.charts import add_legend, new_figure, svg_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Characters that a cell has at most beside many others, and columns that are few.
_LINE, _FEW = 24, 6
_TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True)
class Section:
    """A part of a page: sentences, a picture, a table."""

    title: str
    lines: Sequence[str] = ()
    paint: Callable[[Axes], None] | None = None
    rows: Sequence[dict[str, Any]] = field(default=())  # column -> what `cell` writes
    height: float = 4.8  # inches, of the picture

    @property
    def columns(self) -> list[str]:
        """All columns of the table."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def tables(self) -> list[list[str]]:
        """The columns of each table: those of long texts have one of their own, which has room."""
        long = [name for name in self.columns[1:] if self.kind(name) == "text long"]
        short = [name for name in self.columns if name not in long]  # the first names the row
        if len(self.columns) <= _FEW or not long:
            return [self.columns] if self.rows else []
        return [short, [short[0], *long]]

    def is_text(self, name: str) -> bool:
        """Whether a column is read as text, from the left."""
        return any(isinstance(row.get(name), (str, list, tuple)) for row in self.rows)

    def kind(self, name: str) -> str:
        """Return the classes of a column's cells: numbers, texts, texts that need a line."""
        if not self.is_text(name):
            return "number"
        most = max(len(cell(row.get(name))) for row in self.rows)
        return "text long" if most > _LINE and name != self.columns[0] else "text"

    @property
    def picture(self) -> str:
        """The picture as SVG in base64; "" without one."""
        if self.paint is None:
            return ""
        figure, axes = new_figure(height=self.height)
        self.paint(axes)
        add_legend(figure)
        return b64encode(svg_text(figure).encode()).decode()


def render(document: dict, files: Sequence[str] = ()) -> str:
    """Return the HTML text of a document of `catalog_report`, `layer_report` or of a net.

    ``files``: names of the files beside it that the page mentions.
    """
    # The module of each kind has the title of its page, and the sections.
    title, sections = import_module(f"winogen.reports.{document['kind']}_page").page(document)
    return page_of(title, sections, files, document["made_by"])


def page_of(
    title: str, sections: Sequence[Section], files: Sequence[str], made_by: Mapping[str, str]
) -> str:
    """Return the HTML text of these sections; ``made_by``: names of programs, their versions."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["cell"] = cell
    template = environment.get_template("page.html.j2")
    return template.render(title=title, sections=sections, files=files, made_by=made_by)


def cell(value: Any) -> str:
    """Return what stands in a table.

    >>> [cell(x) for x in (2.6178e-7, 0.0, 0.25, 1234567, None, [["0", "1"], None], "mcmr", True)]
    ['2.62e-7', '0', '0.25', '1,234,567', '–', '0 1; –', 'mcmr', 'yes']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0 or 0.01 <= abs(value) < 1e6:
            return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        digits, exponent = f"{value:.2e}".split("e")
        return f"{digits}e{int(exponent)}"
    if isinstance(value, (list, tuple)):
        nested = any(isinstance(one, (list, tuple)) for one in value)
        return ("; " if nested else " ").join(map(cell, value)) or "–"
    return str(value)
