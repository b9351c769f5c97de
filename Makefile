# `make demo` and `make test` are all that a new Debian or Ubuntu machine needs.

VENV := .venv
# The first of these that runs and is new enough; a name on the PATH may be a shim without Python.
usable = $(shell $(1) -c 'import sys; print("$(1)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.14,$(call usable,$(name))))
BIN := $(VENV)/bin
# Most of their time the tests wait for servers, so that four workers share two cores; each has its
# own servers. The tests of a file stay together, since they share servers. The files keep the order
# that tests/conftest.py gives them: long ones have few tests, and pytest-xdist would run them last.
WORKERS ?= --numprocesses=4 --dist=loadfile --no-loadscope-reorder
# Tests that measure how punctual a daemon is: these leave most of both cores free.
PUNCTUAL := $(if $(WORKERS),--numprocesses=2 --dist=loadfile)
# Tests beside real servers time them, and a busy machine can make one late: what has failed runs
# once more with nothing beside it, and has to pass.
ALONE = $(BIN)/python -m pytest --last-failed --last-failed-no-failures=none

# The program that packages the chart.
HELM ?= helm

.PHONY: demo test pytest lowest pictures docs quick check fix lock objects release clean

## demo: watch a queue fill and drain, and its workers follow, in about a minute; leaves .venv/bin/autoscaler
demo: $(VENV)/.runtime
	@scripts/require.sh prometheus
	@$(BIN)/autoscaler demo $(DEMO_FLAGS)

## test: the checks, then every test, against a real Prometheus, RabbitMQ, control plane and browser
test: check docs lowest pytest

pytest: $(VENV)/.dev
	@scripts/require.sh prometheus rabbitmq-server systemd chromium
	$(BIN)/python -m pytest $(WORKERS) -m "not punctual" $(PYTEST_FLAGS) || $(ALONE)
	$(BIN)/python -m pytest tests/faults -m punctual $(PUNCTUAL) $(PYTEST_FLAGS) || $(ALONE)

## lowest: some quick tests with the lowest versions of libraries that pyproject.toml allows
lowest: $(VENV)/.dev
	scripts/lowest.sh $(BIN)

## pictures: the pictures of the pages in docs/images, of a made-up fleet
pictures: $(VENV)/.dev
	@scripts/require.sh chromium fonts-dejavu-core
	PICTURES=1 $(BIN)/python -m pytest tests/pages/test_pictures.py

## docs: the documents as a site in build/site; broken links, anchors and pages without a place fail
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

## quick: lint, types and the tests of core, configuration and syncs, in about a minute
quick: check
	$(BIN)/python -m pytest $(WORKERS) -m "not slow" $(PYTEST_FLAGS)

## check: lint, format, types, import floors, class names, style of documents, sizes
check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_class_names.py
	$(BIN)/python scripts/check_style.py
	$(BIN)/python scripts/check_sizes.py

## fix: apply the fixes of the linter and the formatter
fix: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

## lock: pin the newest versions that pyproject.toml allows
lock: $(VENV)/.dev
	scripts/lock.sh $(BIN)/uv

## objects: renew the CustomResourceDefinition, and the copies of the alert rules for the Prometheus Operator and the chart
objects: $(VENV)/.dev
	$(BIN)/python scripts/operator_objects.py
	$(BIN)/python scripts/custom_resource.py

## release: check that VERSION=1.2.3 can be released, then build its files into dist/; HELM=helm, IMAGE=repository
release: $(VENV)/.dev
	$(BIN)/python scripts/release.py --helm $(HELM) $(if $(IMAGE),--image $(IMAGE)) $(VERSION)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and there is none on the PATH." >&2; exit 1; }
	@scripts/require.sh python3-venv
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python requirements.lock requirements-build.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock -r requirements-build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python requirements-dev.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.runtime
