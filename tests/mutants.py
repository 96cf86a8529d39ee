"""Errors that must be noticed: `make mutants`, or `python tests/mutants.py word` for some of them.

Each line of `MUTANTS` says what goes wrong, in which module, which text (standing there once) is
replaced, and by what. It is applied to a copy of the tree, to the module and to the notebook it
comes from, and there the guard above it must fail, by a number that differs and not by a crash."""
import contextlib
import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GUARDS = "tests/test_guards.py"

MUTANTS = {  # guard: [(what goes wrong, module, text, replacement), ...]
    f"{GUARDS}::test_penalty": [
        ("Proposition 2: half the gradient", "transport.exact",
         "g = p * slope", "g = p * slope / 2"),
        ("eq:w2reg: the sign is lost for p = 3", "transport.exact",
         "power = xp.sign(d) * xp.abs(d) ** (p - 1)", "power = xp.abs(d) ** (p - 1)"),
        ("eq:w2reg: group 1 pulled away", "transport.exact",
         "-xp.bincount(j, g, len(y))", "xp.bincount(j, g, len(y))"),
        ("rank cells: one width before the cut is wrong", "transport.sorting",
         "width[cut - 1] = n - after", "width[cut - 1] = n"),
        ("rank cells: off by one in the rank", "transport.sorting",
         "q = (r * m - 1) // n", "q = r * m // n"),
        ("reference: the merged count divides", "penalty.gradients",
         "g if n_batch == len(f) else g * (len(at) / in_batch)", "g"),
        ("reference: one global factor for both groups", "penalty.gradients",
         "g * (len(at) / in_batch)", "g * (len(f) / n_batch)"),
        ("reference: its labels taken for groups", "penalty.loss",
         'ref = checked(*ref, name="ref ", **labels)',
         'ref = checked(ref[0], ref[-1], ref[-1], name="ref ", **labels)'),
        ("reference: ignored", "penalty.loss",
         "if ref is not None: f, s = torch.cat([f, ref.scores]), torch.cat([s, ref.s])", "pass"),
        ("given: ignored", "penalty.comparisons",
         "if given is None: return [sample]", "return [sample]"),
        ("given=1 takes y = 0", "penalty.comparisons",
         '(0, 1) if given == "each" else (given,)', '(0, 1) if given == "each" else (1 - given,)'),
        ("given: groups taken for labels", "penalty.comparisons",
         "sample.where(sample.y == label)", "sample.where(sample.s == label)"),
        ('given="each": the sum in the place of the mean', "penalty.loss",
         "zip(parts, refs)) / len(parts)", "zip(parts, refs))"),
        ("given: the reference is not parted", "penalty.loss",
         "if ref is None else parts_of(self.given, ref)", "if ref is None else [ref] * len(parts)"),
        ("eq:minimizedEnergyErr: the error is not squared", "penalty.comparisons",
         '(f - y) ** 2 if on == "error"', '(f - y).abs() if on == "error"'),
        ("eq:minimizedEnergyErr: group in the place of the label", "penalty.comparisons",
         "f, y = sample.scores, sample.y.to(sample.scores)",
         "f, y = sample.scores, sample.s.to(sample.scores)"),
        ("p is ignored", "penalty.loss",
         "value, g = exact_gradient(f, s, n, p)", "value, g = exact_gradient(f, s, n)"),
        ("relative: the variance is held fixed", "penalty.relative",
         "(grad.to(V) - D * dV) / V", "grad.to(V) / V"),
        ("relative: the variance of the batch alone", "penalty.relative",
         "V = (centred ** 2).mean()", "V = (centred[:n_batch] ** 2).mean()"),
        ("relative: one factor for both groups", "penalty.relative",
         "torch.where(own, s.sum() / own.sum(), (~s).sum() / (~own).sum())", "len(f) / n_batch"),
    ],
    f"{GUARDS}::test_penalty_as_a_function": [
        ("function: scores for groups of the reference", "penalty.loss",
         'checked(ref_scores, ref_s, name="ref_")',
         'checked(ref_scores, ~ref_s.bool(), name="ref_")'),
        ("function: p is ignored", "penalty.loss",
         "return distance(batch, ref, p, grad, n_bins)",
         "return distance(batch, ref, 2, grad, n_bins)"),
    ],
    f"{GUARDS}::test_printed_gradient": [
        ("eq:finalW2gradApprox: twice the gradient with a reference", "penalty.gradients",
         "distance / n_bins / (n_s * cdf.bin_mass(b, sb))",
         "distance / n_bins / (n_s * cdf.bin_mass(b, sb)) * (1 + (len(f) > n_batch))"),
        ("eq:finalW2gradApprox: H ignores the reference", "penalty.gradients",
         "cdf = group_cdf(f, s, n_bins)",
         "cdf = group_cdf(f[:n_batch], s[:n_batch], n_bins, f.min(), f.max())"),
        ("eq:finalW2gradApprox: the merged count divides", "penalty.gradients",
         "n_s = torch.where(sb, sb.sum(), n_batch - sb.sum())",
         "n_s = torch.where(sb, s.sum(), len(s) - s.sum())"),
        ("eq:finalW2gradApprox: one count for both groups", "penalty.gradients",
         "n_s = torch.where(sb, sb.sum(), n_batch - sb.sum())", "n_s = n_batch / 2"),
        ("eq:finalW2gradApprox: counts of the groups swapped", "penalty.gradients",
         "torch.where(sb, sb.sum(), n_batch - sb.sum())",
         "torch.where(sb, n_batch - sb.sum(), sb.sum())"),
        ("eq:gradS0S1: own group in the place of the other", "transport.grid",
         "other = 1 - check_groups(s, scores)", "other = check_groups(s, scores)"),
        ("eq:finalW1gradApprox: W_2 in the place of W_1", "penalty.gradients",
         "if p == 1: # the sign", "if p == 0: # the sign"),
        ("eq:finalW1gradApprox: sign of the scores, not of their bins", "penalty.gradients",
         "distance = (edge - edge_of_cor).sign()", "distance = distance.sign()"),
        ("grid: n_bins is ignored", "penalty.gradients",
         "cdf = group_cdf(f, s, n_bins)", "cdf = group_cdf(f, s)"),
        ("eq:def_Htilde: H of all scores of a bin", "transport.grid",
         "return self.counts[s, j].to(self.eta.dtype) / self.n[s].to(self.eta.dtype)",
         "return self.counts[:, j].sum(0).to(self.eta.dtype) / self.n.sum().to(self.eta.dtype)"),
        ('grad="paper" is ignored', "penalty.loss",
         'if grad == "paper": g =', 'if grad == "": g ='),
    ],
    f"{GUARDS}::test_ring_against_a_deque": [
        ("ring: evaluation is remembered", "penalty.loss",
         "if self.ring and self.training:", "if self.ring:"),
        ("ring: never used", "penalty.loss",
         "elif self.ring and self.ring.seen > 0:", "elif self.ring and self.ring.seen < 0:"),
        ("ring: reset forgets nothing", "penalty.references",
         "self.seen.zero_()", "self.seen.clone()"),
        ("ring: too long a batch keeps its first scores", "penalty.references",
         "new = new[skip:]", "new = new[:len(new) - skip]"),
    ],
    f"{GUARDS}::test_ring_remembers_what_and_whose": [
        ("ring: labels kept as groups", "penalty.references",
         "(self.s, s)", "(self.s, y)"),
        ("ring: the oldest is kept and the newest lost", "penalty.references",
         "start = (int(self.seen) + skip) % self.size", "start = skip % self.size"),
    ],
    f"{GUARDS}::test_fit_is_algorithm_1": [
        ("Algorithm 1: λ halved in `fit`", "training.loop",
         "objective = Objective(task, penalty.to(device), lam)",
         "objective = Objective(task, penalty.to(device), lam.lam / 2)"),
        ("Algorithm 1: s and y swapped", "training.loop",
         "risk, w = run.objective.parts(out, y, s, ref)",
         "risk, w = run.objective.parts(out, s.float(), y.long(), ref)"),
        ("Algorithm 1: groups are labels for the penalty", "training.objective",
         "return risk, self.penalty(self.task.scores(out), s, y, ref)",
         "return risk, self.penalty(self.task.scores(out), y, y, ref)"),
        ("Algorithm 1: the reference is not handed on", "training.loop",
         "ref = fresh_reference(run)",
         "fresh_reference(run)\n    ref = run.fresh and x[:1].new_tensor([[.5, .5], [0, 1]])"),
        ("Algorithm 1: labels of the reference for groups", "training.loop",
         "return f, s, y", "return f, y, s"),
        ("Algorithm 1: gradients add up over steps", "training.loop",
         "    run.opt.zero_grad()\n", ""),
        ("eq:minimizedEnergy: λ forgotten", "training.objective",
         "risk + self.weight * w if self.weight", "risk + w if self.weight"),
        ("eq:minimizedEnergy: the penalty subtracted", "training.objective",
         "risk + self.weight * w if self.weight", "risk - self.weight * w if self.weight"),
        ("eq:minimizedEnergy: the penalty sees logits", "training.tasks",
         'return out.sigmoid() if self.outputs == "logits" else out', "return out"),
        ("R(θ): the sum in the place of the mean", "training.tasks",
         "F.mse_loss(f, y) if self.loss", 'F.mse_loss(f, y, reduction="sum") if self.loss'),
        ("R(θ): cross-entropy for the squared error", "training.tasks",
         'F.mse_loss(f, y) if self.loss == "mse"', 'F.mse_loss(f, y) if self.loss == ""'),
        ("averaged weights: the share is turned round", "training.loop",
         "a.lerp_(m, 1 - keep)", "a.lerp_(m, keep)"),
        ("the seed is ignored", "training.loop",
         "torch.Generator().manual_seed(self.seed)", "torch.Generator().manual_seed(0)"),
        ("the batch size is ignored", "training.loop",
         ".split(run.batch_size)", ".split(len(run.train))"),
    ],
    f"{GUARDS}::test_rows_measure_the_validation_part": [
        ("rows: the training part is measured", "training.loop",
         "measured = evaluate(run.average, run.valid,",
         "measured = evaluate(run.average, run.train,"),
        ("rows: the objective without λ", "training.loop",
         'objective = run.objective.total(measured.pop("risk"), measured.pop("W"))',
         'objective = measured.pop("risk") + measured.pop("W")'),
        ("rows: the ring is in what is measured", "training.evaluation",
         "    plain.reset()\n", ""),
    ],
    f"{GUARDS}::test_patience_keeps_the_best_epoch": [
        ("patience: the last weights", "training.loop",
         "run.best if patience and run.best else run.average",
         "run.average if True else run.average"),
        ("patience: one epoch too long", "training.loop",
         "objectives.index(min(objectives)) >= patience",
         "objectives.index(min(objectives)) > patience"),
        ("patience: the worst epoch is the best", "training.loop",
         "if objective <= min(", "if objective >= min("),
    ],
    f"{GUARDS}::test_scale_of_lambda": [
        ("λ = α g_R / g_W: upside down", "training.lambdas",
         'row["g_R"] / max(row["g_W"], 1e-12)', 'row["g_W"] / max(row["g_R"], 1e-12)'),
        ("λ = α g_R / g_W: g_R and g_W swapped", "training.loop",
         "for v in (risk, w)]", "for v in (w, risk)]"),
        ("λ = α g_R / g_W: g_W for the scores, g_R for the logits", "training.loop",
         "pulls = [_mean_abs_grad(v, out) if run.objective.warming else 0. for v in (risk, w)]",
         "f = run.objective.task.scores(out).detach().requires_grad_()\n"
         "    v = run.objective.penalty(f, s, y, ref) if run.objective.warming else 0.\n"
         "    pulls = [_mean_abs_grad(risk, out), _mean_abs_grad(v, f)] if v else [0., 0.]"),
        ("λ = α g_R / g_W: signed means", "training.loop",
         "retain_graph=True)[0].abs().mean()", "retain_graph=True)[0].mean().abs()"),
        ("λ = α g_R / g_W: one epoch too early", "training.lambdas",
         'if row["epoch"] == self.warm_up:', 'if row["epoch"] == self.warm_up - 1:'),
        ("λ = α g_R / g_W: α is ignored", "training.lambdas",
         "return self.alpha * self.scale", "return self.scale"),
        ("the warm-up has a penalty", "training.objective",
         "return 0. if self.warming else self.lam.lam",
         "return 1. if self.warming else self.lam.lam"),
    ],
    f"{GUARDS}::test_controller_of_the_paper": [
        ("controller: the accuracy is not looked at", "training.lambdas",
         ' or row["Acc"] < self.acc: return self.down', ": return self.down"),
        ("controller: up where the accuracy is low", "training.lambdas",
         'row["Acc"] < self.acc: return self.down', 'row["Acc"] < self.acc: return self.up'),
        ("controller: not strict at the accuracy", "training.lambdas",
         'row["Acc"] < self.acc', 'row["Acc"] <= self.acc'),
        ("controller: strict at the target", "training.lambdas",
         "return value >= target + slack", "return value > target + slack"),
        ("controller: down where DI is low", "training.lambdas",
         "if not meets(self.metric, value, self.target): return self.up",
         "if not meets(self.metric, value, self.target): return self.down"),
        ("controller: up by a fifth", "training.lambdas",
         "up: float = 1.1,", "up: float = 1.2,"),
    ],
    f"{GUARDS}::test_controller_of_a_gap": [
        ("controller: a gap is treated as a ratio", "training.lambdas",
         "return value <= target - slack", "return value >= target + slack"),
        ("controller: the slack is ignored", "training.lambdas",
         "value, self.target, self.slack): return self.down",
         "value, self.target): return self.down"),
    ],
    f"{GUARDS}::test_alpha_goes_to_zero_where_the_accuracy_is_out_of_reach": [
        ('"α converges to zero otherwise": it stays', "training.lambdas",
         "if steering: self.alpha *= self.factor(row)",
         "if steering: self.alpha *= max(1., self.factor(row))"),
        ('"α converges to zero otherwise": one epoch late', "training.lambdas",
         'steering = row["epoch"] > self.warm_up', 'steering = row["epoch"] > self.warm_up + 1'),
    ],
    f"{GUARDS}::test_growing_weights": [
        ("ramp: one step early", "training.lambdas",
         "share = (self.at - self.start) /", "share = (self.at + 1 - self.start) /"),
        ("ramp: epochs from one too early", "training.lambdas",
         "if self.at <= self.start: return", "if self.at < self.start: return"),
    ],
}

