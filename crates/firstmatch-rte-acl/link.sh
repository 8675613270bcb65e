#!/usr/bin/env bash
# Links the shared libraries that C programs load, to the folder OUT (default: target/rte-acl):
#   libfirstmatch_rte_acl.so   to preload, for every version of DPDK
#   librte_acl.so.23 … .26     in place of the original of one ABI: DPDK 22.11, 23.11, 24.11, 25.11 and later
#   libfirstmatch_rte_acl.a    in place of librte_acl.a, for programs that are linked statically
#   include/firstmatch_rte_acl.h   header of the functions beside the original's
# PROFILE (default: dist) is the profile of Cargo.
#
# The C compiler links them, because a shared library of rustc's cannot have a version script of its own. The static
# library is one object in which only these functions are global. Otherwise it would collide with another static library
# in Rust, because both have the standard library of Rust.
set -euo pipefail
given=${1:-}
[ -z "$given" ] || given=$(realpath -ms "$given")
cd "$(dirname "$0")"
profile=${PROFILE:-dist}
target=${CARGO_TARGET_DIR:-$(realpath ../..)/target}
out=${given:-$target/rte-acl}

cargo rustc --quiet --locked -p firstmatch-rte-acl --lib --features exports --profile "$profile" --crate-type staticlib
archive=$target/$profile/libfirstmatch_rte_acl.a
[ "$profile" != dev ] || archive=$target/debug/libfirstmatch_rte_acl.a
mkdir -p "$out/include"
cp include/firstmatch_rte_acl.h "$out/include/"

original=(add_rules build classify classify_alg classify_scalar create dump find_existing free list_dump reset
    reset_rules set_ctx_classify)
original=("${original[@]/#/rte_acl_}")
since_26=(rte_acl_get_mem_hook rte_acl_set_mem_hook)
mapfile -t own < <(sed -n 's/.*\b\(firstmatch_acl_[a-z_]*\)(.*/\1/p' include/firstmatch_rte_acl.h)

# Prints a node of a version script: its name, then its symbols.
node() {
    printf '%s {\n    global:\n' "$1"
    printf '        %s;\n' "${@:2}"
    printf '};\n'
}

# Links a library with a soname, a version script from standard input and the symbols that must be there.
link() {
    local soname=$1 map
    shift
    map=$work/map
    cat >"$map"
    ${CC:-cc} -shared -o "$out/$soname" "${@/#/-Wl,-u,}" "$archive" \
        -Wl,-soname,"$soname" -Wl,--version-script,"$map" -Wl,-z,defs -Wl,--gc-sections -Wl,--as-needed -s -lgcc_s -lm -lc
}

all=("${original[@]}" "${since_26[@]}" "${own[@]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' "${all[@]}" >"$work/functions"
${CC:-cc} -r -nostdlib -o "$work/all.o" "${all[@]/#/-Wl,-u,}" "$archive" -Wl,--gc-sections
# Joined bitcode is no bitcode any more, and tools would stumble over it.
objcopy --keep-global-symbols="$work/functions" -R .llvmbc -R .llvmcmd "$work/all.o" "$work/firstmatch_rte_acl.o"
rm -f "$out/libfirstmatch_rte_acl.a"
ar rcs "$out/libfirstmatch_rte_acl.a" "$work/firstmatch_rte_acl.o"

# Without versions the functions win over the original of any version.
{ node "" "${all[@]}" | sed 's/^};/    local:\n        *;\n};/'; } | link libfirstmatch_rte_acl.so "${all[@]}"

for abi in 23 24 25 26; do
    symbols=("${original[@]}" "${own[@]}")
    [ "$abi" -lt 26 ] || symbols+=("${since_26[@]}")
    {
        node "DPDK_$abi" "${original[@]}" | sed 's/^};/    local:\n        *;\n};/'
        [ "$abi" -lt 26 ] || node EXPERIMENTAL "${since_26[@]}"
        node FIRSTMATCH_1 "${own[@]}"
    } | link "librte_acl.so.$abi" "${symbols[@]}"
done
