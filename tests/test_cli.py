"""The command fairw2, as a user calls it."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from fairw2_nb import peers
from fairw2_nb.cli import main

FAIRW2 = str(Path(sys.executable).parent / "fairw2")


def fairw2(*args, cwd, **env):
    "Run the installed command."
    return subprocess.run([FAIRW2, *map(str, args)], cwd=cwd, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **env})


def test_help_reads_well(tmp_path):
    out = fairw2("--help", cwd=tmp_path)
    assert out.returncode == 0 and "demo" in out.stdout and "bench" in out.stdout


def test_demo_writes_a_report_and_keeps_the_old_one(tmp_path):
    outs = [fairw2("demo", "--steps", 20, "--lam", 0, 5, cwd=tmp_path) for _ in range(2)]
    for out in outs:
        assert out.returncode == 0, out.stderr
        assert "Acc" in out.stdout and "DI" in out.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fairw2-report-2.html", "fairw2-report.html"]
    page = (tmp_path / "fairw2-report.html").read_text()
    assert "data:image/png" in page and "http:" not in page and "https:" not in page and str(ROOT) not in page
    assert outs[0].stdout.splitlines()[:5] == outs[1].stdout.splitlines()[:5] # the same seed, the same numbers


@pytest.mark.parametrize("args, words", [
    ([], "required: command"),
    (["dance"], "invalid choice"),
    (["demo", "--lam", "-1"], "at least 0"),
    (["demo", "--lam", "much"], "invalid"),
    (["demo", "--steps", "2", "--lam", "0", "--out", "no/such/folder/report.html"], "does not exist"),
    (["bench", "speed"], "invalid choice"),
    (["bench", "cost", "--table", "own.csv"], "`bench frontier` only"),
    (["bench", "frontier", "--table", "own.csv", "--target", "a", "--favourable", "1", "--sensitive", "b", "--privileged", "1"], "There is no file own.csv"),
    (["bench", "frontier", "--table", "own.csv", "--target", "hired"], "needs --favourable, --sensitive, --privileged as well"),
    (["adult", "--seeds", "0"], "at least 1"),
    (["adult", "--report", "."], "is a folder"),
    (["adult", "--report", "no/such/a.html"], "does not exist"),
    (["adult", "--out", "/dev/null"], "not a folder"),
])
def test_bad_arguments_are_answered_in_words(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code not in (0, None) and words in capsys.readouterr().err + str(stop.value)


def test_bare_make_lists_the_targets():
    out = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True).stdout
    assert all(f"make {target}" in out for target in ("run", "test", "docs"))


def test_adult_resumes_prints_the_table_and_reports(tmp_path, monkeypatch, capsys):
    "The runs themselves are replaced; what is around them is real."
    calls = []

    def run(method, seed, preset):
        calls.append((method, seed))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return dict(Acc=.8, DI=.7, O_10=.1, O_00=.1, O_11=.6, O_01=.5, quantiles_0=[k / 20 for k in range(21)], quantiles_1=[k / 20 for k in range(21)])
    monkeypatch.setattr("fairw2_nb.cli.adult_run", run)
    command = ["adult", "--seeds", "2", "--out", str(tmp_path / "rows"), "--report", str(tmp_path / "adult.html")]
    with pytest.raises(SystemExit, match="Finished rows are kept"):
        main(command)
    main(command)
    assert sorted(set(calls)) == sorted(calls[:7] + calls[7:8] + calls[9:]) and len(calls) == 13 # twelve runs, one of them tried twice
    out = capsys.readouterr().out
    assert "NNrW" in out and "ours, 2 splits" in out and "0.800 ± 0.000" in out and "0.68" in out
    assert "data:image/png" in (tmp_path / "adult.html").read_text()


def fake_mnist(protocol, grad, lam, seed, preset):
    names = ("Acc", "DI", "MSE", "GP0", "GP1", "TP0", "TN0", "TP1", "TN1")
    return {name: .9 for name in names}


def fake_celeba(on, lam, seed, preset, loss, data):
    return {name: .5 for name in ("Acc", "DI", "MSE", "GP0", "GP1", "ratio", "W2")}


@pytest.mark.parametrize("name, fake, extra, words", [("mnist", fake_mnist, [], "0.900"), ("celeba", fake_celeba, ["--synthetic"], "0.500")])
def test_image_experiments_resume_and_report(name, fake, extra, words, tmp_path, monkeypatch, capsys):
    "The runs themselves are replaced; what is around them is real."
    calls = []

    def run(**config):
        calls.append(config)
        if len(calls) == 3: raise KeyboardInterrupt
        return fake(**config)
    monkeypatch.setattr(f"fairw2_nb.cli.{name}_run", run)
    command = [name, "--out", str(tmp_path / "rows"), "--report", str(tmp_path / "r.html"), *extra]
    with pytest.raises(SystemExit, match="Finished rows are kept"): main(command)
    main(command)
    assert len({tuple(c.items()) for c in calls}) == len(calls) - 1 # one was tried twice
    assert words in capsys.readouterr().out and "data:image/png" in (tmp_path / "r.html").read_text()


def test_celeba_without_data_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root in ([], ["--data", str(tmp_path / "nowhere")]):
        monkeypatch.setenv("FAIRW2_CELEBA", str(tmp_path / "empty"))
        with pytest.raises(SystemExit, match="list_attr_celeba"): main(["celeba", "--out", str(tmp_path / "rows"), *root])


def test_frontier_of_ones_own_table(tmp_path, monkeypatch, capsys):
    "Settings come from the command line, absent peers are named, rows are kept; the runs themselves are replaced."
    seen, real = [], peers.version

    def run(method, batch, strength, seed, reference, data):
        seen.append(data)
        return dict(Acc=.8, DI=.9, DP=.1, EO=.1, W2=.1, majority=.7) | {f"valid_{k}": .9 for k in ("Acc", "DI", "W2", "EO")}

    def version(name):
        if name == "fairret": raise peers.PackageNotFoundError(name)
        return real(name)
    monkeypatch.setattr("fairw2_nb.cli.frontier_run", run)
    monkeypatch.setattr(peers, "version", version)
    out, table = tmp_path / "rows.jsonl", tmp_path / "own.csv"
    table.write_text("hired,sex\n1,male\n")
    command = ["bench", "frontier", "--table", str(table), "--target", "hired", "--favourable", "1", "--sensitive", "sex", "--privileged", "male", "--batches", "512", "--seeds", "2", "--out", str(out)]
    main(command)
    first = len(seen)
    main(command)
    said = capsys.readouterr()
    assert first == len(seen) == len(out.read_text().splitlines()), "finished rows are not run again"
    assert all(d == dict(table=str(table), drop=[], missing="drop", target="hired", favourable=1, sensitive="sex", privileged="male") for d in seen)
    assert "fairret is skipped. This method needs fairret, which is not installed: run pip install fairret" in said.err
    assert "Batch 512" in said.out and "2 of 2" in said.out and "fairret" not in said.out