IN_MAKE_TEST = ()  # words of the few that also run in `make test`


# machinery

class Mutant(NamedTuple):
    "One error and the check that must notice it."
    what: str
    module: str
    old: str
    new: str
    guard: str


def mutants() -> list:
    "All of them."
    return [Mutant(*line, guard) for guard, lines in MUTANTS.items() for line in lines]


def notebook_of(module: str, root: Path = ROOT) -> Path:
    "The notebook that a module is exported from."
    text = (root / "fairw2_nb" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    return root / re.search(r"File to edit: [./]*(nbs/\S+\.ipynb)", text)[1]


def replaced(text: str, mutant: Mutant) -> str:
    "The text with the error in it."
    found = text.count(mutant.old)
    if found != 1:
        raise LookupError(f"{mutant.what}: {mutant.old!r} stands {found} times in {mutant.module}.")
    return text.replace(mutant.old, mutant.new)


def mutated(mutant: Mutant, root: Path = ROOT) -> dict:
    "The module and the notebook with the error in them, {path: text}."
    path = root / "fairw2_nb" / f"{mutant.module.replace('.', '/')}.py"
    source = notebook_of(mutant.module, root)
    notebook = json.loads(source.read_text(encoding="utf-8"))
    hits = 0
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if re.search(r"^#\| *exporti?\b", text, re.M) and mutant.old in text:
            cell["source"] = replaced(text, mutant).splitlines(True)
            hits += 1
    if hits != 1:
        raise LookupError(f"{mutant.what}: {mutant.old!r} is in {hits} cells of {source.name}.")
    return {path: replaced(path.read_text(encoding="utf-8"), mutant), source: json.dumps(notebook)}


def copy_tree(folder: Path):
    "A tree of its own: code is copied, all else linked."
    def copy(source, target):
        (shutil.copy if source.endswith((".py", ".ini")) else os.symlink)(source, target)
    for name in ("fairw2_nb", "nbs", "tests", "tools"):
        unwanted = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / name, folder / name, copy_function=copy, ignore=unwanted)
    shutil.copy(ROOT / "settings.ini", folder)


