#!/bin/sh
# Writes the lock files: `scripts/lock.sh UV`, where UV is the uv binary.
set -eu

lock() {
    "$UV" pip compile "$@" --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --no-header --quiet
}
UV=$1
# The development's first, which has the extras: all are locked to what is tested together.
lock pyproject.toml --upgrade --group dev --all-extras -o requirements-dev.lock
lock pyproject.toml --upgrade -c requirements-dev.lock -o requirements.lock
lock pyproject.toml --upgrade -c requirements-dev.lock --extra aws --extra azure --extra google \
    -o requirements-cloud.lock
lock pyproject.toml --upgrade -c requirements-dev.lock --extra tune \
    -o requirements-tune.lock
# What makes the wheel, which an installation from a checkout needs.
sed -n 's/^requires = \["\(.*\)"\]$/\1/p' pyproject.toml |
    lock - --upgrade -c requirements-dev.lock -o requirements-build.lock
