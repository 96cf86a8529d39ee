"""The training and the mixtures of steering by number: loops, permutations and normal tails.

As in `test_guards.py`, nothing is compared with another part of the package."""
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.training import steering
from fairw2_nb.training.left_out import Aim, binormal_rates, Columns, kept, leave_pairs, Reached
from fairw2_nb.training.mixtures import Blend, Look
from fairw2_nb.training.stacks import fresh_copy, Run, Stack
from fairw2_nb.training.steering import steer
from fairw2_nb.training.tasks import Binary
from scipy import optimize, stats


def small_run(metric="DI", share=None):
    "Three linear networks; each leaves four of twelve rows out; as many rows of either group."
    g = torch.Generator().manual_seed(2)
    s, y = torch.arange(12) % 2, torch.tensor([0, 1, 1, 0] * 3).float()
    x = 4 * torch.randn(12, 2, generator=g)
    out = torch.arange(12) // 4 == torch.arange(3)[:, None]
    nets = [fresh_copy(torch.nn.Linear(2, 1), k) for k in range(3)]
    run = Run(Stack(nets, .1), FairDataset(x, y, s), Aim(.8, metric), Binary(), 8, g, "cpu", y, s,
              out)
    if share: run.shares = [share, 1 - share]
    return run, nets


@pytest.mark.parametrize("metric", ["DI", "DMSE"])
def test_step_of_a_stack(metric):
    "A step with a whole batch: mean loss plus λ times the relative distance, one by one."
    run, nets = small_run(metric, share=.3)
    run.stack.opt = torch.optim.SGD(run.stack.live.values(), 1.)
    run.drawn = torch.stack # all rows that may be drawn
    before = {name: v.clone() for name, v in run.stack.mean.items()}
    run.train(2., .1)
    for k, net in enumerate(nets):
        x, y, s = (v[~run.out[k]] for v in run.data.tensors)
        f = torch.sigmoid(net(x)[:, 0])
        loss = -(y * f.log() + (1 - y) * (1 - f).log()).mean()
        e = f if metric == "DI" else (f - y) ** 2
        a, b = e[s == 0], e[s == 1]
        mean = .3 * a.mean() + .7 * b.mean()
        var = .3 * ((a - mean) ** 2).mean() + .7 * ((b - mean) ** 2).mean()
        W = min(((a - b[list(order)]) ** 2).mean() for order in itertools.permutations(range(4)))
        (loss + 2 * W / var).backward()
        for name, w in net.named_parameters():
            wanted, found = w.detach() - .1 * w.grad, run.stack.live[name][k].detach()
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
            followed = .98 * before[name][k] + .02 * wanted
            np.testing.assert_allclose(run.stack.mean[name][k], followed, rtol=1e-5, atol=1e-7)


def test_rates_of_the_steps():
    "Ten epochs: six at the full rate; then 4/5, 3/5, 2/5 and 1/5 of it."
    run, _ = small_run()
    seen = []
    run.train = lambda lam, gain: seen.append((lam, gain))
    run.trained(3., 10, .5)
    wanted = [(3., r) for r in [.5] * 6 + [.4, .3, .2, .1]]
    np.testing.assert_allclose(seen, wanted)


def rigged(self, lam, epochs, lr):
    "Networks that learn nothing: the first input plus, of the second, 1 or with a penalty -.2."
    for name, v in self.stack.mean.items():
        v.copy_(torch.tensor([0.] if "bias" in name else [[1., -.2 if lam else 1.]]))
    return self.score()


def ratio_of_tails(beta):
    "Two normal groups, 1 - 1.2 β apart, cut where a fifth of both lies above."
    gap, tail = 1 - 1.2 * beta, stats.norm.sf
    c = optimize.brentq(lambda c: tail(c) + tail(c - gap) - .4, -1, 3)
    return tail(c) / tail(c - gap)


