"""Two policies over the same day of flows: verdicts over time, what is denied most, and what a change would alter.

It makes up the flows, and writes a page with pictures: python compare.py FOLDER
"""

import datetime
import random
import sys
from pathlib import Path

import matplotlib
import polars as pl
from firstmatch import Firewall

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "firstmatch", "svg.fonttype": "none", "font.size": 9})
from matplotlib import pyplot  # noqa: E402

BEFORE = """\
deny tcp dport 23 label "no telnet"
permit tcp dst 192.0.2.0/24 dport { 80, 443 } label "web"
permit tcp src 10.0.0.0/8 dport 22 label "ssh"
permit udp dport 53 label "dns"
permit icmp
"""
AFTER = """\
deny tcp dport 23 label "no telnet"
permit tcp dst 192.0.2.0/24 dport { 80, 443 } label "web"
permit tcp src 10.1.0.0/16 dport 22 label "ssh from the jump hosts"
permit udp dst 192.0.2.53 dport 53 label "our dns"
permit icmp
"""
DAY = datetime.datetime(2026, 3, 2, tzinfo=datetime.timezone.utc)
FLOWS = 100_000
COLORS = {"permit": "#4c9f70", "deny": "#c8553d"}


def flows() -> pl.DataFrame:
    """Makes up a day: web traffic by day, name lookups, SSH from everywhere, and a scan for Telnet after noon."""
    chance = random.Random(1)
    rows = []
    for _ in range(FLOWS):
        hour = chance.choices(range(24), [2] * 7 + [8] * 12 + [4] * 5)[0]
        src = f"10.{chance.randrange(4)}.{chance.randrange(8)}.{chance.randrange(1, 255)}"
        kind = chance.choices(["web", "dns", "ssh", "telnet"], [60, 30, 6, 30 if hour in (13, 14) else 1])[0]
        if kind == "web":
            end = (f"192.0.2.{chance.randrange(1, 50)}", chance.choice([80, 443, 443, 8080]), 6)
        elif kind == "dns":
            end = (chance.choice(["192.0.2.53", "192.0.2.53", "198.51.100.53"]), 53, 17)
        elif kind == "ssh":
            end = (f"192.0.2.{chance.randrange(1, 50)}", 22, 6)
        else:
            src, end = f"203.0.113.{chance.randrange(1, 9)}", (f"192.0.2.{chance.randrange(1, 255)}", 23, 6)
        time = DAY + datetime.timedelta(hours=hour, seconds=chance.randrange(3600))
        rows.append((time, src, end[0], chance.randrange(1024, 65536), end[1], end[2], chance.randrange(1, 60) * 100))
    names = ["ts", "srcaddr", "dstaddr", "srcport", "dstport", "protocol", "bytes"]
    return pl.DataFrame(rows, schema=names, orient="row").sort("ts")


def decided(day: pl.DataFrame, policy: Firewall, prefix: str) -> pl.DataFrame:
    """Returns verdict and line of each flow, under names that begin with `prefix`."""
    found = policy.classify(day, strings="plain", labels=True).to_polars()
    return found.select(pl.col("verdict", "line", "label").name.prefix(prefix))


def over_time(day: pl.DataFrame, path: Path) -> None:
    """Draws flows by hour and verdict."""
    hours = day.group_by(pl.col("ts").dt.hour().alias("hour"), "before_verdict").len().sort("hour")
    figure, axes = pyplot.subplots(figsize=(7, 2.4), layout="constrained")
    bottom = [0] * 24
    for verdict, color in COLORS.items():
        of = hours.filter(pl.col("before_verdict") == verdict)
        counts = dict(zip(of["hour"], of["len"], strict=True))
        heights = [counts.get(hour, 0) for hour in range(24)]
        axes.bar(range(24), heights, bottom=bottom, color=color, label=verdict, width=0.85)
        bottom = [one + other for one, other in zip(bottom, heights, strict=True)]
    axes.set(xlabel="hour of the day", ylabel="flows", xticks=range(0, 24, 3))
    axes.legend(frameon=False, loc="upper left", ncols=2)
    save(figure, axes, path)


