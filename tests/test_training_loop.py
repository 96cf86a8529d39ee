"""fit, tuner and estimator: reproducible, resumable, undisturbed, and clear about what went wrong."""
import copy
import os
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


OPTIONS = [dict(lam=3.), dict(lam=3., penalty="fresh"), dict(lam=2., task=Binary("mse"), average=.9),
           dict(lam=2., penalty="error"), dict(lam="target"), dict(lam="growing"), dict(lam="ramped")]
PENALTIES = {"error": lambda: WassersteinPenalty(on="error", reference=300),
             "fresh": lambda: WassersteinPenalty(reference=Fresh(200))}
TUNERS = {"target": lambda: TargetTuner(.6, acc=.5, warm_up=1),
          "growing": lambda: RampedLambda(6., 0, 3, "epoch"),
          "ramped": lambda: RampedLambda(6., start=7, stop=23)} # 9 steps an epoch: resumed in the middle


def run(parts, options, epochs, **more):
    "Train a fresh network."
    options = dict(options, lam=TUNERS.get(options["lam"], lambda: options["lam"])())
    if "penalty" in options: options["penalty"] = PENALTIES[options["penalty"]]()
    net = nn.Sequential(*mlp(8, (32, 32), 0)[:-1], nn.Dropout(.2)) # outputs of shape (B, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return net, fit(net, parts[0], valid=parts[1], epochs=epochs, batch_size=100,
                        progress=False, **options, **more)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_same_seed_same_network_and_resume(parts, options, tmp_path):
    net, history = run(parts, options, 4)
    again, _ = run(parts, options, 4)
    assert same(net, again)
    file = tmp_path / "run.pt"
    run(parts, options, 2, checkpoint=file)
    kept = "average best draws history model opt penalty settings torch tuner".split()
    assert sorted(torch.load(file, weights_only=True)) == kept
    resumed, rows = run(parts, options, 4, checkpoint=file)
    assert same(net, resumed) and rows == history
    other, _ = run(parts, options, 4, seed=1)
    assert not same(net, other)


KILLED = textwrap.dedent("""
    import sys, torch
    torch.set_num_threads(1)
    from fairw2_nb.data.dataset import FairDataset
    from fairw2_nb.data.synthetic import synthetic_logistic
    from fairw2_nb.models.networks import mlp
    from fairw2_nb.training.loop import fit
    net = mlp(8, (32, 32), 0)
    fit(net, synthetic_logistic(2000), lam=3., epochs=12, batch_size=20, checkpoint=sys.argv[1], progress=False)
    torch.save(net.state_dict(), sys.argv[2])
""")


