#!/usr/bin/env bash
# All checks and tests:    ./ci.sh
# Some of them, in order:  ./ci.sh fmt test
# For longer:              ./ci.sh fuzz churn beside analyze plane captures spark
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"
# A clean checkout is compiled once, because what a second build or a debugger would need takes longer than it saves.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none

# What was not checked is named again at the end. Scripts and tests add a line to the file, too, so no skip is silent.
export FIRSTMATCH_SKIPPED="${FIRSTMATCH_SKIPPED:-$(mktemp)}"
: >"$FIRSTMATCH_SKIPPED"

# Cargo's folder, for scripts that run in other folders, too.
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")

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

# Installs packages of Debian's, where that can be done.
debian() {
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"
    fi >/dev/null 2>&1 || true
}
# Runs a command after `--` with the tool before it, which Debian has under the same name.
with() {
    local tool=$1
    shift 2
    command -v "$tool" >/dev/null || debian "$tool"
    if command -v "$tool" >/dev/null; then "$@"; else missing "there is no $tool (apt-get install $tool)"; fi
}

# The code is formatted as rustfmt.toml says.
stage_fmt() {
    if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else missing "rustfmt is not installed"; fi
}

# No lint of Cargo.toml fires, in any target. The fuzz targets are not linked, so libFuzzer need not be built.
stage_clippy() {
    if cargo clippy --version >/dev/null 2>&1; then
        CUSTOM_LIBFUZZER_PATH="$PWD/fuzz/libfuzzer.a" cargo clippy --workspace --all-targets --locked \
            --features firstmatch-fuzz-targets/libfuzzer,firstmatch-cli/live -- -D warnings
    else
        missing "clippy is not installed"
    fi
}

# The documentation builds, without a broken link.
stage_doc() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet; }

# Licences and sources of dependencies are as deny.toml says. Advisories need a database that no registry has.
stage_deny() {
    if cargo deny --version >/dev/null 2>&1; then
        cargo deny --offline check licenses bans sources
    else
        with python3 -- python3 .ci/deny.py
    fi
}

# Shell scripts are clean.
stage_shell() { git ls-files '*.sh' .ci/run | with shellcheck -- xargs shellcheck; }

# Documents and comments are written as CONTRIBUTING.md says, as far as counting shows.
stage_words() { with python3 -- python3 .ci/words.py; }

# The published crates can be packaged, with their licences, and need no crate that is not.
stage_package() {
    cargo package --locked --allow-dirty --no-verify --quiet --workspace \
        --exclude firstmatch-lab --exclude firstmatch-fuzz --exclude firstmatch-fuzz-targets \
        --exclude firstmatch-python --exclude firstmatch-testkit
}

# The library compiles for a processor without the vector instructions of this one.
stage_aarch64() {
    local target=aarch64-unknown-linux-gnu
    if ! rustup target list --installed 2>/dev/null | grep -q "$target"; then
        rustup target add "$target" >/dev/null 2>&1 || true
    fi
    if rustup target list --installed 2>/dev/null | grep -q "$target"; then
        cargo check --target "$target" -p firstmatch --locked
    else
        skip "the target $target cannot be had (rustup target add $target)"
    fi
}

# Every test. One that hangs ends it: TEST_SECONDS. Where DPDK is installed, the lab is tested beside its classifier, too.
stage_test() {
    has_valgrind || debian valgrind
    timeout "${TEST_SECONDS:-7200}" cargo test "${tests[@]}"
}
# What `cargo test` builds, in every stage that needs some of it, so that nothing is compiled twice.
tests=(--workspace --locked)
# The lab's program as the stage `test` builds it, with the checks of tests.
lab() {
    cargo test "${tests[@]}" --quiet --test lab --no-run
    "$built/debug/firstmatch-lab" "$@"
}

# Live traffic, in network namespaces: as root, and as another user in a namespace of users where that can be had.
stage_live() {
    command -v ip >/dev/null || debian iproute2
    command -v ethtool >/dev/null || debian ethtool
    command -v iptables-restore >/dev/null || debian iptables
    python3 -c 'import prometheus_client' 2>/dev/null || debian python3-prometheus-client
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || debian chromium fonts-dejavu-core
    local build=(cargo test "${tests[@]}" --features firstmatch-cli/live --test live)
    local program folder user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    if ! unshare -n true 2>/dev/null && ! unshare -Urn true 2>/dev/null; then
        missing "there are no network namespaces (unshare -n, unshare -Urn)"
        return
    fi
    [ -z "${CI:-}" ] || export REQUIRE_LIVE=1
    timeout 600 "${build[@]}"
    timeout 600 cargo test "${tests[@]}" --test xdp
    if [ "$(id -u)" != 0 ] || ! "${user[@]}" unshare -Urn true 2>/dev/null; then
        skip "live traffic as a user without rights: there are no namespaces of users"
        return
    fi
    # Copies, because a user without rights may not be let into the folder of this checkout.
    folder=$(mktemp -d) && chmod 755 "$folder"
    program=$("${build[@]}" --no-run 2>&1 | sed -n 's/.*tests\/live.*(\(.*\))$/\1/p')
    cp "$program" "$built/debug/firstmatch" examples/edge.* "$folder"
    (cd "$folder" && FIRSTMATCH_PROGRAM="$folder/firstmatch" FIRSTMATCH_EXAMPLES="$folder" \
        timeout 600 "${user[@]}" env -u FIRSTMATCH_SKIPPED "./$(basename "$program")")
    rm -r "$folder"
}

# A model of readers, queries and the writer of `live`: every order of what a few threads do.
stage_loom() { timeout 1800 cargo test "${tests[@]}" --test harness -- --ignored model; }

