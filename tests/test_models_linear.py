"""Logistic regression with the penalty, and the covariance constraints.

Gradients, oracles, scikit-learn's manners, bad input."""
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from fairw2_nb.models.zafar import ZafarAcceptance, ZafarFalseNegatives
from fairw2_nb.models.zafar import covariance_vector, missed_margin, tangent_gap
from fairw2_nb.models.linear import StandardUnits
from fairw2_nb.models.logistic import FairLogisticRegression
from fairw2_nb.models.logistic_gradient import logistic_objective, rounded_costs, score_costs
from fairw2_nb.metrics.disparities import disparate_impact, true_positive_rates
from fairw2_nb.penalty.loss import wasserstein_penalty
from fairw2_nb.data.synthetic import synthetic_logistic
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

ALL = [FairLogisticRegression, ZafarAcceptance, ZafarFalseNegatives]


def draw(n, seed):
    "Inputs, labels and groups as arrays."
    x, y, s = synthetic_logistic(n, seed).tensors
    return x.double().numpy(), y.long().numpy(), s.numpy()


@pytest.fixture(scope="module")
def data(): return draw(1500, 0)


@pytest.fixture(scope="module")
def new(): return draw(5000, 1)


def theta_of(model): return np.r_[model.intercept_, model.coef_[0]]


def differences(fun, theta, h=1e-6):
    "Central differences in each coefficient."
    steps = h * np.eye(len(theta))
    return np.array([fun(theta + e) - fun(theta - e) for e in steps]) / (2 * h)


# gradients

@settings(max_examples=30)
@given(st.integers(2, 40), st.integers(1, 4), st.sampled_from([1, 1.5, 2, 3]), st.floats(0, 5),
       st.integers(0, 10 ** 6))
def test_gradient_is_that_of_finite_differences(n, d, p, lam, seed):
    rng = np.random.default_rng(seed)
    X, y, s = rng.normal(size=(n, d)), rng.random(n) < .5, rng.random(n) < .5
    theta = rng.normal(size=d + 1)
    assume(0 < s.sum() < n)
    z = np.sort(theta[0] + X @ theta[1:])
    assume(np.diff(z).min() > 1e-4) # no two scores change places within a step
    value, g = logistic_objective(theta, X, y, s, lam, p, ridge=.1)
    numeric = differences(lambda t: logistic_objective(t, X, y, s, lam, p, ridge=.1)[0], theta)
    # rounding 1e-16 over the step 1e-6, and its square
    np.testing.assert_allclose(g, numeric, rtol=1e-5, atol=1e-7)


def apart(f, s, p):
    "W_p^p of two groups, each repeated as often as the other is long."
    a, b = np.sort(f[s == 1]), np.sort(f[s == 0])
    return np.mean(np.abs(np.repeat(a, len(b)) - np.repeat(b, len(a))) ** p)


def written_out(X, y, s, lam, p, ridge):
    "Eq. (LogitReg), put right: likelihood by scikit-learn, distance by sorting."
    def value(t):
        f = 1 / (1 + np.exp(-t[0] - X @ t[1:]))
        return log_loss(y, f) + lam * apart(f, s, p) + ridge / 2 * np.sum(t[1:] ** 2)
    return value


@pytest.mark.parametrize("p", [1, 2])
def test_objective_is_likelihood_distance_and_ridge(p):
    "Value, and gradient by differences."
    rng = np.random.default_rng(p)
    X, y, s = rng.normal(size=(35, 3)), rng.random(35) < .4, rng.random(35) < .6
    wanted, theta = written_out(X, y, s, 3., p, .1), rng.normal(size=4)
    value, g = logistic_objective(theta, X, y, s, 3., p, ridge=.1)
    assert value == pytest.approx(wanted(theta), rel=1e-9)
    np.testing.assert_allclose(g, differences(wanted, theta), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("p, lam", [(1, .4), (2, 4.)])
def test_fit_minimises_what_it_says(p, lam):
    "SciPy finds no better minimum of the objective written out: lam, p and C all count."
    X, y, s = draw(150, 3)
    wanted = written_out(X, y, s, lam, p, 1 / (.2 * len(y)))
    model = FairLogisticRegression(p=p, lam=lam, C=.2, max_iter=2000, tol=1e-7).fit(X, y, s)
    found = theta_of(model)
    best = minimize(wanted, found, method="Nelder-Mead", options=dict(maxiter=600)).fun
    assert wanted(found) < best + 1e-5 * lam
    f = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(f, 1 / (1 + np.exp(-found[0] - X @ found[1:])), rtol=1e-9)
    assert model.penalty_ == pytest.approx(apart(f, s, p), rel=1e-9)


SCORES = st.integers(0, 32).map(lambda k: k / 32)


@given(st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=80),
       st.sampled_from([1, 1.5, 2]))
