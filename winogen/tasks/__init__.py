"""Work as plain data: tasks, their results on disk, and who does them. What searches share."""

from winogen.tasks.execute import Executor, executor
from winogen.tasks.halving import answer, halving
from winogen.tasks.results import Results, key_of

__all__ = ["Executor", "Results", "answer", "executor", "halving", "key_of"]
