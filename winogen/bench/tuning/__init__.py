"""Ways to compute a layer measured on this machine: what wins becomes wisdom.

`space` lists what may be tried, `arena` measures candidates in turns, `search` goes from the
planner's choice to what is fastest here, `budget` shares the time among layers and writes the file.
"""

from winogen.bench.tuning.arena import Arena, Contestant
from winogen.bench.tuning.budget import Outcome, tune
from winogen.bench.tuning.layers import tuned_layers
from winogen.bench.tuning.search import Search

__all__ = ["Arena", "Contestant", "Outcome", "Search", "tune", "tuned_layers"]
