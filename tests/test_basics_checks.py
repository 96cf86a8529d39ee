"""What the checks accept and refuse, against pandas and scikit-learn."""
import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.basics.checks import NotFinite, as_binary, as_scores, one_of
from fairw2_nb.basics.checks import refuse_nonfinite
from fairw2_nb.basics.groups import as_groups
from hypothesis import assume, given
from hypothesis import strategies as st

label = st.one_of(st.integers(-3, 3), st.sampled_from("abc"), st.booleans(),
                  st.tuples(st.integers(0, 1), st.sampled_from("xy")), st.just(2.5))


@given(st.lists(label, min_size=2, max_size=40))
def test_groups_are_those_of_pandas(values):
    "The same rows share a group as in `pandas.factorize`, in sorted order where there is one."
    theirs, known = pd.factorize(pd.Series(values, dtype=object).to_numpy())
    assume(len(known) > 1)
    codes, labels = as_groups(values)
    assert [labels[k] for k in codes] == values
    assert ((codes[:, None] == codes) == (theirs[:, None] == theirs)).all()
    try:
        assert labels == sorted(known)
    except TypeError:
        assert labels == list(known)


containers = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda v: np.array(v, dtype=object),
    "Series": pd.Series,
    "text": lambda v: pd.Series(v, dtype="string"),
    "category": lambda v: pd.Series(v, dtype="category"),
    "Categorical": pd.Categorical,
}


@pytest.mark.parametrize("wrap", containers.values(), ids=containers)
def test_groups_in_any_container(wrap):
    codes, labels = as_groups(wrap(["m", "f", "m"]))
    assert labels == ["f", "m"] and codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("s", [torch.tensor([3, 1, 3]), np.array([[3], [1], [3]]), [3., 1., 3.]])
def test_groups_that_are_numbers(s):
    codes, labels = as_groups(s)
    assert labels == [1, 3] and codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("s", [
    ["a", None, "b"], ["a", np.nan, "b"], ["a", pd.NA, "b"], [0, float("nan"), 1],
    np.array([0, np.nan, 1]), pd.Series(["a", None, "b"]), pd.Series([0, None, 1], dtype="Int64"),
    pd.Categorical(["a", None, "b"]), torch.tensor([0, torch.nan, 1]),
], ids=str)
def test_missing_groups_are_counted(s):
    with pytest.raises(ValueError, match="`sex` is missing for 1 of 3 observations"):
        as_groups(s, "sex")


def test_too_many_groups_are_refused_by_name():
    three = ["a", "b", "c", "a"]
    assert as_groups(three, most=3)[1] == ["a", "b", "c"]
    words = "`sensitive_features` holds 3 groups, 'a', 'b', 'c': at most 2 can be compared"
    with pytest.raises(ValueError, match=words):
        as_groups(three, "sensitive_features", most=2)
    assert len(as_groups(range(1000))[1]) == 1000
    with pytest.raises(ValueError, match="`age` holds 1,001 groups.* continuous column"):
        as_groups(range(1001), "age", most=2)


@given(st.lists(st.sampled_from([0, 1, True, False, 1.]), min_size=1))
def test_binary_labels_of_any_type(values):
    expected = np.array(values, dtype=int)
    np.testing.assert_array_equal(as_binary(values, "y"), expected)
    np.testing.assert_array_equal(as_binary(torch.tensor(values), "y"), expected)
    np.testing.assert_array_equal(as_binary(pd.Series(values, dtype=float), "y"), expected)


def test_what_is_not_finite_is_an_error_of_its_own():
    with pytest.raises(NotFinite, match="`scores` holds 2 NaN or infinite of 3 values: remove"):
        as_scores([.2, np.inf, np.nan])
    good, bad = torch.tensor([.1, .2]), torch.tensor([.1, torch.nan])
    refuse_nonfinite(good, x=good)
    with pytest.raises(NotFinite, match="^`y` holds 1 NaN or infinite of 2 values: remove them"):
        refuse_nonfinite(good, bad, x=good, y=bad)
    with pytest.raises(ValueError) as other: # a wrong call is no divergence
        as_scores([.2, 1.7])
    assert not isinstance(other.value, NotFinite)


def test_a_choice_is_refused_in_words():
    assert one_of("preset", "quick", {"quick": 1}) == 1
    with pytest.raises(ValueError, match="preset = 'fast': expected one of quick, paper."):
        one_of("preset", "fast", ("quick", "paper"))
