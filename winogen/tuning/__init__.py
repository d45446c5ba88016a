"""What measuring layers on this machine teaches: faster choices, and constants of the model.

`layers` has sets of layers to measure. To find choices, `space` lists what may be tried, `arena`
measures candidates in turns, `search` goes from the planner's choice to what is fastest here, and
`budget` shares the time among layers and writes wisdom. `fit` fits the constants of the planner's
model to measured calls; `sample` draws the calls.
"""

from winogen.tuning.arena import Arena, Contestant
from winogen.tuning.budget import Outcome, tune
from winogen.tuning.search import Search

__all__ = ["Arena", "Contestant", "Outcome", "Search", "tune"]
