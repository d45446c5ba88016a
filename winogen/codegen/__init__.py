"""codegen: from algorithms and templates to readable C: headers, kernels, standalone files."""
