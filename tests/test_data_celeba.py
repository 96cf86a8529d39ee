"""CelebA's loader on folders of noise, in every form they may come in."""
import gzip
import os
import re
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import LIB
from fairw2_nb.data import archive, celeba
from fairw2_nb.data.celeba import celeba_digest, load_celeba
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.faces import FaceDataset
from fairw2_nb.data.label_files import read_labels
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader

NAMES = ["Attractive", "Eyeglasses", "Pale_Skin", "Young"]


def write_labels(folder, flags, parts, csv):
    "Write both label files, in Kaggle's form or in the authors'."
    if csv:
        flags.to_csv(folder / "list_attr_celeba.csv", index_label="image_id")
        parts.to_csv(folder / "list_eval_partition.csv", index_label="image_id")
        return
    rows = [f"{k} {'  '.join(map(str, v))}\n" for k, v in zip(flags.index, flags.values)]
    text = f"{len(flags)}\n{' '.join(flags)} \n{''.join(rows)}"
    (folder / "list_attr_celeba.txt").write_text(text)
    rows = [f"{k} {v}\n" for k, v in parts.partition.items()]
    (folder / "list_eval_partition.txt").write_text("".join(rows))


def noise_celeba(folder, ids, zipped=False, csv=False, low=-1, shape=(30, 24), seed=0):
    "A folder of noise in the form of CelebA, with 160, 20 and 20 ids in the three parts."
    rng, inside = np.random.default_rng(seed), folder / "img_align_celeba"
    inside.mkdir(parents=True)
    for i in ids:
        pixels = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(inside / f"{i:06d}.jpg")
    if zipped:
        shutil.make_archive(str(inside), "zip", folder, inside.name)
        shutil.rmtree(inside)
    index = [f"{i:06d}.jpg" for i in range(1, 201)]
    flags = np.where(np.random.default_rng(seed).random((200, 4)) < .5, 1, low)
    parts = pd.DataFrame({"partition": np.repeat([0, 1, 2], [160, 20, 20])}, index)
    write_labels(folder, pd.DataFrame(flags, index, NAMES), parts, csv)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    "All 200 images in a folder, labels as text with -1 and 1. Not to be changed."
    return noise_celeba(tmp_path_factory.mktemp("celeba") / "plain", range(1, 201))


@pytest.fixture
def copied(plain, tmp_path):
    "A copy that may be changed."
    return Path(shutil.copytree(plain, tmp_path / "copied"))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    "A cache of its own for each test, and no data folder from outside."
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FAIRW2_CACHE", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "home"))
    monkeypatch.delenv("FAIRW2_CELEBA", raising=False)
    return folder


def load(root, part="all", **k):
    return load_celeba(root, size=k.pop("size", 12), part=part, **k)


def refused(sentence):
    "A `ValueError` that says this; `...` stands for anything."
    words = map(re.escape, sentence.split("..."))
    return pytest.raises(ValueError, match="(?s)" + ".*".join(words))


def same(a, b):
    "Two sets hold the same images with the same flags."
    tensors = ("x", "y", "s", "ids", "attributes")
    alike = all(torch.equal(getattr(a, k), getattr(b, k)) for k in tensors)
    return alike and a.attribute_names == b.attribute_names


# forms of the data

def test_parts_types_and_pixels(plain):
    train, valid, test, whole = load(plain, ("train", "valid", "test", "all"))
    assert [len(d) for d in (train, valid, test, whole)] == [160, 20, 20, 200]
    assert whole.ids.tolist() == list(range(1, 201))
    assert test.ids.tolist() == list(range(181, 201))
    assert whole.x.dtype == whole.attributes.dtype == torch.uint8
    assert whole.x.shape == (200, 3, 12, 12)
    image = Image.open(plain / "img_align_celeba" / "000017.jpg")
    image = image.resize((12, 12), Image.Resampling.BILINEAR)
    assert np.array_equal(whole.x[16].permute(1, 2, 0), np.asarray(image))
    text = plain / "list_attr_celeba.txt"
    flags = pd.read_csv(text, sep=r"\s+", skiprows=2, header=None, index_col=0)
    assert np.array_equal(whole.attributes, flags.to_numpy() > 0)
    assert torch.equal(whole.y, whole.attribute("Attractive").float())
    assert torch.equal(whole.s, whole.attribute("Young").long())
    assert whole.groups == ("not Young", "Young") and not whole.notes


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("csv", [False, True])
@pytest.mark.parametrize("low", [-1, 0])
def test_every_form_gives_the_same_data(plain, tmp_path, zipped, csv, low):
    other = noise_celeba(tmp_path / "other", range(1, 201), zipped, csv, low)
    assert same(load(plain, "valid"), load(other, "valid"))


