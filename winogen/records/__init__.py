"""records: plain data that every other folder may know."""

from winogen.records.machine import Machine

__all__ = ["Machine"]
