# Two commands do everything: `make demo` and `make test`. Both make their own environment in .venv first.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
ROUNDS ?= 10
SEED   ?= 1
NODES  ?= 1
BROKERS ?= 1
CHAOS   ?=
CLUSTER ?=
PIPELINES ?= 2

# Every process would compile kcontrol anew, for more than a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test kubernetes-test lint types layers chaos bench golden docs docs-reference lock clean

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kcontrol needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	$(PY) -m examples.demo

# Once: it takes half a minute, and every Spark process of the tests starts in two thirds of the time.
$(VENV)/.warm: $(VENV)/.installed
	$(PY) -m kcontrol.cli warm
	@touch $@

# Three runs side by side, of about the same length, each with brokers of its own: what computes, then brings brokers and processes
# along and kills them; what shares one Spark, then what is killed between two messages; and all else, which is shown as it goes. The
# others are shown when they are over.
PYTEST := $(PY) -m pytest -m "not heavy and not docker and not kubernetes"
INTEGRATION := tests/integration
COMPUTING := $(addprefix tests/,unit golden property contract simulation browser chaos) \
	$(addprefix $(INTEGRATION)/,security test_recovery_kills.py test_recovery_wiped.py)
ONE_SPARK := tests/replay $(addprefix $(INTEGRATION)/,spark test_recovery_crash_points.py)

test: $(VENV)/.warm
ifdef PYTEST_ARGS
	$(PYTEST) $(PYTEST_ARGS)
else
	@mkdir -p build
	@$(PYTEST) $(COMPUTING) -p no:cacheprovider > build/computing.log 2>&1 & computing=$$!; \
	$(PYTEST) $(ONE_SPARK) -p no:cacheprovider > build/one-spark.log 2>&1 & spark=$$!; \
	$(PYTEST) $(addprefix --ignore=,$(COMPUTING) $(ONE_SPARK)); failed=$$?; \
	wait $$spark || failed=1; cat build/one-spark.log; \
	wait $$computing || failed=1; cat build/computing.log; exit $$failed
endif

# The operator on a real API server, which is built here once, with Go; Debian's etcd-server and kubernetes-client have to be there.
kubernetes-test: $(VENV)/.warm
	tests/support/kubernetes/recipe/build.sh
	$(PY) -m pytest -m kubernetes tests/kubernetes $(PYTEST_ARGS)

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	$(VENV)/bin/mypy

layers: setup
	$(VENV)/bin/lint-imports

chaos: setup
ifneq ($(CLUSTER),)
	$(PY) -m tests.chaos.hosts --hosts $(CLUSTER) --pipelines $(PIPELINES) --rounds $(ROUNDS) --seed $(SEED) $(CHAOS)
else
	$(PY) -m tests.chaos --rounds $(ROUNDS) --seed $(SEED) --nodes $(NODES) --brokers $(BROKERS) $(CHAOS)
endif

bench: setup
	$(PY) -m bench

# Writes golden histories and records that are missing; touches none that is there.
golden: setup
	$(PY) -m tests.golden.make

# The pages as a site, in build/site; a link that leads nowhere fails.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet

# Writes what is made from the code anew.
docs-reference: setup
	for page in cli settings rest metrics schemas rights; do $(PY) -m docs.make_$$page || exit 1; done
	$(PY) -m docs.make_modules > docs/diagrams/modules.md
	for page in coordinator node; do $(PY) -m docs.make_diagrams $$page > docs/diagrams/$$page.md || exit 1; done

# Makes the locks anew from pyproject.toml: of everything, and of what the image needs to be built and to run, in the same versions.
# Hashes and versions only: they name no index.
COMPILE := $(PY) -m uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --python-version 3.11

lock: setup
	$(COMPILE) --group dev --extra postgres --extra delta --extra iceberg --extra protobuf --extra kubernetes pyproject.toml -o requirements.lock
	$(COMPILE) -c requirements.lock --group build -o docker/build.lock
	$(COMPILE) -c requirements.lock --extra postgres --extra kubernetes pyproject.toml -o docker/runtime.lock

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
