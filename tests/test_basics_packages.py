"""torchvision by one careful import, or a sentence."""
import pytest
from fairw2_nb.basics.packages import DECLARED, torchvision_module


def test_torchvision_is_found():
    assert torchvision_module("datasets").__name__ == "torchvision.datasets"
    assert len(DECLARED) <= 1


def test_torchvision_absent(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'torchvision'", name="torchvision")

    monkeypatch.setattr("fairw2_nb.basics.packages.import_module", missing)
    with pytest.raises(ValueError, match="pip install torchvision"):
        torchvision_module("models")
