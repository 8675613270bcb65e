#!/usr/bin/env bash
# DPDK's own programs over this library, beside the original: tests pass, every result of a lookup and every exit code
# is the same. LIBRARIES is the folder that link.sh made. With SETS, a folder of ClassBench files (NAME.rules.zst and
# NAME.trace.zst), these are looked up, too.
set -euo pipefail
libraries=${1:?"the folder of link.sh"}
libraries=$(realpath "$libraries")
preload=$libraries/libfirstmatch_rte_acl.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# One core, because the lines of several would mix.
core=$(awk '/^Cpus_allowed_list/ { print $2 + 0 }' /proc/self/status)
eal=(-l "$core" --no-huge --no-pci --no-shconf --no-telemetry --log-level=1)

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Each library exports exactly these functions, in these nodes.
names() { objdump -T "$1" | awk '$2 == "g" && NF > 5 && $4 != "*ABS*" { print $(NF - 1), $NF }' | sort; }
expected() {
    local node
    for name in add_rules build classify classify_alg classify_scalar create dump find_existing free list_dump reset \
        reset_rules set_ctx_classify; do echo "$1 rte_acl_$name"; done
    node=EXPERIMENTAL
    [ "$1" != Base ] || node=Base
    case $1 in DPDK_26 | Base) printf '%s rte_acl_get_mem_hook\n%s rte_acl_set_mem_hook\n' "$node" "$node" ;; esac
    node=FIRSTMATCH_1
    [ "$1" != Base ] || node=Base
    sed -n "s/.*\b\(firstmatch_acl_[a-z_]*\)(.*/$node \1/p" "$(dirname "$0")/../include/firstmatch_rte_acl.h"
}
for abi in 23 24 25 26; do
    diff <(expected "DPDK_$abi" | sort) <(names "$libraries/librte_acl.so.$abi") || fail "symbols of ABI $abi"
