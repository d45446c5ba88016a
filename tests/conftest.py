"""Settings shared by all tests: the same examples and the same plans on every run and machine."""

import os

from hypothesis import settings

settings.register_profile("winogen", derandomize=True, deadline=None)
settings.load_profile("winogen")

os.environ["WINOGEN_CALIBRATE"] = "0"
