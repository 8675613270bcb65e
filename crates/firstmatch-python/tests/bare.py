"""What works without any other package."""

import sys
from pathlib import Path

import firstmatch

firewall = firstmatch.Firewall.from_text("deny tcp dport 443\ndeny udp\npermit\n")
said = firewall.explain(src="10.0.0.1", dst="192.0.2.7", proto="tcp", sport=50000, dport=443)
assert said.startswith("deny: rule 1 of line 1, `deny tcp dport 443`"), said
packets = firstmatch.read_capture(Path(__file__).parents[3] / "examples" / "edge.pcapng").read_all()
assert firewall.tally(packets).to_pydict()["flows"] == [597, 1778, 6432, 0, 188, 76]
assert len(firewall.classify(packets)) == 9071
assert "permit" in str(firewall.classify(packets))
assert not {"pyarrow", "pandas", "polars", "numpy"} & set(sys.modules)
