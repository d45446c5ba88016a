"""onnx: models rewritten to winogen's operators, and the library that onnxruntime runs them by.

>>> import winogen.onnx
>>> winogen.onnx.get_library_path().endswith(".so")
True
"""

from winogen.onnx.carrying import build_library
from winogen.onnx.library import get_library_path
from winogen.onnx.report import Report, report
from winogen.onnx.rewrite import optimize

__all__ = ["Report", "build_library", "get_library_path", "optimize", "report"]
