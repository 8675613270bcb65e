"""Addresses in text are those of Python's `ipaddress`, but for zones."""

import ipaddress
import random

import pyarrow as pa
from firstmatch import Firewall

# A rule for each bit of an address would not tell more: the address comes back by the rules that hold it.
FIREWALL = Firewall.from_text("permit\n")


def accepts(texts: list[str]) -> list[str]:
    table = pa.table(
        {"src": texts, "dst": texts, "sport": [1] * len(texts), "dport": [2] * len(texts), "proto": [6] * len(texts)}
    )
    return FIREWALL.classify(table, errors="null").to_pydict()["outcome"]


def expected(text: str) -> str:
    if text in ("", "-", "(empty)"):
        return "lacks-field"
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return "bad-address"
    return "bad-address" if "%" in text else "complete"


def spellings(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[str]:
    if address.version == 4:
        return [str(address)]
    dotted = str(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    head = address.exploded.rsplit(":", 2)[0]
    return [
        str(address),
        address.exploded,
        address.exploded.upper(),
        f"{head}:{dotted}",
        str(address).replace("0", "00", 1),
    ]


def test_spellings_and_mutations() -> None:
    chance = random.Random(1)
    texts = [
        "010.0.0.1",
        "1.2.3",
        "::1::",
        "1:2:3:4:5:6:7::",
        "::ffff:1.2.3.4",
        "fe80::1%1",
        "1.2.3.4 ",
        " ::1",
        "",
        "-",
        "(empty)",
        "1.2.3.4.",
        "::",
    ]
    for _ in range(40_000):
        wide = chance.random() < 0.6
        bits = chance.getrandbits(128) & chance.getrandbits(128) & chance.choice([2**128 - 1, 2**64 - 1, 0xFFFF << 64])
        address = ipaddress.IPv6Address(bits) if wide else ipaddress.IPv4Address(chance.getrandbits(32))
        texts += spellings(address)
    for text in texts[13:80_000]:
        mutated = list(text)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(mutated) + 1)
            mutated[at : at + chance.randrange(2)] = chance.choice("0123456789abcdefAF::...%g -")
        texts.append("".join(mutated))
    found = accepts(texts)
    wrong = [(text, one) for text, one in zip(texts, found) if one != expected(text)]
    assert not wrong, wrong[:10]
    assert min(found.count(one) for one in ("complete", "bad-address")) > 20_000


def test_values_come_through() -> None:
    """Each of some addresses is held by the rule for it alone."""
    chance = random.Random(2)
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = []
    for _ in range(300):
        addresses += [ipaddress.IPv4Address(chance.getrandbits(32)), ipaddress.IPv6Address(chance.getrandbits(128))]
    firewall = Firewall.from_text("".join(f"permit src {address}/{address.max_prefixlen}\n" for address in addresses))
    texts = [(line, text) for line, address in enumerate(addresses, 1) for text in spellings(address)]
    src = [text for _, text in texts]
    dst = ["::1" if ":" in text else "1.1.1.1" for text in src]
    table = pa.table(
        {"src": src, "dst": dst, "sport": [1] * len(src), "dport": [2] * len(src), "proto": [6] * len(src)}
    )
    line_of = {address: line for line, address in enumerate(addresses, 1)}
    read = [line_of.get(ipaddress.ip_address(text)) if expected(text) == "complete" else None for text in src]
    assert firewall.classify(table, errors="null").to_pydict()["line"] == read
