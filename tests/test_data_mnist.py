"""The digits: protocols, files of the full set, and one run from its seed."""
import gzip
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairw2_nb import digits as d
from fairw2_nb.experiments.mnist import best_weight, find_flipped, mnist_configs, mnist_options, mnist_run
from fairw2_nb.experiments.results import read_rows, results_dir


@pytest.fixture(scope="module")
def clean():
    return d.load_mnist(seed=3)


def fake_images(n, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)), torch.from_numpy(rng.integers(0, 10, n, dtype=np.uint8))


def test_embedded_part_is_small_and_balanced():
    x, y, x_test, y_test = d.packaged_mnist()
    assert (len(x), len(x_test)) == (20_000, 8_000)
    for digits, n in ((y, 20_000), (y_test, 8_000)):
        counts = digits.int().bincount(minlength=10)
        assert counts.sum() == n and counts.min() > .085 * n and counts.max() < .12 * n


def test_licence_note_travels_with_the_images():
    from importlib.resources import files
    note = files("fairw2_nb").joinpath("data", "files", "LICENSE-mnist.md").read_text()
    assert "CC BY-SA 3.0" in note and d.MNIST_SHA256 in note


@settings(max_examples=20, deadline=None)
@given(n=st.integers(20, 200), seed=st.integers(0, 10**6))
def test_rotation_touches_group_zero_only(n, seed):
    images, digits = fake_images(n, seed)
    data = d.rotated_half(images, digits, torch.Generator().manual_seed(seed))
    back = torch.where((data.s == 0)[:, None, None, None], data.x.rot90(2, (2, 3)), data.x)
    assert torch.equal((back[:, 0] * 255).round().to(torch.uint8), images)
    assert torch.equal(data.y, (digits >= 5).float()) and not data.flipped.any()


