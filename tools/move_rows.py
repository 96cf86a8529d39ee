"""Move row files of the layout before the rooms to the present one.

    python tools/move_rows.py results         # results/adult/rows.jsonl -> results/adult.jsonl
    python tools/move_rows.py old/results new # into another folder

Rows get the defaults of their settings, a version, a campaign and the checksum of their data;
values are not touched. A file that was moved is kept under its name with .moved behind it.
Rows from before checksums get one; a line that is damaged stays as it is and is named.
"""
import hashlib
import json
import subprocess
import sys
from pathlib import Path

from fairw2_nb.basics.files import write_whole
from fairw2_nb.experiments.results import as_line, judge, only_writer

ADULT, MNIST = "eb06da7b2365", "af3be14432ff"  # checksums of the packaged files
FACES = "c30ce0ec2314"  # the sample of CelebA that the committed rows are of, by content
FILES = {  # old file: (experiment, campaign)
    "adult/rows.jsonl": ("adult", "main"),
    "adult/local-rows.jsonl": ("adult", "main"),
    "adult/first-rows.jsonl": ("adult", "first"),
    "adult/sweep.jsonl": ("adult_sweep", "main"),
    "sweep/rows.jsonl": ("adult_sweep", "main"),
    "mnist/rows.jsonl": ("mnist", "main"),
    "mnist/local-rows.jsonl": ("mnist", "main"),
    "mnist/overhead.jsonl": ("cost", "main"),
    "celeba/rows.jsonl": ("celeba", "main"),
    "celeba/local-rows.jsonl": ("celeba", "main"),
    "celeba/first-rows.jsonl": ("celeba", "trials"),
    "celeba/fresh-rows.jsonl": ("celeba", "fresh"),
    "celeba/changes.jsonl": ("attributes", "main"),
    "celeba/ratios.jsonl": ("ratios", "main"),
    "celeba/memory.jsonl": ("memory", "main"),
    "portability/rows.jsonl": ("lambda_transfer", "main"),
    "cost/rows.jsonl": ("cost", "main"),
    "cost/first-rows.jsonl": ("cost", "first"),
    "frontier/rows.jsonl": ("frontier", "main"),
}
NEEDED = object()
SETTINGS = {  # arguments of each run at the time of the move, with their defaults
    "adult": dict(method=NEEDED, seed=NEEDED, preset="quick"),
    "adult_sweep": dict(kind=NEEDED, lam=NEEDED, seed=NEEDED),
    "mnist": dict(protocol=NEEDED, grad=NEEDED, lam=NEEDED, seed=NEEDED, preset="quick"),
    "celeba": dict(on=NEEDED, lam=NEEDED, seed=NEEDED, preset="quick", loss="bce", source="celeba"),
    "attributes": dict(
        lam=NEEDED, seed=NEEDED, preset="quick", source="celeba", on="error", k=100),
    "ratios": dict(what=NEEDED, part="train"),
    "lambda_transfer": dict(
        kind=NEEDED, batch=NEEDED, reference=NEEDED, seed=NEEDED, lam=5., seconds=None),
    "cost": dict(
        what=NEEDED, n=NEEDED, reference=0, burst=1, repeat=0, name="", gap=.5, net=""),
    "memory": dict(kind=NEEDED, batch=2000, size=64, steps=1),
    "frontier": dict(method=NEEDED, batch=NEEDED, strength=NEEDED, seed=NEEDED, reference=None,
                     epochs=None, table="adult"),
}
RENAMED = {"celeba": "source", "attributes": "source", "frontier": "table"}  # was: data


def checksum(name, row):
    "Of the data that a row was computed from; empty if it did not note that."
    if name in ("adult", "adult_sweep"): return ADULT
    if name == "mnist" or row.get("what") == "epoch on MNIST": return MNIST
    if name in ("celeba", "attributes") and row["source"] == "synthetic": return "drawn"
    if name == "celeba": return FACES if row.get("train_ids") == "6036275fc562" else ""
    if name == "attributes": return FACES if row["test_ids"] == "079c57ce0232" else ""
    if name == "ratios": return FACES if row["images"] == 24152 else ""
    if name != "frontier": return "drawn"
    if row["table"] == "adult": return ADULT
    file = Path(row["table"]["table"])
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.is_file() else ""


def commits(path):
    "The commit that each line of a file came with; empty outside a repository."
    command = ["git", "-C", str(path.parent), "blame", "-l", "-s", path.name]
    found = subprocess.run(command, capture_output=True, text=True)
    return [line.lstrip("^")[:12] for line in found.stdout.splitlines()]


def new_row(name, campaign, row, commit=""):
    "A row of the present layout."
    row = dict(row)
    if name == "cost" and "what" not in row:
        row |= {"what": "epoch on MNIST", "n": 8000, "reference": 2000}
    if name in RENAMED: row[RENAMED[name]] = row.pop("data")
    setting = {k: row.pop(k, default) for k, default in SETTINGS[name].items()}
    if NEEDED in setting.values(): raise ValueError(f"A row of {name} lacks a setting: {row}")
    data = checksum(name, setting | row)
    row.pop("data", None)
    at = list(row).index("duration")
    results, about = dict(list(row.items())[:at]), dict(list(row.items())[at:])
    label = {"version": 1, "campaign": campaign, "data": data}
    duration = {"duration": about.pop("duration")}
    return setting | results | label | duration | {"commit": commit} | about


def move(old, new):
    "Move every known file below `old` to its place in `new`, and say how many rows."
    for file, (name, campaign) in FILES.items():
        if not (path := Path(old) / file).is_file(): continue
        lines = path.read_text().splitlines()
        known = commits(path) or [""] * len(lines)
        pairs = zip(map(json.loads, lines), known, strict=True)
        rows = [new_row(name, campaign, row, commit) for row, commit in pairs]
        with open(Path(new) / f"{name}.jsonl", "ab") as out:
            out.writelines(map(as_line, rows))
        path.rename(path.with_name(path.name + ".moved"))
        print(f"{len(rows)} rows of {path} are now in {out.name}, campaign {campaign}")


def stamp(folder):
    "Give a checksum to the rows of a folder that have none."
    for path in sorted(Path(folder).glob("*.jsonl")):
        with only_writer(path, wait=60):
            lines = path.read_bytes().split(b"\n")
            faults = [judge(line)[1] if line.strip() else "" for line in lines]
            bare = [k for k, fault in enumerate(faults) if fault == "has no checksum"]
            for k in bare: lines[k] = as_line(json.loads(lines[k])).strip()
            if bare: write_whole(path, b"\n".join(lines))
            print(f"{path}: {len(bare)} rows got a checksum")
            for k, fault in enumerate(faults):
                if fault and k not in bare: print(f"{path}: line {k + 1} {fault}, left alone")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3): sys.exit(__doc__)
    move(sys.argv[1], sys.argv[-1])
    stamp(sys.argv[-1])
