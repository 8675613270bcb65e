"""A bridge under load whose rules are read anew once a second: no wrong verdict, no loss that is not counted, flat memory.

soak.py [--seconds N] [--rate N] [--rules N] [--options "…"]

Needs what peers.py needs, without the peers. Ten rules deny and permit in turn, and every third file is refused. Frames
for the other rules must come out exactly, whatever happens; memory is that of the program after a tenth of the time, and
at the end.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import FIRSTMATCH, TRAFFIC, numbers, ports, sh

# Rules that change: the even ones below this.
CHANGING = 20


def resident(pid: int) -> int:
    """KiB of memory of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--rate", type=int, default=40_000)
    parser.add_argument("--rules", type=int, default=10_000)
    parser.add_argument("--options", default="")
    args = parser.parse_args()
    if "FIRSTMATCH_INSIDE" not in os.environ:
        os.environ["FIRSTMATCH_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    frames = args.rate * args.seconds
    with tempfile.TemporaryDirectory() as name, ports():
        rules = Path(name) / "x.rules"
        text = sh(f"{TRAFFIC} rules {args.rules}")
        lines = text.splitlines()
        other = [line.replace("permit", "deny") if at < CHANGING else line for at, line in enumerate(lines)]
        files = ["\n".join(other) + "\n", text, "permit upd\n"]
        rules.write_text(text)
        line = [str(FIRSTMATCH), "bridge", str(rules), "vb", "vc", "--json", "--pass-arp", "--no-watch-file"]
        log = (Path(name) / "log").open("w+")
        bridge = subprocess.Popen([*line, *shlex.split(args.options)], text=True, stdout=subprocess.PIPE, stderr=log)
        while "ready" not in (Path(name) / "log").read_text():
            time.sleep(0.05)
        receive = ["receive", "vd", "--idle", "2000", "--rules", str(args.rules), "--steady", str(CHANGING)]
        sink = subprocess.Popen([str(TRAFFIC), *receive], text=True, stdout=subprocess.PIPE)
        assert sink.stdout
        assert sink.stdout.readline() == "ready\n"
        send = ["send", "va", "--frames", str(frames), "--rules", str(args.rules), "--rate", str(args.rate)]
        sender = subprocess.Popen([str(TRAFFIC), *send], text=True, stdout=subprocess.PIPE)
        start, early, reloads = time.monotonic(), 0, 0
        while sender.poll() is None:
            rules.write_text(files[reloads % 3])
            bridge.send_signal(signal.SIGHUP)
            reloads += 1
            time.sleep(1)
            if not early and time.monotonic() - start > args.seconds / 10:
                early = resident(bridge.pid)
        late = resident(bridge.pid)
        came = numbers(sink.communicate()[0])
        bridge.send_signal(signal.SIGTERM)
        answer = json.loads(bridge.communicate()[0])
    losses, done = answer["losses"], answer["reloads"]
    steady = sum(1 for rule in range(CHANGING, args.rules) if rule % 2 == 0)
    whole, rest = divmod(frames, args.rules)
    expected = whole * steady + sum(1 for rule in range(CHANGING, rest) if rule % 2 == 0)
    missing = expected - int(came["steady"])
    print(f"{frames} frames in {args.seconds} s, {args.rules} rules, {args.options or 'copies'}: {losses}")
    print(f"reloads: {done} of {reloads} asked for; {missing} frames of steady rules missing, {came['wrong']} wrong")
    print(f"memory: {early} KiB after a tenth of the time, {late} at the end")
    assert losses["received"] == losses["decided"] + losses["lost"] == frames
    assert int(came["wrong"]) == 0 and missing <= losses["lost"] + losses["unsent"] + int(came["lost"])
    assert late <= early * 1.1


if __name__ == "__main__":
    main()
