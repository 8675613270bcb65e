#!/usr/bin/env bash
# Installs the library for C programs below the folder PREFIX (default: target/capi):
#   lib/libfirstmatch.so.1, lib/libfirstmatch.so   shared library, which exports the functions of the header alone
#   lib/libfirstmatch.a                            static library
#   include/firstmatch.h, lib/pkgconfig/firstmatch.pc
# PROFILE (default: dist) is the profile of Cargo. ARCHIVE is the crate's static library, if it is built already.
#
# The C compiler links the shared library, because one of rustc's cannot have a version script of its own.
set -euo pipefail
cd "$(dirname "$0")"
profile=${PROFILE:-dist}
target=${CARGO_TARGET_DIR:-$(realpath ../..)/target}
prefix=${1:-$target/capi}
abi=$(sed -n 's/^#define FIRSTMATCH_ABI_VERSION //p' include/firstmatch.h)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' ../../Cargo.toml)
needed=(-lgcc_s -lutil -lrt -lpthread -lm -ldl)

archive=${ARCHIVE:-}
if [ -z "$archive" ]; then
    cargo rustc --quiet --locked -p firstmatch-capi --lib --profile "$profile" --crate-type staticlib
    archive=$target/$profile/libfirstmatch_capi.a
    [ "$profile" != dev ] || archive=$target/debug/libfirstmatch_capi.a
fi
mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
cp include/firstmatch.h "$prefix/include/"
cp "$archive" "$prefix/lib/libfirstmatch.a"

mapfile -t functions < <(sed -n 's/.*\b\(firstmatch_[a-z_0-9]*\)(.*/\1/p' "tests/abi/$abi.txt")
map=$(mktemp)
trap 'rm -f "$map"' EXIT
{
    printf 'FIRSTMATCH_%s {\n    global:\n' "$abi"
    printf '        %s;\n' "${functions[@]}"
    printf '    local:\n        *;\n};\n'
} >"$map"
${CC:-cc} -shared -o "$prefix/lib/libfirstmatch.so.$abi" "${functions[@]/#/-Wl,-u,}" "$archive" \
    -Wl,-soname,"libfirstmatch.so.$abi" -Wl,--version-script,"$map" -Wl,-z,defs -Wl,--gc-sections -Wl,--as-needed -s \
    "${needed[@]}" -lc
ln -sf "libfirstmatch.so.$abi" "$prefix/lib/libfirstmatch.so"

cat >"$prefix/lib/pkgconfig/firstmatch.pc" <<END
prefix=\${pcfiledir}/../..
Name: firstmatch
Description: Packet classification: for every packet, the first rule that matches it
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lfirstmatch
Libs.private: ${needed[*]}
END
