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

.PHONY: setup warm demo test kubernetes-test lint types layers exhaustive chaos bench golden docs docs-reference lock clean

setup: $(VENV)/.installed

# Python compiles what it imports; to compile all that is installed takes 20 s more.
$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kcontrol needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	$(PY) -m examples.demo

# Once: it takes half a minute, and every Spark process of the tests starts in two thirds of the time.
warm: $(VENV)/.warm

$(VENV)/.warm: $(VENV)/.installed
	$(PY) -m kcontrol.cli warm
	@touch $@

# Parts, each a run with brokers of its own: JOBS of them side by side, the next as soon as one is over, the long ones first; what
# shares one Spark begins beside what computes, and what kills its own processes follows. Each is shown when it is over; `make
# test-kills` runs one alone.
PYTEST := $(PY) -m pytest --durations=15 -m "not heavy and not docker and not kubernetes"
JOBS ?= 3
INTEGRATION := tests/integration
ONE_SPARK := tests/replay $(INTEGRATION)/spark
COMPUTING := $(addprefix tests/,unit golden property contract browser)
STORIES := $(addprefix $(INTEGRATION)/,$(addsuffix .py,$(addprefix test_,end_to_end_orders end_to_end_http end_to_end_deleted \
	end_to_end_inputs end_to_end_registry standby reset reset_exchange upgrade live_layout live_layout_kills \
	live_layout_lost)))
KILLS := tests/chaos $(addprefix $(INTEGRATION)/,$(addsuffix .py,$(addprefix test_recovery_,checkpoint_points crash_points kills wiped)))
COMMANDS := tests/docs $(addprefix $(INTEGRATION)/,cli security)
PARTS := one-spark rest computing stories commands kills simulation
REST := $(addprefix --ignore=,$(ONE_SPARK) $(COMPUTING) $(STORIES) $(KILLS) $(COMMANDS) tests/simulation)

test: $(VENV)/.warm
ifdef PYTEST_ARGS
	$(PYTEST) $(PYTEST_ARGS)
else
	@$(MAKE) --no-print-directory --keep-going --jobs=$(JOBS) $(PARTS:%=test-%)
endif

test-one-spark: FILES = $(ONE_SPARK)
test-computing: FILES = $(COMPUTING)
test-simulation: FILES = tests/simulation
test-stories: FILES = $(STORIES)
test-kills: FILES = $(KILLS)
test-commands: FILES = $(COMMANDS)
test-rest: FILES = $(REST)

$(PARTS:%=test-%): test-%: $(VENV)/.warm
	@mkdir -p build
	@echo "$*: its tests begin"; $(PYTEST) $(FILES) -p no:cacheprovider > build/$*.log 2>&1; failed=$$?; cat build/$*.log; exit $$failed

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

# Every state of small clusters of agents, the larger ones too: minutes.
exhaustive: setup
	$(PY) -m tests.simulation.cluster.exhaustive --larger

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
	$(COMPILE) --group dev --extra postgres --extra delta --extra iceberg --extra protobuf --extra kubernetes --extra s3 pyproject.toml -o requirements.lock
	$(COMPILE) -c requirements.lock --group build -o docker/build.lock
	$(COMPILE) -c requirements.lock --extra postgres --extra kubernetes --extra s3 pyproject.toml -o docker/runtime.lock

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
