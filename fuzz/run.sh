#!/usr/bin/env bash
# Builds the fuzz targets and runs each:   fuzz/run.sh
# Some of them, for longer:                FUZZ_SECONDS=600 fuzz/run.sh wire updates
# Stable Rust is enough: the instrumentation is LLVM's, and libFuzzer comes as a crate.
set -euo pipefail
cd "$(dirname "$0")"
seconds="${FUZZ_SECONDS:-60}"
targets=("$@")
if [ $# -eq 0 ]; then targets=(parse_rules readers wire frames differential updates); fi

if ! command -v c++ >/dev/null; then
    echo "fuzzing needs a C++ compiler: libFuzzer is built from source" >&2
    exit 1
fi
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${FUZZ_TARGET_DIR:-$PWD/target}"
# The flags that cargo-fuzz passes, without those that need a nightly compiler. --target keeps them away from build
# scripts.
flags=(-Cpasses=sancov-module --cfg fuzzing)
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=("-Cllvm-args=-sanitizer-coverage-$flag")
done
RUSTFLAGS="${flags[*]}" cargo build --profile fuzz --features libfuzzer --locked --target "$host" "${targets[@]/#/--bin=}"

for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target" "found/$target" "seeds/$target"
    dictionary=()
    if [ -e "$target.dict" ]; then dictionary=("-dict=$target.dict"); fi
    printf '\n-- %s, %s s\n' "$target" "$seconds"
    # New inputs go to corpus/; the other two folders are only read.
    if ! "$CARGO_TARGET_DIR/$host/fuzz/$target" "corpus/$target" "seeds/$target" "found/$target" \
        "${dictionary[@]}" -max_total_time="$seconds" -max_len=2048 -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="artifacts/$target/"; then
        echo "found something: put the file it names into fuzz/found/$target/, where cargo test replays it" >&2
        exit 1
    fi
done