def most_denied(day: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Draws the sources and ports of which most flows are denied, and returns them."""
    denied = day.filter(pl.col("before_verdict") == "deny")
    by_source = denied.group_by("srcaddr", "dstport", "before_line").agg(
        pl.len().alias("flows"), pl.col("dstaddr").n_unique().alias("destinations")
    )
    top = by_source.sort(["flows", "srcaddr"], descending=[True, False]).head(8)
    figure, axes = pyplot.subplots(figsize=(7, 2.2), layout="constrained")
    labels = [f"{src} to port {port}" for src, port in zip(top["srcaddr"], top["dstport"], strict=True)]
    axes.barh(labels, top["flows"], color=COLORS["deny"])
    axes.invert_yaxis()
    axes.set(xlabel="denied flows")
    save(figure, axes, path)
    return top


def changes(day: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Draws the flows whose verdict the change alters, and returns them by pair of rules."""
    changed = day.filter(pl.col("before_verdict") != pl.col("after_verdict"))
    pairs = changed.group_by("before_line", "after_line", "before_verdict", "after_verdict").agg(
        pl.len().alias("flows"), pl.col("srcaddr").n_unique().alias("sources")
    )
    hours = changed.group_by(pl.col("ts").dt.hour().alias("hour"), "before_line").len()
    figure, axes = pyplot.subplots(figsize=(7, 2.2), layout="constrained")
    for line in sorted(set(hours["before_line"])):
        of = dict(hours.filter(pl.col("before_line") == line).select("hour", "len").iter_rows())
        axes.plot(range(24), [of.get(hour, 0) for hour in range(24)], label=f"line {line}, denied then", linewidth=1.8)
    axes.set(xlabel="hour of the day", ylabel="flows", xticks=range(0, 24, 3), ylim=(0, None))
    axes.legend(frameon=False)
    save(figure, axes, path)
    return pairs.sort("before_line", "after_line")


def save(figure: pyplot.Figure, axes: pyplot.Axes, path: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def table(names: list[str], rows: list[tuple[object, ...]]) -> str:
    cells = [names, ["---"] * len(names), *[["" if cell is None else str(cell) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    before, after = Firewall.from_text(BEFORE), Firewall.from_text(AFTER)
    day = flows()
    day = pl.concat([day, decided(day, before, "before_"), decided(day, after, "after_")], how="horizontal")
    over_time(day, folder / "over-time.svg")
    denied = most_denied(day, folder / "denied.svg")
    changed = changes(day, folder / "changes.svg")
    sums = before.tally(day).to_pydict()
    by_rule = [
        row for row in zip(*(sums[name] for name in ("line", "verdict", "label", "flows", "bytes")), strict=True)
    ]
    differences = before.diff(after).to_pydict()
    proved = [
        row
        for row in zip(
            *(
                differences[name]
                for name in ("kind", "line_before", "line_after", "verdict_before", "verdict_after", "packet")
            ),
            strict=True,
        )
        if row[0] == "rules"
    ]
    page = f"""# Two policies over one day

`python compare.py FOLDER` has made up {FLOWS:,} flows, asked two policies about each of them, and written this page.

## Verdicts over time

![flows by hour and verdict](over-time.svg)

{table(["line", "verdict", "label", "flows", "bytes"], by_rule)}

The last row is the default, where no rule matched.

## Denied most

![sources and ports of which most flows are denied](denied.svg)

{table(["source", "port", "line", "flows", "destinations"], denied.select("srcaddr", "dstport", "before_line", "flows", "destinations").rows())}

## What the change would alter

The new policy lets SSH in from 10.1.0.0/16 alone, and DNS to one server alone.

![flows by hour that the change would deny](changes.svg)

{table(["line before", "line after", "verdict before", "verdict after", "flows", "sources"], changed.rows())}

The day shows what did happen. `before.diff(after)` proves what can happen, for every packet; each row has an example:

{table(["line before", "line after", "verdict before", "verdict after", "example"], [(row[1], row[2], row[3], row[4], str(row[5]).split(", tcp_flags")[0]) for row in proved])}
"""
    (folder / "compare.md").write_text(page)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
