#!/usr/bin/env bash
# Fetches real captures for tests/net/captures.rs into a folder (target/captures unless told otherwise), from package
# registries, each through its ordinary client: Debian's source package tcpdump, the crate pcap-parser, the Go module
# gopacket. Captures that are there already are kept; a source whose client is not installed is skipped, loudly.
#
# Their licences allow the use (BSD, MIT/Apache, BSD), but they are test data of others: fetched, never committed.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=$(realpath -m "${1:-target/captures}")
gopacket=github.com/gopacket/gopacket@v1.7.7

skip() { printf '!! SKIPPED: %s\n' "$*" | tee -a "${FIRSTMATCH_SKIPPED:-/dev/null}" >&2; }

# keep NAME FROM: copies the captures below FROM to $folder/NAME.
keep() {
    local new="$folder/.$1.new"
    rm -rf "$new"
    mkdir -p "$new"
    (cd "$2" && find . -type f \( -name '*.pcap' -o -name '*.pcapng' -o -name '*.cap' -o -name '*.ntar' \) -print0 |
        xargs -0 -r cp --parents -t "$new")
    chmod -R u+w "$new"
    mv "$new" "$folder/$1"
    printf '%s: %s captures\n' "$1" "$(find "$folder/$1" -type f | wc -l)"
}

from_debian() {
    command -v apt-get >/dev/null || { skip "apt-get is not installed"; return; }
    local work
    work=$(mktemp -d)
    # The archives that this system uses, as source archives, in lists of our own: the system's stay as they are.
    # shellcheck disable=SC2016 # It is apt-get that expands them.
    apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)' |
        sed -n 's/^Packages \(.* main\)$/deb-src \1/p' | sort -u >"$work/sources.list"
    [ -s "$work/sources.list" ] || { skip "apt knows no archive"; rm -r "$work"; return; }
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    local options=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
    (cd "$work" && apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only tcpdump)
    mkdir "$work/source"
    tar -xf "$work"/tcpdump_*.orig.tar.?z -C "$work/source"
    keep tcpdump "$work/source"
    rm -r "$work"
}

from_cargo() {
    # pcap-parser is a dependency, so cargo has it already.
    local manifest
    manifest=$(cargo metadata --locked --format-version 1 | grep -o '"manifest_path":"[^"]*/pcap-parser-[^"]*"' |
        head -n 1 | cut -d '"' -f 4)
    keep pcap-parser "$(dirname "$manifest")/assets"
}

from_go() {
    command -v go >/dev/null || { skip "go is not installed"; return; }
    local module
    module=$(cd "$folder" && GOFLAGS=-mod=mod go mod download -json "$gopacket" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
    keep gopacket "$module"
}

mkdir -p "$folder"
[ -d "$folder/tcpdump" ] || from_debian
[ -d "$folder/pcap-parser" ] || from_cargo
[ -d "$folder/gopacket" ] || from_go
