"""Packages that use convolutions, unchanged, with drop-in modules installed. They are fetched by pip (packages.py): nothing of the product
depends on them. Where one can neither be fetched nor imported its tests are skipped, and the last lines of the run say so.

FALTUNG_TEST_DEVICE=cuda puts the tensors of all tests on a GPU; PIP_NO_INDEX=1 keeps pip from asking where there is no network."""

import os

import packages
import pytest
import torch

if device := os.environ.get("FALTUNG_TEST_DEVICE"):
    torch.set_default_device(device)  # before the test modules make their tensors
_missing = pytest.StashKey[dict]()


def pytest_configure(config):
    """The process that hands out tests fetches; its workers find the folders."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # random configurations alone: nothing is downloaded by a test
    reasons = {client: packages.find(client, not hasattr(config, "workerinput")) for client in packages.REQUIREMENTS}
    config.stash[_missing] = {client: reason for client, reason in reasons.items() if reason}


def pytest_ignore_collect(collection_path, config):
    return True if any(collection_path.name.startswith(f"test_{client}") for client in config.stash[_missing]) else None


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash[_missing]:
        session.exitstatus = pytest.ExitCode.OK  # the summary says what was not tested


def pytest_terminal_summary(terminalreporter, config):
    for client, reason in config.stash[_missing].items():
        terminalreporter.section(f"NOT TESTED: {client}", red=True, bold=True)
        terminalreporter.line(f"The drop-ins were NOT tried with {client}: {reason}")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)
    torch.set_num_threads(1)
