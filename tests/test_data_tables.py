"""Tables of one's own: the encoder against scikit-learn, gaps, values, and what is refused."""
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.data.reading import read_table
from fairw2_nb.data.tables import TableEncoder, load_table
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

WHO = "loan", "yes", "sex", "M"


def table(n=300, seed=0):
    "A table of one's own, complete, with numbers, text and a flag."
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "age": rng.integers(18, 80, n),
        "pay": rng.normal(3, 2, n),
        "job": rng.choice(["clerk", "farm", "sales"], n),
        "member": rng.random(n) < .3,
        "sex": rng.choice(["F", "M"], n),
        "loan": rng.choice(["no", "yes"], n),
    })


def test_read_table_copies():
    t = pd.DataFrame({" a ": [" x", "?"]})
    assert read_table(t)["a"].tolist()[0] == "x"
    assert read_table(t)["a"].isna().tolist() == [False, True]
    assert t[" a "].tolist() == [" x", "?"]


# the encoder

def test_onehot_matches_pandas_and_scikit_learn():
    t, numbers = table(), ["age", "pay", "member"]
    e = TableEncoder().fit(t)
    x = pd.DataFrame(e.transform(t), columns=e.names)
    for c in ("job", "sex", "loan"):
        mine = [n for n in e.names if n.startswith(f"{c}=")]
        theirs = OneHotEncoder(sparse_output=False).fit_transform(t[[c]])
        np.testing.assert_array_equal(x[mine], theirs)
        dummies = pd.get_dummies(t[[c]], prefix_sep="=", dtype=float)
        np.testing.assert_array_equal(x[mine], dummies[mine])
    theirs = StandardScaler().fit_transform(t[numbers].astype(float))
    np.testing.assert_allclose(x[numbers], theirs, rtol=1e-5, atol=1e-6)  # float32


def test_ordinal_matches_scikit_learn():
    t = table()
    e = TableEncoder("ordinal").fit(t)
    words = {c: OrdinalEncoder().fit_transform(t[[c]])[:, 0] for c in ("job", "sex", "loan")}
    theirs = StandardScaler().fit_transform(t.assign(**words).astype(float))
    assert e.names == list(t.columns)
    np.testing.assert_allclose(e.transform(t), theirs, rtol=1e-5, atol=1e-6)  # float32


def test_encoder_remembers_its_own_table_only():
    a, b = table(200, 0), table(100, 1).assign(pay=lambda d: d.pay + 50)
    e = TableEncoder().fit(a)
    before = e.transform(a)
    want = (b.pay - a.pay.mean()) / a.pay.std(ddof=0)
    np.testing.assert_allclose(e.transform(b)[:, 1], want, rtol=1e-5)
    np.testing.assert_array_equal(e.transform(a), before)
    other = a[a.columns[::-1]].assign(extra=1)  # order and further columns do not matter
    np.testing.assert_array_equal(e.transform(other), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(e)).transform(a), before)
    np.testing.assert_array_equal(e.transform(a.iloc[:1]), before[:1])


@pytest.mark.parametrize("encoding, width", [("onehot", 2), ("ordinal", 1)])
def test_unseen_category_is_none(encoding, width):
    e = TableEncoder(encoding).fit(pd.DataFrame({"job": ["a", "b", "b"]}))
    new = pd.DataFrame({"job": ["c", "a"]})
    with pytest.warns(UserWarning, match=r"`job` \['c'\] in 1 rows"):
        np.testing.assert_array_equal(e.transform(new)[0], np.zeros(width))
    with pytest.raises(ValueError, match="not seen"):
        e.transform(new, unseen="error")


def test_categorical_keeps_its_order_and_constants_become_zero():
    v = pd.Categorical(["low", "high", "mid"], categories=["low", "mid", "high"], ordered=True)
    e = TableEncoder("ordinal").fit(pd.DataFrame({"v": v, "same": 7}))
    x = e.transform(pd.DataFrame({"v": ["low", "mid", "high"], "same": 7}))
    assert (np.diff(x[:, 0]) > 0).all() and (x[:, 1] == 0).all()


