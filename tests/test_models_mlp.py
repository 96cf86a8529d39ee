"""`FairMLPClassifier` among scikit-learn's tools, with groups of any kind."""
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.synthetic import synthetic_table
from fairw2_nb.models.mlp import FairMLPClassifier
from fairw2_nb.models.networks import mlp
from fairw2_nb.training.steering import steer
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_validate, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SMALL = dict(hidden=(4,), epochs=2, lr=1e-2)
X, Y, S = (t.numpy() for t in synthetic_table(400, .4).tensors)


def routed(tool, **more):
    "Fit with the groups, which nobody asked for by `set_fit_request`."
    with sklearn.config_context(enable_metadata_routing=True):
        return tool(**more)


@pytest.mark.parametrize("options", [{"lam": 2.}, {"target": .8}])
def test_groups_are_routed_by_themselves(options):
    model = FairMLPClassifier(**options, **SMALL)
    pipe = make_pipeline(StandardScaler(), model)
    fitted = routed(pipe.fit, X=X, y=Y, sensitive_features=S)
    assert set(fitted.predict(X)) <= {0, 1}
    scores = routed(cross_validate, estimator=pipe, X=X, y=Y, cv=2,
                    params={"sensitive_features": S})["test_score"]
    assert np.isfinite(scores).all()


def test_search_and_calibration_take_groups():
    search = GridSearchCV(FairMLPClassifier(**SMALL), {"lam": [0., 2.]}, cv=2)
    routed(search.fit, X=X, y=Y, sensitive_features=S)
    assert search.best_params_["lam"] in (0., 2.)
    calibrated = CalibratedClassifierCV(FairMLPClassifier(lam=2., **SMALL), cv=2)
    routed(calibrated.fit, X=X, y=Y, sensitive_features=S)
    assert calibrated.predict_proba(X).shape == (400, 2)


@pytest.mark.parametrize("groups", [
    np.where(S == 1, "m", "f"), S == 1, S + 5,
    pd.Series(S).map({0: "f", 1: "m"}).astype("category"),
], ids=["strings", "booleans", "numbers", "categories"])
@pytest.mark.parametrize("options", [{"lam": 2.}, {"target": .8}])
def test_groups_of_any_kind_give_the_same(groups, options):
    model = FairMLPClassifier(**options, **SMALL)
    want = model.fit(X, Y, sensitive_features=S).predict_proba(X)
    got = model.fit(X, Y, sensitive_features=groups).predict_proba(X)
    np.testing.assert_array_equal(got, want)


def test_without_a_penalty_groups_do_not_matter():
    plain = FairMLPClassifier(lam=0., **SMALL)
    alone = plain.fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(alone, plain.fit(X, Y, sensitive_features=S).predict_proba(X))
    for needs in ({"lam": 1.}, {"lam": 0., "target": .8}):
        with pytest.raises(ValueError, match="`sensitive_features` is missing"):
            FairMLPClassifier(**needs, **SMALL).fit(X, Y)


def test_one_class_or_one_group_is_a_sentence():
    for y, s in ((Y * 0, S), (Y, S * 0)):
        with pytest.raises(ValueError, match="label|class|group"):
            FairMLPClassifier(target=.8, **SMALL).fit(X, y, sensitive_features=s)


def test_the_favourable_label_may_come_first():
    words = np.where(Y == 1, "approved", "refused") # "approved" is the first in sorted order
    model = FairMLPClassifier(target=.8, favourable="approved", **SMALL)
    model.fit(X, words, sensitive_features=S)
    numbers = FairMLPClassifier(target=.8, **SMALL).fit(X, Y, sensitive_features=S)
    np.testing.assert_array_equal(model.predict(X) == "approved", numbers.predict(X) == 1)
    assert model.reached_ == numbers.reached_ and isinstance(model.notes_, list)


# more than two groups

THREE = np.where(S == 1, "a", np.where(X[:, 1] > 0, "b", "c"))


def test_three_groups_by_name_number_and_category():
    model = FairMLPClassifier(lam=2., **SMALL)
    want = model.fit(X, Y, THREE).predict_proba(X)
    assert model.groups_ == ["a", "b", "c"]
    codes = pd.Categorical(THREE).codes
    for groups in (codes + 5, pd.Categorical(THREE), pd.Series(THREE).astype("string")):
        np.testing.assert_array_equal(model.fit(X, Y, groups).predict_proba(X), want)
    two = FairMLPClassifier(lam=2., **SMALL).fit(X, Y, S)
    assert abs(two.predict_proba(X) - want).max() > 1e-4 # the third group counts


def test_intersections():
    model = FairMLPClassifier(lam=2., **SMALL)
    want = model.fit(X, Y, 2 * S + (X[:, 1] > 0)).predict_proba(X)
    pairs = np.column_stack([S, X[:, 1] > 0])
    np.testing.assert_array_equal(model.fit(X, Y, pairs).predict_proba(X), want)
    assert model.groups_ == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("groups, words", [
    (np.arange(1200) % 1100, "1,100 groups, and at most 1,000"),
    (np.where(np.arange(1200) < 3, np.nan, np.arange(1200) % 3), "missing for 3 of 1200"),
    (np.column_stack([np.arange(1200) % 40, np.arange(1200) // 40]), "1200 intersections"),
], ids=["too many", "NaN", "too many intersections"])
@pytest.mark.parametrize("options", [{"lam": 2.}, {"target": .8}])
def test_groups_that_cannot_be_compared(groups, words, options):
    x, y = np.tile(X, (3, 1)), np.tile(Y, 3)
    with pytest.raises(ValueError, match=words) as error:
        FairMLPClassifier(**options, **SMALL).fit(x, y, groups)
    assert "sensitive_features" in str(error.value)


def test_a_member_by_itself_is_named():
    with pytest.warns(UserWarning, match="'d' of 4 groups have one member only"):
        FairMLPClassifier(lam=2., **SMALL).fit(X, Y, np.r_[["d"], THREE[1:]])


def test_targets_of_three_groups_are_those_of_steer():
    codes = pd.Categorical(THREE).codes.astype(int)
    for over in ("worst", "mean"):
        model = FairMLPClassifier(target=.8, over=over, **SMALL).fit(X, Y, THREE)
        out = steer(mlp(X.shape[1], (4,)), FairDataset(X, Y, codes), .8, over=over, epochs=2,
                    lr=1e-2)
        assert (model.beta_, model.reached_) == (out.beta, out.reached)
        f = model.predict_proba(X)[:, 1]
        assert ((f > model.threshold_) == (model.predict(X) == 1)).all()
    with pytest.raises(ValueError, match="over = 'best'"):
        FairMLPClassifier(target=.8, over="best", **SMALL).fit(X, Y, THREE)


@pytest.mark.parametrize("favourable", [0, 1])
def test_a_score_at_the_threshold_is_not_above_it(favourable):
    "A network that says 1/2 to everyone favours nobody, whichever label is the favourable one."
    model = FairMLPClassifier(favourable=favourable, **SMALL).fit(X, Y, S)
    for w in model.network_.parameters(): torch.nn.init.zeros_(w)
    assert (model.predict_proba(X) == .5).all() and (model.predict(X) == 1 - favourable).all()
