#!/bin/sh
# Imports every module, and runs tests that use each library, with the lowest versions that pyproject.toml
# allows: `scripts/lowest.sh BIN`, where BIN is the folder of the development's programs.
# They are installed again when pyproject.toml has changed.
set -eu
bin=$1
folder=$(dirname "$bin")/lowest
python=$folder/bin/python
tools="hypothesis|jsonschema|pytest|pytest-timeout|pytest-xdist"

if ! cmp -s pyproject.toml "$folder/pyproject.toml"; then
    "$bin/uv" venv --quiet --clear --python "$bin/python" "$folder"
    "$bin/uv" pip install --quiet --python "$python" --resolution lowest-direct --all-extras \
        -r pyproject.toml
    "$bin/uv" pip install --quiet --python "$python" \
        $(sed -nE "s/^(($tools)==[^ ]+) .*/\1/p" requirements-dev.lock)
    cp pyproject.toml "$folder/pyproject.toml"
fi
# Old libraries use what newer ones call deprecated.
"$python" -W ignore -c '
import importlib, pkgutil, autoscaler
for module in pkgutil.walk_packages(autoscaler.__path__, "autoscaler."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
'
# Programs that the tests start find the package as well.
PYTHONPATH=$PWD exec "$python" -m pytest --quiet --numprocesses=2 --dist=loadfile -p no:cacheprovider \
    -W ignore::DeprecationWarning \
    tests/adapters/cluster/test_connection.py \
    tests/adapters/prometheus/test_methods.py \
    tests/adapters/prometheus/test_sign_ins.py \
    tests/adapters/test_proxies.py \
    tests/cli/test_times.py \
    tests/config/test_web.py \
    tests/daemon/test_schedule.py \
    tests/policy_tests/test_running.py \
    tests/telemetry/test_page.py::test_the_format_of_the_page_is_the_requested_one \
    tests/transport/test_retries.py \
    tests/web/test_access.py