class Failures:
    "A pytest plugin that notes how tests fail."
    def __init__(self): self.texts = []

    def pytest_runtest_logreport(self, report):
        if report.failed: self.texts.append(report.longreprtext + report.capstdout)


def too_long(*_): raise TimeoutError("more than two minutes")


def run_guard(job) -> tuple: # guard, mutant or None, what came out, seconds
    "Run a guard in a tree with an error, or without; in a process of its own."
    import pytest
    guard, mutant = job
    start, failures = time.perf_counter(), Failures()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        copy_tree(folder)
        for path, text in (mutated(mutant) if mutant else {}).items():
            target = folder / path.relative_to(ROOT)
            target.unlink()
            target.write_text(text, encoding="utf-8")
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": str(folder), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
        sys.path[:0] = [str(folder), str(folder / "tools")]
        sys.dont_write_bytecode = True
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(120)
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(folder)]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = int(pytest.main([*options, guard], plugins=[failures]))
        signal.alarm(0)
        import fairw2_nb
        assert Path(fairw2_nb.__file__).is_relative_to(folder), "another package was tested"
    text = "\n".join(failures.texts) or said.getvalue()
    return guard, mutant, verdict(code, text), time.perf_counter() - start


def verdict(code: int, text: str) -> str:
    "Whether all was well, a number differed, or something else happened."
    if code == 0: return "passed"
    if code == 1 and re.search(r"AssertionError|^E +assert ", text, re.M): return "failed"
    last = [line for line in text.strip().splitlines() if line.strip()][-1:]
    return f"crashed: {' '.join(last)[-90:]}"


