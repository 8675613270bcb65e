"""Questions about rules, and about one packet."""

import ipaddress
import pickle

import pyarrow as pa
import pytest
from conftest import Case
from firstmatch import ColumnError, Firewall, RuleError

FIREWALL = Firewall.from_text('deny tcp dport 23 label "no telnet"\npermit src 10.0.0.0/8\n')


def test_explain_takes_what_rules_and_columns_take() -> None:
    said = [
        FIREWALL.explain(src="10.0.0.1", dst="192.0.2.7", proto="tcp", sport=50000, dport=23),
        FIREWALL.explain(src=0x0A000001, dst=ipaddress.ip_address("192.0.2.7"), proto=6, sport="50000", dport="23"),
        FIREWALL.explain(src=b"\x0a\0\0\x01", dst="192.0.2.7", proto="TCP", sport=50000, dport=23, ttl=3),
    ]
    assert said[0] == (
        "deny: rule 1 of line 1, `deny tcp dport 23`\n"
        "the packet has src 10.0.0.1, dst 192.0.2.7, sport 50000, dport 23, proto 6 (tcp)"
    )
    assert said == [said[0]] * 3
    assert FIREWALL.explain(src="::1", dst="::2", proto="icmp").startswith("deny: no rule matches\n")
    assert "proto 58" in FIREWALL.explain(src="::1", dst="::2", proto="icmp")
    only = Firewall.from_text("family ipv6\npermit\n")
    assert (
        only.explain(src="1.1.1.1", dst="1.1.1.2", proto=6) == "deny: the rules are for the other address family alone"
    )


def test_explain_refuses_what_is_no_packet() -> None:
    for fields, expected in [
        ({"src": "10.0.0.1", "dst": "::1", "proto": 6}, "src and dst are of two address families"),
        ({"src": "10.0.0.256", "dst": "::1", "proto": 6}, "'10.0.0.256' is no src"),
        ({"src": "10.0.0.1", "dst": "10.0.0.2"}, "every packet has proto; give its value"),
        ({"src": "10.0.0.1", "dst": "10.0.0.2", "proto": 6, "dprt": 1}, "there is no field dprt; the rules have"),
        ({"src": "10.0.0.1", "dst": "10.0.0.2", "proto": 300}, "300 is no proto"),
    ]:
        with pytest.raises(ColumnError, match=expected):
            FIREWALL.explain(**fields)  # type: ignore[arg-type]


def test_explain_names_the_rule_that_classify_takes(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    for row, packet in enumerate(small.flows.slice(0, 300).to_pylist()):
        said = firewall.explain(**packet)
        assert said.startswith(f"{small.verdicts[row]}: ")
        line = small.lines[row]
        assert "no rule matches" in said if line is None else f" of line {line}," in said


def test_rules_labels_and_warnings() -> None:
    assert FIREWALL.rules().to_pydict() == {
        "line": [1, 2],
        "rule": [1, 2],
        "verdict": ["deny", "permit"],
        "label": ["no telnet", None],
        "text": ["deny tcp dport 23", "permit src 10.0.0.0/8"],
    }
    assert (len(FIREWALL), FIREWALL.fields) == (2, ["src", "dst", "sport", "dport", "proto"])
    shadowed = Firewall.from_text("permit\ndeny tcp\n")
    assert [warning.line for warning in shadowed.warnings] == [2]


def test_check_names_causes() -> None:
    found = Firewall.from_text("permit tcp dport 0-1023\npermit tcp dport 1024-65535\ndeny tcp\n").check().to_pydict()
    assert (found["kind"], found["line"], found["by"], found["must_stay"]) == (["shadowed"], [3], ["1, 2"], [False])
    assert found["text"] == ["deny tcp"] and "proto 6 (tcp)" in found["packet"][0]


def test_diff_proves_or_shows() -> None:
    before = Firewall.from_text("permit tcp src 10.0.0.0/8\n")
    after = Firewall.from_text("default deny\ndeny tcp dport 22 src 10.1.0.0/16\npermit tcp src 10.0.0.0/8\n")
    assert len(before.diff(before)) == 0
    found = before.diff(after).to_pydict()
    rules = [row for row, kind in enumerate(found["kind"]) if kind == "rules"]
    assert [(found["line_before"][row], found["line_after"][row]) for row in rules] == [(1, 2)]
    assert (found["verdict_before"][rules[0]], found["verdict_after"][rules[0]]) == ("permit", "deny")
    assert "dport 22" in found["packet"][rules[0]]
    with before.update() as update:
        update.prepend("deny tcp dport 22 src 10.1.0.0/16")
    assert "rules" not in before.diff(after).to_pydict()["kind"]


def test_members_of_live_sets_come_and_go() -> None:
    firewall = Firewall.from_text("live set bad = { 192.0.2.7 }\ndeny src $bad\npermit\n")
    flows = pa.table({"src": ["192.0.2.7", "198.51.100.9", "2001:db8::1"], "dst": ["10.0.0.1", "10.0.0.1", "::1"]})

    def verdicts() -> list[str]:
        decided = firewall.classify(flows, constants={"sport": 1, "dport": 2, "proto": 6})
        return [str(verdict) for verdict in decided.to_pydict()["verdict"]]

    assert verdicts() == ["deny", "permit", "permit"]
    with firewall.update() as update:
        update.insert_members("bad", ["198.51.100.0/24", "2001:db8::/32", "192.0.2.7"])
        update.remove_members("bad", ["192.0.2.7", "192.0.2.8"])
    assert firewall.members("bad") == ["198.51.100.0/24", "2001:db8::/32"]
    assert verdicts() == ["permit", "deny", "deny"] and update.inserted == [] and "changed" in repr(firewall)
    with firewall.update() as update:
        update.replace_members("bad", ["192.0.2.0-192.0.2.9"])
        update.prepend("permit src 192.0.2.7")
        assert verdicts() == ["permit", "deny", "deny"]
    assert verdicts() == ["permit", "permit", "permit"] and len(update.inserted) == 1
    with pytest.raises(RuleError, match=r"192\.0\.2\.300"):
        firewall.update().insert_members("bad", ["192.0.2.1", "192.0.2.300"])
    with pytest.raises(RuleError, match="expected one of: bad"):
        firewall.update().insert_members("good", ["192.0.2.1"])
    with pytest.raises(RuleError, match="there is no live set `good`"):
        firewall.members("good")
    assert firewall.members("bad") == ["192.0.2.0-192.0.2.9"]


def test_pickles_answer_alike() -> None:
    copy = pickle.loads(pickle.dumps(FIREWALL))
    assert copy.text == FIREWALL.text and copy.rules().to_pydict() == FIREWALL.rules().to_pydict()
    flows = pa.table({"src": ["10.0.0.1"], "dst": ["1.1.1.1"], "sport": [1], "dport": [23], "proto": [6]})
    assert copy.classify(flows, labels=True).to_pydict()["label"] == ["no telnet"]


def test_engines_answer_alike(small: Case) -> None:
    for engine in ("linear", "hypercuts", "tuplemerge", "bit_select"):
        firewall = Firewall.from_file(small.rules, engine=engine)
        assert firewall.classify(small.flows).to_pydict()["line"] == small.lines
