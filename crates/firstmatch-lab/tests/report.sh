#!/usr/bin/env bash
# Opens the report in a headless browser. Every plot must be drawn, no text cut off or on another, nothing fetched, and
# no message on the console. It does so in light and dark, at the width of a desk and of a phone. Screenshots stay in
# target/report.
#     crates/firstmatch-lab/tests/report.sh [PAGE]      PAGE: another report than that of the test's records
# LAB is the program of the lab; without it, it is built.
set -euo pipefail
cd "$(dirname "$0")/../../.."
out="${CARGO_TARGET_DIR:-target}/report"
mkdir -p "$out"
here=crates/firstmatch-lab/tests/report

browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
if ! browser >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    if apt-get update -qq; then apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core || true; fi
fi
if ! browser >/dev/null; then
    printf '!! SKIPPED: there is no chromium (apt-get install chromium)\n' | tee -a "${FIRSTMATCH_SKIPPED:-/dev/null}"
    exit 0
fi

page="${1:-}"
if [ -z "$page" ]; then
    page="$out/page.html"
    lab=("${LAB:-cargo}")
    [ -n "${LAB:-}" ] || lab+=(run --release --quiet --locked -p firstmatch-lab --)
    "${lab[@]}" report --record "$here/record" --papers "$here/papers" --out "$page"
fi
checked="$out/checked.html"
{ cat "$page"; printf '<script>'; cat "$here/check.js"; printf '</script>'; } >"$checked"

profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
# The colours, the size of the window, then other arguments.
visit() {
    timeout 120 "$(browser)" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
        --user-data-dir="$profile" --enable-logging=stderr --blink-settings="preferredColorScheme=$1" \
        --window-size="$2" "${@:3}"
}
failed=0
for scheme in light dark; do
    number=$([ $scheme = dark ] && echo 0 || echo 1)
    for size in 1280,2400 390,2400; do
        file="$out/$scheme-${size%,*}"
        visit "$number" "$size" --screenshot="$file.png" "file://$(realpath "$page")" 2>"$file.log" >/dev/null
        # No window is as narrow as a phone; a frame is.
        frame="$out/frame.html"
        printf '<iframe src="%s" width="%s" height="2400" style="border:0"></iframe>
            <script>onmessage = (told) => { document.body.innerText = told.data; };</script>' \
            "$(basename "$checked")" "${size%,*}" >"$frame"
        visit "$number" "$size" --virtual-time-budget=20000 --dump-dom "file://$(realpath "$frame")" \
            2>>"$file.log" | sed 's/<br>/\n/g' >"$file.txt"
        printf '%s: ' "$file.png"
        grep -m1 -o '[0-9]* plots, [^<]*' "$file.txt" || { echo 'the page did not come to its end' && failed=1; }
        if grep -o 'fault: [^<]*' "$file.txt" || grep CONSOLE "$file.log" || grep -w '0 plots' "$file.txt"; then
            failed=1
        fi
    done
done
exit $failed
