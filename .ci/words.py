#!/usr/bin/env python3
"""Counts how plainly the project's documents and comments are written.

Without arguments every tracked .rs, .md, .sh and .toml file is counted, and the exit code is 1 if a limit is missed.
With paths, the numbers of each path are printed and nothing is enforced; --show prints the sentences that count against it.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

# Sentences that begin with a word for a thing that the sentence has not named yet.
VAGUE = re.compile(r"(what|who|which|how many|so many|of|those)\b", re.IGNORECASE)
# Share of all sentences in percent; the others are occurrences per 1,000 words.
MOST_VAGUE = 2.0
MOST_SO_MANY = 0.05
LEAST_BECAUSE = 0.5
LEAST_FOR_EXAMPLE = 0.5


def comments(text, marks):
    """Returns the paragraphs of the comments in `text`: lines that begin with one of `marks`."""
    block = []
    fenced = False
    for line in text.splitlines() + [""]:
        match = re.match(r"\s*(" + marks + r")\s?(.*)", line)
        body = match.group(2) if match else ""
        if body.strip().startswith("```"):
            fenced = not fenced
            body = ""
        if match and body.strip() and not fenced:
            if re.match(r"\s*([-*]|\d+\.|#+|\|)\s", body) and block:
                yield " ".join(block)
                block = []
            block.append(body.strip())
        else:
            if block:
                yield " ".join(block)
            block = []
            fenced = fenced and match is not None


def markdown(text):
    """Returns the paragraphs of a Markdown document without its code blocks, headings and tables."""
    yield from comments("\n".join("// " + line for line in text.splitlines()), "//")


def paragraphs(path):
    """Returns the paragraphs of prose in a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return markdown(text)
    return comments(text, r"//[/!]?" if path.suffix == ".rs" else "#")


def sentences(paragraph):
    """Returns the sentences of a paragraph, without list marks and emphasis."""
    if re.match(r"\s*(\||#|!?\[.*\]:)", paragraph):
        return []
    paragraph = re.sub(r"^\s*([-*]|\d+\.)\s+", "", paragraph)
    paragraph = re.sub(r"[*_]{1,2}(?=\w)|(?<=\w)[*_]{1,2}", "", paragraph)
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9`\"(])", paragraph) if re.search(r"[A-Za-z]{2}", part)]


class Count:
    def __init__(self):
        self.words = self.sentences = self.vague = self.so_many = self.because = self.for_example = 0

    def add(self, path, show):
        for paragraph in paragraphs(path):
            for sentence in sentences(paragraph):
                plain = re.sub(r"`[^`]*`", "X", sentence)
                self.words += len(re.findall(r"[A-Za-z0-9'’-]+", plain))
                self.sentences += 1
                self.so_many += len(re.findall(r"\bso many\b", plain, re.IGNORECASE))
                self.because += len(re.findall(r"\bbecause\b", plain, re.IGNORECASE))
                self.for_example += len(re.findall(r"\bfor example\b", plain, re.IGNORECASE))
                if VAGUE.match(plain):
                    self.vague += 1
                    if show:
                        print(f"{path}: {sentence[:160]}")

    def per_thousand(self, number):
        return 1000 * number / max(self.words, 1)

    def vague_share(self):
        return 100 * self.vague / max(self.sentences, 1)

    def line(self, name):
        return (
            f"{name}: {self.words} words, {self.sentences} sentences; vague beginnings {self.vague_share():.1f} %; per 1,000 words: "
            f"so many {self.per_thousand(self.so_many):.2f}, because {self.per_thousand(self.because):.2f}, "
            f"for example {self.per_thousand(self.for_example):.2f}"
        )

    def misses(self):
        """Returns a sentence for each limit that is missed."""
        found = []
        if self.vague_share() > MOST_VAGUE:
            found.append(f"more than {MOST_VAGUE} % of the sentences begin with what, who, which, how many, so many, of or those")
        if self.per_thousand(self.so_many) > MOST_SO_MANY:
            found.append(f'"so many" stands more than {MOST_SO_MANY} times in 1,000 words')
        if self.per_thousand(self.because) < LEAST_BECAUSE:
            found.append(f'"because" stands fewer than {LEAST_BECAUSE} times in 1,000 words: say why')
        if self.per_thousand(self.for_example) < LEAST_FOR_EXAMPLE:
            found.append(f'"for example" stands fewer than {LEAST_FOR_EXAMPLE} times in 1,000 words: give one')
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", help="files or folders (default: all, with the limits enforced)")
    parser.add_argument("--show", action="store_true", help="print the sentences that begin vaguely")
    options = parser.parse_args()
    listed = subprocess.run(["git", "ls-files", "--", *options.paths], capture_output=True, text=True, check=True).stdout.split("\n")
    files = [Path(name) for name in listed if Path(name).suffix in (".rs", ".md", ".sh", ".toml") and Path(name).exists()]
    total = Count()
    for path in files:
        total.add(path, options.show)
    print(total.line("all" if not options.paths else " ".join(options.paths)))
    if options.paths:
        return 0
    misses = total.misses()
    for miss in misses:
        print(f"missed: {miss}", file=sys.stderr)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
