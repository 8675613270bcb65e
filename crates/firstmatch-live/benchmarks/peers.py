"""CPU a frame and latency of `firstmatch bridge` beside what else stands between two interfaces.

peers.py [--rules N,N] [--rounds N] [--frames N] [--kinds NAME,NAME] [--record FILE]

Needs root, Linux, `unshare`, `ip`, `ethtool`, `taskset`, and for the peers `nft` and Open vSwitch (`ovsdb-server`,
`ovs-vswitchd`, `ovs-vsctl`, `ovs-ofctl`). Run after:

cargo build --release -p firstmatch-cli --features live
cargo build --release -p firstmatch-live --example traffic

Everything runs in a network namespace without a name, over two veth pairs: the sender at va, the bridge between vb and
vc, the receiver at vd. All of it, the kernel's work too, is on one core. The rules are `udp src /8 dst /24 dport N`; every
second one denies, frame k is for rule k, and the receiver checks that no denied frame comes out and that order holds.
A figure is the CPU time of all processes and of the core's ksoftirqd, all-out, divided by the frames sent; frames that a
full ring has lost are counted beside it. Kinds take turns in rounds; figures are medians with the least and the most.
Delays are from the sender's clock before the call to the kernel's stamp at vd, at 1,000 frames a second.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
FIRSTMATCH, TRAFFIC = BUILT / "firstmatch", BUILT / "examples" / "traffic"
CORE = 1
# Frames of kinds whose work grows with the rules are fewer, so that a round takes seconds.
# Number of frames before the clock starts: bridges learn, caches fill, and memory is touched.
WARM = 2_000
SLOW = {"nft-lines", "nft-map"}

Running = list[int]


def sh(line: str) -> str:
    return subprocess.run(line, shell=True, check=True, text=True, capture_output=True).stdout


def pinned(words: list[str], **more: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(["taskset", "-c", str(CORE), *words], text=True, **more)  # type: ignore[call-overload]


def cpu_of(pid: int) -> int:
    """Nanoseconds that all threads of a process have run."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total


def softirq() -> int:
    """Nanoseconds of the core's thread for deferred work of the kernel."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == f"ksoftirqd/{CORE}":
                return cpu_of(int(process.name))
        except OSError:
            continue
    return 0


@contextmanager
def ports() -> Iterator[None]:
    for one, other in [("va", "vb"), ("vc", "vd")]:
        sh(f"ip link add {one} type veth peer name {other}")
        for name in (one, other):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            sh(f"ip link set {name} up")
            sh(f"ethtool -K {name} gro off gso off tso off tx off rx off txvlan off rxvlan off")
    try:
        yield
    finally:
        sh("ip link del va; ip link del vc")


@contextmanager
def kernel(rules: int, form: str | None, folder: Path) -> Iterator[Running]:
    """The kernel's bridge, with rules of nft in one of two forms, or none."""
    sh("ip link add br0 type bridge mcast_snooping 0 && ip link set br0 up && ip link set vb master br0 && ip link set vc master br0")
    lines = sh(f"{TRAFFIC} rules {rules}").splitlines()
    parts = [re.match(r"(\w+) udp src (\S+) dst (\S+) dport (\d+)", line).groups() for line in lines]  # type: ignore[union-attr]
    text = "table bridge t {\n"
    words = {"permit": "accept", "deny": "drop"}
    if form == "map":
        entries = ",\n".join(f"{src} . {dst} . {port} : {words[action]}" for action, src, dst, port in parts)
        text += "map m { type ipv4_addr . ipv4_addr . inet_service : verdict; flags interval\nelements = {\n"
        text += entries + "} }\n"
    text += "chain f { type filter hook forward priority 0; policy drop;\n"
    if form == "map":
        text += "ip saddr . ip daddr . udp dport vmap @m\n"
    elif form == "lines":
        for action, src, dst, port in parts:
            text += f"ip saddr {src} ip daddr {dst} udp dport {port} {words[action]}\n"
    text += "}\n}\n"
    if form:
        (folder / "x.nft").write_text(text)
        sh(f"nft -f {folder}/x.nft")
    try:
        yield []
    finally:
        sh("nft flush ruleset; ip link del br0")


