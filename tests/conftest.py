"""Settings shared by all tests: the same examples and the same plans on every run and machine."""

import os
import sys
from pathlib import Path

from hypothesis import settings

settings.register_profile("winogen", derandomize=True, deadline=None)
settings.load_profile("winogen")

os.environ["WINOGEN_CALIBRATE"] = "0"

# For helpers in other folders: `from kernels.samples import ...`, `from conv.reference import ...`.
sys.path.append(str(Path(__file__).parent))


def pytest_addoption(parser):
    """Options of this project's tests."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files in tests/golden"
    )
