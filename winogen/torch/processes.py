"""Children of a process that has imported `winogen.torch`: torch has one thread, and so have we.

torch keeps a team of OpenMP threads. A forked child has none of them, and gcc's OpenMP library
would wait for them for ever, in torch's own functions. Nobody can tell whether there is a team yet,
so every child is taken for one of a process with one.
"""

from __future__ import annotations

import os

import torch

os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