# Definitions of the lab, briefly: the answers are right. `growth` has a million rules and is checked on request.
stage_lab() {
    local names
    names=$(basename --suffix .toml benchmarks/definitions/*.toml | grep -vx growth)
    has_valgrind || debian valgrind
    if ! has_valgrind; then
        missing "there is no valgrind (apt-get install valgrind)"
        names=$(grep -vx instructions <<<"$names")
    fi
    lab --version
    # Nothing is timed, so that definitions may run side by side.
    xargs -n 1 -P "$(nproc)" "$built/debug/firstmatch-lab" measure --test <<<"$names"
}
stage_growth() { cargo run --release -p firstmatch-lab --locked -- measure --test growth; }

# DPDK, for the stage `test` behind it: where Debian's dpdk-dev is missing and can be installed, it is.
stage_dpdk() {
    has_dpdk || debian dpdk-dev libdpdk-dev pkg-config
    has_dpdk || missing "there is no DPDK (apt-get install dpdk-dev pkg-config)"
    with_dpdk
}
has_valgrind() { command -v valgrind >/dev/null; }
has_dpdk() { pkg-config --exists libdpdk 2>/dev/null; }
with_dpdk() { ! has_dpdk || tests=(--workspace --locked --features firstmatch-lab/rte-acl); }
with_dpdk

# The shared libraries for C programs, and DPDK's own programs over them beside the original.
stage_rte_acl() {
    PROFILE=release crates/firstmatch-rte-acl/link.sh "$built/rte-acl"
    crates/firstmatch-rte-acl/tests/programs.sh "$built/rte-acl"
}

# The library for C programs as it is installed: its symbols, and examples in C and C++ over it. It is built with the
# program, so that both rest on the same crates and these are compiled once.
stage_capi() {
    cargo build --release --locked -p firstmatch-cli -p firstmatch-capi
    ARCHIVE="$built/release/libfirstmatch_capi.a" crates/firstmatch-capi/link.sh "$built/capi"
    crates/firstmatch-capi/tests/installed.sh "$built/capi"
}

# The Python package: its wheel, installed into an environment of its own, and what it answers there.
stage_python() {
    cargo build --release --locked -p firstmatch-cli
    PROGRAM="$built/release/firstmatch" crates/firstmatch-python/tests/run.sh "$built/python"
}

# The Python package in Spark: data frames on two threads and on a cluster of two executors, one of which is killed.
stage_spark() {
    cargo build --release --locked -p firstmatch-cli
    PROGRAM="$built/release/firstmatch" crates/firstmatch-python/tests/spark/run.sh "$built/spark"
}

# The report in a browser, by the lab's program as tests build it. Where Debian's chromium is missing and can be
# installed, it is, in under a minute.
stage_report() {
    lab --version >/dev/null
    LAB="$built/debug/firstmatch-lab" crates/firstmatch-lab/tests/report.sh
}

# The README's first command, as typed there.
stage_readme() {
    local command
    command=$(grep -m1 -o 'cargo run --release -- classify .*pcapng' README.md)
    say "$command"
    eval "$command"
}

# Fuzz targets, a minute each (FUZZ_SECONDS): see fuzz/README.md.
stage_fuzz() { fuzz/run.sh; }

# Rules come and go, millions of changes: CHURN_STEPS for each of CHURN_SEEDS sets of five profiles, twice. Beside
# threads that look up through rule caches there are CHURN_CHANGES changes in all.
stage_churn() {
    CHURN_CHANGES="${CHURN_CHANGES:-1000000}" cargo test --release -p firstmatch-generate --locked --test generate cached
    CHURN_STEPS="${CHURN_STEPS:-60000}" CHURN_SEEDS="${CHURN_SEEDS:-20}" \
        cargo test --release -p firstmatch-generate --locked --test generate churn
}

# Packets counted and questions asked beside a writer at full rate, for long.
stage_beside() {
    BESIDE_DECISIONS="${BESIDE_DECISIONS:-10000000}" BESIDE_COMMITS="${BESIDE_COMMITS:-100000}" \
        BESIDE_SECONDS="${BESIDE_SECONDS:-60}" \
        cargo test --release -p firstmatch-core --locked --test harness beside:: -- --nocapture --test-threads 1
}

# Analysis of rule sets against brute force: ANALYZE_ROUNDS times 1,500 pairs of sets, 10^5 of them.
stage_analyze() {
    ANALYZE_ROUNDS="${ANALYZE_ROUNDS:-70}" cargo test --release -p firstmatch-core --locked --test harness analyze
}

# Packets through threads, 10^8 of them unless PLANE_PACKETS says otherwise: none lost, doubled or reordered. Then 10^6
# through each form of the threads of papers.
stage_plane() {
    PLANE_PACKETS="${PLANE_PACKETS:-100000000}" \
        cargo test --release -p firstmatch-net --features plane --locked --test net in_a_long_run -- --nocapture
    SYSTEM_PACKETS="${SYSTEM_PACKETS:-1000000}" \
        cargo test --release -p firstmatch-net --features systems --locked --test net -- storm pnpf rfc
}

# Real captures, fetched into target/captures, packet by packet against another parser.
stage_captures() {
    crates/firstmatch-net/tests/captures.sh
    cargo test -p firstmatch-net --locked --test net captures
}

all=(fmt clippy doc deny shell words package aarch64 dpdk test live loom readme lab rte_acl capi python report)
on_request=(growth fuzz churn beside analyze plane captures spark)
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
    began=$SECONDS
    "stage_$stage"
    say "$stage took $((SECONDS - began)) s"
done
say "done: ${stages[*]}"