@pytest.mark.parametrize("swap", [False, True])
def test_a_known_mixture(monkeypatch, swap):
    "Networks of which the disparate impact is a known function of β, whatever the groups' names."
    monkeypatch.setattr(Run, "trained", rigged)
    n = 4000
    level = torch.special.ndtri((torch.arange(n // 2) + .5) / (n // 2)).repeat_interleave(2)
    of, y = torch.arange(n) % 2, (torch.arange(n) // 2 % 5 == 0).float()
    data = FairDataset(torch.stack([level, of.float()], 1), y, 1 - of if swap else of)
    out = steer(torch.nn.Linear(2, 1), data, .8, folds=3, epochs=2)
    wanted = optimize.brentq(lambda beta: ratio_of_tails(beta) - .8, 0, .83)
    assert out.beta == pytest.approx(wanted, abs=5e-3)
    history = [row["DI"] for row in out.history[:4]]
    assert history == pytest.approx([ratio_of_tails(k / 5) for k in range(4)], rel=.02)
    positive = out.predict(data.x)
    assert positive.sum() == n / 5 and out.reached.value == pytest.approx(.8, abs=2e-3)
    rates = [positive[of == k].double().mean().item() for k in (0, 1)]
    assert rates[0] / rates[1] == pytest.approx(.8, rel=.02)


def test_rows_of_a_claim_and_folds_come_from_the_seed(monkeypatch):
    seeds, deal, nets, fresh = [], steering.deal_folds, [], steering.fresh_copy

    def dealt(y, s, k, generator):
        seeds.append((k, generator.initial_seed()))
        return deal(y, s, k, generator)
    monkeypatch.setattr(steering, "deal_folds", dealt)
    monkeypatch.setattr(Run, "trained", rigged)
    g, k = torch.Generator().manual_seed(0), torch.arange(400)
    data = FairDataset(torch.randn(400, 2, generator=g), k % 2, k // 2 % 2)
    steer(torch.nn.Linear(2, 1), data, .8, folds=3, epochs=2, certify=.9, seed=6)
    assert seeds == [(10, 6), (3, 6)]

    def copied(model, seed):
        nets.append(seed)
        return fresh(model, seed)
    monkeypatch.setattr(steering, "fresh_copy", copied)
    for seed in range(3): steer(torch.nn.Linear(2, 1), data, .8, folds=3, epochs=2, seed=seed)
    assert len(set(nets)) == len(nets) == 9 # no weights in common


@pytest.mark.parametrize("k", [3, 4, 5])
def test_members_of_a_fold_are_named(k):
    "Six of a group in each of k folds, of which a network sees all but two."
    out = leave_pairs(torch.arange(6 * k) % k, k)
    pools = [[torch.nonzero(~left)[:, 0] for left in out]]
    run = SimpleNamespace(out=out, pools=pools, aim=Aim(.8), y=torch.tensor([0., 1.]))
    seen = SimpleNamespace(rates=(.4, .5), beta=.5, acc=.9)
    notes = steering.sentences(run, seen, .5, Reached(.8, .79, .81))
    assert [note[:28] for note in notes] == ["A group has only 6 members i"]


def fraction(t, T):
    "The mean of a term over t, by integration: half are 0, half normal with variance T."
    pdf = stats.norm.pdf
    grid = np.linspace(-40, 40, 80_001)
    slab = (grid * pdf(grid, scale=T ** .5) * pdf(t - grid)).sum() * (grid[1] - grid[0])
    return slab / (pdf(t) + pdf(t, scale=(1 + T) ** .5)) / t


def test_fraction_that_is_no_noise():
    t = np.array([[.5, 1., 2., 3., 4.], [.3, .2, .9, 1.1, .1]])
    for found, row in zip(kept(torch.tensor(t ** 2)), t):
        T = max(1., 2 * (np.mean(row ** 2) - 1))
        np.testing.assert_allclose(found, [fraction(v, T) for v in row], rtol=1e-4)


def test_means_without_noise():
    "Three groups, two inputs: each term of a mean by least squares, and what is kept of it."
    rng, n = np.random.default_rng(1), 240
    s = np.arange(n) % 4 % 3
    x = rng.normal(size=(n, 2)) + .3 * s[:, None] * [1., 0.]
    u = x @ [1., -.5] + rng.normal(size=n)
    of = [s == k for k in range(3)]
    inside, left = x.copy(), u.copy()
    for k in of: inside[k], left[k] = inside[k] - x[k].mean(0), left[k] - u[k].mean()
    w = np.linalg.lstsq(inside, left, rcond=None)[0]
    sd = [abs(w[0]) * inside[:, 0].std(), abs(w[1]) * inside[:, 1].std(), (left - inside @ w).std()]
    wanted = []
    for k in of:
        terms = [w[j] * (x[k, j].mean() - x[:, j].mean()) for j in (0, 1)]
        terms.append(u[k].mean() - u.mean() - sum(terms))
        t = np.array(terms) / sd / np.sqrt(1 / k.sum() - 1 / n)
        T = max(1., 2 * (np.mean(t ** 2) - 1))
        wanted.append(u.mean() + sum(c * fraction(v, T) for c, v in zip(terms, t)))
    found = Columns(torch.tensor(x), torch.tensor(s)).means(torch.tensor(u))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def by_curves(z, s, q, narrow, m=None):
    "Normal curves of the ranks of two groups, drawn together, and the cut by SciPy's root."
    n, u = np.bincount(s), stats.norm.ppf((stats.rankdata(z) - .5) / len(z))
    mean, d = (np.array([f(u[s == k]) for k in (0, 1)]) for f in (np.mean, np.std))
    m, d, share, prior = np.array(mean if m is None else m), np.log(d), n / len(z), .04 ** 2
    d = share @ d + (d - share @ d) * prior / (prior + sum(1 / (2 * n))) # both groups' errors
    d = narrow * np.exp(d)
    c = optimize.brentq(lambda c: share @ stats.norm.sf((c - m) / d) - q, -5, 5)
    return (m - c) / d


def test_spreads_are_drawn_together():
    "Standard deviations of the ranks' normal quantiles, and the cut by SciPy's root."
    rng = np.random.default_rng(2)
    s, q = np.r_[np.zeros(100, int), np.ones(300, int)], .2
    z = rng.normal(size=400) * np.where(s == 0, 1.4, 1.) + .3 * s
    rates, var = binormal_rates(torch.tensor(z), torch.tensor(s), q, .9)
    t = by_curves(z, s, q, .9)
    np.testing.assert_allclose(rates, stats.norm.cdf(t), rtol=1e-6)
    slope = stats.norm.pdf(t) / stats.norm.cdf(t)
    np.testing.assert_allclose(var, slope ** 2 * (1 + t ** 2 / 2) / [100, 300], rtol=1e-6)


@pytest.mark.parametrize("m", [None, (.3, -.1)])
def test_a_look_without_the_noise(m):
    "Curves as narrow as the mean over all networks would be; around means that are given."
    rng = np.random.default_rng(0)
    s, out = np.arange(90) % 3 // 2, np.arange(90)[None] % 4 != np.arange(4)[:, None]
    Z = [rng.normal(size=90) + s + rng.normal(size=(4, 90)) for _ in range(2)]
    y = rng.random(90) < .4
    run = SimpleNamespace(out=torch.tensor(out), s=torch.tensor(s), y=torch.tensor(y), aim=Aim(.8),
                          counts=torch.ones(90, dtype=bool), task=Binary())
    columns = None if m is None else SimpleNamespace(means=lambda u: torch.tensor(m).double())
    found = Blend(run, *map(torch.tensor, Z), columns).look(.3, share=.25)
    mixed = [.7 * Z[0][out[:, i], i] + .3 * Z[1][out[:, i], i] for i in range(90)]
    z = np.array([v.mean() for v in mixed])
    noise = np.mean([v.var(ddof=1) for v in mixed]) * (1 / 3 - 1 / 4)
    inside = sum(z[s == k].var() * np.mean(s == k) for k in (0, 1))
    above = z > np.quantile(z, .75)
    t = by_curves(z, s, above.mean(), np.sqrt(1 - noise / inside), m)
    np.testing.assert_allclose(found.rates, stats.norm.cdf(t), rtol=1e-6)
    assert found.acc == np.mean(above == y)


def seen_as(ratio):
    "A blend whose groups have these ratios of rates at β."
    blend = Blend.__new__(Blend)
    blend.run = SimpleNamespace(aim=Aim(.8), y=torch.tensor([0., 0., 1., 0.]))
    blend.look = lambda beta, **_: Look(beta, .3, ratio(beta), (0., 0.), .9)
    return blend


def test_the_first_mixture_that_meets_the_target():
    "By a grid and halving, from above; the nearest where none does; a finer grid for more groups."
    blend = seen_as(lambda beta: (.5 * (.4 + .3 * beta), .5))
    for target, wanted in ((None, 4 / 3), (.7, 1.)):
        assert -1e-9 <= blend.solve(target).beta - wanted <= .25 / 256
    assert seen_as(lambda beta: (.35 - .05 * abs(beta - 2), .5)).solve().beta == 2
    def three(beta): return (.45, .48, .5) if .08 < beta < .17 else (.25, .4, .5)
    assert .08 < seen_as(three).solve().beta < .0805


def test_the_most_accurate_share_that_meets_the_target():
    "Half the base rate to twice it, in quarters of a doubling; or the base rate, or a number."
    blend, asked = seen_as(None), []

    def solve(target=None, share=None, threshold=None):
        asked.append(share or threshold)
        rates = (.45 if asked[-1] > .22 else .1), .5
        return Look(1., share, rates, (0., 0.), 1 - abs(asked[-1] - .15))
    blend.solve = solve
    assert blend.choose("accuracy").share == pytest.approx(.25)
    assert asked == pytest.approx([.25 * 2 ** (k / 4) for k in range(-4, 5)])
    for threshold, wanted in (("rate", .25), (.7, .7)):
        blend.choose(threshold)
        assert asked[-1] == wanted


def test_two_fifths_of_the_epochs_are_without_penalty():
    "What collapses is undone: the weights from before, and a quarter of λ."
    run, _ = small_run()
    run.batch_size, seen, start = 8, [], run.stack.live["bias"].detach().clone()
    good = torch.arange(12.).expand(3, 12)

    def trained(lam, epochs, lr):
        seen.append((lam, epochs, lr, (run.stack.live["bias"].detach() - start).mean().item()))
        with torch.no_grad(): run.stack.live["bias"] += 1
        return 0 * good if lam == 8. else good
    run.trained = trained
    assert run.two_sets(8., 10, .1, [])[1:] == (good, good) and run.lam == 2.
    wanted = [(0., 4, .1, 0.), (8., 6, .1, 1.), (2., 6, .1, 1.)]
    np.testing.assert_allclose(seen, wanted, rtol=1e-6, atol=1e-6)
    constant = good.clone()
    constant[1] = 3.
    assert run.sound(good) and not run.sound(constant) # one of the networks


def test_rows_of_a_pass_are_shuffled_and_drawn():
    "Another order in each pass; 128 rows of a group, or a 2048th part of them for each of many."
    run, _ = small_run()
    shown, real = [], run.stack.outputs

    def outputs(weights, x):
        shown.append(x.detach()[0, :, 0])
        return real(weights, x)
    run.stack.outputs = outputs
    for _ in range(2): run.train(0., .1)
    own = run.data.x[~run.out[0], 0]
    for rows in shown:
        assert not torch.equal(rows, own) and torch.equal(rows.sort()[0], own.sort()[0])
    assert not torch.equal(*shown)
    for groups, rows in ((2, 128), (32, 64), (1000, 8)):
        run.pools = [None] * groups
        assert run.drawn([torch.arange(5)] * 3).shape == (3, rows)


def test_inputs_are_looked_at_where_there_are_twenty_rows_for_each():
    for n, known in ((39, False), (40, True)):
        k = torch.arange(n)
        run = SimpleNamespace(counts=k >= 0, s=k % 2, data=FairDataset(torch.rand(n, 2), k % 3 > 1,
                                                                       k % 2))
        assert (Run.columns(run) is not None) == known


@pytest.mark.parametrize("metric, target, best", [("DI", .8, 1.), ("DP difference", .1, .001)])
def test_candidates_of_a_claim(monkeypatch, metric, target, best):
    "Nine goals from parity to the target, each with its scores and its cut, the safest first."
    asked, goals = [], np.linspace(best, target, 9)

    def in_order(scores, s, y, cuts, **claim):
        asked.append((scores, cuts, claim))
        tried = {goal: SimpleNamespace(sentence=f"{k}") for k, goal in enumerate(scores)}
        return (None if len(asked) == 1 else list(scores)[3]), tried
    monkeypatch.setattr(steering, "certify_in_order", in_order)
    run = SimpleNamespace(aim=Aim(target, metric), device="cpu")
    def choose(_, goal): return Look(goal / 2, .3, (.4, .5), (0., 0.), .9)
    blend = SimpleNamespace(run=run, choose=choose, threshold_of=lambda out, seen, _: seen.beta / 4)
    out = SimpleNamespace(notes=[], beta=None)
    def mix(beta): out.beta = beta
    out.mix, out.scores = mix, lambda x: torch.full((len(x),), out.beta)
    held = FairDataset(torch.zeros(4, 1), [0, 1, 0, 1], [0, 0, 1, 1])
    for place in (0, 3): # none is certified: the safest; else the one that was chosen
        seen = steering.certified(blend, out, "rate", .9, held)
        assert seen.beta == pytest.approx(goals[place] / 2) and out.notes[-1] == f"{place}"
        assert out.certificate.sentence == f"{place}"
    scores, cuts, claim = asked[0]
    assert list(scores) == pytest.approx(goals) and list(cuts.values()) == pytest.approx(goals / 8)
    assert [v[0].item() for v in scores.values()] == pytest.approx(goals / 2)
    side = "at_least" if metric == "DI" else "at_most"
    assert claim == {"metric": metric, side: target, "level": .9}


@pytest.mark.parametrize("rates, interval, share, acc, words", [
    ((.397, .5), (.76, .85), .25, .8, ""), ((.39, .5), (.76, .85), .25, .8, "was not met"),
    ((.4, .5), (.74, .85), .25, .8, "cannot tell it from"), ((.4, .5), (.76, .85), .5, .8, ""),
    ((.4, .5), (.76, .85), .51, .8, "51.0% of the rows are positive"),
    ((.4, .5), (.76, .85), .25, .74, "below 0.750")])
def test_what_is_worth_a_sentence(rates, interval, share, acc, words):
    "A target missed by a hundredth, an interval wider than a tenth, a share beyond twice the base."
    out = leave_pairs(torch.arange(500) % 5, 5)
    run = SimpleNamespace(out=out, pools=[[torch.arange(300)] * 10], aim=Aim(.8),
                          y=torch.tensor([0., 0., 0., 1.]))
    seen = SimpleNamespace(rates=rates, beta=.5, acc=acc)
    notes = steering.sentences(run, seen, share, Reached(.8, *interval))
    assert len(notes) == bool(words) and all(words in note for note in notes)


@pytest.mark.parametrize("n, most, batch", [(4000, 512, 60), (400, 512, 32), (400, 20, 20)])
def test_batches_of_a_stack(n, most, batch):
    "A fortieth of the three fifths that a network sees, at least 32, at most what is asked for."
    k = torch.arange(n)
    data = FairDataset(torch.zeros(n, 2), k % 2, k // 2 % 2)
    run = steering._begin(torch.nn.Linear(2, 1), data, Aim(.8), 5, most, .1, 0, Binary(), "cpu")
    assert run.batch_size == batch


def test_scores_are_those_of_evaluation_mode():
    "Nothing is dropped where left-out or new rows are scored."
    run, _ = small_run()
    nets = [torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Dropout(.5)) for _ in range(3)]
    run.stack = Stack(nets, .1)
    run.stack.model.train()
    z = torch.stack([net[0](run.data.x)[:, 0] for net in nets]).detach()
    torch.testing.assert_close(run.score(), z.double(), rtol=1e-5, atol=1e-6)
    out = steering.Steered(nets[:2], Binary(), beta=.25).train()
    torch.testing.assert_close(out.scores(run.data.x), (.75 * z[0] + .25 * z[1]).sigmoid())
