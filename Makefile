# `make demo` and `make test` are all that a new Debian or Ubuntu machine needs.

VENV := .venv
# The first of these that runs and is new enough; a name on the PATH may be a shim without Python.
usable = $(shell $(1) -c 'import sys; print("$(1)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.14,$(call usable,$(name))))
BIN := $(VENV)/bin
# Most of the time the tests wait for servers, and each worker has its own. The tests
# of a file stay together, since they share servers. The files keep their order: long ones have few
# tests, and pytest-xdist would run them last.
WORKERS ?= --numprocesses=2 --dist=loadfile --no-loadscope-reorder

.PHONY: demo test pytest pictures quick check fix lock clean

## demo: watch a queue fill and drain, and its workers follow, in about a minute
demo: $(VENV)/.runtime
	@scripts/require.sh prometheus
	@$(BIN)/python -m autoscaler demo $(DEMO_FLAGS)

## test: the checks, then every test, against a real Prometheus, RabbitMQ, control plane and browser
test: check pytest

pytest: $(VENV)/.dev
	@scripts/require.sh prometheus rabbitmq-server openssl systemd chromium
	$(BIN)/python -m pytest $(WORKERS) --ignore=tests/faults $(PYTEST_FLAGS)
	# These measure how punctual syncs are while a server fails, so nothing else may run.
	$(BIN)/python -m pytest tests/faults $(PYTEST_FLAGS)

## pictures: the pictures of the pages in docs/images, of a made-up fleet
pictures: $(VENV)/.dev
	@scripts/require.sh chromium fonts-dejavu-core
	PICTURES=1 $(BIN)/python -m pytest tests/pages/test_pictures.py

## quick: lint, types and the tests of core, configuration and syncs, in about a minute
quick: check
	$(BIN)/python -m pytest $(WORKERS) -m "not slow" $(PYTEST_FLAGS)

## check: lint, format, types, import floors, lock files
check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

## fix: apply the fixes of the linter and the formatter
fix: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

## lock: pin the newest versions that pyproject.toml allows
lock: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet uv
	scripts/lock.sh $(BIN)/uv

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and there is none on the PATH." >&2; exit 1; }
	@scripts/require.sh python3-venv
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.dev: $(BIN)/python requirements-dev.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.runtime
