#!/usr/bin/env bash
# How many packets a second the program classifies on one core, from a file in the page cache to the summary:
#
#     benchmarks/end-to-end.sh RULES...
#
# From each rule file a capture of 64-byte frames is made, uniform over the rules, and a copy compressed by zstd. The
# program is run on both in interleaved rounds, its answers are compared with the oracle's on a sample, and
# `zstd --test` shows what decompression takes alone. Rates are in million packets a second: of the CPU time of the whole
# process, rules and kernel included, which is what one core does that has nothing else to do; of its wall time; and the
# program's own figure (`stream`), wall time from the first packet to the last.
#
#     PACKETS=4000000 ROUNDS=9 CPU=1      what is taken if nothing is said
#
# Needs zstd, and taskset of util-linux.
set -euo pipefail
if [ $# -eq 0 ]; then
    echo "usage: benchmarks/end-to-end.sh RULES..." >&2
    exit 2
fi
packets="${PACKETS:-4000000}" rounds="${ROUNDS:-9}" cpu="${CPU:-1}"
TIMEFORMAT='%R %U %S'

manifest="$(dirname "$0")/../Cargo.toml"
cargo build --quiet --profile dist --locked --manifest-path "$manifest"
program="${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/dist/firstmatch"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A number of the JSON object that the last run printed.
figure() { sed -n "s/^  \"$1\": \([0-9.e+-]*\),\{0,1\}$/\1/p" "$folder/json"; }

for rules in "$@"; do
    name=$(basename "${rules%%.rules*}")
    "$program" generate trace "$rules" --headers "$packets" --format pcap >"$folder/$name.pcap"
    zstd --quiet "$folder/$name.pcap"
    for input in pcap pcap.zst; do
        # A wrong answer ends everything.
        "$program" classify "$rules" "$folder/$name.$input" --check 20000 --json >"$folder/json"
    done
done

for ((round = 0; round < rounds; round++)); do
    for rules in "$@"; do
        name=$(basename "${rules%%.rules*}")
        for input in pcap pcap.zst; do
            # Warnings about the rules come before the times.
            { time taskset -c "$cpu" "$program" classify "$rules" "$folder/$name.$input" --json >"$folder/json"; } 2>&1 |
                tail -n 1 >"$folder/time"
            read -r wall user system <"$folder/time"
            echo "$name,$(figure rules),$input $wall $user $system $(figure packets_per_second) $(figure ns_per_packet)"
        done
        { time taskset -c "$cpu" zstd --quiet --test "$folder/$name.pcap.zst"; } 2>"$folder/time"
        echo "$name,$(figure rules),zstd-alone $(cat "$folder/time") 0 0"
    done
done >"$folder/rounds"

echo 'set,rules,input,packets,rounds,cpu_min,cpu_median,cpu_max,wall_median,stream_median,classifier_ns_median'
sort -s -k1,1 "$folder/rounds" | awk -v packets="$packets" -v rounds="$rounds" '
    # Puts a value into its place among the sorted ones of a column.
    function add(column, value,    at) {
        for (at = count; at > 1 && sorted[column, at - 1] > value; at--) sorted[column, at] = sorted[column, at - 1]
        sorted[column, at] = value
    }
    function median(column) { return sorted[column, int((count + 1) / 2)] }
    function rate(seconds) { return packets / seconds / 1e6 }
    function print_row() {
        if (count == 0) return
        printf "%s,%d,%d,%.2f,%.2f,%.2f,%.2f", row, packets, rounds, sorted["cpu", 1], median("cpu"), \
            sorted["cpu", count], median("wall")
        if (median("stream") > 0) printf ",%.2f,%.1f\n", median("stream") / 1e6, median("classifier")
        else printf ",,\n"
    }
    $1 != row { print_row(); row = $1; count = 0 }
    {
        count++
        add("wall", rate($2)); add("cpu", rate($3 + $4)); add("stream", $5); add("classifier", $6)
    }
    END { print_row() }
'
