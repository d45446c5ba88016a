"""Every odd model there is: `ALL`. A table of what people do in and around models."""

import odd_data  # noqa: F401
import odd_flow  # noqa: F401
import odd_hooks  # noqa: F401
import odd_state  # noqa: F401
from odd import ALL, Odd, Two

__all__ = ["ALL", "Odd", "Two"]
