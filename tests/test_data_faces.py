"""CelebA's loader on folders of noise, in every form they may come in, and the generator of drawn faces against its own rates."""
import gzip
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb import celeba_files as cf
from fairw2_nb import faces as ff
from fairw2_nb.data.celeba import NOISE_NAMES, noise_celeba, read_labels
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.drawn_faces import CONFOUNDERS, RATES, LABEL_WEIGHTS, YOUNG, draw_traits, ellipse, synthetic_faces
from fairw2_nb.data.celeba import load_celeba
from fairw2_nb.data.faces import FaceDataset, attribute_ratios
from fairw2_nb.basics.packages import DECLARED, torchvision_module
from fairw2_nb.models.networks import CentreBytes, resnet18_logit
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.testing import assert_close
from torch.utils.data import DataLoader


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


def same(a, b):
    "Two sets hold the same images with the same flags."
    return all(torch.equal(getattr(a, k), getattr(b, k)) for k in ("x", "y", "s", "ids", "attributes")) and a.attribute_names == b.attribute_names


# forms of the data

def test_parts_types_and_pixels(plain):
    train, valid, test, whole = load(plain, ("train", "valid", "test", "all"))
    assert [len(d) for d in (train, valid, test, whole)] == [160, 20, 20, 200]
    assert whole.ids.tolist() == list(range(1, 201)) and test.ids.tolist() == list(range(181, 201))
    assert whole.x.dtype == torch.uint8 and whole.x.shape == (200, 3, 12, 12) and whole.attributes.dtype == torch.uint8
    image = Image.open(plain / "img_align_celeba" / "000017.jpg").resize((12, 12), Image.Resampling.BILINEAR)
    assert np.array_equal(whole.x[16].permute(1, 2, 0), np.asarray(image))
    flags = pd.read_csv(plain / "list_attr_celeba.txt", sep=r"\s+", skiprows=2, header=None, index_col=0)
    assert np.array_equal(whole.attributes, flags.to_numpy() > 0)
    assert torch.equal(whole.y, whole.attribute("Attractive").float()) and torch.equal(whole.s, whole.attribute("Young").long())
    assert whole.groups == ("not Young", "Young") and not whole.notes


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("csv", [False, True])
@pytest.mark.parametrize("low", [-1, 0])
def test_every_form_gives_the_same_data(plain, tmp_path, zipped, csv, low):
    other = noise_celeba(tmp_path / "other", range(1, 201), zipped, csv, low)
    assert same(load(plain, "valid"), load(other, "valid"))


def rearranged(root, to, how):
    "The same files in another layout."
    to.mkdir()
    names, images = ("list_attr_celeba.txt", "list_eval_partition.txt"), sorted((root / "img_align_celeba").iterdir())
    texts = {n: (root / n).read_bytes() for n in names}
    if how == "gz":
        for n in names: (to / f"{n}.gz").write_bytes(gzip.compress(texts[n]))
    elif how == "zip of labels":
        for n in names:
            with zipfile.ZipFile(to / f"{n[:-4]}.zip", "w") as z: z.writestr(n, texts[n])
    elif how == "authors":
        for n, sub in zip(names, ("Anno", "Eval")): (to / sub).mkdir(); (to / sub / n).write_bytes(texts[n])
    elif how == "torchvision":
        shutil.copytree(root, to / "celeba")
        return to
    elif how == "one archive":
        with zipfile.ZipFile(to / "archive.zip", "w") as z:
            for n in names: z.writestr(n, texts[n])
            for i in images: z.write(i, f"img_align_celeba/img_align_celeba/{i.name}"); z.writestr(f"__MACOSX/._{i.name}", b"x")
        return to / "archive.zip"
    else:
        for n in names: (to / n).write_bytes(texts[n].replace(b"\n", b"\r\n") if how == "flat, other line ends" else texts[n])
    if how == "subfolders":
        for k, i in enumerate(images): (to / f"part{k % 3}").mkdir(exist_ok=True); shutil.copy(i, to / f"part{k % 3}")
    elif how == "flat, other line ends":
        for i in images: shutil.copy(i, to)
    elif how == "image folder": shutil.copytree(root / "img_align_celeba", to / "images"); return to / "images"
    elif how == "upper case":
        for i in images: shutil.copy(i, to / f"{i.stem}.JPG")
    else:
        with zipfile.ZipFile(to / "some.zip", "w") as z:
            for i in images: z.write(i, i.name)
    return to


