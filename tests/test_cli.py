"""The command fairw2, as a user calls it."""
import inspect
import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path

import fairw2_nb
import pytest
import yaml
from conftest import ROOT
from fairw2_nb.basics import packages
from fairw2_nb.cli import EXPERIMENTS, aloud, in_words, main, run_experiment, run_parser
from fairw2_nb.experiments.adult import ADULT
from fairw2_nb.experiments.celeba import CELEBA
from fairw2_nb.experiments.frontier import FRONTIER
from fairw2_nb.experiments.mnist import MNIST
from packaging.requirements import Requirement

FAIRW2 = str(Path(sys.executable).parent / "fairw2")
STOPPED = "Finished rows are kept"


def environment(**env):
    return {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", **env}


def fairw2(*args, cwd, **env):
    "Run the installed command."
    return subprocess.run([FAIRW2, *map(str, args)], cwd=cwd, capture_output=True, text=True,
                          env=environment(**env))


def test_help_reads_well_and_comes_at_once(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = fairw2("--help", cwd=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert out.returncode == 0 and "run" in out.stdout
    assert all(name in out.stdout for name in EXPERIMENTS)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert cpu < .5, f"{cpu:.2f} s of CPU"


def test_version(tmp_path):
    assert fairw2("--version", cwd=tmp_path).stdout == f"fairw2_nb {fairw2_nb.__version__}\n"


def test_help_of_an_experiment_names_its_flags(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["run", "adult", "--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0 and "--preset" in said and "100-109" in said and "--out" in said


def test_list_of_experiments(capsys):
    main(["run"])
    said = capsys.readouterr().out
    assert all(name in said for name in EXPERIMENTS)


def test_a_warning_is_said_once(capsys):
    def loud():
        for word in ("one", "one", "two"): warnings.warn(word)
        return 3
    assert aloud(loud) == 3
    assert capsys.readouterr().err.split() == ["one", "two"]


def test_folder_of_rows_from_the_environment(monkeypatch):
    monkeypatch.setenv("FAIRW2_RESULTS", "elsewhere")
    assert run_parser(ADULT).parse_args([]).out == "elsewhere"
    monkeypatch.setenv("FAIRW2_RESULTS", "")
    assert run_parser(ADULT).parse_args([]).out == "results"


def test_demo_writes_a_report_and_keeps_the_old_one(tmp_path, monkeypatch, capsys):
    words = ["run", "demo", "--steps", "20", "--lam", "0", "5", "--report", "report.html"]
    out = fairw2(*words, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert "Acc" in out.stdout and "DI" in out.stdout
    monkeypatch.chdir(tmp_path)
    main(words)
    again = capsys.readouterr().out
    assert {p.name for p in tmp_path.glob("*.html")} == {"report-2.html", "report.html"}
    assert len((tmp_path / "results" / "demo.jsonl").read_text().splitlines()) == 2
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png" in page and "http:" not in page and "https:" not in page
    assert str(ROOT) not in page and "2 rows" in page
    assert again.splitlines()[:5] == out.stdout.splitlines()[:5]


@pytest.mark.parametrize("args, words", [
    ([], ""),
    (["dance"], "There is no command 'dance'"),
    (["adult"], "Did you mean fairw2 run adult?"),
    (["rum"], "Did you mean 'run'?"),
    (["run", "speed"], "There is no experiment 'speed'"),
    (["run", "mnits"], "Did you mean 'mnist'?"),
    (["run", "demo", "--lam", "-1"], "at least 0"),
    (["run", "demo", "--lam", "much"], "invalid"),
    (["run", "demo", "--steps", "0"], "at least 1"),
    (["run", "demo", "--steps", "2", "--report", "no/such/folder/report.html"], "does not exist"),
    (["run", "adult", "--seeds", "0"], "at least 1"),
    (["run", "adult", "--seeds", "9-7"], "a range such as 100-109"),
    (["run", "adult", "--preset", "slow"], "expected one of quick, paper"),
    (["run", "adult", "--workers", "0"], "at least 1"),
    (["run", "adult", "--report", "."], "is a folder"),
    (["run", "adult", "--report", "no/such/a.html"], "does not exist"),
    (["run", "adult", "--out", "/dev/null"], "not a folder"),
    (["run", "frontier", "--table", "own.csv", "--target", "a", "--favourable", "1",
      "--sensitive", "b", "--privileged", "1"], "There is no file own.csv"),
    (["run", "frontier", "--table", "own.csv", "--target", "hired"],
     "needs --favourable, --sensitive, --privileged as well"),
    (["run", "cost", "--table", "own.csv"], "unrecognized arguments: --table"),
    (["run", "lambda_transfer", "--table", "own.csv"], "unrecognized arguments: --table"),
])
def test_bad_arguments_are_answered_in_words(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(args)
    said = capsys.readouterr().err
    assert stop.value.code == 2 and words in said and "Traceback" not in said
    assert not list(tmp_path.glob("*.jsonl")) and not list(tmp_path.glob("*/*.jsonl"))


def test_old_rows_are_not_passed_over(tmp_path, capsys):
    old = tmp_path / "results" / "adult" / "local-rows.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text('{"method": "LR", "seed": 0}\n')
    with pytest.raises(SystemExit) as stop:
        main(["run", "demo", "--steps", "1", "--out", str(tmp_path / "results")])
    assert stop.value.code == 2 and "tools/move_rows.py" in capsys.readouterr().err
    assert old.exists()


def test_control_c_ends_with_a_sentence(tmp_path):
    words = ["run", "demo", "--lam", "0", "5", "--steps", "100000000"]
    out = tmp_path / "results"
    def hear_control_c(): # a job in the background of a script is started deaf to it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([FAIRW2, *words], cwd=tmp_path, env=environment(), text=True,
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                               preexec_fn=hear_control_c)
    deadline = time.monotonic() + 60
    while not (out / "demo.lock").exists() and time.monotonic() < deadline:
        time.sleep(.05)
    time.sleep(.5)
    process.send_signal(signal.SIGINT)
    try: said = process.communicate(timeout=60)[1]
    finally: process.kill() # if it did not hear: it would count for hours
    assert process.returncode == 130 and STOPPED in said and "Traceback" not in said


def test_actions_are_pinned_and_the_site_waits_for_the_tests():
    used = []
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        flow = yaml.safe_load(path.read_text())
        steps = {name: job["steps"] for name, job in flow["jobs"].items()}
        used += [step["uses"] for part in steps.values() for step in part if "uses" in step]
        for name, part in steps.items():
            if any("deploy-pages" in step.get("uses", "") for step in part):
                assert flow["jobs"][name]["needs"] == "test"
    assert used and all(re.search(r"@[0-9a-f]{40}$", name) for name in used), used


def test_constraints_fit_the_requirements():
    cfg = ConfigParser(delimiters=["="], interpolation=None)
    cfg.read(ROOT / "settings.ini", encoding="utf-8")
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    known = {name.lower(): version for name, version in pinned.items()}
    for kind in ("requirements", "dev_requirements", "cluster_requirements"):
        for need in map(Requirement, cfg["DEFAULT"][kind].split()):
            assert need.specifier.contains(known[need.name.lower()]), need


def test_bare_make_lists_the_targets():
    out = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True).stdout
    assert all(f"make {target}" in out for target in ("run", "test", "docs"))


def numbers(*names):
    levels = [k / 20 for k in range(21)]
    return {name: levels if name.startswith("quantiles") else .8 for name in names}


def fake_adult(method, seed, preset):
    return numbers("Acc", "DI", "O_10", "O_00", "O_11", "O_01", "quantiles_0", "quantiles_1")


def fake_mnist(protocol, grad, lam, seed, preset):
    return numbers("Acc", "DI", "MSE", "GP0", "GP1", "TP0", "TN0", "TP1", "TN1",
                   *(f"train_{name}" for name in ("DI", "GP0", "GP1")))


def fake_celeba(on, lam, seed, preset, loss, source, folder):
    return numbers("Acc", "DI", "MSE", "GP0", "GP1", "ratio", "W2")


@pytest.mark.parametrize("exp, fake, extra, words", [
    (ADULT, fake_adult, ["--seeds", "2"], ["NNrW", "ours", "0.800 ± 0.000", "0.68"]),
    (MNIST, fake_mnist, [], ["0.800"]),
    (CELEBA, fake_celeba, ["--synthetic"], ["0.800"]),
])
def test_experiments_resume_print_and_report(exp, fake, extra, words, tmp_path, capsys):
    "The runs themselves are replaced; what is around them is real."
    calls = []

    def note(setting):
        calls.append(tuple(setting.items()))
        if len(calls) == 8: raise KeyboardInterrupt
        return fake(**setting)

    class Noting:
        "A run with the parameters of the real one."
        def __call__(self, **setting): return note(setting)
        __signature__ = inspect.signature(exp.run)
    toy = replace(exp, run=Noting())
    command = [*extra, "--out", str(tmp_path / "rows"), "--report", str(tmp_path / "r.html")]
    with pytest.raises(SystemExit) as stop: in_words(run_experiment, toy, command)
    assert stop.value.code == 130 and STOPPED in capsys.readouterr().err
    run_experiment(toy, command)
    assert len({*calls}) == len(calls) - 1 and calls[7] == calls[8] # one was tried twice
    said = capsys.readouterr().out
    assert all(word in said for word in words)
    assert "data:image/png" in (tmp_path / "r.html").read_text()
    run_experiment(toy, command)
    assert len({*calls}) == len(calls) - 1, "finished rows are not run again"


def test_fresh_seeds_in_a_campaign_of_their_own(tmp_path, capsys):
    toy = replace(ADULT, run=fake_adult)
    run_experiment(toy, ["--seeds", "1", "--out", str(tmp_path)])
    run_experiment(toy, ["--seeds", "100-101", "--campaign", "fresh", "--out", str(tmp_path)])
    assert "12 rows, seeds 100 to 101, campaign fresh" in capsys.readouterr().out
    assert len((tmp_path / "adult.jsonl").read_text().splitlines()) == 18


def test_celeba_without_data_says_what_to_put_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FAIRW2_CELEBA", str(tmp_path / "empty"))
    for root in ([], ["--data", str(tmp_path / "nowhere")]):
        with pytest.raises(SystemExit) as stop:
            main(["run", "celeba", "--out", str(tmp_path / "rows"), *root])
        said = capsys.readouterr().err
        assert stop.value.code == 2 and "list_attr_celeba" in said
        assert "--data" in said and "--synthetic" in said


def test_frontier_of_ones_own_table(tmp_path, monkeypatch, capsys):
    "Settings come from the flags, absent peers are named, rows are kept; the runs are replaced."
    seen, real = [], packages.version

    def run(method, batch, strength, seed, reference=None, epochs=None, table="adult"):
        seen.append(table)
        found = dict(Acc=.8, DI=.9, DP=.1, EO=.1, W2=.1, majority=.7)
        return found | {f"valid_{k}": .9 for k in ("Acc", "DI", "W2", "EO")}

    def version(name):
        if name == "fairret": raise packages.PackageNotFoundError(name)
        return real(name)
    monkeypatch.setattr(packages, "version", version)
    own, folder = tmp_path / "own.csv", tmp_path / "rows"
    own.write_text("hired,sex,age\n" + "1,male,3\n0,female,4\n1,female,5\n0,male,6\n" * 5)
    words = ["--table", str(own), "--target", "hired", "--favourable", "1", "--sensitive", "sex",
             "--privileged", "male", "--batches", "512", "--seeds", "2", "--out", str(folder)]
    toy = replace(FRONTIER, run=run)
    run_experiment(toy, words)
    first = len(seen)
    run_experiment(toy, words)
    said = capsys.readouterr()
    lines = (folder / "frontier.jsonl").read_text().splitlines()
    assert first == len(seen) == len(lines), "finished rows are not run again"
    wanted = dict(table=str(own), drop=[], missing="drop", target="hired", favourable=1,
                  sensitive="sex", privileged="male")
    assert all(table | {"drop": list(table["drop"])} == wanted for table in seen)
    assert ("fairret is skipped. This method needs fairret, which is not installed: "
            "run pip install fairret") in said.err
    assert "512" in said.out and "2 of 2" in said.out and "fairret" not in said.out
    assert "Table: 20 rows read, 20 used." in said.out and "hired  label" in said.out