def test_nullable_and_boolean_columns():
    t = pd.DataFrame({
        "a": pd.array([1, 2, 4], dtype="Int64"),
        "b": pd.array([True, False, True], dtype="boolean"),
        "c": pd.array(["x", "y", "x"], dtype="string"),
    })
    e = TableEncoder().fit(t)
    assert e.names == ["a", "b", "c=x", "c=y"] and np.isfinite(e.transform(t)).all()


# one call

def test_own_csv_with_strings_blanks_and_gaps(tmp_path):
    t, path = table(), tmp_path / "mine.csv"
    t.loc[[0, 1], "job"] = "?"
    t["age"] = t["age"].astype(object)
    t.loc[2, "age"] = "?"
    lines = [t.columns, *t.to_numpy().tolist()]
    path.write_text("\n".join(", ".join(map(str, line)) for line in lines))
    with pytest.raises(ValueError) as e:
        load_table(path, *WHO)
    assert "3 of 300 rows have missing values, by column: `job` 2, `age` 1." in str(e.value)
    assert 'missing="drop"' in str(e.value)
    train, test = load_table(path, *WHO, missing="drop")
    assert (len(train), len(test)) == (223, 74) and train.groups == ("F", "M")
    assert train.encoder.kinds["age"] == "number"
    assert torch.cat([train.y, test.y]).sum() == (t.iloc[3:].loan == "yes").sum()
    assert len(load_table(str(path), *WHO, drop=["job", "age"])[0]) == 225


def test_frame_given_is_left_alone():
    t = table().assign(job=" clerk ", note="?")
    kept = t.copy()
    load_table(t, *WHO, drop="note")
    pd.testing.assert_frame_equal(t, kept)


def with_text(**column):
    "The table with one more column."
    return dict(table=table().assign(**column))


@pytest.mark.parametrize("change, sentence", [
    (dict(target="laon"), "no column 'laon'. Did you mean 'loan'?"),
    (dict(sensitive="gender"), "no column 'gender'. There is: 'age'"),
    (dict(sensitive="loan"), "`target` and `sensitive` are both 'loan'"),
    (dict(drop=["jobs"]), "no column 'jobs'. Did you mean 'job'?"),
    (dict(favourable="Yes"), "`loan` never is 'Yes'. Did you mean 'yes'?"),
    (dict(privileged=1), "`sex` never is 1. There is: "),
    (dict(privileged=["F", "M"]), "privileged covers every value of `sex`"),
    (dict(favourable=lambda v: False), "favourable covers no value of `loan`"),
    (dict(missing="fill"), 'give "error" or "drop"'),
    (dict(encoding="hash"), 'give "onehot" or "ordinal"'),
    (dict(test=2), "between 0 and 1"),
    (dict(max_categories=2), "`job` has 3 different values"),
    (dict(drop=["age", "pay", "job", "member"]), "No column is left for x"),
    (with_text(sex="F"), "`sex` has one value only, 'F', in 300 complete rows"),
    (with_text(loan="yes"), "`loan` has one value only"),
    (with_text(name=[f"person {k}" for k in range(300)]),
     "looks like an identifier or free text, leave it out with drop=['name']"),
    (with_text(sum=[f"{k}" for k in range(300)]), "are numbers as text: use pd.to_numeric"),
    (with_text(born=pd.Timestamp("2001-01-01")), "`born` holds dates"),
    (with_text(tags=[[1]] * 300), "`tags` holds lists"),
    (dict(table=table().iloc[:0]), "no rows"),
    (with_text(gap=np.nan) | dict(missing="drop"), "`gap` 300"),
    (dict(table=pd.concat([table(), table()[["age"]]], axis=1)), "Two columns are called `age`"),
    (with_text(pay=np.inf), "NaN or infinite values, in column: pay"),
    (with_text(pay=1e300), "`pay` holds 1e+300, beyond the 3e38 of single precision"),
    (with_text(pay=1j), "`pay` holds complex numbers"),
    (with_text(pay=pd.Series([1j] * 300, dtype=object)), "`pay` holds complex numbers"),
    (dict(sensitive=["sex", "job"]), "`privileged` goes with one sensitive column"),
    (dict(sensitive=["sex", "jobs"], privileged=None), "no column 'jobs'. Did you mean 'job'?"),
    (with_text(sex="F") | dict(privileged=None), "`sex` holds one group only, 'F'"),
    (dict(sensitive="pay", privileged=None, table=table(1500)), "holds 1,500 groups, and at most"),
])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_tables_refused(change, sentence):
    names = "target", "favourable", "sensitive", "privileged"
    with pytest.raises(ValueError) as e:
        load_table(**dict(table=table()) | dict(zip(names, WHO)) | change)
    assert sentence in str(e.value)


