.PHONY: setup demo fleet faults soak serve check test test-slow coverage covered mutate lint types format bench bench-context bench-server guards site lock clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More workers than cores, since many tests wait for processes that they start.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(max(2, os.cpu_count() * 3 // 2))')
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
# COVER=1 measures coverage. .ci/run sets it, so that no test runs twice.
COVERED := $(PYTEST) --cov --cov-report= --cov-fail-under=0
READY := $(VENV)/.ready
BROWSER := $(VENV)/.browser
SITE := .site
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-annotate

setup: $(READY)

# The lists are complete: with --no-deps, pip need not resolve anything, which some versions do wrongly with hashes and extras.
$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "concertino needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -c 'import ensurepip' || { echo "venv is missing: apt install python3-venv (Debian, Ubuntu), then make setup"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip --quiet check
	touch $(READY)

demo: setup
	$(BIN)/python -m concertino.demo $(QUESTION)

fleet: setup
	$(BIN)/python -m tests.fleet.demo

faults: setup
	SEED=$(SEED) SEEDS=$(SEEDS) $(BIN)/python -m pytest -n $(WORKERS) -m "slow or postgres" tests/faults

soak: setup
	$(BIN)/python -m tests.soak $(ARGS)

serve: setup
	$(BIN)/concertino serve $(ARGS)

check: setup lint types
	$(PYTEST) tests/unit tests/rules --ignore tests/rules/test_benchmarks.py

test: setup lint types
	$(if $(COVER),$(COVERED),$(PYTEST))

test-slow: setup $(BROWSER) $(SITE)/.ready
	$(if $(COVER),$(COVERED) --cov-append,$(PYTEST)) -m covered
	$(PYTEST) -m "(sweep or wheel or slow or node or browser) and not covered"

$(BROWSER): tests/page/requirements.txt $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	touch $(BROWSER)

$(SITE)/.ready: docs/requirements.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	touch $@

site: $(SITE)/.ready
	$(SITE)/bin/sphinx-build --quiet --fail-on-warning --keep-going docs $(SITE)/html
	@echo "open $(SITE)/html/index.html"

coverage: setup
	$(COVERED)
	$(COVERED) --cov-append -m covered
	$(MAKE) covered

covered:
	$(BIN)/coverage report

mutate: setup
	$(BIN)/python -m tests.mutation --number $(N) $(if $(SEED),--seed $(SEED))

N ?= 20
faults: SEED ?= 1
faults: SEEDS ?= 30

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-context: setup
	$(BIN)/python -m benchmarks.context $(ARGS)

bench: setup
	$(BIN)/python -m benchmarks --quick $(ARGS)

bench-server: setup
	$(BIN)/python -m benchmarks.server $(ARGS)

guards: setup
	PYTHONHASHSEED=0 $(BIN)/python -m tests.guards --lower

lock: setup
	$(COMPILE) --all-extras --group dev pyproject.toml -o requirements.txt
	$(COMPILE) --group browser -c requirements.txt -o tests/page/requirements.txt
	$(COMPILE) --group site --extra mcp --extra nats --extra otel --extra postgres --extra server --extra testing pyproject.toml -o docs/requirements.txt

clean:
	rm -rf .venv .bench .site .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
