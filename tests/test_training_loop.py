"""fit, tuners and estimator: reproducible, resumable, undisturbed, clear about what went wrong."""
import copy
import os
import runpy
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
import torch
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.synthetic import synthetic_logistic
from fairw2_nb.models.mlp import FairMLPClassifier
from fairw2_nb.models.networks import mlp
from fairw2_nb.penalty.loss import WassersteinPenalty
from fairw2_nb.penalty.references import Fresh
from fairw2_nb.training.checkpoint import open_checkpoint
from fairw2_nb.training.evaluation import evaluate, score_all
from fairw2_nb.training.lambdas import RampedLambda, ScaledLambda, TargetTuner
from fairw2_nb.training.loop import TrainingDiverged, fit
from fairw2_nb.training.objective import Objective
from fairw2_nb.training.tasks import Binary
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator
from torch import nn


@pytest.fixture(scope="module")
def parts():
    "Training and validation part of the synthetic problem."
    return synthetic_logistic(1200).split(.25, seed=0)


def same(a, b):
    "Whether two networks are equal bit for bit."
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values()))


def small():
    "A small network, the same each time."
    return mlp(8, (32, 32), 0)


def quietly(net, data, **options):
    "`fit` without a bar, in batches of 100 unless told otherwise."
    return fit(net, data, **{"batch_size": 100, "progress": False, **options})


OPTIONS = [dict(lam=3.), dict(lam=3., penalty="fresh"), dict(lam=2., penalty="error"),
           dict(lam=2., task=Binary("mse"), average=.9),
           dict(lam="target"), dict(lam="growing"), dict(lam="ramped")]
PENALTIES = {"error": lambda: WassersteinPenalty(on="error", reference=300),
             "fresh": lambda: WassersteinPenalty(reference=Fresh(200))}
TUNERS = {"target": lambda: TargetTuner(.6, acc=.5, warm_up=1),
          "growing": lambda: RampedLambda(6., 0, 3, "epoch"),
          "ramped": lambda: RampedLambda(6., start=7, stop=23)} # 9 steps an epoch: in the middle


def run(parts, options, epochs, **more):
    "Train a fresh network."
    options = dict(options, lam=TUNERS.get(options["lam"], lambda: options["lam"])())
    if "penalty" in options: options["penalty"] = PENALTIES[options["penalty"]]()
    net = nn.Sequential(*mlp(8, (32, 32), 0)[:-1], nn.Dropout(.2)) # outputs of shape (B, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return net, quietly(net, parts[0], valid=parts[1], epochs=epochs, **options, **more)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_same_seed_same_network_and_resume(parts, options, tmp_path):
    net, history = run(parts, options, 4)
    again, _ = run(parts, options, 4)
    assert same(net, again)
    file = tmp_path / "run.pt"
    run(parts, options, 2, checkpoint=file)
    kept = "average best draws history model opt penalty random settings tuner".split()
    assert sorted(open_checkpoint(file.read_bytes())) == kept
    resumed, rows = run(parts, options, 4, checkpoint=file)
    assert same(net, resumed) and rows == history
    other, _ = run(parts, options, 4, seed=1)
    assert not same(net, other)


KILLED = textwrap.dedent("""
    import sys, time, torch
    torch.set_num_threads(1)
    from fairw2_nb.data.dataset import FairDataset
    from fairw2_nb.data.synthetic import synthetic_logistic
    from fairw2_nb.models.networks import mlp
    from fairw2_nb.training.loop import fit
    net = mlp(8, (32, 32), 0)
    pause = float(sys.argv[3])
    fit(net, synthetic_logistic(2000), lam=3., epochs=12, batch_size=40, checkpoint=sys.argv[1],
        watch=lambda net: time.sleep(pause), progress=False)
    torch.save(net.state_dict(), sys.argv[2])
""")