def run(jobs, workers=2):
    "Run jobs, each in a process of its own that has the large packages already."
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "pytest", "hypothesis", "scipy.stats", "pandas",
                                    "sklearn.linear_model", "matplotlib.pyplot", "nbdev.test"])
    with context.Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(run_guard, jobs)


def main(words) -> int:
    "Run all mutants, or those with one of the words; the number of those that survive."
    from tqdm import tqdm
    chosen = [m for m in mutants() if not words or any(w in " ".join(m) for w in words)]
    for mutant in chosen: mutated(mutant) # a text that is not found ends it here
    guards = list(dict.fromkeys(m.guard for m in chosen))
    jobs = [(guard, None) for guard in guards] + [(m.guard, m) for m in chosen]
    found = list(tqdm(run(jobs), "mutants", len(jobs)))
    wrong = [f"{guard} does not pass without any error: {how}"
             for guard, mutant, how, _ in found if mutant is None and how != "passed"]
    how = {mutant: (how, seconds) for _, mutant, how, seconds in found if mutant}
    for mutant in chosen:
        said = {"failed": "noticed", "passed": "SURVIVED"}.get(how[mutant][0], how[mutant][0])
        print(f"{said:9} {how[mutant][1]:5.1f} s  {mutant.module:24} {mutant.what}")
        if how[mutant][0] != "failed": wrong.append(f"{mutant.what}: {said} by {mutant.guard}")
    noticed = sum(h == "failed" for h, _ in how.values())
    print(f"{noticed} of {len(chosen)} errors were noticed.", *wrong, sep="\n")
    return len(wrong)


if __name__ == "__main__": sys.exit(main(sys.argv[1:]) > 0)