LABELS = "list_attr_celeba.txt", "list_eval_partition.txt"


def packed_labels(texts, to, how):
    "Write both label files, packed or in folders of their own."
    for (name, content), folder in zip(texts.items(), ("Anno", "Eval")):
        if how == "gz":
            (to / f"{name}.gz").write_bytes(gzip.compress(content))
        elif how == "zip of labels":
            with zipfile.ZipFile(to / f"{name[:-4]}.zip", "w") as z:
                z.writestr(name, content)
        elif how == "authors":
            (to / folder).mkdir()
            (to / folder / name).write_bytes(content)
        elif how == "flat, other line ends":
            (to / name).write_bytes(content.replace(b"\n", b"\r\n"))
        else:
            (to / name).write_bytes(content)


def in_one_archive(texts, images, to):
    "Labels and images in one zip file, with what a Mac adds."
    with zipfile.ZipFile(to / "archive.zip", "w") as z:
        for name, content in texts.items():
            z.writestr(name, content)
        for i in images:
            z.write(i, f"img_align_celeba/img_align_celeba/{i.name}")
            z.writestr(f"__MACOSX/._{i.name}", b"x")
    return to / "archive.zip"


def rearranged(root, to, how):
    "The same files in another layout."
    images = sorted((root / "img_align_celeba").iterdir())
    texts = {name: (root / name).read_bytes() for name in LABELS}
    if how == "torchvision":
        return shutil.copytree(root, to / "celeba").parent
    to.mkdir()
    if how == "one archive":
        return in_one_archive(texts, images, to)
    packed_labels(texts, to, how)
    if how == "image folder":
        return shutil.copytree(root / "img_align_celeba", to / "images")
    if how in ("gz", "zip of labels", "authors"):
        with zipfile.ZipFile(to / "some.zip", "w") as z:
            for i in images:
                z.write(i, i.name)
        return to
    for k, i in enumerate(images):
        folder = to / f"part{k % 3}" if how == "subfolders" else to
        folder.mkdir(exist_ok=True)
        shutil.copy(i, folder / (f"{i.stem}.JPG" if how == "upper case" else i.name))
    return to


@pytest.mark.parametrize("how", [
    "gz", "zip of labels", "authors", "torchvision", "one archive", "subfolders",
    "flat, other line ends", "image folder", "upper case",
])
def test_layouts(plain, tmp_path, how):
    assert same(load(plain, "valid"), load(rearranged(plain, tmp_path / "new", how), "valid"))


SIDES = st.integers(9, 40)


@settings(max_examples=12)
@given(ids=st.sets(st.integers(1, 200), min_size=40, max_size=60),
       shape=st.tuples(SIDES, SIDES), zipped=st.booleans())
