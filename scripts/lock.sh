#!/bin/sh
# Writes the lock files: `scripts/lock.sh UV`, where UV is the uv binary.
set -eu

lock() {
    "$UV" pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --no-header --quiet "$@"
}
UV=$1
# The development's first, which has the extras: all are locked to what is tested together.
lock --upgrade --group dev --all-extras -o requirements-dev.lock
lock --upgrade -c requirements-dev.lock -o requirements.lock
lock --upgrade -c requirements-dev.lock --all-extras -o requirements-cloud.lock