done
diff <(expected Base | sort) <(names "$preload") || fail "symbols of the file to preload"
for file in "$libraries"/*.so*; do
    ! objdump -p "$file" | grep -q 'NEEDED.*rte_' || fail "$file needs DPDK"
done

# The static library has no other global symbols, so that it collides with none.
diff <(expected Base | awk '{ print $2 }' | sort) <(nm -g --defined-only "$libraries/libfirstmatch_rte_acl.a" |
    awk 'NF == 3 { print $3 }' | sort) || fail "the global symbols of the static library"

# The example over both libraries, with DPDK's header if it is installed. It runs without DPDK.
here=$(dirname "$0")
flags=(-std=c99 -pedantic "-I$here/c")
! pkg-config --exists libdpdk 2>/dev/null || read -ra flags < <(pkg-config --cflags libdpdk)
# Warnings of DPDK's own headers do not count.
flags=("${flags[@]/#-I/-isystem}" -Wall -Wextra -Werror "-I$libraries/include")
${CC:-cc} "${flags[@]}" "$here/../examples/changes.c" -o "$work/shared" "$preload"
${CC:-cc} "${flags[@]}" "$here/../examples/changes.c" -o "$work/static" "$libraries/libfirstmatch_rte_acl.a" -lm
LD_LIBRARY_PATH=$libraries "$work/shared" | diff "$here/examples/changes.txt" - || fail "examples/changes.c"
"$work/static" | diff "$here/examples/changes.txt" - || fail "examples/changes.c, static"

if ! command -v dpdk-test-acl >/dev/null; then
    line='!! SKIPPED: DPDK'"'"'s programs over librte_acl: there is no dpdk-test-acl (apt-get install dpdk-dev)'
    echo "$line" | tee -a "${FIRSTMATCH_SKIPPED:-/dev/null}"
    exit 0
fi

# Writes 400 rules of a family as ClassBench does, and packets at and beside their corners.
generate() {
    awk -v family="$1" -v rules="$work/rules$1" -v trace="$work/trace$1" '
        BEGIN {
            srand(family)
            for (i = 0; i < 400; i++) {
                src = address(); dst = address(); bits = family == 6 ? 128 : 32
                length1 = int(rand() * 5) * bits / 4; length2 = int(rand() * 5) * bits / 4
                low = rand() < 0.5 ? 0 : int(rand() * 9); high = rand() < 0.3 ? 65535 : low + int(rand() * 5)
                proto = rand() < 0.3 ? "0x00/0x00" : rand() < 0.5 ? "0x06/0xff" : "0x11/0xff"
                print "@" src "/" length1 "\t" dst "/" length2 "\t0 : 65535\t" low " : " high "\t" proto > rules
                for (k = 0; k < 5; k++) {
                    from = rand() < 0.8 ? src : address(); to = rand() < 0.8 ? dst : address()
                    print word(from), word(to), int(rand() * 9), low + int(rand() * 3), rand() < 0.5 ? 6 : 17 > trace
                }
            }
        }
        function byte() { return int(rand() * 3) * 127 }
        function address(  text, i) {
            if (family == 4) return byte() "." byte() "." byte() "." byte()
            for (i = 0; i < 8; i++) text = text (i ? ":" : "") sprintf("%x", byte() * 256 + byte())
            return text
        }
        function word(text,  b) {
            if (family == 6) return text
            split(text, b, "."); return sprintf("%.0f", ((b[1] * 256 + b[2]) * 256 + b[3]) * 256 + b[4])
        }
    '
}
generate 4
generate 6

runs=0
results=0
# Runs dpdk-test-acl with these arguments under both libraries.
compare() {
    local side code=() memory=512
    [ -z "${SETS:-}" ] || memory=4096
    for side in "" "$preload"; do
        code+=(0)
        LD_PRELOAD=$side dpdk-test-acl "${eal[@]}" -m "$memory" -- "$@" --verbose=2 >"$work/out" 2>&1 || code[-1]=$?
        grep 'result:' "$work/out" >"$work/results${#code[@]}" || true
    done
    [ "${code[0]}" = "${code[1]}" ] || fail "exit codes ${code[*]} of dpdk-test-acl $*"
    cmp -s "$work/results1" "$work/results2" || fail "results of dpdk-test-acl $*"
    runs=$((runs + 1))
    results=$((results + $(wc -l <"$work/results1")))
}

# Proves for each way of loading whose functions are called.
bound() {
    LD_DEBUG=bindings "$@" dpdk-test-acl "${eal[@]}" -m 64 -- --rulesf="$work/rules4" 2>&1 |
        grep -o 'to [^ ]* \[0\]: normal symbol `rte_acl_build'"'" | awk '{ print $2 }' | sort -u
}
[ "$(bound env "LD_PRELOAD=$preload")" = "$preload" ] || fail "the file to preload is not called"
[ "$(bound env "LD_LIBRARY_PATH=$libraries")" = "$libraries/librte_acl.so.23" ] || fail "the file of ABI 23 is not called"
case $(bound env) in "$libraries"/*) fail "the original is not called by default" ;; esac

four=(--rulesf="$work/rules4" --tracef="$work/trace4")
for alg in scalar sse avx2 neon altivec avx512x16 avx512x32 default; do compare "${four[@]}" --alg="$alg"; done
for step in 1 3 7 8 16 32 256 4096; do compare "${four[@]}" --tracestep="$step"; done
for built in 1 3 16; do
    for run in 1 3 4 8 16; do compare "${four[@]}" --bldcat="$built" --runcat="$run"; done
done
for size in 0 1 1000000000; do compare "${four[@]}" --maxsize="$size"; done
compare "${four[@]}" --rulenum=10
compare "${four[@]}" --iter=3
for six in --ipv6 --ipv6=4B --ipv6=8B; do
    for run in 1 16; do compare --rulesf="$work/rules6" --tracef="$work/trace6" "$six" --bldcat="$run" --runcat="$run"; done
done
if [ -n "${SETS:-}" ]; then
    for rules in "$SETS"/*.rules.zst; do
        name=$(basename "$rules" .rules.zst)
        zstdcat "$rules" >"$work/rules"
        zstdcat "$SETS/$name.trace.zst" >"$work/trace"
        compare --rulesf="$work/rules" --tracef="$work/trace" --rulenum=200000 --tracenum=200000 --bldcat=3 --runcat=4
    done
fi
[ "$results" -gt 50000 ] || fail "only $results results were compared"
echo "dpdk-test-acl: $runs runs, $results results, all as the original's"

for test in acl_autotest table_autotest; do
    DPDK_TEST=$test LD_PRELOAD=$preload timeout 300 dpdk-test "${eal[@]}" -m 4096 >"$work/out" 2>&1 ||
        { tail -30 "$work/out" && fail "$test"; }
    grep -q '^Test OK' "$work/out" || fail "$test does not say that it passed"
    echo "dpdk-test: $test passed"
done