def test_a_killed_training_ends_where_it_would_have(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(KILLED)

    def files(name): return [str(tmp_path / f"{name}{end}") for end in (".pt", "-net.pt")]

    def run_here(name):
        monkeypatch.setattr(sys, "argv", ["train.py", *files(name), "0"])
        runpy.run_path(str(script))
    run_here("whole")
    process = subprocess.Popen([sys.executable, str(script), *files("killed"), ".01"])
    deadline = time.monotonic() + 60
    while not (tmp_path / "killed.pt").exists() and time.monotonic() < deadline:
        time.sleep(.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed-net.pt").exists()
    run_here("killed") # goes on where the other process was killed
    nets = [torch.load(files(name)[1], weights_only=True) for name in ("whole", "killed")]
    assert all(torch.equal(nets[0][k], nets[1][k]) for k in nets[0])


def test_references_and_measuring_leave_no_trace(parts):
    "BatchNorm's statistics, dropout's random state and the mode are those from before."
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(.5), nn.Linear(8, 1))
    net.train()
    state, rng = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    score_all(net, parts[0])
    evaluate(net, parts[1])
    assert all(torch.equal(a, b) for a, b in zip(state.values(), net.state_dict().values()))
    assert torch.equal(rng, torch.get_rng_state()) and net.training
    penalty = WassersteinPenalty(reference=50)
    penalty(torch.rand(20), torch.arange(20) % 2)
    evaluate(net, parts[1], Objective(penalty=penalty))
    assert penalty.ring.seen == 20
    measured = [evaluate(net, parts[1], Objective(penalty=p))["W"] for p in (penalty, None)]
    assert measured[0] == measured[1] # without what the ring remembers


def test_evaluation_is_in_eval_mode(parts):
    net = nn.Sequential(nn.Dropout(.9), *mlp(8, (32, 32), 0))
    net.train()
    assert evaluate(net, parts[1]) == evaluate(net, parts[1])


@pytest.mark.parametrize("loss", ["bce", "mse", nn.functional.binary_cross_entropy_with_logits])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_losses_and_shapes(parts, loss, shape):
    net = nn.Sequential(nn.Linear(8, 1), nn.Unflatten(1, (1,)) if shape else nn.Flatten(0))
    history = quietly(net, parts[0], lam=1., task=Binary(loss), epochs=2)
    assert history[-1]["loss"] < history[0]["loss"] * 1.5 and np.isfinite(history[-1]["objective"])


def test_network_giving_scores(parts):
    net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
    task = Binary(outputs="scores")
    quietly(net, parts[0], lam=1., task=task, epochs=2)
    assert 0 <= evaluate(net, parts[1], Objective(task))["DI"] <= 1


def test_risk_of_a_function_of_logits(parts):
    "What `evaluate` finds from scores is what the loop finds from outputs."
    def hinge(out, y): return nn.functional.relu(1 - (2 * y - 1) * out).mean()
    net, task = small(), Binary(hinge)
    with torch.no_grad(): wanted = hinge(net(parts[1].x), parts[1].y.float()).item()
    assert evaluate(net, parts[1], Objective(task))["risk"] == pytest.approx(wanted, rel=1e-5)


def test_any_dataset_of_triples(parts):
    triples = [parts[0][i] for i in range(200)]
    assert len(quietly(small(), triples, lam=1., epochs=1, batch_size=50)) == 1


DAMAGES = ["empty", "half", "text", "weights", "other net", "other lam", "other tuner"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_checkpoint_that_does_not_fit_is_refused_in_words(parts, damage, tmp_path):
    file = tmp_path / "run.pt"
    quietly(small(), parts[0], lam=1., epochs=1, checkpoint=file)
    whole = file.read_bytes()
    net, lam = small(), 1.
    if damage in ("empty", "half", "text"):
        ruins = {"empty": b"", "half": whole[: len(whole) // 2], "text": b"epoch,loss"}
        file.write_bytes(ruins[damage])
    elif damage == "weights":
        torch.save(net.state_dict(), file)
    elif damage == "other net":
        net = nn.Linear(8, 1)
    else:
        lam = 2. if damage == "other lam" else TargetTuner()
    before, kept = copy.deepcopy(net), file.read_bytes()
    with pytest.raises(ValueError, match="cannot be continued.*Move it away"):
        quietly(net, parts[0], lam=lam, epochs=3, checkpoint=file)
    assert same(net, before) and file.read_bytes() == kept


def test_a_checkpoint_that_cannot_be_written_stops_before_training(parts, tmp_path):
    (tmp_path / "file").touch()
    net = small()
    with pytest.raises(OSError, match="could not be written"):
        quietly(net, parts[0], epochs=1, checkpoint=tmp_path / "file" / "run.pt")
    assert same(net, small())


def descent(lr):
    "Plain gradient descent, as `fit` wants it."
    return lambda weights: torch.optim.SGD(weights, lr)


def test_divergence_on_the_last_step_of_an_epoch(parts):
    net = small()
    with pytest.raises(TrainingDiverged, match="end of epoch 0"):
        quietly(net, parts[0], opt=descent(1e38), batch_size=len(parts[0]), epochs=2)
    assert same(net, small())


def test_wrong_data_is_refused_in_words(parts):
    train = parts[0]
    wrong = [(train.x, train.y, train.s), [(train.x[0], train.y[0])] * 50,
             [(train.x[0], torch.tensor(2.), train.s[0])] * 50,
             torch.utils.data.DataLoader(train, 10)]
    for data in wrong:
        with pytest.raises(ValueError, match="triples|must be 0 and 1"):
            quietly(small(), data, batch_size=1, epochs=1)


def test_patience_and_a_tuner_exclude_each_other(parts):
    for tuner in (TargetTuner(), RampedLambda(5., 3, 9), RampedLambda(5., 0, 2, "epoch")):
        with pytest.raises(ValueError, match="needs a fixed lam"):
            quietly(small(), parts[0], lam=tuner, valid=parts[1], patience=2, epochs=5)


def test_favourable_label():
    "The favourable label decides what is positive; probabilities stay with their classes."
    x, y, s = (t.numpy() for t in synthetic_logistic(800).tensors)
    words = np.where(y == 1, "approved", "denied")
    with pytest.raises(ValueError, match="`favourable` is missing"):
        FairMLPClassifier(target=.8).fit(x, words, sensitive_features=s)
    with pytest.raises(ValueError, match="not among the labels"):
        FairMLPClassifier(favourable="yes").fit(x, words, sensitive_features=s)
    options = dict(lam=1., hidden=(16,), epochs=8, lr=1e-2)
    model = FairMLPClassifier(favourable="approved", **options).fit(x, words, sensitive_features=s)
    numbers = FairMLPClassifier(**options).fit(x, y, sensitive_features=s)
    found, wanted = model.predict_proba(x)[:, 0], numbers.predict_proba(x)[:, 1]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert ((model.predict(x) == "approved") == (numbers.predict(x) == 1)).all()
    assert (model.predict(x) == words).mean() > .7


def test_divergence_keeps_the_last_good_weights(parts):
    net, calls = small(), []

    def loss(out, y):
        calls.append(1)
        factor = float("nan") if len(calls) == 15 else 1.
        return nn.functional.binary_cross_entropy_with_logits(out, y) * factor
    words = "step 5 of epoch 2.*end of epoch 1.*smaller learning rate"
    with pytest.raises(TrainingDiverged, match=words):
        quietly(net, parts[0], task=Binary(loss), epochs=4)
    reference = small()
    quietly(reference, parts[0], epochs=1)
    assert same(net, reference)


def test_other_errors_keep_their_name_and_the_weights(parts):
    "A sentence that speaks of NaN is no divergence: the class decides."
    net, calls = small(), []

    def loss(out, y):
        calls.append(1)
        if len(calls) == 15: raise ValueError("I dislike NaN or infinite patience.")
        return nn.functional.binary_cross_entropy_with_logits(out, y)
    with pytest.raises(ValueError, match="I dislike"):
        quietly(net, parts[0], task=Binary(loss), epochs=4)
    reference = small()
    quietly(reference, parts[0], epochs=1)
    assert same(net, reference)


def test_nan_scores_are_divergence_too(parts):
    net = small()
    with pytest.raises(TrainingDiverged, match="NaN or infinite"):
        quietly(net, parts[0], lam=1., opt=descent(1e30), epochs=3)
    assert all(w.isfinite().all() for w in net.parameters())


def test_average_of_the_weights(parts):
    "After one step, nine tenths of the first weights and one tenth of the next."
    first, plain, averaged = small(), small(), small()
    options = dict(lam=1., epochs=1, batch_size=len(parts[0]), opt=descent(1.))
    quietly(plain, parts[0], **options)
    quietly(averaged, parts[0], average=.9, **options)
    nets = zip(first.parameters(), plain.parameters(), averaged.parameters())
    for before, after, mean in nets: torch.testing.assert_close(mean, .9 * before + .1 * after)


@pytest.mark.parametrize("on", ["score", "error"])
def test_fresh_references(parts, on):
    "The first distance by hand, with the same draws."
    train, n = parts[0], len(parts[0])
    draws = torch.Generator().manual_seed(7)
    torch.randperm(n, generator=draws) # the batch, here all of them
    at = torch.randint(n, (150,), generator=draws)
    with torch.no_grad(): f = small()(train.x).sigmoid()
    ref = f[at], train.s[at], train.y[at].float()
    wanted = WassersteinPenalty(on=on)(f, train.s, train.y.float(), ref).item()
    penalty = WassersteinPenalty(on=on, reference=Fresh(150))
    rows = quietly(small(), train, lam=1., penalty=penalty, epochs=1, batch_size=n, seed=7)
    assert rows[0]["W"] == pytest.approx(wanted, rel=1e-5)


def test_the_callers_generators_stay_where_they_were(parts):
    "Dropout draws, and nothing is seen of it outside."
    net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(.5), nn.Linear(16, 1))
    torch.manual_seed(3)
    np.random.seed(4)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    quietly(net, parts[0], lam=1., epochs=1, seed=7)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()


def test_early_stop_takes_the_best(parts):
    net = small()
    history = quietly(net, parts[0], valid=parts[1], epochs=40, patience=2, batch_size=50,
                      opt=lambda weights: torch.optim.Adam(weights, 2e-2))
    best = min(r["objective"] for r in history)
    assert len(history) < 40 and abs(evaluate(net, parts[1])["risk"] - best) < 1e-6


@pytest.mark.parametrize("options, words", [
    (dict(batch_size=5000), "at most all of them"), (dict(batch_size=0), "at least 1"),
    (dict(batch_size=10.), "whole numbers"), (dict(epochs=-1), "at least 0"),
    (dict(lam=-1), "at least 0"), (dict(lam=float("nan")), "finite"),
    (dict(patience=3), "validation part"), (dict(average=1.), "below 1"),
])
def test_bad_settings_are_answered_in_words(parts, options, words):
    with pytest.raises(ValueError, match=words):
        quietly(small(), parts[0], **{"epochs": 1, **options})


@pytest.mark.parametrize("words", [dict(loss="hinge"), dict(outputs="labels"), dict(loss=None)])
def test_a_task_that_does_not_exist_is_refused(words):
    with pytest.raises(ValueError, match="expected"): Binary(**words)


@pytest.mark.parametrize("lam", [0., 1.])
def test_a_network_with_two_outputs_is_refused(parts, lam):
    with pytest.raises(ValueError, match="one number per observation"):
        quietly(nn.Linear(8, 2), parts[0], lam=lam, epochs=1)


def test_scale_of_lambda(parts):
    tuner = ScaledLambda(alpha=.7, warm_up=2)
    history = quietly(small(), parts[0], lam=tuner, epochs=3)
    wanted = .7 * history[1]["g_R"] / history[1]["g_W"]
    assert [r["lam"] for r in history] == [0., 0., pytest.approx(wanted, rel=1e-9)]


def test_weight_that_grows_by_epochs(parts, tmp_path):
    def train(tuner):
        return quietly(small(), parts[0], lam=tuner, epochs=4, checkpoint=tmp_path / "run.pt")
    rows = train(RampedLambda(5., 0, 2, "epoch"))
    assert [round(r["lam"], 9) for r in rows] == [2.5, 5., 5., 5.]
    words = "other settings, lam = 5.0 instead of 7.5, stop = 2 instead of 3"
    with pytest.raises(ValueError, match=words): train(RampedLambda(7.5, 0, 3, "epoch"))
    with pytest.raises(ValueError, match="each = epoch instead of step"):
        train(RampedLambda(5., 0, 2))
    for bad in (0, 1.5, "3"):
        with pytest.raises(ValueError, match="whole numbers of epochs"):
            RampedLambda(1., 0, bad, "epoch")
    with pytest.raises(ValueError, match="finite number"): RampedLambda(-1., 0, 2, "epoch")
    with pytest.raises(ValueError, match='expected "step" or "epoch"'):
        RampedLambda(1., 0, 2, "year")


@given(st.floats(0, 100), st.integers(0, 8), st.integers(1, 20), st.integers(1, 40))
def test_growth_by_epochs(lam, start, length, epochs):
    "A running sum, on whose last bits stored rows depend: in epoch e there are e - start parts."
    tuner, seen, running = RampedLambda(lam, start, start + length, "epoch"), [], 0.
    for e in range(1, epochs + 1):
        if e > start: running = min(lam, running + lam / length)
        assert tuner.lam == running
        seen.append(tuner.lam)
        tuner.after_step() # changes nothing
        tuner.after_epoch({})
    wanted = np.interp(np.arange(1, epochs + 1), [start, start + length], [0, lam])
    np.testing.assert_allclose(seen, wanted, rtol=1e-12, atol=1e-12)


@given(st.floats(0, 100), st.integers(0, 50), st.integers(1, 50), st.integers(1, 120))
def test_ramp(lam, start, length, steps):
    tuner, seen = RampedLambda(lam, start, start + length), []
    for _ in range(steps):
        seen.append(tuner.lam)
        tuner.after_step()
    wanted = np.interp(np.arange(steps), [start, start + length], [0, lam])
    np.testing.assert_allclose(seen, wanted, rtol=1e-12, atol=1e-12)


class Stranger:
    "Looks like a tuner, and is none."
    lam, after_epoch = 1., print


@pytest.mark.parametrize("stranger", [TargetTuner, "5", None, Stranger()],
                         ids=["class", "text", "None", "not a tuner"])
def test_a_weight_that_is_none(parts, stranger):
    words = "expected a finite number of at least 0, or a tuner"
    with pytest.raises(ValueError, match=words): quietly(small(), parts[0], lam=stranger, epochs=1)
    with pytest.raises(ValueError, match=words): Objective(lam=stranger)


def test_ramp_refuses(parts, tmp_path):
    for start, stop in ((3, 3), (-1, 4), (2., 5), (0, "9"), (5, 2)):
        with pytest.raises(ValueError, match="whole numbers of steps"):
            RampedLambda(1., start, stop)
    with pytest.raises(ValueError, match="finite number"): RampedLambda(-1., 0, 5)

    def train(stop):
        return quietly(small(), parts[0], lam=RampedLambda(5., 3, stop), epochs=2,
                       checkpoint=tmp_path / "run.pt")
    assert [r["lam"] for r in train(9)] == [5., 5.] # nine steps an epoch
    with pytest.raises(ValueError, match="other settings, stop = 9 instead of 12"): train(12)


def test_controller_rule():
    tuner = TargetTuner(target=.85, acc=.75, alpha=1., warm_up=1, up=1.1, down=.9, slack=.05)

    def step(epoch, acc, di):
        tuner.after_epoch({"epoch": epoch, "Acc": acc, "DI": di, "g_R": 2., "g_W": 1.})
    step(1, .5, .1)
    assert tuner.alpha == 1. and tuner.lam == 2.
    cases = [(.74, .5, .9), (.76, .84, 1.1), (.76, .86, 1.), (.76, .95, .9), (.74, .95, .9)]
    for acc, di, factor in cases:
        before = tuner.alpha
        step(5, acc, di)
        assert np.isclose(tuner.alpha, before * factor)
    published = TargetTuner(slack=float("inf"), warm_up=1)
    published.after_epoch({"epoch": 5, "Acc": .8, "DI": .99})
    assert published.alpha == .5


def test_unreachable_target_is_reported(parts):
    with pytest.warns(UserWarning, match="asked for were 0.99 and 0.9"):
        quietly(small(), parts[0], lam=TargetTuner(.99, acc=.9), valid=parts[1], epochs=3)


@given(st.floats(0, 50), st.sampled_from(["bce", "mse"]), st.integers(0, 1000))
def test_objective_is_risk_plus_weighted_distance(lam, loss, seed):
    "Value and gradient, against the sum written out in double precision."
    gen = torch.Generator().manual_seed(seed)
    out = torch.randn(40, generator=gen, dtype=torch.float64).requires_grad_()
    y, s = torch.arange(40) % 2 * 1., torch.arange(40) // 2 % 2
    f = out.sigmoid()
    losses = {"bce": -(y * f.log() + (1 - y) * (1 - f).log()), "mse": (f - y).square()}
    gaps = f[s == 0].sort()[0] - f[s == 1].sort()[0] # groups of equal size
    wanted = losses[loss].mean() + lam * gaps.square().mean()
    found = Objective(Binary(loss), WassersteinPenalty(), lam)(out, y.double(), s)
    torch.testing.assert_close(found, wanted.to(found.dtype), rtol=1e-9, atol=1e-12)
    g_found, g_wanted = (torch.autograd.grad(v, out)[0] for v in (found, wanted))
    torch.testing.assert_close(g_found, g_wanted, rtol=1e-8, atol=1e-12)


def test_warming_measures_and_does_not_add():
    out = torch.randn(20, requires_grad=True)
    y, s = torch.arange(20) % 2 * 1., torch.arange(20) // 2 % 2
    objective = Objective(Binary(), WassersteinPenalty(), 3., warming=True)
    risk, w = objective.parts(out, y, s)
    assert w > 0 and objective.weight == 0. and objective(out, y, s) == risk
    objective.warming = False
    assert objective.weight == 3. and torch.isclose(objective(out, y, s), risk + 3 * w)


class Grouped(FairMLPClassifier):
    "Puts every other row into a group, for checks that know nothing of groups."
    def fit(self, X, y, sensitive_features=None):
        return super().fit(X, y, np.arange(np.size(np.asarray(y))) % 2)


def test_estimator_is_a_scikit_learn_citizen():
    "All of scikit-learn's checks; one is skipped for want of an environment variable of SciPy's."
    model = Grouped(hidden=(16,), epochs=8, batch_size=8, lr=3e-2, lam=0.)
    results = check_estimator(model, on_fail=None, on_skip=None)
    wrong = [r for r in results if r["status"] == "failed"]
    failed = {r["check_name"]: repr(r["exception"])[:300] for r in wrong}
    assert not failed, failed
