"""One thread a test process, so that pytest -n 2 does not oversubscribe two cores; test_threads.py sets its own."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(1)
