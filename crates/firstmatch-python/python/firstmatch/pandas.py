"""Rules over pandas frames, with the frame's own index.

>>> import pandas as pd
>>> import firstmatch.pandas
>>> from firstmatch import Firewall
>>> firewall = Firewall.from_text("deny tcp dport 23\\npermit\\n")
>>> flows = pd.DataFrame({
...     "src": ["10.0.0.1"] * 2, "dst": ["192.0.2.7"] * 2, "sport": [50000, 50001], "dport": [443, 23], "proto": [6, 6],
... })
>>> telnet = flows[flows.dport == 23]
>>> pd.concat([telnet, firstmatch.pandas.classify(telnet, firewall)], axis=1)[["dport", "verdict", "line"]]
   dport verdict  line
1     23    deny     1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from . import Firewall, Table

__all__ = ["classify", "frame_of", "tally"]


def frame_of(table: Table) -> pd.DataFrame:
    """Returns a table as a frame, in which columns of whole numbers stay whole where some are missing."""
    import pandas
    import pyarrow

    whole = {pyarrow.int32(): pandas.Int32Dtype(), pyarrow.int64(): pandas.Int64Dtype()}
    return pyarrow.table(table).to_pandas(types_mapper=whole.get)


def classify(frame: pd.DataFrame, firewall: Firewall, **options: Any) -> pd.DataFrame:
    """Returns verdict, rule, line and outcome of each row, under the index of `frame`.

    `options` are those of `Firewall.classify`. Join the result by `pandas.concat([frame, result], axis=1)`. Without the
    index, rows of a frame that was filtered would be joined to other rows.
    """
    decided = frame_of(firewall.classify(frame, **options))
    decided.index = frame.index
    return decided


def tally(frame: pd.DataFrame, firewall: Firewall, **options: Any) -> pd.DataFrame:
    """Returns flows, packets and bytes by rule, as `Firewall.tally` does."""
    return frame_of(firewall.tally(frame, **options))
