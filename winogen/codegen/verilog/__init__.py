"""Transforms as Verilog: modules of adders and shifts with ports as wide as their values."""

from winogen.codegen.verilog.module import Module, Port, module

__all__ = ["Module", "Port", "module"]
