"""ResNet-18 with one logit, by torchvision."""
import torch
from fairw2_nb.data.drawn_faces import synthetic_faces
from fairw2_nb.models.networks import CentreBytes, resnet18_logit


def test_resnet_gives_logits_of_bytes():
    model = resnet18_logit(3)
    out = model(synthetic_faces(20, 32, seed=7).x[:4])
    assert out.shape == (4,) and out.requires_grad and isinstance(model[0], CentreBytes)
    assert type(model[1]).__module__ == "torchvision.models.resnet"


def test_weights_come_from_the_seed():
    one, same, other = (resnet18_logit(seed) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters()))
    assert not torch.equal(one[1].fc.weight, other[1].fc.weight)