def test_only_the_meaning_of_columns_goes_without_a_name():
    with pytest.raises(TypeError, match="positional"):
        load_table(table(), *WHO, "ordinal")


@pytest.mark.parametrize("content, sentence", [
    (b"", "cannot be read as a CSV"),
    (b"a,b\n\xff\xfe,1\n", "cannot be read as a CSV"),
    (b"a,b\n1,2\n1,2,3,4\n", "cannot be read as a CSV"),
    (b"sex;loan\nM;yes\n", "Is its separator a comma?"),
])
def test_files_refused(tmp_path, content, sentence):
    (tmp_path / "bad.csv").write_bytes(content)
    with pytest.raises(ValueError) as e:
        load_table(tmp_path / "bad.csv", *WHO)
    assert sentence in str(e.value)


def test_row_number_is_warned_of():
    with pytest.warns(UserWarning, match="`id` differs in every row"):
        load_table(table().assign(id=range(300)), *WHO)


def test_functions_lists_and_numbers_as_values():
    t = table().assign(loan=lambda d: (d.loan == "yes").astype(int))
    train, test = load_table(t, "loan", 1, "age", lambda a: a >= 25)
    assert "age" not in train.names and train.groups == (0, 1)
    assert sum(int(d.s.sum()) for d in (train, test)) == (t.age >= 25).sum()
    assert load_table(t, "loan", 1, "job", ["farm", "sales"])[0].groups == ("clerk", "not clerk")


# what was done is said

def test_words_for_nothing_survive_in_text_and_are_gaps_among_numbers(tmp_path):
    t, path = table(400), tmp_path / "mine.csv"
    t.loc[:138, "job"] = "NA"
    t.loc[139:141, "job"] = "None"
    t["pay"] = t["pay"].astype(object)
    t.loc[5:6, "pay"] = "NaN"
    t.to_csv(path, index=False)
    train, test = load_table(path, *WHO, missing="drop")
    assert len(train) + len(test) == 398
    assert train.encoder.categories["job"][:2] == ["NA", "None"]
    plan = train.encoder.plan
    assert (plan.read, plan.used, plan.gaps) == (400, 398, {"pay": 2})
    assert "2 of 400 rows were left out for gaps, by column: `pay` 2." in repr(train)
    assert "`job` holds 'NA' 137 times, 'None' 3 times, kept as text" in repr(plan)
    as_pandas_reads_it = load_table(pd.read_csv(path), *WHO, missing="drop")[0]
    told = "142 of 400 rows were left out for gaps, by column: `pay` 2, `job` 142."
    assert told in repr(as_pandas_reads_it)


def test_flags_with_gaps_in_a_file(tmp_path):
    path = tmp_path / "mine.csv"
    t = table().assign(member=lambda d: d.member.astype(str))
    t.loc[0, "member"] = "NULL"
    t.to_csv(path, index=False)
    assert read_table(path)["member"].tolist()[1] in (True, False)
    train, _ = load_table(path, "loan", "yes", "member", True, missing="drop")
    assert train.encoder.plan.gaps == {"member": 1}


