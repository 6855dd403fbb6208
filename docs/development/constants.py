#!/usr/bin/env python3
"""Counts and lists the numeric constants in the crates' code, without tests, and says for each named one where it comes from.

    docs/development/constants.py            writes docs/development/constants.md
    docs/development/constants.py --check    exits 1 where that page is not what would be written
    docs/development/constants.py --counts   prints the counts alone
    docs/development/constants.py --list     prints the unnamed ones with their places

What counts, by the text of the code:
* A *named* constant is a `const` or `static` of a numeric type, of a time (`Nanos`, `Duration`), or of tuples and arrays of these, whose
  value holds a number.
* An *unnamed* one is any other number in the code, but for those that carry no choice: whole numbers up to 16, powers of two and numbers in
  base 16 or 2 (counts of parts, bits and formats), 0, a half, 1, 2, powers of ten and units of time and size, numbers beside `<<` and `>>`,
  indices, and what stands in a `Tunable` or an option of the command line, which have a name and a description of their own.
* A named constant *has a source* where its comment names one: the kernel or another program and its file, symbol or behaviour; a paper or a
  standard with section, table, figure, equation or year; or what was measured. A constant that only gives its reason has none.
"""
import re, sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = HERE / "constants.md"

NUMERIC = re.compile(r"(?:[fiu](?:8|16|32|64|128)|[iu]size|Nanos|Duration)")
CONSTANT = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))? )?(?:const|static) ([A-Z][A-Z0-9_]*): ([^=;]+?) =\s*(.*?);[ \t]*(?://(.*))?$", re.M | re.S)
NUMBER = re.compile(r"(?<![\w.'#])(?<!\.\.)(0x[\da-fA-F_]+|0b[01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][-+]?\d+)?)(?:_?(?:[fiu](?:8|16|32|64|128)|[iu]size))?\b")
UNITS = {0, 0.5, 1, 2, 24, 60, 365, 512, 3600, 86400, 60e3, 512e3, 512e6, 512e-3, 512e-6, 512e-9}  # parts of a day, of a minute, of a sector
SOURCE = [
    ("kernel", r"\b(?:[Ll]inux|[Kk]ernel(?:'s)?|`[a-z_/-]+\.[ch]`|`[A-Z][A-Z0-9]*_[A-Z0-9_]+` of)"),
    ("symbol", r"\(`[A-Za-z_]+(?:\(\))?`\)"),
    ("program", r"\b(?:fio|DiskSim|Weka|WEKA|LIBSVM|libsvm|blktrace|blkparse|FFSB|iostat|systemd|udev|SQLite|tuned|PostgreSQL)\b"),
    ("paper", r"\b(?:[Ss]ection|[Tt]able|[Ff]igure|[Ff]ig\.|[Ee]quations?|[Cc]hapter) \(?[\dIVX]+\b|\b[Pp]aper\b"),
    ("year", r"[A-Z]\w+(?:,? (?:and|et al\.?) [\w ]+)?,? \(?(?:19|20)\d\d\)?"),
    ("standard", r"\b(?:RFC|ISO|POSIX|SPC-\d|NVMe|SATA|ATA|SCSI|NBD|FUSE|vhost|[Ss]pecification)\b"),
    ("measured", r"\b[Mm]easured (?:on|over|with|in|at|by|as)\b|\bwas measured\b|\bmeasured:|\bmeasurements?\b"),
]


def literal_free(text):
    """The text with comments and strings blanked; every character keeps its place."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'', blank, text, flags=re.S)


def without_tests(text):
    """The text with items under `#[cfg(test)]` blanked: by rustfmt's layout an item ends with the first line of its indentation that closes it."""
    lines, test = [], None
    for line in text.split("\n"):
        indentation = line[: len(line) - len(line.lstrip())]
        if line.strip() == "#[cfg(test)]":
            test = indentation
        skip = test is not None
        if skip and line.strip() and indentation == test and line.endswith((";", "}")):
            test = None
        lines.append("" if skip else line)
    return "\n".join(lines)


def sources():
    """The crates' files that are no tests, by crate."""
    for crate in sorted((ROOT / "crates").iterdir()):
        for file in sorted((crate / "src").rglob("*.rs")):
            if not {"tests", "fixtures"} & set(file.relative_to(crate).with_suffix("").parts):
                yield crate.name, file


def comment_above(text, at):
    """The comment that ends right above a place, attributes left out."""
    lines = []
    for line in reversed(text[:at].rstrip(" \t\n").split("\n")):
        line = line.strip()
        if line.startswith("#["):
            continue
        if not line.startswith("//"):
            break
        lines.append(line.lstrip("/! "))
    return " ".join(reversed(lines))


def source(comment):
    """What a comment names as the source: the words, or nothing."""
    for _, pattern in SOURCE:
        if match := re.search(pattern, comment):
            sentence = re.split(r"(?<=[.;:]) ", comment[: match.end()])[-1] + re.split(r"(?<=[.;:])(?: |$)", comment[match.end():])[0]
            return sentence.strip()[:110]
    return None


def is_choice(number, before, after):
    """Whether an unnamed number is one that somebody chose."""
    if number.startswith(("0x", "0b")):
        return False
    value = float(number.replace("_", ""))
    if value in UNITS or re.fullmatch(r"10*(?:\.0)?|1e-?\d+|0\.0*1", number.replace("_", "")):
        return False
    if number.replace("_", "").isdecimal() and (value <= 16 or int(value) & (int(value) - 1) == 0):
        return False
    if re.search(r"(?:<<|>>)\s*$|\[$|;\s*$|\.\.=?\s*$", before) or re.match(r"\s*(?:<<|>>|\]|\.\.)", after):
        return False
    return True


def tables(text):
    """Spans of the text that are tables with names of their own: tunables, options of the command line."""
    for match in re.finditer(r"\bTunable\b[^;{(]*[{(]|#\[(?:arg|command|value|serde)\(|\b(?:Key|key|Row|Spec)(?:::\w+)?[({]", text):
        depth, at = 0, match.end() - 1
        while at < len(text):
            depth += (text[at] in "({[") - (text[at] in ")}]")
            at += 1
            if depth == 0:
                break
        yield match.start(), at


def read():
    """Named constants as (crate, file, name, value, source), and unnamed ones as (crate, file, line, number)."""
    named, unnamed = [], []
    for crate, file in sources():
        text = without_tests(file.read_text())
        code = literal_free(text)
        where = file.relative_to(ROOT / "crates" / crate / "src").as_posix()
        taken = list(tables(code))
        for match in CONSTANT.finditer(code):
            taken.append(match.span())
            value = text[match.start(3):match.end(3)]
            type_ = match[2].strip()
            if NUMERIC.search(type_) and "fn(" not in type_ and "&str" not in type_ and NUMBER.search(code[match.start(3):match.end(3)]):
                rest = text[match.end(3):].split("\n")[0].partition("//")[2].strip()
                named.append((crate, where, match[1], " ".join(value.split()), source(f"{comment_above(text, match.start())} {rest}".strip())))
        for match in NUMBER.finditer(code):
            inside = any(begin <= match.start() < end for begin, end in taken)
            if not inside and is_choice(match[1], code[: match.start()][-20:], code[match.end():][:20]):
                unnamed.append((crate, where, code[: match.start()].count("\n") + 1, match[1]))
    return named, unnamed


def counts(named, unnamed):
    crates = sorted({each[0] for each in named + unnamed})
    rows = [(crate, sum(n[0] == crate for n in named), sum(n[0] == crate and n[4] is not None for n in named),
             sum(n[0] == crate for n in unnamed)) for crate in crates]
    return rows + [("all", *(sum(row[column] for row in rows) for column in (1, 2, 3)))]


def page(named, unnamed):
    cell = lambda text: text.replace("|", "\\|")
    out = ["# Numeric constants", "", "Written by `docs/development/constants.py`, which says what counts. Source: what the constant's comment names, – where it names none.", "",
           "| crate | named | with a source | unnamed |", "|---|---|---|---|"]
    out += [f"| {crate} | {a} | {b} | {c} |" for crate, a, b, c in counts(named, unnamed)]
    for crate in sorted({each[0] for each in named + unnamed}):
        out += ["", f"## {crate}", ""]
        mine = [n for n in named if n[0] == crate]
        if mine:
            out += ["| file | constant | value | source |", "|---|---|---|---|"]
            out += [f"| {file} | `{name}` | `{cell(value if len(value) <= 60 else value[:57] + '…')}` | {cell(found or '–')} |" for _, file, name, value, found in mine]
        files = {}
        for _, file, _, number in (u for u in unnamed if u[0] == crate):
            files.setdefault(file, []).append(number)
        if files:
            out += ["", "Unnamed: " + "; ".join(f"{file} {', '.join(numbers)}" for file, numbers in files.items()) + "."]
    return "\n".join(out) + "\n"


def main():
    named, unnamed = read()
    if "--counts" in sys.argv:
        return print("\n".join(f"{crate}: {a} named, {b} with a source, {c} unnamed" for crate, a, b, c in counts(named, unnamed)))
    if "--list" in sys.argv:
        return print("\n".join(f"{crate}/{file}:{line}: {number}" for crate, file, line, number in unnamed))
    new = page(named, unnamed)
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == new else f"{PAGE.relative_to(ROOT)} is out of date: run docs/development/constants.py")
    PAGE.write_text(new)


if __name__ == "__main__":
    main()
