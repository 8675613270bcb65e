"""Checks licences and sources of all dependencies by deny.toml, where cargo-deny is not installed.

Advisories are not checked, because their database is not in the package registry.
"""

import json
import re
import subprocess
import sys
import tomllib

with open("deny.toml", "rb") as file:
    licenses = tomllib.load(file)["licenses"]
allowed = set(licenses["allow"])
exceptions = {of["crate"]: set(of["allow"]) for of in licenses["exceptions"]}
command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"]
packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]


def is_allowed(expression, allowed):
    """Whether a licence expression holds with some licences."""
    words = re.findall(r"\(|\)|[^\s()/]+|/", expression.replace(" WITH ", "-WITH-"))
    python = {"AND": "and", "OR": "or", "/": "or", "(": "(", ")": ")"}
    allowed = {licence.replace(" WITH ", "-WITH-") for licence in allowed}
    return eval(" ".join(python.get(word) or str(word in allowed) for word in words))


faults = []
for package in packages:
    name = f"{package['name']} {package['version']}"
    licences = allowed | exceptions.get(package["name"], set())
    if not package["license"] or not is_allowed(package["license"], licences):
        faults.append(f"{name}: the licence {package['license']} is not allowed")
    source = package["source"]
    if source and "crates.io-index" not in source:
        faults.append(f"{name}: comes from {source}")
    wild = [needed["name"] for needed in package["dependencies"] if needed["req"] == "*" and not needed.get("path")]
    if not source and wild:
        faults.append(f"{name}: any version of {', '.join(wild)}")
print("\n".join(faults) or f"{len(packages)} packages: licences and sources are as deny.toml says")
sys.exit(bool(faults))
