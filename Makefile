# Two commands do everything: `make demo` and `make test`. Both make their own environment in .venv first.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
ROUNDS ?= 10
SEED   ?= 1
NODES  ?= 1

.PHONY: setup demo test lint types layers chaos bench golden lock clean

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kcontrol needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	$(PY) -m examples.demo

test: setup
	$(PY) -m pytest -m "not heavy and not docker" $(PYTEST_ARGS)

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	$(VENV)/bin/mypy

layers: setup
	$(VENV)/bin/lint-imports

chaos: setup
	$(PY) -m tests.chaos --rounds $(ROUNDS) --seed $(SEED) --nodes $(NODES)

bench: setup
	$(PY) -m bench

# Writes golden histories and records that are missing; touches none that is there.
golden: setup
	$(PY) -m tests.golden.make

# Makes the lock anew from pyproject.toml. Hashes and versions only: it names no index.
lock: setup
	$(PY) -m uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