@settings(max_examples=20, deadline=None)
@given(share=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_semi_random_takes_its_share_of_rotated_sevens(share, seed):
    images, digits = fake_images(300, seed % 7)
    data = d.rotated_half(images, digits, torch.Generator().manual_seed(seed))
    rows = d.semi_random(data, torch.Generator().manual_seed(seed + 1), share)
    sevens = ((data.digits == 7) & (data.s == 0)).sum().item()
    assert len(rows) == round(share * sevens) == len(rows.unique())
    assert (data.digits[rows] == 7).all() and (data.s[rows] == 0).all()


@settings(max_examples=20, deadline=None)
@given(share=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_separate_treatment_takes_the_lowest_scores(share, seed):
    images, digits = fake_images(300, seed % 7)
    data = d.rotated_half(images, digits, torch.Generator().manual_seed(seed))
    f = torch.rand(300, generator=torch.Generator().manual_seed(seed))
    rows = d.separate_treatment(data, f, share)
    cell = (data.s == 0) & (data.y == 1)
    naive = sorted(f[cell].tolist())[:round(share * cell.sum().item())]
    assert sorted(f[rows].tolist()) == naive and cell[rows].all()


def test_digits_stay_with_their_images(clean):
    train, _ = clean
    part = train[torch.arange(100, 200)]
    assert torch.equal(part.digits, train.digits[100:200]) and len(part) == 100
    a, b = train.split(.2, seed=0)
    assert len(a.digits) == len(a) and len(b.digits) == len(b)


def test_a_loaded_part_can_be_changed_without_harm(clean):
    first, _ = d.load_mnist(seed=3)
    first.y.zero_()
    again, _ = d.load_mnist(seed=3)
    assert again.y.sum() > 0


def test_protocols_falsify_the_training_part_only():
    train, test = d.load_mnist("SR", seed=3)
    assert train.flipped.any() and not test.flipped.any()
    assert (train.clean[train.flipped] == 1).all() and (train.s[train.flipped] == 0).all()


def write_idx(folder, names=d.MNIST_MD5, content=b"", zipped=False):
    for name in names:
        (folder / f"{name}{'.gz' * zipped}").write_bytes(gzip.compress(content) if zipped else content)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_damaged_file_is_named(tmp_path, zipped):
    write_idx(tmp_path, zipped=zipped)
    with pytest.raises(ValueError, match="is damaged.*Delete it, and call load_mnist"):
        d.load_mnist(full=True, root=tmp_path)


def test_a_truncated_gzip_is_named(tmp_path):
    write_idx(tmp_path, zipped=True, content=b"x" * 10_000)
    for file in tmp_path.iterdir(): file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(ValueError, match="is damaged"):
        d.full_mnist(tmp_path)


def test_full_files_are_read_and_checked(tmp_path, monkeypatch):
    import hashlib
    images, digits = fake_images(50)
    contents = {name: bytes(16) + images.numpy().tobytes() if "images" in name else bytes(8) + digits.numpy().tobytes() for name in d.MNIST_MD5}
    monkeypatch.setattr(d, "MNIST_MD5", {name: hashlib.md5(c, usedforsecurity=False).hexdigest() for name, c in contents.items()})
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, c in contents.items(): (raw / name).write_bytes(c)
    monkeypatch.setenv("FAIRW2_MNIST", str(tmp_path))
    x, y, _, _ = d.full_mnist()
    assert torch.equal(x, images) and torch.equal(y, digits)


def test_without_network_the_embedded_part_serves(tmp_path, monkeypatch):
    class Datasets:
        def MNIST(self, root, download): raise RuntimeError("Error downloading train-images-idx3-ubyte.gz")
    monkeypatch.setattr("fairw2_nb.vision.torchvision_module", lambda name: Datasets())
    with pytest.warns(UserWarning, match="inside the package are used instead"):
        assert len(d.mnist_arrays(True, tmp_path)[0]) == 20_000


def test_damaged_package_file(monkeypatch):
    monkeypatch.setattr(d, "MNIST_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="mnist.npz of the package is damaged or was changed.*Install fairw2_nb again"):
        d.packaged_mnist()


def test_find_flipped_against_counting(clean):
    train, _ = clean
    part = train[:400]
    rows = ((part.s == 0) & (part.y == 1)).nonzero().flatten()[:20]
    biased = part.relabel(rows)

    class Oracle(torch.nn.Module): # gives the true label as its logit
        def forward(self, x): return 2 * biased.clean[self.rows] - 1
    net = Oracle()
    net.rows = ((biased.s == 0) & (biased.y == 0)).nonzero().flatten()
    found = find_flipped(net, biased)
    assert found["found_precision"] == found["found_AP"] == found["above_half_recall"] == found["above_half_precision"] == 1
    assert find_flipped(net, part) == {}


def test_options_and_configs():
    configs = mnist_configs()
    assert len({tuple(c.items()) for c in configs}) == len(configs)
    for protocol in ("SR", "ST"):
        for grad in ("exact", "paper"):
            lams = {c["lam"] for c in configs if c["protocol"] == protocol and (c["grad"] == grad or c["lam"] == 0)}
            assert len(lams) >= 6
            for lam in lams: assert sum(c["protocol"] == protocol and c["lam"] == lam and (c["grad"] == grad or lam == 0) for c in configs) == 9
    assert mnist_options("paper")["epochs"] == 50 and mnist_options("paper")["batch_size"] == 200
    with pytest.raises(ValueError, match="expected one of quick, paper, tiny"): mnist_options("fast")


def test_stored_rows_are_complete():
    rows = read_rows(results_dir() / "mnist" / "rows.jsonl")
    for c in mnist_configs():
        assert any(all(r.get(k) == v for k, v in c.items()) for r in rows), c


def test_a_run_comes_again_from_its_seed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (mnist_run("SR", "exact", 1., 5, "tiny") for _ in range(2))
    assert a == b


def test_best_weight():
    import pandas as pd
    rows = pd.DataFrame({"lam": [0., 1., 2., 3.], "Acc": [.9, .91, .9, .8], "DI": [.8, .9, .95, .99]})
    assert best_weight(rows).name == 2.
