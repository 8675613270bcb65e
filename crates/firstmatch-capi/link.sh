#!/usr/bin/env bash
# Installs the library for C programs below the folder PREFIX (default: target/capi):
#   lib/libfirstmatch.so.1, lib/libfirstmatch.so   shared library, which exports the functions of the header alone
#   lib/libfirstmatch.a                            static library
#   include/firstmatch.h, lib/pkgconfig/firstmatch.pc
# DESTDIR goes before PREFIX, for packages: files go to DESTDIR/PREFIX, and are to be used at PREFIX.
# PROFILE (default: dist) is the profile of Cargo. ARCHIVE is the crate's static library, if it is built already.
#
# The C compiler links the shared library, because one of rustc's cannot have a version script of its own. The static
# library is one object in which only the functions of the header are global. Otherwise it would collide with another
# static library in Rust, because both have the standard library of Rust.
set -euo pipefail
given=${1:-}
[ -z "$given" ] || given=$(realpath -ms "$given")
archive=${ARCHIVE:-}
[ -z "$archive" ] || archive=$(realpath "$archive")
destdir=${DESTDIR:-}
[ -z "$destdir" ] || destdir=$(realpath -ms "$destdir")
cd "$(dirname "$0")"
profile=${PROFILE:-dist}
target=${CARGO_TARGET_DIR:-$(realpath ../..)/target}
prefix=$destdir${given:-$target/capi}
abi=$(sed -n 's/^#define FIRSTMATCH_ABI_VERSION //p' include/firstmatch.h)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' ../../Cargo.toml)
# The compiler adds its own runtime, which has another name where programs are linked with -static.
needed=(-lutil -lrt -lpthread -lm -ldl)

if [ -z "$archive" ]; then
    cargo rustc --quiet --locked -p firstmatch-capi --lib --profile "$profile" --crate-type staticlib
    archive=$target/$profile/libfirstmatch_capi.a
    [ "$profile" != dev ] || archive=$target/debug/libfirstmatch_capi.a
fi
mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
cp include/firstmatch.h "$prefix/include/"

mapfile -t functions < <(sed -n 's/.*\b\(firstmatch_[a-z_0-9]*\)(.*/\1/p' "tests/abi/$abi.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' "${functions[@]}" >"$work/functions"
${CC:-cc} -r -nostdlib -o "$work/all.o" "${functions[@]/#/-Wl,-u,}" "$archive" -Wl,--gc-sections
# Joined bitcode is no bitcode any more, and tools would stumble over it.
objcopy --keep-global-symbols="$work/functions" -R .llvmbc -R .llvmcmd "$work/all.o" "$work/firstmatch.o"
rm -f "$prefix/lib/libfirstmatch.a"
ar rcs "$prefix/lib/libfirstmatch.a" "$work/firstmatch.o"

{
    printf 'FIRSTMATCH_%s {\n    global:\n' "$abi"
    printf '        %s;\n' "${functions[@]}"
    printf '    local:\n        *;\n};\n'
} >"$work/map"
${CC:-cc} -shared -o "$prefix/lib/libfirstmatch.so.$abi" "${functions[@]/#/-Wl,-u,}" "$archive" \
    -Wl,-soname,"libfirstmatch.so.$abi" -Wl,--version-script,"$work/map" -Wl,-z,defs -Wl,--gc-sections -Wl,--as-needed -s \
    -lgcc_s "${needed[@]}" -lc
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
