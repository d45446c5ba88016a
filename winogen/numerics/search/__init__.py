"""Search for accurate and cheap algorithms; see ``winogen.numerics.search.run`` for how."""

from winogen.numerics.search.candidate import Candidate
from winogen.numerics.search.execute import Executor, executor
from winogen.numerics.search.results import Results
from winogen.numerics.search.run import Found, Search, search

__all__ = ["Candidate", "Executor", "Found", "Results", "Search", "executor", "search"]
