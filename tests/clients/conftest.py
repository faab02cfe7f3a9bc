"""Packages that use convolutions, unchanged, with drop-in modules installed. They are fetched by pip into a folder under build/, behind everything
else on the path: nothing of the product depends on them. Where one cannot be fetched its tests are skipped, and the last lines of
the run say so."""

import hashlib
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
}
_missing = pytest.StashKey[dict]()


def _fetch(client):
    """The folder with the client's packages, fetched once; raises CalledProcessError."""
    name = hashlib.sha256(repr((REQUIREMENTS[client], sys.version_info[:2])).encode()).hexdigest()[:12]
    folder = ROOT / "build/clients" / f"{client}-{name}"
    done = folder / ".complete"
    if not done.is_file():
        for arguments in REQUIREMENTS[client]:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder, *arguments]
            subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        done.touch()
    return folder


def pytest_configure(config):
    """Fetches in the one process that hands out tests; each worker then finds the folders."""
    missing = config.stash[_missing] = {}
    os.environ["HF_HUB_OFFLINE"] = "1"  # random configurations alone: nothing is downloaded by a test
    for client in REQUIREMENTS:
        try:
            folder = _fetch(client)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            missing[client] = (error.output or str(error)).strip().splitlines()[-1:]
        else:
            if str(folder) not in sys.path:
                sys.path.append(str(folder))


def pytest_collection_modifyitems(config, items):
    for item in items:
        for client, words in config.stash[_missing].items():
            if f"_{client}" in item.path.name:
                item.add_marker(pytest.mark.skip(reason=f"{client} could not be fetched: {' '.join(words)}"))


def pytest_terminal_summary(terminalreporter, config):
    for client, words in config.stash[_missing].items():
        terminalreporter.section(f"NOT TESTED: {client}", red=True, bold=True)
        terminalreporter.line(f"pip could not fetch {client}, so that the drop-ins were NOT tried with it: {' '.join(words)}")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)
    torch.set_num_threads(1)
