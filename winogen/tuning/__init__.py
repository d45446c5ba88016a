"""What measuring layers on this machine teaches: faster choices, and constants of the model.

`layers` has sets of layers to measure. To find choices, `space` lists what may be tried, `arena`
measures candidates in turns, `search` goes from the planner's choice to what is fastest here, and
`budget` shares the time among layers and writes wisdom. `fit` fits the constants of the planner's
model to measured calls; `sample` draws the calls.
"""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:  # for editors and type checkers; at run time see _PUBLIC
    from winogen.tuning.arena import Arena as Arena
    from winogen.tuning.arena import Contestant as Contestant
    from winogen.tuning.budget import Outcome as Outcome
    from winogen.tuning.budget import tune as tune
    from winogen.tuning.search import LayerSearch as LayerSearch

# Loaded on first use: who only wants layers, as a process that measures another winogen, needs
# nothing of what tunes them.
_PUBLIC = {
    "Arena": "winogen.tuning.arena",
    "Contestant": "winogen.tuning.arena",
    "Outcome": "winogen.tuning.budget",
    "LayerSearch": "winogen.tuning.search",
    "tune": "winogen.tuning.budget",
}
__all__ = ["Arena", "Contestant", "LayerSearch", "Outcome", "tune"]

if not TYPE_CHECKING:  # who checks types would let any name pass
    __getattr__ = attribute_of(__name__, _PUBLIC)