def test_any_subset_of_the_ids(tmp_path_factory, ids, shape, zipped):
    folder = tmp_path_factory.mktemp("subset") / "new"
    root = noise_celeba(folder, ids, zipped, csv=True, shape=shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        d = load(root)
    assert d.ids.tolist() == sorted(ids)
    assert f"{len(ids)} of the 200 ids in the label file have a usable image here" in repr(d)
    flags = pd.read_csv(root / "list_attr_celeba.csv", index_col=0)
    assert np.array_equal(d.attributes, flags.loc[[f"{i:06d}.jpg" for i in sorted(ids)]] > 0)


def test_grey_png_and_odd_names(copied):
    images = copied / "img_align_celeba"
    Image.new("L", (20, 20), 77).save(images / "000003.png")
    (images / "000003.jpg").unlink()
    for name in ("readme.jpg", "._000004.jpg", "12a.jpg", "000005.gif"):
        (images / name).write_bytes(b"x")
    d = load(copied)
    assert len(d) == 200 and (d.x[2] == 77).all()


def test_labels_elsewhere(plain, tmp_path):
    images = shutil.copytree(plain / "img_align_celeba", tmp_path / "a" / "b")
    with refused("The label file list_attr_celeba.txt"):
        load(images)
    labels, partition = (plain / name for name in LABELS)
    assert same(load(images, "test", labels=labels, partition=partition), load(plain, "test"))
    with refused("does not exist. Put these there"):
        load(images, labels=tmp_path / "no.txt")


def test_folder_by_environment_and_default(plain, cache, monkeypatch):
    with refused("celeba does not exist. Put these there...img_align_celeba.zip..."
                 "list_attr_celeba.txt...FAIRW2_CELEBA...synthetic_faces"):
        load(None)
    home = cache / "home" / "fairw2_nb" / "celeba"
    shutil.copytree(plain, home)
    default = load(None)
    shutil.rmtree(home)
    monkeypatch.setenv("FAIRW2_CELEBA", str(plain))
    assert same(default, load(None))


# bad input

def test_truncated_images_are_skipped_and_named(copied, tmp_path):
    for i, keep in ((5, .5), (9, .95), (170, 0)):
        f = copied / "img_align_celeba" / f"{i:06d}.jpg"
        f.write_bytes(f.read_bytes()[:int(keep * f.stat().st_size)])
    sentence = ("3 of 200 images are damaged or cut short and are left out: "
                "000005.jpg, 000009.jpg, 000170.jpg.")
    for _ in range(2):  # decoded, then from the cache
        with pytest.warns(UserWarning, match=re.escape(sentence)) as said:
            d = load(copied)
        assert len(said) == 1 and len(d) == 197 and not {5, 9, 170} & set(d.ids.tolist())
    shutil.make_archive(str(tmp_path / "z" / "images"), "zip", copied)
    with pytest.warns(UserWarning, match="3 of 200"):
        assert same(d, load(tmp_path / "z"))


def test_all_images_damaged_or_none(copied):
    for f in (copied / "img_align_celeba").iterdir():
        f.write_bytes(b"x")
    with pytest.warns(UserWarning, match="200 of 200.* and 180 more"):
        with refused("None of the 200 images"):
            load(copied)
    shutil.rmtree(copied / "img_align_celeba")
    with refused("No image such as 000001.jpg...Put these there"):
        load(copied)


def test_damaged_zip(plain, tmp_path):
    for name in LABELS:
        shutil.copy(plain / name, tmp_path)
    images = plain / "img_align_celeba"
    packed = Path(shutil.make_archive(str(tmp_path / "images"), "zip", images))
    packed.write_bytes(packed.read_bytes()[:5000])
    with pytest.warns(UserWarning, match="not a whole zip file"), refused("No image such as"):
        load(tmp_path)


@pytest.mark.parametrize("name, near", [
    ("Atractive", "'Attractive'"),
    ("young", "'Young'"),
    ("Pale Skin", "'Pale_Skin'"),
    ("glasses", "'Eyeglasses'"),
    ("zzz", "There are: Attractive, "),
])
@pytest.mark.parametrize("role", ["target", "sensitive"])
def test_misspelt_attribute(plain, cache, name, near, role):
    with refused(near):
        load(plain, **{role: name})
    assert not list(cache.iterdir())  # before anything is decoded


@pytest.mark.parametrize("change, sentence", [
    (dict(target="Young"), "both 'Young'"),
    (dict(part="training"), "part = 'training': expected"),
    (dict(size=0), "size = 0"),
    (dict(cache=LIB), "choose one outside"),
])
def test_other_bad_requests(plain, change, sentence):
    with refused(sentence):
        load(plain, **change)


def test_missing_label_files(copied):
    (copied / "list_eval_partition.txt").unlink()
    assert len(load(copied, "all")) == 200  # needs no partition
    with refused("The label file list_eval_partition.txt...Put these there"):
        load(copied, "train")
    (copied / "list_attr_celeba.txt").unlink()
    with refused("The label file list_attr_celeba.txt...Put these there"):
        load(copied, "all")


def test_images_without_labels(copied):
    path = copied / "list_attr_celeba.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], *lines[9:]]))
    sentence = ("7 of 200 images have no row in the file of attributes and are left out: "
                "1, 2, 3, 4, 5 and 2 more")
    with pytest.warns(UserWarning, match=sentence):
        d = load(copied)
    assert d.ids.tolist() == list(range(8, 201))
    path.write_text("\n".join([lines[1], "900000.jpg 1 1 1 1"]))
    with refused("belong together"):
        load(copied)


def test_part_without_images_or_with_one_group(tmp_path):
    root = noise_celeba(tmp_path / "few", range(1, 41), csv=True)
    with refused("No image of the part 'test' is here; of the 40 images there are 40 in 'train', "
                 "0 in 'valid'"):
        load(root, "test")
    flags = pd.read_csv(root / "list_attr_celeba.csv", index_col=0)
    flags.assign(Young=1).to_csv(root / "list_attr_celeba.csv")
    with refused("All 40 images of the part 'train' have Young = 1"):
        load(root, "train")


@pytest.mark.parametrize("text, sentence", [
    ("", "a is empty"),
    ("3\n", "a is empty"),
    ("A B\n1.jpg 1 1\n2.jpg 1", "first at '2.jpg'"),
    ("A B\n1.jpg 1 x", "first at '1.jpg'"),
    ("A B C\nz.jpg 1 1 1", "first at 'z.jpg'"),
    ("A B\n1.jpg 1 1 1 1", "4 numbers in a row and 2 names"),
    ("A B\n1.jpg 1 1\n2.jpg 1 1 1 1", "cannot be read"),
])
def test_bad_label_files(text, sentence):
    with refused(sentence):
        read_labels(text, "a")


def test_damaged_label_file(copied):
    path = copied / "list_attr_celeba.txt"
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    (copied / "list_attr_celeba.txt.gz").write_bytes(packed[:len(packed) // 2])
    with refused("list_attr_celeba.txt.gz is damaged"):
        load(copied)


def test_column_of_row_numbers(plain, tmp_path):
    root = noise_celeba(tmp_path / "new", range(1, 201), csv=True)
    table = pd.read_csv(root / "list_attr_celeba.csv")
    table.sample(frac=1, random_state=0).to_csv(root / "list_attr_celeba.csv")  # in any order
    assert same(load(plain, "test"), load(root, "test"))


def test_strange_values(copied):
    path = copied / "list_attr_celeba.txt"
    path.write_text(path.read_text().replace("-1", "2"))
    with refused("values 1, 2: expected -1 and 1"):
        load(copied)


def test_download_that_fails(tmp_path, monkeypatch):
    class Offline:
        def CelebA(*a, **k):
            raise OSError("no route to host\nmore")

    monkeypatch.setattr(celeba, "torchvision_module", lambda name: Offline)
    with refused("could not download CelebA (OSError: no route to host)...by hand..."
                 "list_attr_celeba.txt"):
        load(tmp_path, download=True)


# the cache

def test_cache_is_used_and_keyed(plain, copied, cache, monkeypatch):
    first = load(plain)
    assert sorted(p.suffix for p in cache.iterdir()) == [".json", ".npy"]
    with monkeypatch.context() as m:
        m.setattr(archive, "decode_image", lambda *a: pytest.fail("decoded again"))
        assert same(first, load(plain)) and same(first, load(copied))  # the same files elsewhere
    load(plain, size=16)
    (copied / "img_align_celeba" / "000200.jpg").unlink()
    assert len(load(copied)) == 199 and len(list(cache.glob("*.npy"))) == 3


def test_cache_is_keyed_by_content(copied, cache):
    "Neither name, size nor time tell that an image is another."
    first, other = sorted(copied.rglob("*.jpg"))[:2]
    before, stat = load(copied), first.stat()
    content = other.read_bytes().ljust(stat.st_size, b"\0")[:stat.st_size - 2] + b"\xff\xd9"
    first.write_bytes(content)
    os.utime(first, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not same(before, load(copied)) and len(list(cache.glob("*.npy"))) == 2


def test_the_digest_is_of_images_and_labels(plain, copied, tmp_path):
    "Not of where they lie: a zip file of the images is the same."
    zipped = Path(shutil.copytree(plain, tmp_path / "zipped"))
    shutil.make_archive(zipped / "img_align_celeba", "zip", zipped, "img_align_celeba")
    shutil.rmtree(zipped / "img_align_celeba")
    assert celeba_digest(plain) == celeba_digest(copied) == celeba_digest(zipped)
    labels = next(copied.glob("list_attr*"))
    text = labels.read_text()
    labels.write_text(text[:-40] + text[-40:].replace("-1", " 1", 1))
    changed = celeba_digest(copied)
    next(copied.rglob("*.jpg")).write_bytes(b"another")
    assert len({celeba_digest(plain), changed, celeba_digest(copied)}) == 3


def harm_cache(npy, js, how):
    "Damage the cache in one of six ways."
    content = bytearray(npy.read_bytes())
    content[len(content) // 2] ^= 1
    changed = {"flip": content, "cut": content[:-100], "empty": b""}
    if how in changed:
        npy.unlink()
        npy.write_bytes(changed[how])
    elif how == "no json":
        js.unlink()
    else:
        js.write_text("{" if how == "bad json" else "[]")


@pytest.mark.parametrize("how", ["flip", "cut", "empty", "no json", "bad json", "other json"])
def test_damaged_cache_is_rebuilt(plain, cache, how):
    first = load(plain)
    first = FaceDataset(first.x.clone(), first.attributes, first.attribute_names, first.ids)
    harm_cache(next(cache.glob("*.npy")), next(cache.glob("*.json")), how)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert same(first, load(plain))
    assert how == "no json" or "damaged: they are decoded again" in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(first, load(plain))


def test_unwritable_cache_is_a_warning(plain, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="could not be kept in .*FAIRW2_CACHE"):
        d = load(plain, cache=tmp_path / "file" / "below")
    assert same(d, load(plain))


def test_full_disk_is_a_warning(plain, cache, monkeypatch):
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda path: usage)
    with pytest.warns(UserWarning, match="not enough room"):
        assert len(load(plain)) == 200
    assert not list(cache.iterdir())


def test_writing_to_the_images_leaves_the_cache_alone(plain):
    d = load(plain)
    before = d.x.clone()
    d.x.zero_()
    assert torch.equal(load(plain).x, before)


# the dataset that comes out

@pytest.mark.parametrize("take", [
    lambda d: d[3:40:2],
    lambda d: d[[5, 1]],
    lambda d: d[d.s == 1],
    lambda d: d.split(.3, seed=2)[0],
    lambda d: d.split(.3, seed=2, stratify=True)[1],
    lambda d: d.to("cpu"),
    lambda d: d[::-1],
])
def test_everything_survives_taking_rows(plain, take):
    d = load(plain)
    part = take(d)
    assert type(part) is FaceDataset and part.x.dtype == torch.uint8
    assert part.attribute_names == NAMES and part.target == "Attractive"
    for k in ("x", "y", "s", "attributes"):
        assert torch.equal(getattr(part, k), getattr(d, k)[part.ids - 1])


def test_loaders_and_batches(plain):
    d = load(plain)
    x, y, s = next(iter(DataLoader(d, batch_size=7)))
    assert x.dtype == torch.uint8 and torch.equal(x, d.x[:7])
    assert torch.equal(y, d.y[:7]) and torch.equal(s, d.s[:7])
    assert isinstance(d, FairDataset) and next(d.batches(9))[0].dtype == torch.uint8
    assert d.to("meta").attributes.is_meta
    assert repr(d).startswith("FaceDataset: 200 observations")