def test_a_killed_training_ends_where_it_would_have(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    command = lambda name: [sys.executable, str(script), str(tmp_path / f"{name}.pt"), str(tmp_path / f"{name}-net.pt")]
    subprocess.run(command("whole"), check=True)
    process = subprocess.Popen(command("killed"))
    deadline = time.monotonic() + 60
    while not (tmp_path / "killed.pt").exists() and time.monotonic() < deadline:
        time.sleep(.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run(command("killed"), check=True)
    a, b = (torch.load(tmp_path / f"{name}-net.pt", weights_only=True) for name in ("whole", "killed"))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_references_and_measuring_leave_no_trace(parts):
    "BatchNorm statistics, dropout's random state and the mode are those of a training without them."
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


def test_evaluation_is_in_eval_mode(parts):
    net = nn.Sequential(nn.Dropout(.9), *mlp(8, (32, 32), 0))
    net.train()
    assert evaluate(net, parts[1]) == evaluate(net, parts[1])


@pytest.mark.parametrize("loss", ["bce", "mse", nn.functional.binary_cross_entropy_with_logits])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_losses_and_shapes(parts, loss, shape):
    net = nn.Sequential(nn.Linear(8, 1), nn.Unflatten(1, (1,)) if shape else nn.Flatten(0))
    history = fit(net, parts[0], lam=1., task=Binary(loss), epochs=2, batch_size=100, progress=False)
    assert history[-1]["loss"] < history[0]["loss"] * 1.5 and np.isfinite(history[-1]["objective"])


def test_network_giving_scores(parts):
    net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
    task = Binary(outputs="scores")
    fit(net, parts[0], lam=1., task=task, epochs=2, batch_size=100, progress=False)
    assert 0 <= evaluate(net, parts[1], Objective(task))["DI"] <= 1


def test_any_dataset_of_triples(parts):
    triples = [parts[0][i] for i in range(200)]
    assert len(fit(mlp(8, (32, 32), 0), triples, lam=1., epochs=1, batch_size=50, progress=False)) == 1


@pytest.mark.parametrize("damage", ["empty", "half", "text", "weights", "other net", "other lam", "other tuner"])
def test_a_checkpoint_that_does_not_fit_is_refused_in_words(parts, damage, tmp_path):
    file = tmp_path / "run.pt"
    fit(mlp(8, (32, 32), 0), parts[0], lam=1., epochs=1, batch_size=100, checkpoint=file, progress=False)
    whole = file.read_bytes()
    net, lam = mlp(8, (32, 32), 0), 1.
    if damage in ("empty", "half", "text"):
        file.write_bytes({"empty": b"", "half": whole[: len(whole) // 2], "text": b"epoch,loss"}[damage])
    elif damage == "weights":
        torch.save(net.state_dict(), file)
    elif damage == "other net":
        net = nn.Linear(8, 1)
    else:
        lam = 2. if damage == "other lam" else TargetTuner()
    before, kept = copy.deepcopy(net), file.read_bytes()
    with pytest.raises(ValueError, match="cannot be continued.*Move it away"):
        fit(net, parts[0], lam=lam, epochs=3, batch_size=100, checkpoint=file, progress=False)
    assert same(net, before) and file.read_bytes() == kept


def test_a_checkpoint_that_cannot_be_written_stops_before_training(parts, tmp_path):
    (tmp_path / "file").touch()
    net = mlp(8, (32, 32), 0)
    with pytest.raises(OSError, match="could not be written"):
        fit(net, parts[0], epochs=1, batch_size=100, checkpoint=tmp_path / "file" / "run.pt", progress=False)
    assert same(net, mlp(8, (32, 32), 0))


def test_divergence_on_the_last_step_of_an_epoch(parts):
    net = mlp(8, (32, 32), 0)
    with pytest.raises(TrainingDiverged, match="end of epoch 0"):
        fit(net, parts[0], opt=lambda w: torch.optim.SGD(w, 1e38), batch_size=len(parts[0]), epochs=2, progress=False)
    assert same(net, mlp(8, (32, 32), 0))


def test_wrong_data_is_refused_in_words(parts):
    train = parts[0]
    for data in [(train.x, train.y, train.s), [(train.x[0], train.y[0])] * 50, [(train.x[0], torch.tensor(2.), train.s[0])] * 50, torch.utils.data.DataLoader(train, 10)]:
        with pytest.raises(ValueError, match="triples|must be 0 and 1"):
            fit(mlp(8, (32, 32), 0), data, batch_size=1, epochs=1, progress=False)


def test_patience_and_a_tuner_exclude_each_other(parts):
    with pytest.raises(ValueError, match="fixed lam"):
        fit(mlp(8, (32, 32), 0), parts[0], lam=TargetTuner(), valid=parts[1], patience=2, epochs=5, batch_size=100, progress=False)


def test_favourable_label():
    "The favourable label decides what is positive; probabilities stay with their classes."
    x, y, s = (t.numpy() for t in synthetic_logistic(800).tensors)
    words = np.where(y == 1, "approved", "denied")
    with pytest.raises(ValueError, match="`favourable` is missing"):
        FairMLPClassifier(target=.8).fit(x, words, sensitive_features=s)
    with pytest.raises(ValueError, match="not among the labels"):
        FairMLPClassifier(favourable="yes").fit(x, words, sensitive_features=s)
    model = FairMLPClassifier(favourable="approved", lam=1., hidden=(16,), epochs=8, lr=1e-2).fit(x, words, sensitive_features=s)
    numbers = FairMLPClassifier(lam=1., hidden=(16,), epochs=8, lr=1e-2).fit(x, y, sensitive_features=s)
    np.testing.assert_allclose(model.predict_proba(x)[:, 0], numbers.predict_proba(x)[:, 1], rtol=1e-6)
    assert ((model.predict(x) == "approved") == (numbers.predict(x) == 1)).all() and (model.predict(x) == words).mean() > .7


def test_divergence_keeps_the_last_good_weights(parts):
    net, calls = mlp(8, (32, 32), 0), []

    def loss(out, y):
        calls.append(1)
        return nn.functional.binary_cross_entropy_with_logits(out, y) * (float("nan") if len(calls) == 15 else 1.)
    with pytest.raises(TrainingDiverged, match="step 5 of epoch 2.*end of epoch 1.*smaller learning rate"):
        fit(net, parts[0], task=Binary(loss), epochs=4, batch_size=100, progress=False)
    reference = mlp(8, (32, 32), 0)
    fit(reference, parts[0], epochs=1, batch_size=100, progress=False)
    assert same(net, reference)


def test_nan_scores_are_divergence_too(parts):
    net = mlp(8, (32, 32), 0)
    with pytest.raises(TrainingDiverged, match="NaN or infinite"):
        fit(net, parts[0], lam=1., opt=lambda w: torch.optim.SGD(w, 1e30), epochs=3, batch_size=100, progress=False)
    assert all(w.isfinite().all() for w in net.parameters())


def test_early_stop_takes_the_best(parts):
    net = mlp(8, (32, 32), 0)
    history = fit(net, parts[0], valid=parts[1], epochs=40, patience=2, batch_size=50, opt=lambda w: torch.optim.Adam(w, 2e-2), progress=False)
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
        fit(mlp(8, (32, 32), 0), parts[0], **{"batch_size": 100, "epochs": 1, "progress": False, **options})


@pytest.mark.parametrize("words", [dict(loss="hinge"), dict(outputs="labels"), dict(loss=None)])
def test_a_task_that_does_not_exist_is_refused(words):
    with pytest.raises(ValueError, match="expected"): Binary(**words)


@pytest.mark.parametrize("lam", [0., 1.])
def test_a_network_with_two_outputs_is_refused(parts, lam):
    with pytest.raises(ValueError, match="one number per observation"):
        fit(nn.Linear(8, 2), parts[0], lam=lam, batch_size=100, epochs=1, progress=False)


def test_scale_of_lambda(parts):
    tuner = ScaledLambda(alpha=.7, warm_up=2)
    history = fit(mlp(8, (32, 32), 0), parts[0], lam=tuner, epochs=3, batch_size=100, progress=False)
    assert [r["lam"] for r in history[:2]] == [0., 0.] and abs(history[2]["lam"] - .7 * history[1]["g_R"] / history[1]["g_W"]) < 1e-9


def test_weight_that_grows_by_epochs(parts, tmp_path):
    def train(tuner):
        return fit(mlp(8, (32, 32), 0), parts[0], lam=tuner, epochs=4, batch_size=100,
                   progress=False, checkpoint=tmp_path / "run.pt")
    rows = train(RampedLambda(5., 0, 2, "epoch"))
    assert [round(r["lam"], 9) for r in rows] == [2.5, 5., 5., 5.]
    words = "other settings, lam = 5.0 instead of 7.5, stop = 2 instead of 3"
    with pytest.raises(ValueError, match=words): train(RampedLambda(7.5, 0, 3, "epoch")) # begins alike
    with pytest.raises(ValueError, match="each = epoch instead of step"): train(RampedLambda(5., 0, 2))
    for bad in (0, 1.5, "3"):
        with pytest.raises(ValueError, match="whole numbers of epochs"): RampedLambda(1., 0, bad, "epoch")
    with pytest.raises(ValueError, match="finite number"): RampedLambda(-1., 0, 2, "epoch")
    with pytest.raises(ValueError, match='expected "step" or "epoch"'): RampedLambda(1., 0, 2, "year")


@given(st.floats(0, 100), st.integers(0, 8), st.integers(1, 20), st.integers(1, 40))
def test_growth_by_epochs(lam, start, length, epochs):
    "A running sum, whose last bits the stored rows hold: the value of epoch e is (e - start) parts."
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
    wanted = np.interp(np.arange(steps), [start, start + length], [0, lam]) # NumPy holds the ends on both sides
    np.testing.assert_allclose(seen, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stranger", [TargetTuner, "5", None, type("Mine", (), {"lam": 1., "after_epoch": print})()], ids=["class", "text", "None", "not a tuner"])
def test_a_weight_that_is_none(parts, stranger):
    with pytest.raises(ValueError, match="expected a finite number of at least 0, or a tuner"): fit(mlp(8, (32, 32), 0), parts[0], lam=stranger, epochs=1, batch_size=100, progress=False)


def test_ramp_refuses(parts, tmp_path):
    for start, stop in ((3, 3), (-1, 4), (2., 5), (0, "9"), (5, 2)):
        with pytest.raises(ValueError, match="whole numbers of steps"): RampedLambda(1., start, stop)
    with pytest.raises(ValueError, match="finite number"): RampedLambda(-1., 0, 5)
    train = lambda stop, **more: fit(mlp(8, (32, 32), 0), parts[0], lam=RampedLambda(5., 3, stop), epochs=2, batch_size=100, progress=False, **more)
    train(9, checkpoint=tmp_path / "run.pt")
    with pytest.raises(ValueError, match="other settings, stop = 9 instead of 12"): train(12, checkpoint=tmp_path / "run.pt")
    for tuner in (RampedLambda(5., 3, 9), RampedLambda(5., 0, 2, "epoch")):
        with pytest.raises(ValueError, match="needs a fixed lam"): fit(mlp(8, (32, 32), 0), parts[0], lam=tuner, valid=parts[1], patience=2, epochs=3, batch_size=100, progress=False)


def test_controller_rule():
    tuner = TargetTuner(target=.85, acc=.75, alpha=1., warm_up=1, up=1.1, down=.9, slack=.05)
    step = lambda epoch, acc, di: tuner.after_epoch({"epoch": epoch, "Acc": acc, "DI": di, "g_R": 2., "g_W": 1.})
    step(1, .5, .1)
    assert tuner.alpha == 1. and tuner.lam == 2.
    for acc, di, factor in [(.74, .5, .9), (.76, .84, 1.1), (.76, .86, 1.), (.76, .95, .9), (.74, .95, .9)]:
        before = tuner.alpha
        step(5, acc, di)
        assert np.isclose(tuner.alpha, before * factor)
    published = TargetTuner(slack=float("inf"), warm_up=1)
    published.after_epoch({"epoch": 5, "Acc": .8, "DI": .99})
    assert published.alpha == .5


def test_unreachable_target_is_reported(parts):
    with pytest.warns(UserWarning, match="asked for were 0.99 and 0.9"):
        fit(mlp(8, (32, 32), 0), parts[0], lam=TargetTuner(.99, acc=.9), valid=parts[1], epochs=3, batch_size=100, progress=False)


class Grouped(FairMLPClassifier):
    "Puts every other row into a group, for checks that know nothing of groups."
    def fit(self, X, y, sensitive_features=None):
        return super().fit(X, y, np.arange(np.size(np.asarray(y))) % 2)


def test_estimator_is_a_scikit_learn_citizen():
    "All of scikit-learn's checks; one is skipped for want of an environment variable of SciPy's."
    results = check_estimator(Grouped(hidden=(16,), epochs=8, batch_size=8, lr=3e-2, lam=0.), on_fail=None, on_skip=None)
    failed = {r["check_name"]: repr(r["exception"])[:300] for r in results if r["status"] == "failed"}
    assert not failed, failed
