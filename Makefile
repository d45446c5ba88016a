# make demo    set up .venv and run `winogen demo`: a photograph, five algorithms, one table
# make test    set up .venv and run the tests
#
# PYTHON=... chooses the Python that .venv is made from, CC=... the C compiler.

export PYTHON

.PHONY: demo test venv clean

demo: venv
	@.venv/bin/winogen demo

test: venv
	@.venv/bin/python -m pytest -n auto

venv:
	@sh scripts/setup.sh

clean:
	rm -rf .venv demo .pytest_cache .hypothesis .ruff_cache