@contextmanager
def open_vswitch(rules: int, folder: Path) -> Iterator[Running]:
    """Open vSwitch with its forwarding in user space; its caches of flows are as it comes."""
    env = f"OVS_RUNDIR={folder} OVS_LOGDIR={folder} OVS_DBDIR={folder}"
    socket = f"unix:{folder}/db.sock"
    sh(f"ovsdb-tool create {folder}/conf.db /usr/share/openvswitch/vswitch.ovsschema")
    database = subprocess.Popen(
        f"{env} exec ovsdb-server {folder}/conf.db --remote=p{socket} --unixctl={folder}/db.ctl --log-file={folder}/db.log",
        shell=True,
        stderr=subprocess.DEVNULL,
    )
    while not (folder / "db.sock").exists():
        time.sleep(0.01)
    sh(f"ovs-vsctl --db={socket} --no-wait init")
    switch = subprocess.Popen(
        f"{env} exec taskset -c {CORE} ovs-vswitchd {socket} --unixctl={folder}/v.ctl --log-file={folder}/v.log",
        shell=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        sh(
            f"ovs-vsctl --db={socket} --timeout=20 add-br br1 -- set bridge br1 datapath_type=netdev fail-mode=secure"
            " -- add-port br1 vb -- add-port br1 vc"
        )
        out = {"permit": "output:vc", "deny": "drop"}
        flows = [
            re.sub(r"(\w+) udp src (\S+) dst (\S+) dport (\d+)", lambda m: f"udp,nw_src={m[2]},nw_dst={m[3]},tp_dst={m[4]},priority=9,actions={out[m[1]]}", line)
            for line in sh(f"{TRAFFIC} rules {rules}").splitlines()
        ]
        (folder / "flows").write_text("\n".join(flows) + "\n")
        sh(f"{env} ovs-ofctl add-flows unix:{folder}/br1.mgmt {folder}/flows")
        yield [switch.pid]
    finally:
        for process in (switch, database):
            process.send_signal(signal.SIGTERM)
            process.wait()


@contextmanager
def firstmatch(rules: int, options: list[str], folder: Path) -> Iterator[Running]:
    (folder / "x.rules").write_text(sh(f"{TRAFFIC} rules {rules}"))
    line = [str(FIRSTMATCH), "bridge", str(folder / "x.rules"), "vb", "vc", "--json", "--ring-mib", "32", "--pass-arp", *options]
    process = pinned(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr and process.stdout
    while "ready" not in (text := process.stderr.readline()):
        if not text:
            raise RuntimeError(f"firstmatch {options}: it has not begun")
    try:
        yield [process.pid]
    finally:
        process.send_signal(signal.SIGTERM)
        answer = json.loads(process.communicate()[0])
        losses = answer["losses"]
        assert losses["received"] == losses["decided"] + losses["lost"], losses


Kind = Callable[[int, Path], "object"]

KINDS: dict[str, Kind] = {
    "kernel-bridge": lambda rules, folder: kernel(rules, None, folder),
    "nft-map": lambda rules, folder: kernel(rules, "map", folder),
    "nft-lines": lambda rules, folder: kernel(rules, "lines", folder),
    "open-vswitch": open_vswitch,
    "bridge": lambda rules, folder: firstmatch(rules, [], folder),
    "bridge-keep": lambda rules, folder: firstmatch(rules, ["--offloads", "keep"], folder),
    "bridge-xdp": lambda rules, folder: firstmatch(rules, ["--io", "xdp"], folder),
    "bridge-tuplemerge": lambda rules, folder: firstmatch(rules, ["--engine", "tuplemerge"], folder),
    "bridge-linear": lambda rules, folder: firstmatch(rules, ["--engine", "linear"], folder),
    "bridge-shared": lambda rules, folder: firstmatch(rules, ["--system", "shared"], folder),
    "bridge-storm": lambda rules, folder: firstmatch(rules, ["--system", "storm"], folder),
    "bridge-rfc": lambda rules, folder: firstmatch(rules, ["--system", "rfc"], folder),
    "bridge-pnpf": lambda rules, folder: firstmatch(rules, ["--system", "pnpf"], folder),
}


def numbers(line: str) -> dict[str, str]:
    words = line.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def one(kind: str, rules: int, frames: int, rate: int) -> dict[str, float]:
    """Sends frames through one kind, and returns what was measured."""
    with tempfile.TemporaryDirectory() as name, ports(), KINDS[kind](rules, Path(name)) as running:  # type: ignore[attr-defined]
        sink = pinned([str(TRAFFIC), "receive", "vd", "--idle", "400", "--first", str(WARM)], stdout=subprocess.PIPE)
        assert sink.stdout
        assert sink.stdout.readline() == "ready\n"
        warm = ["send", "va", "--frames", str(WARM), "--rules", str(rules)]
        subprocess.run(["taskset", "-c", str(CORE), str(TRAFFIC), *warm], check=True, stdout=subprocess.DEVNULL)
        before = [cpu_of(pid) for pid in running], softirq(), cpu_of(sink.pid)
        line = ["send", "va", "--first", str(WARM), "--frames", str(frames), "--rules", str(rules), "--rate", str(rate)]
        sender = pinned([str(TRAFFIC), *line], stdout=subprocess.PIPE)
        sent = numbers(sender.communicate()[0])
        answer = numbers(sink.communicate()[0])
        # The receiver ends when no frame has come for 0.4 s, so that all of them are through.
        spent = int(sent["cpu_ns"]) + int(answer["cpu_ns"]) - before[2]
        spent += sum(cpu_of(pid) - cpu for pid, cpu in zip(running, before[0], strict=True)) + softirq() - before[1]
        expected = frames if kind == "kernel-bridge" else frames // 2
        if kind != "kernel-bridge":
            assert answer["wrong"] == "0", f"{kind}: denied frames came out: {answer}"
        assert kind == "bridge-storm" or answer["in_order"] == "true" or rate == 0, f"{kind}: {answer}"
        return {
            "cpu_us": spent / frames / 1000,
            "missing": expected - int(answer["received"]),
            "p50_us": int(answer["p50_ns"]) / 1000,
            "p99_us": int(answer["p99_ns"]) / 1000,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default="100,1000,10000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    if "FIRSTMATCH_INSIDE" not in os.environ:
        os.environ["FIRSTMATCH_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    kinds = args.kinds.split(",")
    commit = sh(f"git -C {ROOT} rev-parse --short HEAD").strip()
    rows = []
    for rules in map(int, args.rules.split(",")):
        # Kinds that did not begin or were wrong are told, and left out.
        out: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
        for measure in ("cpu", "delay"):
            for _ in range(args.rounds):
                for kind in list(out):
                    slow = kind in SLOW and rules > 100
                    frames = args.frames // (100 if slow and rules > 1000 else 10 if slow else 1)
                    try:
                        got = one(kind, rules, frames, 0) if measure == "cpu" else one(kind, rules, 3_000, 1_000)
                    except (AssertionError, RuntimeError, subprocess.CalledProcessError) as error:
                        print(f"{kind} with {rules} rules: {error} {getattr(error, 'stderr', '')}", file=sys.stderr)
                        del out[kind]
                        continue
                    keys = ["cpu_us", "missing"] if measure == "cpu" else ["p50_us", "p99_us"]
                    out[kind].append({key: got[key] for key in keys})
        base = statistics.median(row["cpu_us"] for row in out["nft-map"] if "cpu_us" in row) if "nft-map" in out else 0
        for kind, rounds in out.items():
            of = {key: [row[key] for row in rounds if key in row] for key in ("cpu_us", "missing", "p50_us", "p99_us")}
            cpu = [round(value, 2) for value in (statistics.median(of["cpu_us"]), min(of["cpu_us"]), max(of["cpu_us"]))]
            p50 = [round(value, 1) for value in (statistics.median(of["p50_us"]), min(of["p50_us"]), max(of["p50_us"]))]
            p99 = round(statistics.median(of["p99_us"]))
            missing = int(statistics.median(of["missing"]))
            rows.append([datetime.date.today(), commit, cpu_name(), rules, kind, *cpu, missing, *p50, p99])
            ratio = f"{cpu[0] / base:.2f}" if base else "-"
            print(f"{rules:6} {kind:20} {cpu[0]:7.2f} us ({cpu[1]}-{cpu[2]}), {ratio} of nft-map, {missing} missing; p50 {p50[0]} us, p99 {p99} us", flush=True)
    if args.record:
        with args.record.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            head = "date,commit,cpu,rules,kind,cpu_us,cpu_us_least,cpu_us_most,missing,p50_us,p50_us_least,p50_us_most,p99_us"
            writer.writerow(head.split(","))
            writer.writerows(rows)


def cpu_name() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


if __name__ == "__main__":
    main()
