"""Recompute stored rows from their settings: `python tools/recompute_rows.py [names] [--most N]`.

One row of each kind of an experiment, the quickest first, at most N seconds each (60). A row can be
had again where versions and the kind of processor are the same; elsewhere rounding differs, and
training amplifies that. Rows of time and memory are left out."""
import argparse
import inspect
import json
import sys
import warnings
from importlib import import_module
from pathlib import Path

import fairw2_nb
from fairw2_nb.cli import EXPERIMENTS
from fairw2_nb.experiments.experiment import one_thread
from fairw2_nb.experiments.results import parse_lines
from tqdm import tqdm

ROWS = Path(fairw2_nb.__file__).parent / "experiments" / "rows"

KINDS = ("method", "kind", "on", "grad", "protocol", "preset", "table", "what", "source", "loss")


def differences(old: dict, new: dict) -> dict: # {name: (before, now)}, the largest first
    "Numbers of a row that are not as they were; columns that it did not have are passed over."
    both = {k: (old[k], v) for k, v in new.items() if isinstance(old.get(k), float)}
    other = {k: (a, b) for k, (a, b) in both.items() if json.dumps(a) != json.dumps(b)}
    return dict(sorted(other.items(), key=lambda item: -abs(item[1][0] - item[1][1])))


def rows_to_try(name: str, most: float) -> list: # experiment and row
    "The quickest row of each kind that takes at most so many seconds."
    place, variable = EXPERIMENTS[name][0].split(":")
    exp = getattr(import_module(f"fairw2_nb.{place}"), variable)
    if exp.timed: return []
    rows = [row for _, _, row in parse_lines(ROWS / f"{exp.name}.jsonl")[0]]
    rows = [row for row in rows if row["version"] == exp.version and row["duration"] <= most]
    rows = [row for row in rows if row["campaign"] == "main" and not row.get("seconds")]
    first = {}
    for row in sorted(rows, key=lambda row: row["duration"]):
        first.setdefault(tuple(row.get(kind) for kind in KINDS), row)
    return [(exp, row) for row in first.values()]


def setting_of(exp, row) -> dict:
    "What a row was run with."
    return {k: row[k] for k in inspect.signature(exp.run).parameters if k in row}


def recompute(exp, row) -> dict: # differences
    "A row again, from its settings."
    one_thread()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return differences(row, exp.run(**setting_of(exp, row)))


def main(words) -> int:
    "Say of each row how far it is from what was stored; the number of those that were not run."
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments; all if none is named")
    parser.add_argument("--most", type=float, default=60., help="seconds that a row may have taken")
    asked = parser.parse_args(words)
    jobs = [job for name in asked.names or EXPERIMENTS for job in rows_to_try(name, asked.most)]
    lost = 0
    for exp, row in tqdm(jobs, "rows"):
        try: found = recompute(exp, row)
        except Exception as error:
            lost += 1
            why = f"{type(error).__name__}: {error}"
            tqdm.write(f"not run  {exp.name} {setting_of(exp, row)} {why}")
            continue
        said = [f"{k} {a:.4g} -> {b:.4g}" for k, (a, b) in list(found.items())[:3]]
        tqdm.write(f"{'other' if found else 'same '}  {exp.name} {setting_of(exp, row)} "
                   + ", ".join(said))
    print(f"{len(jobs)} rows, {lost} of them not run.")
    return lost


if __name__ == "__main__": sys.exit(main(sys.argv[1:]) > 0)