def test_penalty_is_the_same_as_in_torch(pairs, p):
    f, s = (np.array(v) for v in zip(*pairs))
    assume(0 < s.sum() < len(s))
    t = torch.tensor(f, dtype=torch.float64, requires_grad=True)
    w = wasserstein_penalty(t, s, p=p)
    value, g = score_costs(f, s, p=p)
    np.testing.assert_allclose(value, w.item(), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(g, torch.autograd.grad(w, t)[0].numpy(), rtol=1e-10, atol=1e-14)
    rounded, _ = score_costs(f, s, rounded_costs(.01), p)
    assert value - .01 ** p - 1e-12 <= rounded <= value + 1e-12
    assert p != 2 or abs(rounded - value) < 1e-12


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_standard_units(intercept, make):
    rng = np.random.default_rng(0)
    X = np.column_stack([1e3 * rng.normal(size=50) + 7, np.full(50, 3.), rng.random(50) < .1])
    y, theta = rng.random(50) < .5, np.array([.3 * intercept, 1e-3, .2, -1.])
    units = StandardUnits(make(X), intercept)
    assert np.isfinite(units.scale).all() and (units.scale > 0).all()
    w = units.from_theta(theta)
    np.testing.assert_allclose(units.to_theta(w), theta, rtol=1e-10, atol=1e-12)
    numeric = differences(lambda v: logistic_objective(units.to_theta(v), make(X), y)[0], w, 1e-5)
    g = units.gradient(logistic_objective(theta, make(X), y)[1])
    np.testing.assert_allclose(g, numeric, rtol=1e-5, atol=1e-9)


# FairLogisticRegression against oracles

@pytest.mark.parametrize("C", [.01, 1., np.inf])
@pytest.mark.parametrize("intercept", [True, False])
def test_without_penalty_it_is_scikit_learns(data, C, intercept):
    X, y, _ = data
    ours = FairLogisticRegression(lam=0, C=C, fit_intercept=intercept, tol=1e-9).fit(X, y)
    theirs = LogisticRegression(C=C, fit_intercept=intercept, tol=1e-9, max_iter=1000).fit(X, y)
    # a derivative of 1e-9 over a curvature of .1
    np.testing.assert_allclose(theta_of(ours), theta_of(theirs), rtol=1e-6, atol=1e-7)
    assert (ours.predict(X) == theirs.predict(X)).all() and intercept == bool(ours.intercept_[0])


def test_columns_of_very_different_size(data):
    X, y, s = data
    scale = 10. ** np.arange(-4, 4)
    a, b = (FairLogisticRegression(lam=.5, C=np.inf).fit(Z, y, s).decision_function(Z)
            for Z in (X, (X + 3) * scale))
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_sparse_inputs_give_the_same(data):
    X, y, s = data
    X = np.where(np.abs(X) < 1, 0, X)
    for model in (FairLogisticRegression(lam=.7), ZafarAcceptance(), ZafarFalseNegatives()):
        a, b = (clone(model).fit(Z, y, s) for Z in (X, sparse.csr_array(X)))
        # sums in another order, then a line search
        np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-3, atol=1e-3)
        logits = b.decision_function(sparse.csr_array(X))
        np.testing.assert_allclose(logits, b.decision_function(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p, lams", [(1, [0, .3, .6, .9, 2]), (2, [0, .5, 1, 3, 10])])
def test_a_larger_weight_lowers_the_distance(data, new, p, lams):
    X, y, s = data
    models = [FairLogisticRegression(p=p, lam=lam).fit(X, y, s) for lam in lams]
    on_new = [score_costs(m.predict_proba(new[0])[:, 1], new[2] == 1, p=p)[0] for m in models]
    assert np.all(np.diff([m.penalty_ for m in models]) < 0) and np.all(np.diff(on_new) < 0)
    weak, strong = (disparate_impact(m.predict(new[0]), new[2]) for m in (models[0], models[-1]))
    assert strong > weak + .3


def test_the_minimum_is_one(data):
    "No nearby theta has a lower objective, for a weak and for a strong penalty."
    X, y, s = data
    rng = np.random.default_rng(0)
    for p, lam in ((1, .5), (1, 2.), (2, 3.)):
        theta = theta_of(FairLogisticRegression(p=p, lam=lam, max_iter=3000, tol=1e-7).fit(X, y, s))
        value = lambda t: logistic_objective(t, X, y, s == 1, lam, p, 1 / len(y))[0]
        for d in rng.normal(size=(20, 9)):
            for k in (1, 2, 3):
                assert value(theta + 10 ** -k * d) > value(theta) - 1e-6


def test_swapped_groups_and_repeated_fits(data):
    X, y, s = data
    a, b = (FairLogisticRegression(lam=.8).fit(X, y, s) for _ in range(2))
    assert (a.coef_ == b.coef_).all() and (a.intercept_ == b.intercept_).all()
    swapped = FairLogisticRegression(lam=.8).fit(X, y, 1 - s)
    np.testing.assert_allclose(swapped.coef_, a.coef_, rtol=1e-3, atol=1e-4)
    for model in (ZafarAcceptance(), ZafarFalseNegatives()):
        assert (clone(model).fit(X, y, s).coef_ == clone(model).fit(X, y, s).coef_).all()


# scikit-learn's manners

class InTurn:
    "Rows of each class in turn belong to groups 0 and 1: scikit-learn's checks give no groups."
    def fit(self, X, y):
        order = np.argsort(np.ravel(np.asarray(y)), kind="stable")
        return super().fit(X, y, np.argsort(order) % 2)


class PenaltyInTurn(InTurn, FairLogisticRegression): pass
class AcceptanceInTurn(InTurn, ZafarAcceptance): pass
class FalseNegativesInTurn(InTurn, ZafarFalseNegatives): pass


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([FairLogisticRegression(lam=0), PenaltyInTurn(), AcceptanceInTurn(),
                          FalseNegativesInTurn()])
def test_scikit_learns_checks(estimator, check): check(estimator)


@pytest.mark.parametrize("kind", ALL)
def test_labels_and_groups_of_any_kind(data, kind):
    X, y, s = data
    plain = kind().fit(X, y, sensitive_features=s)
    frame, groups = pd.DataFrame(X, columns=list("abcdefgh")), pd.Series(np.where(s == 1, "m", "f"))
    words = kind().fit(frame, np.where(y == 1, "yes", "no"), sensitive_features=groups)
    assert words.classes_.tolist() == ["no", "yes"] and words.groups_ == ["f", "m"]
    assert list(words.feature_names_in_) == list("abcdefgh") and words.n_features_in_ == 8
    assert (words.coef_ == plain.coef_).all() and words.coef_.shape == (1, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore") # a frame was fitted, an array is given
        assert ((words.predict(X) == "yes") == plain.predict(X)).all()
    np.testing.assert_allclose(plain.predict_proba(X).sum(1), 1)
    assert ((plain.predict_proba(X)[:, 1] > .5) == plain.predict(X)).all()
    other = kind().fit(X, y, sensitive_features=[("g", int(k)) for k in s]) # hashable labels
    assert (other.coef_ == plain.coef_).all()


@pytest.mark.parametrize("kind", ALL)
def test_clone_pickle_pipeline(data, kind):
    X, y, s = data
    model = kind(C=.5)
    assert clone(model).get_params() == model.get_params()
    pipe = make_pipeline(StandardScaler(), model)
    pipe.fit(X, y, **{f"{kind.__name__.lower()}__sensitive_features": s})
    assert (pickle.loads(pickle.dumps(pipe)).predict(X) == pipe.predict(X)).all()
    with pytest.raises(NotFittedError): clone(model).predict(X)


def impact(y_true, y_pred, sensitive_features):
    "The disparate impact, with the arguments of a metric."
    return disparate_impact(y_pred, sensitive_features)


@pytest.mark.parametrize("explicit", [True, False])
def test_metadata_routing(data, explicit):
    X, y, s = data
    with sklearn.config_context(enable_metadata_routing=True):
        model = FairLogisticRegression()
        if explicit: model.set_fit_request(sensitive_features=True)
        scorer = make_scorer(impact).set_score_request(sensitive_features=True)
        pipe, lams = make_pipeline(StandardScaler(), model), [0., 1.]
        grid = GridSearchCV(pipe, {"fairlogisticregression__lam": lams}, cv=3, scoring=scorer)
        grid.fit(X, y, sensitive_features=s)
        assert grid.best_params_ == {"fairlogisticregression__lam": 1.}
        scores = cross_val_score(grid.best_estimator_, X, y, cv=3, scoring=scorer,
                                 params={"sensitive_features": s})
        assert (scores > .6).all()
    plain = GridSearchCV(FairLogisticRegression(), {"lam": lams}, cv=3)
    plain.fit(X, y, sensitive_features=s) # rows are split without routing as well
    assert plain.best_params_ == {"lam": 0.}


def test_too_few_iterations_are_reported(data):
    X, y, s = data
    with pytest.warns(ConvergenceWarning, match="max_iter = 3"):
        model = FairLogisticRegression(max_iter=3).fit(X, y, s)
    assert np.isfinite(model.coef_).all() and model.n_iter_[0] <= 3


# bad input

BAD = [
    (dict(sensitive_features=None), "`sensitive_features` is missing"),
    (dict(sensitive_features=np.arange(1500) % 3), "holds 3 groups, 0, 1, 2"),
    (dict(sensitive_features=np.zeros(1500)), "`sensitive_features` holds one group only, 0.0"),
    (dict(sensitive_features=[None] * 10 + [0, 1] * 745),
     "`sensitive_features` is missing for 10 of 1500"),
    (dict(sensitive_features=np.arange(7) % 2), "`X` 1500, `sensitive_features` 7"),
    (dict(sensitive_features=np.zeros((1500, 2))), "`sensitive_features: 0` holds one group only"),
    (dict(sensitive_features=np.zeros((1500, 2, 2))), "`sensitive_features` must be one-dimension"),
    (dict(sensitive_features=np.arange(1500)), "holds 1,500 groups, and at most 1,000"),
    (dict(sensitive_features=[np.nan] * 2 + [0, 1] * 749), "is missing for 2 of 1500"),
    (dict(y=np.ones(1500)), "`y` holds one class only, 1.0"),
    (dict(y=np.arange(1500) % 4), "`y` holds 4 classes"),
    (dict(X=np.full((1500, 8), np.nan)), "Input X contains NaN"),
    (dict(X=np.zeros((20, 8))), "inconsistent numbers of samples"),
]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("changes, words", BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_data_are_named(data, kind, changes, words):
    if kind is FairLogisticRegression and "3 groups" in words: return # it takes any number
    given = dict(zip(("X", "y", "sensitive_features"), data)) | changes
    with pytest.raises(ValueError) as error: kind().fit(**given)
    assert words in str(error.value)


@pytest.mark.parametrize("model, words", [
    (FairLogisticRegression(lam=-1), "lam = -1"),
    (FairLogisticRegression(lam=np.inf), "lam = inf"),
    (FairLogisticRegression(lam="1"), "lam = '1'"),
    (FairLogisticRegression(p=.5), "p = 0.5"),
    (FairLogisticRegression(C=0), "C = 0"),
    (FairLogisticRegression(max_iter=0), "max_iter = 0"),
    (FairLogisticRegression(tol=-1), "tol = -1"),
    (ZafarAcceptance(c=-.1), "c = -0.1"),
    (ZafarFalseNegatives(passes=0), "passes = 0"),
], ids=str)
def test_bad_options_are_named(data, model, words):
    with pytest.raises(ValueError) as error: model.fit(*data)
    assert words in str(error.value)


def test_without_penalty_no_groups_are_needed(data):
    X, y, s = data
    without, with_groups = FairLogisticRegression(lam=0), FairLogisticRegression(lam=0)
    assert (without.fit(X, y).coef_ == with_groups.fit(X, y, s).coef_).all()


# the constraints

def plain_risk(X, y, C=1.):
    "Negative log-likelihood and ridge, value and gradient, written out."
    X1 = np.column_stack([np.ones(len(X)), X])
    def risk(t):
        f, ridge = 1 / (1 + np.exp(-X1 @ t)), np.r_[0, t[1:]] / (C * len(y))
        return -np.log(np.where(y == 1, f, 1 - f)).mean() + ridge @ t / 2, (
            X1.T @ (f - y) / len(y) + ridge)
    return risk


@pytest.mark.parametrize("c", [0, .05, .2, 10])
@pytest.mark.parametrize("C", [.05, 1])
@pytest.mark.parametrize("turned", [False, True], ids=["as drawn", "groups turned"])
def test_zfa_against_slsqp(data, c, C, turned):
    "The covariance may be above 0 or, with the groups turned, below."
    X, y, s = data
    if turned: s = 1 - s
    model = ZafarAcceptance(c=c, C=C, tol=1e-8).fit(X, y, s)
    a = np.r_[0, [np.cov(s, column, bias=True)[0, 1] for column in X.T]]
    np.testing.assert_allclose(covariance_vector(X, s == 1), a, rtol=1e-9, atol=1e-12)
    below = dict(type="ineq", fun=lambda t: c - a @ t, jac=lambda t: -a)
    above = dict(type="ineq", fun=lambda t: c + a @ t, jac=lambda t: a)
    other = minimize(plain_risk(X, y, C), np.zeros(9), jac=True, method="SLSQP",
                     constraints=[below, above], options=dict(maxiter=500, ftol=1e-13)).x
    covariance = np.cov(s, model.decision_function(X), bias=True)[0, 1]
    assert abs(covariance) <= c + 1e-12 and abs(covariance - model.covariance_) < 1e-12
    # SLSQP stops within 1e-13 of the risk, at a curvature of .1
    np.testing.assert_allclose(theta_of(model), other, atol=1e-5)


def test_zfa_raises_disparate_impact(data, new):
    plain, zfa = (m.fit(*data) for m in (FairLogisticRegression(lam=0), ZafarAcceptance()))
    before, after = (disparate_impact(m.predict(new[0]), new[2]) for m in (plain, zfa))
    assert after > .8 > .5 > before


def test_zfn_meets_its_constraint_and_lowers_the_gap(data, new):
    X, y, s = data
    def true_gap(m):
        margins = np.minimum(0, m.decision_function(X))
        return margins[(y == 1) & (s == 1)].mean() - margins[(y == 1) & (s == 0)].mean()

    def spread(m):
        rates = true_positive_rates(new[1], m.predict(new[0]), new[2])
        return abs(np.subtract(*rates.values()))

    plain = FairLogisticRegression(lam=0).fit(X, y)
    fits = {c: ZafarFalseNegatives(c=c).fit(X, y, s) for c in (0., .1, 10.)}
    for c, m in fits.items():
        assert abs(true_gap(m)) <= max(c, 0) + .01 # half the rounding of the kink in each group
    np.testing.assert_allclose(fits[10.].coef_, plain.coef_, atol=1e-4)
    assert spread(fits[0.]) < spread(plain) / 2
    risk = [logistic_objective(theta_of(m), X, y, ridge=1 / len(y))[0] for m in fits.values()]
    assert risk[0] > risk[1] > risk[2]


@pytest.mark.parametrize("c", [0, .1])
@pytest.mark.parametrize("turned", [False, True], ids=["as drawn", "groups turned"])
def test_zfn_against_slsqp(data, c, turned):
    "Either group may be the one whose positives are missed."
    X, y, s = data
    if turned: s = 1 - s
    def gap(t):
        z = t[0] + X @ t[1:]
        missed = (z - np.sqrt(z * z + 1e-4)) / 2 # min(0, z), rounded
        return missed[(y == 1) & (s == 1)].mean() - missed[(y == 1) & (s == 0)].mean()

    risk, start = plain_risk(X, y), theta_of(LogisticRegression().fit(X, y))
    sides = [dict(type="ineq", fun=lambda t, sign=sign: c + sign * gap(t)) for sign in (-1, 1)]
    other = minimize(risk, start, jac=True, method="SLSQP", constraints=sides,
                     options=dict(maxiter=500, ftol=1e-12)).x
    model = ZafarFalseNegatives(c=c).fit(X, y, s)
    found = theta_of(model)
    # the passes stop at a relative change of 1e-5, linearly convergent
    np.testing.assert_allclose(risk(found)[0], risk(other)[0], rtol=2e-4)
    assert abs(gap(found)) < c + 1e-3 and abs(gap(found) - model.gap_) < 1e-9
    assert abs(abs(gap(found)) - c) < 1e-3 < abs(gap(start)) - c # it binds


def test_tangent_lies_above(data):
    X, y, s = data
    ahead, behind = X[(y == 1) & (s == 1)], X[(y == 1) & (s == 0)]
    rng = np.random.default_rng(0)
    for theta in rng.normal(size=(5, 9)):
        limit = tangent_gap(theta, ahead, behind, .1)
        for t in rng.normal(size=(20, 9)):
            true = missed_margin(t, ahead)[0] - missed_margin(t, behind)[0] - .1
            assert limit(t)[0] >= true - 1e-12
        numeric = differences(lambda t: limit(t)[0], theta)
        np.testing.assert_allclose(limit(theta)[1], numeric, rtol=1e-3, atol=1e-6)


def test_zfn_needs_positives_in_both_groups(data):
    X, y, s = data
    with pytest.raises(ValueError, match="A group has no row of class 1"):
        ZafarFalseNegatives().fit(X, y * s, s)


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_many_groups_are_the_mean_over_pairs(p):
    rng = np.random.default_rng(0)
    f, s = rng.random(200), np.r_[np.arange(5), rng.integers(0, 5, 195)]
    value, grad = score_costs(f, s, p=p)
    pairs = [score_costs(f[at], s[at] == b, p=p)[0] for a in range(5) for b in range(a + 1, 5)
             for at in [(s == a) | (s == b)]]
    assert value == pytest.approx(np.mean(pairs), rel=1e-12)
    step = 1e-7 * rng.standard_normal(200)
    change = score_costs(f + step, s, p=p)[0] - score_costs(f - step, s, p=p)[0]
    assert change == pytest.approx(2 * grad @ step, rel=1e-4)


def test_many_groups_in_the_classifier():
    rng = np.random.default_rng(1)
    s = rng.choice(["a", "b", "c", "d"], 800, p=[.6, .2, .15, .05])
    X = np.column_stack([rng.normal(size=800) + (s == "a"), rng.normal(size=800)])
    y = X.sum(1) + rng.normal(size=800) > .5
    plain, fair = (FairLogisticRegression(p=2, lam=lam).fit(X, y, s) for lam in (0, 30))
    assert fair.groups_ == ["a", "b", "c", "d"] and fair.penalty_ < plain.penalty_ / 5
    again = FairLogisticRegression(p=2, lam=30).fit(X, y, pd.Categorical(s))
    np.testing.assert_array_equal(again.coef_, fair.coef_)


def test_intersections_are_groups():
    rng = np.random.default_rng(1)
    X, s = rng.normal(size=(400, 2)), rng.integers(0, 2, (400, 2))
    y, model = X.sum(1) + s[:, 0] > .5, FairLogisticRegression(p=2, lam=3)
    both = model.fit(X, y, pd.DataFrame(s, columns=["sex", "race"])).coef_
    assert model.groups_ == [(0, 0), (0, 1), (1, 0), (1, 1)]
    np.testing.assert_array_equal(model.fit(X, y, 2 * s[:, 0] + s[:, 1]).coef_, both)
    with pytest.raises(ValueError, match="4 intersections of 2 attributes: between 2 and 2 can"):
        ZafarAcceptance().fit(X, y, s)


def test_a_member_by_itself_is_named():
    rng = np.random.default_rng(1)
    s = np.r_[["alone"], np.where(np.arange(99) % 2, "a", "b")]
    with pytest.warns(UserWarning, match="'alone' of 3 groups have one member only"):
        FairLogisticRegression(p=2).fit(rng.normal(size=(100, 2)), np.arange(100) % 3 == 0, s)
