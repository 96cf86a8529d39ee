"""Files, optional packages and pages: refused in words, whole or not at all."""
import os
from pathlib import Path

import fairw2_nb.basics.files as bf
import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch
from fairw2_nb.basics.packages import installed, out_of_memory, peer_version
from fairw2_nb.basics.webpage import html_page


def test_folders_by_argument_variable_and_default(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRW2_X", str(tmp_path / "b"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert bf.user_dir(tmp_path / "a", "FAIRW2_X", "x") == tmp_path / "a"
    assert bf.user_dir(None, "FAIRW2_X", "x") == tmp_path / "b"
    assert bf.user_dir(None, "FAIRW2_Y", "x") == tmp_path / "c" / "fairw2_nb" / "x"


@pytest.mark.parametrize("folder", ["", "data", "../cache"])
def test_no_cache_beside_the_package(folder):
    with pytest.raises(ValueError, match="choose one outside"):
        bf.cache_dir(bf.package_dir() / folder)


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "report.html"
    for name in ("report.html", "report-2.html", "report-3.html"):
        assert bf.free_path(path).name == name
        bf.free_path(path).touch()


refused = {
    "a folder": (lambda d: bf.check_writable(d), "is a folder: give the name of a file"),
    "no folder": (lambda d: bf.check_writable(d / "a" / "b.html"), "does not exist: create it"),
    "a file in the way": (lambda d: bf.make_folder(d / "file"), "is not a folder"),
    "a file as parent": (lambda d: bf.write_whole(d / "file" / "b.html", ""), "does not exist"),
}


@pytest.mark.parametrize("name", refused)
def test_what_cannot_be_written_is_a_value_error(name, tmp_path):
    (tmp_path / "file").touch()
    call, words = refused[name]
    with pytest.raises(ValueError, match=words):
        call(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="cannot be written to"):
        bf.check_writable(tmp_path / "a.html")


def test_a_file_is_whole_or_not_there(monkeypatch, tmp_path):
    path = bf.write_whole(tmp_path / "a.html", "before λ")
    def full(file):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(bf.os, "fsync", full)
    with pytest.raises(ValueError, match="could not be written to: No space left on device"):
        bf.write_whole(path, "after")
    assert path.read_bytes() == "before λ".encode() and list(tmp_path.iterdir()) == [path]


def test_a_planted_link_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("mine")
    (tmp_path / f"a.html.{os.getpid()}.part").symlink_to(tmp_path / "secret")
    bf.write_whole(tmp_path / "a.html", b"page")
    assert (tmp_path / "secret").read_text() == "mine"
    assert not (tmp_path / "a.html").is_symlink()


def test_peers_by_name():
    assert installed("torch") and not installed("fairness-by-magic")
    assert peer_version(None) == "" and peer_version("torch") == f"torch {torch.__version__}"
    with pytest.raises(ValueError, match=r'pip install "fairw2_nb\[peers\]"'):
        peer_version("fairness-by-magic")


def test_the_allocators_words_are_known():
    with pytest.raises(RuntimeError) as error:
        torch.empty(2 ** 50)
    assert out_of_memory(error.value) and out_of_memory(MemoryError())
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not out_of_memory(RuntimeError("shapes differ")) and not out_of_memory(OSError("memory"))


def test_a_page_escapes_all_text_and_asks_for_nothing():
    figure, _ = plt.subplots(figsize=(1, 1))
    table, bad = pd.DataFrame({"<b>": ["<i>"]}), "<script>'\"&"
    page = html_page(bad, bad, table, figure, bad, bad)
    assert not any(word in page for word in ("<script", "<b>", "<i>", "://", "src='/"))
    assert page.count("&lt;script&gt;") == 5 and page.count("<img") == 1
    assert "<img" not in html_page("a", "b", table)