@pytest.mark.parametrize("how", ["gz", "zip of labels", "authors", "torchvision", "one archive", "subfolders", "flat, other line ends", "image folder", "upper case"])
def test_layouts(plain, tmp_path, how):
    assert same(load(plain, "valid"), load(rearranged(plain, tmp_path / "new", how), "valid"))


@settings(max_examples=12)
@given(ids=st.sets(st.integers(1, 200), min_size=40, max_size=60), shape=st.tuples(st.integers(9, 40), st.integers(9, 40)), zipped=st.booleans())
def test_any_subset_of_the_ids(tmp_path_factory, ids, shape, zipped):
    root = noise_celeba(tmp_path_factory.mktemp("subset") / "new", ids, zipped, csv=True, shape=shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        d = load(root)
    flags = pd.read_csv(root / "list_attr_celeba.csv", index_col=0)
    assert d.ids.tolist() == sorted(ids) and f"{len(ids)} of the 200 ids in the label file have a usable image here" in repr(d)
    assert np.array_equal(d.attributes, flags.loc[[f"{i:06d}.jpg" for i in sorted(ids)]] > 0)


def test_grey_png_and_odd_names(copied):
    Image.new("L", (20, 20), 77).save(copied / "img_align_celeba" / "000003.png")
    (copied / "img_align_celeba" / "000003.jpg").unlink()
    for name in ("readme.jpg", "._000004.jpg", "12a.jpg", "000005.gif"): (copied / "img_align_celeba" / name).write_bytes(b"x")
    d = load(copied)
    assert len(d) == 200 and (d.x[2] == 77).all()


def test_labels_elsewhere(plain, tmp_path):
    images = shutil.copytree(plain / "img_align_celeba", tmp_path / "a" / "b")
    with pytest.raises(ValueError, match="The label file list_attr_celeba.txt"): load(images)
    d = load(images, "test", labels=plain / "list_attr_celeba.txt", partition=plain / "list_eval_partition.txt")
    assert same(d, load(plain, "test"))
    with pytest.raises(ValueError, match="does not exist"): load(images, labels=tmp_path / "no.txt")


def test_folder_by_environment_and_default(plain, cache, monkeypatch):
    with pytest.raises(ValueError, match="(?s)celeba does not exist. Put these there.*img_align_celeba.zip.*list_attr_celeba.txt.*FAIRW2_CELEBA.*synthetic_faces"): load(None)
    shutil.copytree(plain, cache / "home" / "fairw2_nb" / "celeba")
    default = load(None)
    shutil.rmtree(cache / "home" / "fairw2_nb" / "celeba")
    monkeypatch.setenv("FAIRW2_CELEBA", str(plain))
    assert same(default, load(None))


# bad input

def test_truncated_images_are_skipped_and_named(copied, tmp_path):
    for i, keep in ((5, .5), (9, .95), (170, 0)):
        f = copied / "img_align_celeba" / f"{i:06d}.jpg"
        f.write_bytes(f.read_bytes()[:int(keep * f.stat().st_size)])
    for _ in range(2): # decoded, then from the cache
        with pytest.warns(UserWarning, match=r"3 of 200 images are damaged or cut short and are left out: 000005.jpg, 000009.jpg, 000170.jpg\.") as said: d = load(copied)
        assert len(said) == 1 and len(d) == 197 and not {5, 9, 170} & set(d.ids.tolist())
    shutil.make_archive(str(tmp_path / "z" / "images"), "zip", copied)
    with pytest.warns(UserWarning, match="3 of 200"): assert same(d, load(tmp_path / "z"))


def test_all_images_damaged_or_none(copied):
    for f in (copied / "img_align_celeba").iterdir(): f.write_bytes(b"x")
    with pytest.warns(UserWarning, match="200 of 200.* and 180 more"), pytest.raises(ValueError, match="None of the 200 images"): load(copied)
    shutil.rmtree(copied / "img_align_celeba")
    with pytest.raises(ValueError, match="(?s)No image such as 000001.jpg.*Put these there"): load(copied)


def test_damaged_zip(plain, tmp_path):
    for name in ("list_attr_celeba.txt", "list_eval_partition.txt"): shutil.copy(plain / name, tmp_path)
    packed = Path(shutil.make_archive(str(tmp_path / "images"), "zip", plain / "img_align_celeba"))
    packed.write_bytes(packed.read_bytes()[:5000])
    with pytest.warns(UserWarning, match="not a whole zip file"), pytest.raises(ValueError, match="No image such as"): load(tmp_path)


@pytest.mark.parametrize("name, near", [("Atractive", "'Attractive'"), ("young", "'Young'"), ("Pale Skin", "'Pale_Skin'"), ("glasses", "'Eyeglasses'"), ("zzz", "There are: Attractive, ")])
@pytest.mark.parametrize("role", ["target", "sensitive"])
def test_misspelt_attribute(plain, cache, name, near, role):
    with pytest.raises(ValueError, match=near): load(plain, **{role: name})
    assert not list(cache.iterdir()) # before anything is decoded


def test_other_bad_requests(plain):
    with pytest.raises(ValueError, match="both 'Young'"): load(plain, target="Young")
    with pytest.raises(ValueError, match="part = 'training': expected"): load(plain, "training")
    with pytest.raises(ValueError, match="size = 0"): load(plain, size=0)
    with pytest.raises(ValueError, match="choose one outside"): load(plain, cache=Path(ff.__file__).parent)


def test_missing_label_files(copied):
    (copied / "list_eval_partition.txt").unlink()
    assert len(load(copied, "all")) == 200 # needs no partition
    with pytest.raises(ValueError, match="(?s)The label file list_eval_partition.txt.*Put these there"): load(copied, "train")
    (copied / "list_attr_celeba.txt").unlink()
    with pytest.raises(ValueError, match="(?s)The label file list_attr_celeba.txt.*Put these there"): load(copied, "all")


def test_images_without_labels(copied):
    path = copied / "list_attr_celeba.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], *lines[9:]]))
    with pytest.warns(UserWarning, match="7 of 200 images have no row in the file of attributes and are left out: 1, 2, 3, 4, 5 and 2 more"): d = load(copied)
    assert d.ids.tolist() == list(range(8, 201))
    path.write_text("\n".join([lines[1], "900000.jpg 1 1 1 1"]))
    with pytest.raises(ValueError, match="belong together"): load(copied)


def test_part_without_images_or_with_one_group(tmp_path):
    root = noise_celeba(tmp_path / "few", range(1, 41), csv=True)
    with pytest.raises(ValueError, match="No image of the part 'test' is here; of the 40 images there are 40 in 'train', 0 in 'valid'"): load(root, "test")
    flags = pd.read_csv(root / "list_attr_celeba.csv", index_col=0)
    flags.assign(Young=1).to_csv(root / "list_attr_celeba.csv")
    with pytest.raises(ValueError, match="All 40 images of the part 'train' have Young = 1"): load(root, "train")


@pytest.mark.parametrize("text, message", [("", "a is empty"), ("3\n", "a is empty"), ("A B\n1.jpg 1 1\n2.jpg 1", "first at '2.jpg'"), ("A B\n1.jpg 1 x", "first at '1.jpg'"),
                                           ("A B C\nz.jpg 1 1 1", "first at 'z.jpg'"), ("A B\n1.jpg 1 1 1 1", "4 numbers in a row and 2 names"), ("A B\n1.jpg 1 1\n2.jpg 1 1 1 1", "cannot be read")])
def test_bad_label_files(text, message):
    with pytest.raises(ValueError, match=message): read_labels(text, "a")


def test_damaged_label_file(copied):
    path = copied / "list_attr_celeba.txt"
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    (copied / "list_attr_celeba.txt.gz").write_bytes(packed[:len(packed) // 2])
    with pytest.raises(ValueError, match="list_attr_celeba.txt.gz is damaged"): load(copied)


def test_column_of_row_numbers(plain, tmp_path):
    root = noise_celeba(tmp_path / "new", range(1, 201), csv=True)
    pd.read_csv(root / "list_attr_celeba.csv").sample(frac=1, random_state=0).to_csv(root / "list_attr_celeba.csv") # and in any order
    assert same(load(plain, "test"), load(root, "test"))


def test_strange_values(copied):
    path = copied / "list_attr_celeba.txt"
    path.write_text(path.read_text().replace("-1", "2"))
    with pytest.raises(ValueError, match="values 1, 2: expected -1 and 1"): load(copied)


def test_download_that_fails(tmp_path, monkeypatch):
    class Offline:
        def CelebA(*a, **k): raise OSError("no route to host\nmore")
    monkeypatch.setattr(ff, "torchvision_module", lambda name: Offline)
    with pytest.raises(ValueError, match=r"(?s)could not download CelebA \(OSError: no route to host\).*by hand.*list_attr_celeba.txt"): load(tmp_path, download=True)


# the cache

def test_cache_is_used_and_keyed(plain, copied, cache, monkeypatch):
    first = load(plain)
    assert sorted(p.suffix for p in cache.iterdir()) == [".json", ".npy"]
    with monkeypatch.context() as m:
        m.setattr(cf, "decode_image", lambda *a: pytest.fail("decoded again"))
        assert same(first, load(plain)) and same(first, load(copied)) # the same files elsewhere
    load(plain, size=16)
    (copied / "img_align_celeba" / "000200.jpg").unlink()
    assert len(load(copied)) == 199 and len(list(cache.glob("*.npy"))) == 3


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "no json", "bad json", "other json"])
def test_damaged_cache_is_rebuilt(plain, cache, harm):
    first = load(plain)
    first = FaceDataset(first.x.clone(), first.attributes, first.attribute_names, first.ids)
    npy, js = next(cache.glob("*.npy")), next(cache.glob("*.json"))
    content = bytearray(npy.read_bytes())
    content[len(content) // 2] ^= 1
    npy_new = {"flip": content, "cut": content[:-100], "empty": b""}.get(harm)
    if npy_new is not None: npy.unlink(); npy.write_bytes(npy_new)
    elif harm == "no json": js.unlink()
    else: js.write_text("{" if harm == "bad json" else "[]")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert same(first, load(plain))
    assert harm == "no json" or "damaged: they are decoded again" in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(first, load(plain))


def test_unwritable_cache_is_a_warning(plain, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="could not be kept in .*FAIRW2_CACHE"): d = load(plain, cache=tmp_path / "file" / "below")
    assert same(d, load(plain))


def test_full_disk_is_a_warning(plain, cache, monkeypatch):
    monkeypatch.setattr(cf.shutil, "disk_usage", lambda p: type("U", (), {"free": 10}))
    with pytest.warns(UserWarning, match="not enough room"): assert len(load(plain)) == 200
    assert not list(cache.iterdir())


def test_writing_to_the_images_leaves_the_cache_alone(plain):
    d = load(plain)
    before = d.x.clone()
    d.x.zero_()
    assert torch.equal(load(plain).x, before)


# the dataset

@pytest.mark.parametrize("take", [lambda d: d[3:40:2], lambda d: d[[5, 1]], lambda d: d[d.s == 1], lambda d: d.split(.3, seed=2)[0], lambda d: d.split(.3, seed=2, stratify=True)[1], lambda d: d.to("cpu"), lambda d: d[::-1]])
def test_everything_survives_taking_rows(plain, take):
    d = load(plain)
    part = take(d)
    rows = part.ids - 1
    assert type(part) is FaceDataset and part.x.dtype == torch.uint8 and part.attribute_names == NOISE_NAMES and part.target == "Attractive"
    assert all(torch.equal(getattr(part, k), getattr(d, k)[rows]) for k in ("x", "y", "s", "attributes"))


def test_loaders_batches_and_fetch(plain):
    d = load(plain)
    x, y, s = next(iter(DataLoader(d, batch_size=7)))
    assert x.dtype == torch.uint8 and torch.equal(x, d.x[:7]) and torch.equal(y, d.y[:7]) and torch.equal(s, d.s[:7])
    assert isinstance(d, FairDataset) and next(d.batches(9))[0].dtype == torch.uint8 and d.to("meta").attributes.is_meta
    assert repr(d).startswith("FaceDataset: 200 observations")


def test_ratios():
    g = torch.Generator().manual_seed(0)
    a = (torch.rand(500, 3, generator=g) < torch.tensor([.2, .5, .5])).to(torch.uint8)
    d = FaceDataset(torch.zeros(500, 3, 2, 2, dtype=torch.uint8), a, ["Male", "Attractive", "Young"])
    r = attribute_ratios(d)
    assert r.loc["Male", "ratio"] == pytest.approx((a[d.s == 0, 0].float().mean() / a[d.s == 1, 0].float().mean()).item(), rel=1e-6)
    assert (r.low < r.ratio).all() and (r.ratio < r.high).all() and list(r.index) == list(r.sort_values("ratio", ascending=False).index)
    a[d.s == 1, 0] = 0
    assert np.isinf(attribute_ratios(FaceDataset(d.x, a, d.attribute_names)).loc["Male", "ratio"])


# drawn faces

@pytest.fixture(scope="module")
def drawn():
    return synthetic_faces(1500, 32, seed=7)


def test_drawn_faces_have_the_interface(drawn):
    assert type(drawn) is FaceDataset and drawn.x.dtype == torch.uint8 and drawn.x.shape == (1500, 3, 32, 32) and "Synthetic" in repr(drawn)
    assert {"Young", "Eyeglasses", "Male", "Pale_Skin", "Attractive", "Smiling", "Gray_Hair"} == set(drawn.attribute_names)
    assert len(drawn.x.flatten(1).unique(dim=0)) == 1500


def test_drawn_rates(drawn):
    r = attribute_ratios(drawn, z=5)
    for name, (p0, p1) in RATES.items(): assert r.low[name] < p0 / p1 < r.high[name]
    assert abs(drawn.s.float().mean() - YOUNG) < 5 * (YOUNG * (1 - YOUNG) / 1500) ** .5
    assert RATES["Eyeglasses"][0] / RATES["Eyeglasses"][1] == pytest.approx(4.71) and RATES["Male"][0] / RATES["Male"][1] == pytest.approx(2.01) and RATES["Pale_Skin"][1] / RATES["Pale_Skin"][0] == pytest.approx(1.8)


def test_confounders_move_the_label():
    t = draw_traits(100_000, np.random.default_rng(1))
    for name, group in CONFOUNDERS.items(): # within the larger group, so that age plays no part
        y = t["Attractive"][t["Young"]]
        has = t[name][t["Young"]]
        assert (y[has].mean() > y[~has].mean() + .1) == (group == 1) and (LABEL_WEIGHTS[name] > 0) == (group == 1)
    assert t["Attractive"][~t["Young"]].mean() / t["Attractive"][t["Young"]].mean() < .4


@settings(max_examples=6)
@given(size=st.integers(16, 80), seed=st.integers(0, 10 ** 6))
def test_any_size_and_seed(size, seed):
    a = synthetic_faces(70, size, seed)
    assert a.x.shape == (70, 3, size, size) and torch.equal(a.x, synthetic_faces(70, size, seed).x)
    assert torch.equal(a.attributes, synthetic_faces(70, 16, seed).attributes)
    assert not torch.equal(a.x, synthetic_faces(70, size, seed + 1).x)


def test_the_pictures_show_the_attributes(drawn):
    x = drawn.x.float()
    top = x[:, :, 4:9, 13:19].std(1).mean((1, 2)) / x[:, :, 4:9, 13:19].mean((1, 2, 3)) # how colourful the hair is
    assert top[drawn.attribute("Gray_Hair") == 1].mean() < .7 * top[drawn.attribute("Gray_Hair") == 0].mean()
    cheek = x[:, :, 17:21, 14:18].mean((1, 2, 3))
    assert cheek[drawn.attribute("Pale_Skin") == 1].mean() > 1.2 * cheek[drawn.attribute("Pale_Skin") == 0].mean()
    assert drawn.x.float().mean((1, 2, 3)).std() > 10


@given(rx=st.floats(.2, .8), ry=st.floats(.2, .8))
@settings(max_examples=10)
def test_area_of_an_ellipse(rx, ry):
    at = (torch.arange(100) + .5) / 50 - 1
    assert_close(ellipse(at.expand(1, 100, 100), at[:, None].expand(1, 100, 100), 0., 0., rx, ry, .02).sum() * .02 ** 2, torch.tensor(torch.pi * rx * ry), rtol=.02, atol=0)


def test_generator_refuses():
    with pytest.raises(ValueError, match="at least 20"): synthetic_faces(5)
    with pytest.raises(ValueError, match="at least 16"): synthetic_faces(50, 4)
    with pytest.raises(ValueError, match="'Eyeglasses'"): synthetic_faces(50, 16, target="glasses")


# the network

def test_network(drawn):
    model = resnet18_logit(3)
    out = model(drawn.x[:4])
    assert out.shape == (4,) and out.requires_grad and type(model[1]).__module__ == "torchvision.models.resnet" and isinstance(model[0], CentreBytes)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), resnet18_logit(3).parameters()))
    assert not torch.equal(model[1].fc.weight, resnet18_logit(4)[1].fc.weight)
    assert len(DECLARED) <= 1 and torchvision_module("datasets").__name__ == "torchvision.datasets"


def test_torchvision_absent(monkeypatch):
    def missing(name): raise ModuleNotFoundError("No module named 'torchvision'", name="torchvision")
    monkeypatch.setattr("fairw2_nb.vision.import_module", missing)
    with pytest.raises(ValueError, match="pip install torchvision"): torchvision_module("models")
