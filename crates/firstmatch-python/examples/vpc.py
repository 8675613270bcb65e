"""What would these rules have done to AWS flow logs? Sums by rule over a folder of Parquet, in bounded memory.

python vpc.py RULES FOLDER
"""

import sys

import pyarrow.dataset as ds
from firstmatch import Firewall


def main(rules: str, folder: str) -> None:
    firewall = Firewall.from_file(rules)
    logs = ds.dataset(folder, format="parquet")
    options = {"preset": "aws-vpc", "absent": [name for name in firewall.fields if name.startswith(("icmp_", "tcp_"))]}
    # Only these columns are read from the files.
    taken = firewall.columns_for(logs.schema, **options)
    columns = sorted({name for names in taken.values() for name in names})
    # Logs have rows without data, which are null: no packets, no verdict.
    sums = firewall.tally(logs.scanner(columns=columns).to_reader(), errors="null", **options)
    print(sums)
    unused = [
        line for line, flows in zip(*map(sums.to_pydict().get, ("line", "flows")), strict=True) if line and not flows
    ]
    print(f"rules without a flow, by line: {', '.join(map(str, unused)) or 'none'}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
