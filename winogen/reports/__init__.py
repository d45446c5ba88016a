"""Reports on accuracy: one page of HTML, and the same figures as JSON and CSV.

`write_catalog_report` measures every transform of the catalog beside what others have published,
and whole layers beside PyTorch; `write_layer_report` takes one layer with the user's own weights
and input; `write_net_report` writes what number formats do to a net. All measure first
(`catalog_report`, `layer_report` return plain data), then draw and write.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "Case": "layers",
    "catalog_report": "reports",
    "layer_report": "reports",
    "write_catalog_report": "reports",
    "write_layer_report": "reports",
    "write_net_report": "reports",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(import_module(f"winogen.reports.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'winogen.reports' has no attribute {name!r}")
