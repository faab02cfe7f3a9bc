"""One thread a test process, so that pytest -n 2 does not oversubscribe two cores (test_threads.py sets its own), and NaN in all memory
that torch hands out uninitialised: an output element that nobody writes fails its test.

FALTUNG_TEST_DEVICE=cuda puts the tensors of all tests on a GPU (`./run test` does so where there is one; `test_gpu` in that script says which files)."""

import math
import os

import pytest
import torch

if device := os.environ.get("FALTUNG_TEST_DEVICE"):
    torch.set_default_device(device)  # before the test modules make their tensors


@pytest.fixture(autouse=True)
def one_thread_and_poison():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    # With these torch fills what torch.empty returns. (torch.use_deterministic_algorithms would import Inductor for 5 seconds.)
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    assert math.isnan(torch.empty_strided((2,), (1,))[0])
    yield
    torch._C._set_deterministic_algorithms(False)
