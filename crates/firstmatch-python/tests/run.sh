#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into an environment of its own, and tests it there.
#   tests/run.sh FOLDER    FOLDER keeps the environment for the next time
# PROGRAM is firstmatch's program, with whose answers those of the package are compared.
set -euo pipefail
folder=$(realpath -m "$1")
target=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../../../target}")
cd "$(dirname "$0")/.."

skip() {
    if [ -n "${CI:-}" ]; then
        printf '!! FAILED: %s\n' "$*" >&2
        exit 1
    fi
    printf '!! SKIPPED: %s\n' "$*" | tee -a "${FIRSTMATCH_SKIPPED:-/dev/null}"
    exit 0
}
python=$(command -v python3) || skip "there is no python3"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder" || skip "python3 has no venv (apt-get install python3-venv)"
"$folder/bin/pip" install --quiet --disable-pip-version-check maturin pytest mypy ruff pyarrow polars duckdb 'pandas<3' \
    pandas-stubs matplotlib || skip "packages of Python cannot be had"

# The wheel, in the folder of all other crates.
rm -rf "$folder/wheels"
"$folder/bin/maturin" build --quiet --release --locked --interpreter "$folder/bin/python" --out "$folder/wheels"
"$folder/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$folder"/wheels/*.whl

"$folder/bin/ruff" format --quiet --no-cache --check .
"$folder/bin/ruff" check --quiet --no-cache .
(cd tests && "$folder/bin/mypy" --config-file ../pyproject.toml --cache-dir "$folder/mypy" .)
"$folder/bin/python" -m mypy.stubtest firstmatch._firstmatch --mypy-config-file pyproject.toml
"$folder/bin/python" -m pytest --quiet -p no:cacheprovider tests --ignore tests/spark
"$folder/bin/python" -m pytest --quiet -p no:cacheprovider --doctest-modules --pyargs firstmatch
"$folder/bin/python" -m pytest --quiet -p no:cacheprovider --doctest-glob='python.md' ../../docs
"$folder/bin/python" benchmarks/rates.py --rows 10000 --rules 50 --rounds 1

# Into empty environments, without any other package: the wheel, and the source distribution as `pip install` builds it.
rm -rf "$folder/sdist"
# It warns of every crate that has no homepage.
"$folder/bin/maturin" sdist --out "$folder/sdist" >"$folder/sdist.log" 2>&1 || { cat "$folder/sdist.log"; exit 1; }
for package in "$folder"/wheels/*.whl "$folder"/sdist/*.tar.gz; do
    rm -rf "$folder/bare"
    "$python" -m venv "$folder/bare"
    CARGO_TARGET_DIR="$target" "$folder/bare/bin/pip" install --quiet --disable-pip-version-check "$package"
    "$folder/bare/bin/python" tests/bare.py
done
