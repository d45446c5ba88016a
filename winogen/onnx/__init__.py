"""onnx: models rewritten to winogen's operators or to 8 bits, and the library that runs them.

>>> import winogen.onnx
>>> winogen.onnx.get_library_path().endswith(".so")
True
"""

from winogen.onnx.bundling import bundle
from winogen.onnx.carrying import build_library
from winogen.onnx.comparison import Difference, differences
from winogen.onnx.library import get_library_path
from winogen.onnx.quantization import quantize
from winogen.onnx.report import Report, report
from winogen.onnx.rewrite import optimize

__all__ = [
    "Difference",
    "Report",
    "build_library",
    "bundle",
    "differences",
    "get_library_path",
    "optimize",
    "quantize",
    "report",
]


def __dir__() -> list[str]:
    return __all__
