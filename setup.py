"""Only the compiled modules; everything else about the package is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))

from build_ext import build

arguments: dict = {}
build(arguments)
setup(**arguments)
