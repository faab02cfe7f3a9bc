"""Packages that use convolutions, unchanged, with drop-in modules installed. They are fetched by pip into a folder under build/, behind everything
else on the path: nothing of the product depends on them. Where one can neither be fetched nor imported its tests are skipped, and the last lines
of the run say so.

FALTUNG_TEST_DEVICE=cuda puts the tensors of all tests on a GPU; PIP_NO_INDEX=1 keeps pip from asking where there is no network."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
# By client, what pip installs, in order. nvsubquadratic asks for a torch and for training frameworks that its operators do not need.
REQUIREMENTS = {
    "nvsubquadratic": (("--no-deps", "nvsubquadratic==0.2.0"), ("einops", "omegaconf", "rich")),
    "transformers": (("transformers==5.24.0",),),
    "cudnn": (("--no-deps", "nvidia-cudnn-frontend==1.32.0"),),
    "fla": (("--no-deps", "fla-core==0.6.0"), ("einops",)),
}
# What a client imports besides, too large to fetch for a test: torch for CUDA brings it.
NEEDS = {"fla": "triton"}
if device := os.environ.get("FALTUNG_TEST_DEVICE"):
    torch.set_default_device(device)  # before the test modules make their tensors
_missing = pytest.StashKey[dict]()


def _folder(client):
    name = hashlib.sha256(repr((REQUIREMENTS[client], sys.version_info[:2])).encode()).hexdigest()[:12]
    return ROOT / "build/clients" / f"{client}-{name}"


def _fetch(client):
    """Why the client's packages are not in their folder, or nothing."""
    if (_folder(client) / ".complete").is_file():
        return None
    for arguments in REQUIREMENTS[client]:
        target = ("--quiet", "--disable-pip-version-check", "--target", _folder(client))
        command = [sys.executable, "-m", "pip", "install", *target, *arguments]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return "pip took more than ten minutes"
        if done.returncode:
            return "pip could not fetch it: " + (done.stdout.strip().splitlines() or ["no reason given"])[-1]
    (_folder(client) / ".complete").touch()
    return None


def _find(client, fetch):
    """Why the client cannot be imported, or nothing; its folder is on the path then."""
    needs = NEEDS.get(client)
    if needs and importlib.util.find_spec(needs) is None:
        return f"it needs {needs}, which is not installed"
    reason = _fetch(client) if fetch else None
    if reason is None and (_folder(client) / ".complete").is_file():
        sys.path.append(str(_folder(client)))
    return None if importlib.util.find_spec(client) else reason or "it was not fetched"


def pytest_configure(config):
    """The process that hands out tests fetches; its workers find the folders."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # random configurations alone: nothing is downloaded by a test
    reasons = {client: _find(client, not hasattr(config, "workerinput")) for client in REQUIREMENTS}
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
