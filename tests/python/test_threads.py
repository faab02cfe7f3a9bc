"""Threads are torch's: torch.set_num_threads is obeyed, and no bit depends on their number."""

import os
import pathlib

import faltung
import pytest
import torch


def results(threads, shape, filters):
    torch.set_num_threads(threads)
    torch.manual_seed(5)
    x = torch.randn(shape, requires_grad=True)
    k = torch.randn(shape[1], *filters, requires_grad=True)
    s = torch.randn(shape[1], requires_grad=True)
    y = faltung.long_conv(x, k, s)
    return y, *torch.autograd.grad(y, (x, k, s), torch.randn(shape))


@pytest.mark.parametrize(
    "shape, filters", [((3, 5, 9, 11), (17, 21)), ((1, 3, 16, 16), (31, 31)), ((2, 2, 300), (300,)), ((2, 3, 4, 5, 6), (7, 9, 11))]
)
def test_bits_do_not_depend_on_the_number_of_threads(shape, filters):
    one = results(1, shape, filters)
    for threads in (2, 3):
        assert all(map(torch.equal, one, results(threads, shape, filters)))


def test_no_threads_of_its_own():
    """After calls with one torch thread the process has no more threads than before: the library's pool is not started."""
    torch.set_num_threads(1)
    before = len(list(pathlib.Path(f"/proc/{os.getpid()}/task").iterdir()))
    results(1, (8, 8, 16, 16), (31, 31))
    assert len(list(pathlib.Path(f"/proc/{os.getpid()}/task").iterdir())) <= before + 1  # autograd's own worker
