#!/usr/bin/env bash
# All checks and tests:    ./ci.sh
# Some of them, in order:  ./ci.sh fmt test
# For longer:              ./ci.sh fuzz churn beside captures
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"

# What was not checked is named again at the end. Scripts and tests add a line to the file, too, so no skip is silent.
export FIRSTMATCH_SKIPPED="${FIRSTMATCH_SKIPPED:-$(mktemp)}"
: >"$FIRSTMATCH_SKIPPED"

say() { printf '\n== %s\n' "$*"; }
skip() { printf '!! SKIPPED: %s\n' "$*" | tee -a "$FIRSTMATCH_SKIPPED"; }
# For what .ci/run has to have: skipped on a desk, a failure there.
missing() {
    if [ -z "${CI:-}" ]; then
        skip "$*"
    else
        printf '!! FAILED: %s\n' "$*" >&2
        return 1
    fi
}

# The code is formatted as rustfmt.toml says.
stage_fmt() {
    if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else missing "rustfmt is not installed"; fi
}

# No lint of Cargo.toml fires, in any target.
stage_clippy() {
    if cargo clippy --version >/dev/null 2>&1; then
        cargo clippy --workspace --all-targets --locked -- -D warnings
    else
        missing "clippy is not installed"
    fi
}

# The documentation builds, without a broken link.
stage_doc() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet; }

# Licences, sources and duplicates of dependencies are as deny.toml says.
stage_deny() {
    if cargo deny --version >/dev/null 2>&1; then
        cargo deny --offline check licenses bans sources
    else
        skip "cargo-deny is not installed (cargo install cargo-deny)"
    fi
}

# Shell scripts are clean.
stage_shell() {
    if command -v shellcheck >/dev/null; then
        git ls-files '*.sh' .ci/run | xargs shellcheck
    else
        skip "shellcheck is not installed"
    fi
}

# Documents and comments are written as CONTRIBUTING.md says, as far as counting shows.
stage_words() {
    if ! command -v python3 >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 || true
    fi
    if command -v python3 >/dev/null; then python3 .ci/words.py; else missing "python3 is not installed"; fi
}

# Every test. One that hangs ends it: TEST_SECONDS.
stage_test() { timeout "${TEST_SECONDS:-7200}" cargo test --workspace --locked; }

# A model of readers, queries and the writer of `meta`: every order of what a few threads do.
stage_loom() {
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
        timeout 1800 cargo test -p firstmatch-core --lib --locked -- live::left_right::model
}

# Every definition of the lab that needs nothing beyond the repository, briefly: the answers are right.
stage_lab() { cargo run --release -p firstmatch-lab --locked -- measure --test; }

# The lab with DPDK's rte_acl: where Debian's dpdk-dev is missing and can be installed, it is. In .ci/run it must be there.
stage_rte_acl() {
    has_dpdk() { pkg-config --exists libdpdk 2>/dev/null; }
    if ! has_dpdk && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends dpdk-dev libdpdk-dev pkg-config || true
    fi
    if has_dpdk; then
        cargo test -p firstmatch-lab --locked --features rte-acl --bin firstmatch-lab --test program
    else
        missing "there is no DPDK (apt-get install dpdk-dev pkg-config)"
    fi
}

# The report in a browser: where Debian's chromium is missing and can be installed, it is, in under a minute.
stage_report() { crates/firstmatch-lab/tests/report.sh; }

# The README's first command, as typed there.
stage_readme() {
    local command
    command=$(grep -m1 -o 'cargo run --release -- classify .*pcapng' README.md)
    say "$command"
    eval "$command"
}

# The fuzz targets, a workspace of their own, compile. They are not linked, so libFuzzer need not be built.
stage_fuzz_check() {
    CUSTOM_LIBFUZZER_PATH="$PWD/fuzz/libfuzzer.a" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/fuzz_check" \
        cargo check --manifest-path fuzz/Cargo.toml --locked --bins
}

# Fuzz targets, a minute each (FUZZ_SECONDS): see fuzz/README.md.
stage_fuzz() { fuzz/run.sh; }

# Rules come and go, millions of changes: CHURN_STEPS for each of CHURN_SEEDS sets of five profiles, twice.
stage_churn() {
    CHURN_STEPS="${CHURN_STEPS:-60000}" CHURN_SEEDS="${CHURN_SEEDS:-20}" \
        cargo test --release -p firstmatch-generate --locked --test churn
}

# Packets counted and questions asked beside a writer at full rate, for long.
stage_beside() {
    BESIDE_DECISIONS="${BESIDE_DECISIONS:-10000000}" BESIDE_COMMITS="${BESIDE_COMMITS:-100000}" \
        BESIDE_SECONDS="${BESIDE_SECONDS:-60}" \
        cargo test --release -p firstmatch-core --locked --test harness beside:: -- --nocapture --test-threads 1
}

# Real captures, fetched into target/captures, packet by packet against another parser.
stage_captures() {
    crates/firstmatch-net/tests/captures.sh
    cargo test -p firstmatch-net --locked --test captures
}

all=(fmt clippy doc deny shell words fuzz_check test loom rte_acl report readme lab)
on_request=(fuzz churn beside captures)
if [ $# -gt 0 ]; then stages=("$@"); else stages=("${all[@]}"); fi
for stage in "${stages[@]}"; do
    if ! declare -F "stage_$stage" >/dev/null; then
        printf 'there is no stage "%s"; there are: %s\n' "$stage" "${all[*]} ${on_request[*]}" >&2
        exit 2
    fi
done
summary() {
    if [ -s "$FIRSTMATCH_SKIPPED" ]; then
        say "not checked"
        sort -u "$FIRSTMATCH_SKIPPED"
    fi
    rm -f "$FIRSTMATCH_SKIPPED"
}
trap summary EXIT
for stage in "${stages[@]}"; do
    say "$stage"
    "stage_$stage"
done
say "done: ${stages[*]}"
