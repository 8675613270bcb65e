"""What would these firewall rules have done to a month of flows?

A `Firewall` is made of rule text or a rule file. `classify` returns verdict, rule, line and outcome for each row of any
table that speaks Arrow (pyarrow, Polars, pandas, DuckDB); `tally` sums flows, packets and bytes by rule. Columns of
common logs are known by name.

>>> import firstmatch
>>> firewall = firstmatch.Firewall.from_text('''
... deny tcp dport 23 label "no telnet"
... permit src 10.0.0.0/8
... ''')
>>> print(firewall.explain(src="10.0.0.1", dst="192.0.2.7", proto="tcp", dport=23))
deny: rule 1 of line 2, `deny tcp dport 23`
the packet has src 10.0.0.1, dst 192.0.2.7, dport 23, proto 6 (tcp)
absent: sport
"""

from ._firstmatch import (
    ColumnError,
    Fault,
    Firewall,
    RowError,
    RuleError,
    Stream,
    Table,
    Update,
    __version__,
    presets,
    read_capture,
)

__all__ = [
    "ColumnError",
    "Fault",
    "Firewall",
    "RowError",
    "RuleError",
    "Stream",
    "Table",
    "Update",
    "__version__",
    "presets",
    "read_capture",
]
