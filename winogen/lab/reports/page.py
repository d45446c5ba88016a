"""The page: one file of HTML with its pictures inside, made from a report's document alone."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_PICTURES = {"catalog": "catalog_pictures", "layer": "own_pictures", "net": "net_pictures"}
# Arguments of `Conv2d` that need no mention, as JSON has them.
_DEFAULTS = {"stride": [1, 1], "padding": [[0, 0], [0, 0]], "dilation": [1, 1], "groups": 1}


def render(document: dict, tables: Sequence[str] = ()) -> str:
    """Return the HTML text of a document of `catalog_report`, `layer_report` or of a net.

    ``tables``: names of the files beside it that the page mentions.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    pictures = import_module(f"winogen.lab.reports.{_PICTURES[document['kind']]}").pictures
    from winogen.lab.reports.catalog_pictures import short_name

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        error=error_text,
        times=times_text,
        decibels=decibels_text,
        number=number_text,
        python=python_text,
        points=points_text,
        layer_title=layer_title,
    )
    drawn = {
        name: {kind: Markup(svg) for kind, svg in kinds.items()}
        for name, kinds in pictures(document).items()
    }
    template = environment.get_template(f"{document['kind']}.html.j2")
    return template.render(
        document=document,
        pictures=drawn,
        tables=tables,
        short_name=short_name,
        defaults=_DEFAULTS,
    )


def error_text(value: float | None) -> str:
    """An error in three digits.

    >>> error_text(2.6178e-7), error_text(0.0), error_text(None)
    ('2.62e-7', '0', '–')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if 0.01 <= value < 1000:
        return f"{value:.3g}"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def times_text(value: float | None) -> str:
    """A ratio: 0.63."""
    return "–" if value is None else f"{value:.2f}"


def decibels_text(value: float | None) -> str:
    """A PSNR: 68.2; None is of an exact result, or of nothing.

    >>> decibels_text(68.24), decibels_text(-3.0)
    ('68.2', '−3.0')
    """
    return "–" if value is None else f"{value:.1f}".replace("-", "−")


def number_text(value: float) -> str:
    """A count with thousands apart, or four digits of another number."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def python_text(value: Any) -> str:
    """A value of JSON as one would type it: pairs as tuples, twice the same number once.

    >>> python_text([[1, 1], [1, 1]]), python_text([1, 2]), python_text("mcmr")
    ('1', '(1, 2)', "'mcmr'")
    """
    if isinstance(value, list):
        texts = [python_text(item) for item in value]
        if len(texts) == 2 and texts[0] == texts[1]:
            return texts[0]
        return f"({', '.join(texts)})"
    return repr(value)


def layer_title(layer: dict) -> str:
    """The name of a layer, or what it is where only its shapes were named.

    >>> shapes = {"input": [1, 64, 56, 56], "weight": [32, 64, 3, 3], "stride": [2, 2], "groups": 1}
    >>> layer_title({"name": "1,64,56,56:32,64,3,3", **shapes})
    '32 filters of 3×3 at stride 2 on 64 channels of 56×56'
    >>> layer_title({"name": "conv2_1", **shapes})
    'conv2_1'
    """
    shapes = ":".join(",".join(map(str, layer[key])) for key in ("input", "weight"))
    if "".join(layer["name"].split()) != shapes:
        return layer["name"]
    batch, channels, *size = layer["input"]
    filters, _, *taps = layer["weight"]
    strides = [layer["stride"]] if isinstance(layer["stride"], int) else layer["stride"]
    parts = [
        f"{filters} {'filter' if filters == 1 else 'filters'} of {'×'.join(map(str, taps))}",
        "" if set(strides) == {1} else f"at stride {'×'.join(map(str, dict.fromkeys(strides)))}",
        f"in {layer['groups']} groups" if layer["groups"] > 1 else "",
        f"on {batch} images of" if batch > 1 else "on",
        f"{channels} {'channel' if channels == 1 else 'channels'} of {'×'.join(map(str, size))}",
    ]
    return " ".join(filter(None, parts))


def points_text(points: Sequence, moduli: Sequence = ()) -> str:
    """The points or moduli along height and width, once where they are alike.

    >>> points_text([["0", "-1/2", "inf"], ["0", "-1/2", "inf"]])
    '0, −1/2, ∞'
    """
    along = [one or other for one, other in zip_longest(points, moduli)]
    texts = [", ".join(one) for one in along if one]
    # A true minus is not a place to break a line.
    return "; ".join(dict.fromkeys(texts)).replace("-", "−").replace("inf", "∞") or "–"
