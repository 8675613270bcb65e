#!/usr/bin/env bash
# The installed library: it exports the frozen list of functions and nothing else, and the examples build over it with
# each compiler, warnings as errors, and say the same over the shared and the static library and linked with -static. It
# links beside firstmatch-rte-acl's static library, which is looked for in RTE_ACL (default: rte-acl beside PREFIX).
# PREFIX is that of link.sh.
set -euo pipefail
prefix=$(realpath "${1:?"the folder of link.sh"}")
cd "$(dirname "$0")/.."
abi=$(sed -n 's/^#define FIRSTMATCH_ABI_VERSION //p' include/firstmatch.h)
library=$prefix/lib/libfirstmatch.so.$abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}
skip() { printf '!! SKIPPED: %s\n' "$*" | tee -a "${FIRSTMATCH_SKIPPED:-/dev/null}"; }

exported() { objdump -T "$library" | awk '$2 == "g" && NF > 5 && $4 != "*ABS*" { print $(NF - 1), $NF }' | LC_ALL=C sort; }
frozen() { sed -n "s/.*\b\(firstmatch_[a-z_0-9]*\)(.*/FIRSTMATCH_$abi \1/p" "tests/abi/$abi.txt" | LC_ALL=C sort; }
diff <(frozen) <(exported) || fail "the symbols are not the frozen list"
objdump -p "$library" | grep -q "SONAME *libfirstmatch.so.$abi\$" || fail "the soname"
# Only libraries of the system are needed.
! objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|libgcc_s|ld-linux.*)\.so' ||
    fail "it needs other libraries"

# The static library has no other global symbols, so that it collides with none.
diff <(frozen | awk '{ print $2 }') <(nm -g --defined-only "$prefix/lib/libfirstmatch.a" | awk 'NF == 3 { print $3 }' |
    LC_ALL=C sort) || fail "the global symbols of the static library"

flags=("-I$prefix/include")
shared=("-L$prefix/lib" -lfirstmatch)
private=(-lutil -lrt -lpthread -lm -ldl)
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    read -ra flags < <(pkg-config --cflags firstmatch)
    read -ra shared < <(pkg-config --libs firstmatch)
    mapfile -t private < <(pkg-config --libs --static firstmatch | tr ' ' '\n' | grep -v -e '^-lfirstmatch$' -e '^$')
    pkg-config --exists "firstmatch = $(sed -n 's/^Version: //p' "$prefix/lib/pkgconfig/firstmatch.pc")"
else
    skip "firstmatch.pc: there is no pkg-config (apt-get install pkg-config)"
fi

# Builds an example with a compiler, over either library, and compares what both say with the file of that name.
example() {
    local compiler=$1 standard=$2 source=$3 name
    shift 3
    command -v "$compiler" >/dev/null || {
        skip "examples in C with $compiler: it is not installed"
        return 0
    }
    name=$(basename "$source" | sed 's/\..*//')
    "$compiler" "-std=$standard" -O2 -Wall -Wextra -Werror -pedantic "${flags[@]}" "$source" -o "$work/shared" \
        "${shared[@]}" -lpthread
    "$compiler" "-std=$standard" -O2 -Wall -Wextra -Werror -pedantic "${flags[@]}" "$source" -o "$work/static" \
        "$prefix/lib/libfirstmatch.a" "${private[@]}"
    LD_LIBRARY_PATH=$prefix/lib "$work/shared" "$@" >"$work/said"
    diff "tests/examples/$name.txt" "$work/said" || fail "$source with $compiler"
    "$work/static" "$@" | diff "$work/said" - || fail "$source with $compiler, static"
    # The C library warns of functions of the standard library of Rust that the library never calls.
    "$compiler" -static "-std=$standard" -O2 "${flags[@]}" "$source" -o "$work/alone" "${shared[@]}" "${private[@]}" \
        2>"$work/warnings" || { cat "$work/warnings" && fail "$source with $compiler -static"; }
    "$work/alone" "$@" | diff "$work/said" - || fail "$source with $compiler -static"
}
for compiler in gcc clang; do
    example "$compiler" c99 examples/classify.c tests/examples/classify.rules
    example "$compiler" c11 examples/router.c
done
for compiler in g++ clang++; do
    example "$compiler" c++17 examples/table.cc
done

# A prefix is found from where the caller stands, and DESTDIR goes before it, but not into the files.
mkdir "$work/here"
(cd "$work/here" && ARCHIVE=$prefix/lib/libfirstmatch.a "$OLDPWD/link.sh" relative)
[ -e "$work/here/relative/lib/libfirstmatch.so" ] || fail "a relative prefix"
DESTDIR=$work/package ARCHIVE=$prefix/lib/libfirstmatch.a ./link.sh /usr/local
[ -e "$work/package/usr/local/lib/libfirstmatch.so" ] || fail "DESTDIR"
! grep -q "$work" "$work/package/usr/local/lib/pkgconfig/firstmatch.pc" || fail "firstmatch.pc names DESTDIR"

other=$(realpath -m "${RTE_ACL:-$prefix/../rte-acl}")
if [ -e "$other/libfirstmatch_rte_acl.a" ]; then
    printf '%s\n' '#include <firstmatch.h>' '#include <firstmatch_rte_acl.h>' \
        'int main(void) { return firstmatch_abi_version() == 0 || firstmatch_acl_version()[0] != '"'f'"'; }' >"$work/both.c"
    gcc "-I$prefix/include" "-I$other/include" "$work/both.c" -o "$work/both" "$prefix/lib/libfirstmatch.a" \
        "$other/libfirstmatch_rte_acl.a" "${private[@]}" || fail "both static libraries in one program"
    "$work/both" || fail "both static libraries in one program"
else
    skip "both static libraries in one program: there is no $other (crates/firstmatch-rte-acl/link.sh)"
fi

# PYTHON names a Python with pyarrow, and perhaps DuckDB.
python=${PYTHON:-python3}
if "$python" -c 'import pyarrow' 2>/dev/null; then
    "$python" tests/arrow.py "$prefix"
else
    skip "firstmatch_classify_arrow from Python: there is no pyarrow (pip install pyarrow duckdb)"
fi
echo "the installed library is good"
