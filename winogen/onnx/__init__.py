"""onnx: ONNX models rewritten to winogen's operators, and the library that onnxruntime runs them by."""
