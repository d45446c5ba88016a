"""Every exception that winogen raises on purpose.

Wrong values are also ``ValueError`` and wrong types also ``TypeError``, so code that knows nothing
of winogen can still catch them.
"""


class WinogenError(Exception):
    """The base of all errors of this package."""


class InvalidValue(WinogenError, ValueError):
    """An argument has a value that is not allowed; the message names it and what is."""


class InvalidType(WinogenError, TypeError):
    """An argument has a type (or dtype) that is not allowed."""


class Unsupported(InvalidValue):
    """The arguments are fine, but the algorithm asked for does not apply to them."""


class VerificationError(WinogenError):
    """A bilinear algorithm or a program does not compute what it claims to."""


class BuildError(WinogenError):
    """Generated C could not be turned into a loaded library."""


class CompilerNotFound(BuildError):
    """No usable C compiler; the message says what to install or set."""


class CompileFailed(BuildError):
    """The compiler refused the source; the message carries the compiler's own words."""


class CacheUnavailable(BuildError):
    """The kernel cache cannot be read or written."""


class UnsupportedSystem(WinogenError, ImportError):
    """This system lacks what running kernels takes; the message says what."""


class OutOfMemory(WinogenError, MemoryError):
    """The system refused memory; the message says how much, and what for."""
