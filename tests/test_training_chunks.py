"""Chunks give the gradient of the whole batch."""
import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.penalty.loss import WassersteinPenalty
from fairw2_nb.penalty.references import Fresh
from fairw2_nb.training.chunks import InChunks
from fairw2_nb.training.loop import fit


@settings(max_examples=25, deadline=None)
@given(n=st.integers(4, 60), chunk=st.integers(1, 70), seed=st.integers(0, 1000),
       p=st.sampled_from([1, 2]))
def test_gradient_of_the_whole_batch(n, chunk, seed, p):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0)).double()
    x, s = torch.randn(n, 3, dtype=torch.float64), torch.arange(n) % 2
    grads = []
    for model in (net, InChunks(net, chunk)):
        net.zero_grad()
        f = model(x).sigmoid()
        (f.square().mean() + WassersteinPenalty(p=p)(f, s)).backward()
        grads.append([w.grad.clone() for w in net.parameters()])
    for a, b in zip(*grads): assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_fit_with_chunks_is_fit_without():
    torch.manual_seed(0)
    data = FairDataset(torch.randn(300, 4), (torch.rand(300) < .5).float(), torch.arange(300) % 2)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0))
    nets = [net, copy.deepcopy(net)]
    histories = [fit(net, data, lam=1., penalty=WassersteinPenalty(reference=Fresh(50)), epochs=3,
                     batch_size=100, progress=False) for net in (nets[0], InChunks(nets[1], 30))]
    assert histories[0][-1]["loss"] == pytest.approx(histories[1][-1]["loss"], rel=1e-4)
    for a, b in zip(nets[0].parameters(), nets[1].parameters()):
        assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_evaluation_leaves_running_statistics_alone():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1), nn.Flatten(0))
    chunked = InChunks(net, 10).eval()
    before = copy.deepcopy(net.state_dict())
    with torch.no_grad(): chunked(torch.randn(50, 3))
    chunked(torch.randn(50, 3)).sum().backward()
    for k, v in net.state_dict().items(): assert torch.equal(v, before[k])


def test_running_statistics_move_once_per_chunk():
    "The second pass of a chunk is not counted."
    net, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), torch.randn(50, 3)
    plain = copy.deepcopy(net)
    out = InChunks(net, 20)(x)
    out.sum().backward()
    assert_close(out, torch.cat([plain(part) for part in x.split(20)]))
    assert net[1].num_batches_tracked == 3
    for a, b in zip(net.buffers(), plain.buffers()): assert_close(a, b)


@pytest.mark.parametrize("chunk", [0, -1, 2.5, "many"])
def test_bad_chunk(chunk):
    with pytest.raises(ValueError, match="expected a number of observations"):
        InChunks(nn.Linear(1, 1), chunk)
