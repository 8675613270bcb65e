#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it beside Spark into an environment of its own, and tests it there.
#   tests/spark/run.sh FOLDER    FOLDER keeps the environment for the next time
# PROGRAM is firstmatch's program, with whose sums those of Spark are compared.
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(dirname "$0")/../.."

skip() {
    if [ -n "${CI:-}" ]; then
        printf '!! FAILED: %s\n' "$*" >&2
        exit 1
    fi
    printf '!! SKIPPED: %s\n' "$*" | tee -a "${FIRSTMATCH_SKIPPED:-/dev/null}"
    exit 0
}
python=$(command -v python3) || skip "there is no python3"
"${JAVA_HOME:+$JAVA_HOME/bin/}java" -version >/dev/null 2>&1 || skip "there is no Java (apt-get install openjdk-17-jre-headless)"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder" || skip "python3 has no venv (apt-get install python3-venv)"
"$folder/bin/pip" install --quiet --disable-pip-version-check maturin pytest mypy pyarrow 'pandas<3' pandas-stubs \
    'pyspark>=4' || skip "packages of Python cannot be had"

# The wheel, in the folder of all other crates.
rm -rf "$folder/wheels"
"$folder/bin/maturin" build --quiet --release --locked --interpreter "$folder/bin/python" --out "$folder/wheels"
"$folder/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$folder"/wheels/*.whl

# Spark is the one that pip has installed.
unset SPARK_HOME SPARK_CONF_DIR
"$folder/bin/mypy" --config-file pyproject.toml --cache-dir "$folder/mypy" -p firstmatch.spark
(cd tests && "$folder/bin/mypy" --config-file ../pyproject.toml --cache-dir "$folder/mypy" spark)
"$folder/bin/python" -m pytest --quiet -p no:cacheprovider tests/spark

# Executors of a local cluster leave their output beside Spark.
rm -rf "$folder"/lib/python*/site-packages/pyspark/work
