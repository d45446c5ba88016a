"""The laboratory: it measures, proves, draws and explains winogen, and computes nothing for users.

It is a distribution of its own, ``winogen-lab``, and imports winogen only. Its commands are
``winogen bench`` and ``winogen lab``.
"""

__version__ = "0.1.0"
