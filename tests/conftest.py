"""Settings shared by all tests: hypothesis draws the same examples on every run."""

from hypothesis import settings

settings.register_profile("winogen", derandomize=True, deadline=None)
settings.load_profile("winogen")
