"""The digits: protocols, and the files of the full set."""
import gzip
import hashlib

import numpy as np
import pytest
import torch
from conftest import LIB
from fairw2_nb.data import mnist
from fairw2_nb.data.mnist import MNIST_MD5, MNIST_SHA256, full_mnist, load_mnist, mnist_arrays
from fairw2_nb.data.mnist import packaged_mnist, rotated_half, semi_random, separate_treatment
from hypothesis import given, settings
from hypothesis import strategies as st

SEEDS = st.integers(0, 10 ** 6)


@pytest.fixture(scope="module")
def clean():
    return load_mnist(seed=3)


def fake_images(n, seed=0):
    "Noise instead of images, and digits by chance."
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(0, 256, (n, 28, 28), dtype=np.uint8))
    return images, torch.from_numpy(rng.integers(0, 10, n, dtype=np.uint8))


def fake_data(n, seed):
    "Noise with rotated halves."
    return rotated_half(*fake_images(n, seed % 7), torch.Generator().manual_seed(seed))


def test_embedded_part_is_small_and_balanced():
    x, y, x_test, y_test = packaged_mnist()
    assert (len(x), len(x_test)) == (20_000, 8_000)
    for digits, n in ((y, 20_000), (y_test, 8_000)):
        counts = digits.int().bincount(minlength=10)
        assert counts.sum() == n and counts.min() > .085 * n and counts.max() < .12 * n


def test_licence_note_travels_with_the_images():
    note = (LIB / "data" / "files" / "LICENSE-mnist.md").read_text()
    assert "CC BY-SA 3.0" in note and MNIST_SHA256 in note


# protocols

@settings(max_examples=20)
@given(n=st.integers(20, 200), seed=SEEDS)
def test_rotation_touches_group_zero_only(n, seed):
    images, digits = fake_images(n, seed)
    data = rotated_half(images, digits, torch.Generator().manual_seed(seed))
    back = torch.where((data.s == 0)[:, None, None, None], data.x.rot90(2, (2, 3)), data.x)
    assert torch.equal((back[:, 0] * 255).round().to(torch.uint8), images)
    assert torch.equal(data.y, (digits >= 5).float()) and not data.flipped.any()


@settings(max_examples=20)
@given(share=st.floats(0, 1), seed=SEEDS)
def test_semi_random_takes_its_share_of_rotated_sevens(share, seed):
    data = fake_data(300, seed)
    rows = semi_random(data, torch.Generator().manual_seed(seed + 1), share)
    sevens = ((data.digits == 7) & (data.s == 0)).sum().item()
    assert len(rows) == round(share * sevens) == len(rows.unique())
    assert (data.digits[rows] == 7).all() and (data.s[rows] == 0).all()


@settings(max_examples=20)
@given(share=st.floats(0, 1), seed=SEEDS)
def test_separate_treatment_takes_the_lowest_scores(share, seed):
    data = fake_data(300, seed)
    f = torch.rand(300, generator=torch.Generator().manual_seed(seed))
    rows = separate_treatment(data, f, share)
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
    first, _ = load_mnist(seed=3)
    first.y.zero_()
    again, _ = load_mnist(seed=3)
    assert again.y.sum() > 0


def test_protocols_falsify_the_training_part_only():
    train, test = load_mnist("SR", seed=3)
    assert train.flipped.any() and not test.flipped.any()
    assert (train.clean[train.flipped] == 1).all() and (train.s[train.flipped] == 0).all()


def test_separate_treatment_asks_for_scores_with_the_seed():
    asked = []

    def scores(data, seed):
        asked.append((len(data), data.flipped.any().item(), seed))
        return torch.arange(len(data))

    train, _ = load_mnist("ST", seed=4, scores=scores)
    assert asked == [(20_000, False, 4)]  # the clean training part, once
    cell = (train.s == 0) & (train.clean == 1)
    rows = cell.nonzero().flatten()
    assert torch.equal(train.flipped.nonzero().flatten(), rows[:round(.3 * len(rows))])
    with pytest.raises(ValueError, match="give a function of"):
        load_mnist("ST")


# files

def write_idx(folder, content=b"", zipped=False):
    for name in MNIST_MD5:
        packed = gzip.compress(content) if zipped else content
        (folder / f"{name}{'.gz' * zipped}").write_bytes(packed)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_damaged_file_is_named(tmp_path, zipped):
    write_idx(tmp_path, zipped=zipped)
    with pytest.raises(ValueError, match="is damaged.*Delete it, and call load_mnist"):
        load_mnist(full=True, root=tmp_path)


def test_a_truncated_gzip_is_named(tmp_path):
    write_idx(tmp_path, zipped=True, content=b"x" * 10_000)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(ValueError, match="is damaged"):
        full_mnist(tmp_path)


def test_full_files_are_read_and_checked(tmp_path, monkeypatch):
    images, digits = fake_images(50)
    long, short = bytes(16) + images.numpy().tobytes(), bytes(8) + digits.numpy().tobytes()
    contents = {name: long if "images" in name else short for name in MNIST_MD5}
    sums = {name: hashlib.md5(c, usedforsecurity=False).hexdigest() for name, c in contents.items()}
    monkeypatch.setattr(mnist, "MNIST_MD5", sums)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, c in contents.items():
        (raw / name).write_bytes(c)
    monkeypatch.setenv("FAIRW2_MNIST", str(tmp_path))
    x, y, _, _ = full_mnist()
    assert torch.equal(x, images) and torch.equal(y, digits)


def test_without_network_the_embedded_part_serves(tmp_path, monkeypatch):
    class Datasets:
        def MNIST(self, root, download):
            raise RuntimeError("Error downloading train-images-idx3-ubyte.gz")

    monkeypatch.setattr(mnist, "torchvision_module", lambda name: Datasets())
    with pytest.warns(UserWarning, match="inside the package are used instead"):
        assert len(mnist_arrays(True, tmp_path)[0]) == 20_000


def test_damaged_package_file(monkeypatch):
    monkeypatch.setattr(mnist, "MNIST_SHA256", "0" * 64)
    sentence = "mnist.npz of the package is damaged or was changed.*Install fairw2_nb again"
    with pytest.raises(ValueError, match=sentence):
        packaged_mnist()
