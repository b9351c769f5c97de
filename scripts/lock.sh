#!/bin/sh
# Writes the lock files: `scripts/lock.sh UV`, where UV is the uv binary.
set -eu

lock() {
    "$UV" pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --no-header --upgrade --quiet "$@"
}
UV=$1
lock -o requirements.lock
lock --group dev -c requirements.lock -o requirements-dev.lock
