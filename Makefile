# make demo    set up .venv and run `winogen demo`: a layer and a photograph by five algorithms
# make test    set up .venv and run the tests
# make quick   set up .venv and run one case of each test for two minutes, first where files changed
# make lint    set up .venv and check style, format and types
# make wheel   build, check and test the sdist and the wheel with prebuilt kernels, in dist/; with
#              MACHINE=aarch64 a wheel for that, by a cross compiler
#
# PYTHON=... chooses the Python that .venv is made from, CC=... the C compiler.

export PYTHON

.PHONY: demo test quick lint wheel venv lint-tools clean

demo: venv
	@.venv/bin/winogen demo

test: venv
	@.venv/bin/python -m pytest -n auto

quick: venv
	@WINOGEN_TESTS_UNTIL=$$(($$(date +%s) + 105)) .venv/bin/python -m pytest -n auto --first-case

lint: lint-tools
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy

MACHINE ?= x86_64
wheel: venv
	@sh scripts/wheel.sh $(MACHINE)

venv:
	@sh scripts/setup.sh

# As in scripts/setup.sh, the copy of pyproject.toml says for which pins the tools were installed.
lint-tools: venv
	@cmp -s pyproject.toml .venv/lint.toml || { \
		.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' \
		&& cp pyproject.toml .venv/lint.toml; }

clean:
	rm -rf .venv .venv-wheel build dist demo .pytest_cache .hypothesis .ruff_cache .mypy_cache
