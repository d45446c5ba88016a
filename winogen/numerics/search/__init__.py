"""Search for accurate and cheap algorithms; see ``winogen.numerics.search.run`` for how."""

from winogen.numerics.search.candidate import Candidate
from winogen.numerics.search.results import Results, executor
from winogen.numerics.search.run import Found, Search, search
from winogen.tasks import Executor

__all__ = ["Candidate", "Executor", "Found", "Results", "Search", "executor", "search"]
