# Verbs for people and CI alike: make help. Each makes its own virtual environment from the pinned lock;
# nothing is needed beforehand but Python 3.11+ and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
REAL   ?= 0
SLOW   ?= 0
TIER   := $(if $(filter 1,$(REAL)),real,$(if $(filter 1,$(SLOW)),slow,fast))
READY  := $(VENV)/.ready
COMPILED := $(VENV)/.tests-compiled

# Frames of few rows take 8 % less of a core's time with one thread; the other tiers use all.
ONE_THREAD := $(if $(filter fast,$(TIER)),POLARS_MAX_THREADS=1)

MINUTES ?= 10

# Tests that read only the sources: check runs them, too, so that a long name does not cost a whole run of the tests.
RULES := tests/test_names.py tests/app/test_json_text.py

# Containers often set it. Without compiled files every process, and every worker of the tests, compiles all again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo check fix test lab components fuzz bench apiserver linter verapdf lock pictures clean
help:             ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: $(READY)   ## make the virtual environment from requirements.lock

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Trackside needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=...") if sys.version_info < (3, 11) else None'
	@echo "Installing the pinned packages into $(VENV): minutes, most of them without output"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --no-compile -r requirements.lock
	@-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib    # on all cores; pip would compile one file after the other
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup       ## the main job end to end on a simulated cluster
	$(BIN)/trackside demo

check: setup      ## formatting, lint, types, layers, names; generated files are current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m app.docgen --check
	$(BIN)/python -m pytest -q $(RULES)

fix: setup        ## what check can mend by itself
	$(BIN)/python -m app.docgen
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup $(if $(filter 1,$(REAL)),lab)   ## the quick tests; SLOW=1: the slow ones, too; REAL=1: all, with real components (root, Debian)
	TRACKSIDE_TEST_TIER=$(TIER) $(ONE_THREAD) $(BIN)/python -m pytest -n auto -q

lab: setup        ## the real components for the tests (root, Debian); the tests are compiled meanwhile
	@$(MAKE) --no-print-directory -j2 components $(COMPILED)

components: setup
	@PYTHON=$(BIN)/python bash tests/lab/install.sh

# Once for all workers: each would compile them for itself, half a minute of a core on a new checkout.
$(COMPILED): $(READY) $(shell find tests -name '*.py')
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null || true    # the tests report what is wrong
	@touch $@

fuzz: setup       ## all properties with new random examples: MINUTES=10, TARGETS="slurm gate ...", SEED=, JOBS=
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(TARGETS)

bench: setup      ## benchmarks: ratios against a baseline in the same run; QUICK=1 for a small form, ONLY=engine for a part, YEAR=1
	$(BIN)/python -m tests.bench

apiserver:        ## kube-apiserver for the lab, once, with Go (root; nine minutes of processor time)
	bash tests/lab/apiserver/build.sh

linter:           ## Grafana's dashboard-linter for the tests, once, with Go (root; four minutes of processor time)
	bash tests/lab/linter/build.sh

verapdf:          ## veraPDF for the tests of the reports' PDF, once, with Maven (root)
	bash tests/lab/verapdf/build.sh

lock:             ## renew requirements.lock (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --quiet \
		--upgrade pyproject.toml --group dev -o requirements.lock

pictures: setup   ## renew the README's pictures from the demo (needs Chromium and Prometheus)
	$(BIN)/python -m tests.pictures

clean:            ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