def test_a_column_named_twice_is_refused_in_a_file(tmp_path):
    lines = table().assign(again=table().loan).to_csv(index=False)
    for name in ("loan", " loan "):
        (tmp_path / "mine.csv").write_text(lines.replace("again", name, 1))
        with pytest.raises(ValueError, match="Two columns are called `loan`: rename or remove one"):
            load_table(tmp_path / "mine.csv", *WHO)
    (tmp_path / "mine.csv").write_text(lines.replace("again", "loan.1", 1))
    with pytest.warns(UserWarning, match="`loan.1` tells the same rows apart as `loan`"):
        load_table(tmp_path / "mine.csv", *WHO)


@pytest.mark.parametrize("copy", [
    lambda t: t.loan, lambda t: t.loan == "yes", lambda t: 1000. - 3 * (t.loan == "yes"),
    lambda t: t.loan.astype("category"),
])
def test_copies_of_the_label_are_reported(copy):
    with pytest.warns(UserWarning, match="`paid` tells the same rows apart as `loan`"):
        train, _ = load_table(table().assign(paid=copy), *WHO)
    assert "drop=['paid']" in train.encoder.plan.notes[0]


def test_no_false_alarm(recwarn):
    t = table().assign(debt=np.random.default_rng(3).normal(size=300))
    plan = load_table(t, "pay", lambda v: v > 3, "sex", "M")[0].encoder.plan
    assert not plan.notes and not recwarn
    assert load_table(t.assign(wage=t.pay), "pay", lambda v: v > 3, "sex", "M", drop="wage")


def test_a_function_is_asked_once_per_value():
    asked = []
    t = table(2000).assign(pay=lambda d: d.pay.round(1))
    train, test = load_table(t, "pay", lambda v: asked.append(v) or v > 3, "sex", "M")
    assert len(asked) == t.pay.nunique()
    assert train.y.sum() + test.y.sum() == (t.pay > 3).sum()


def test_categories_that_only_the_test_part_has_are_noted():
    t = table(40)
    t.loc[7, "job"] = "pilot"
    for seed in range(9):
        train, test = load_table(t, *WHO, seed=seed)
        noted = [n for n in train.encoder.plan.notes if "`job` ['pilot'] in 1 rows" in n]
        assert bool(noted) == ("pilot" not in train.encoder.categories["job"])


def test_plan_names_every_column():
    t = table().assign(id=1)
    lines = repr(load_table(t, *WHO, drop="id")[0].encoder.plan).splitlines()
    assert lines[0] == "Table: 300 rows read, 300 used."
    kinds = dict(line.split()[:2] for line in lines[1:])
    assert kinds == {"loan": "label", "sex": "groups", "age": "number", "pay": "number",
                     "job": "category", "member": "number", "id": "left"}


# many groups

def test_all_values_are_groups_without_a_privileged_one():
    t = table()
    two, same = load_table(t, *WHO)[0], load_table(t, "loan", "yes", "sex")[0]
    assert two.groups == same.groups and all(map(torch.equal, two.tensors, same.tensors))
    train, test = load_table(t, "loan", "yes", "job", stratify=True)
    assert train.groups == ("clerk", "farm", "sales") and "job=farm" not in train.names
    counts = (train.s.bincount() + test.s.bincount()).tolist()
    assert counts == t.job.value_counts().sort_index().tolist()
    kept = load_table(t, "loan", "yes", "job", keep_sensitive=True, stratify=True)[0]
    at = [kept.names.index(f"job={g}") for g in train.groups]
    assert torch.equal(kept.x[:, at].argmax(1), kept.s)


def test_several_attributes():
    t = table()
    train, test = load_table(t, "loan", "yes", ["sex", "job"])
    assert train.groups == {"sex": ("F", "M"), "job": ("clerk", "farm", "sales")}
    assert train.s.shape == (225, 2) and not {"sex=F", "job=farm"} & set(train.names)
    pairs = (t.sex + ", " + t.job).value_counts().to_dict()
    one = [d.crossed() for d in (train, test)]
    n = sum(d.s.bincount(minlength=6) for d in one).tolist()
    assert dict(zip(one[0].groups, n)) == pairs
