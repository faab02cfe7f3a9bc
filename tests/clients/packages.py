"""Fetches packages of other people by pip, into folders under build/clients/ that come last on the path."""

import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

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


def find(client, fetch=True):
    """Why the client cannot be imported, or nothing; its folder is on the path then."""
    needs = NEEDS.get(client)
    if needs and importlib.util.find_spec(needs) is None:
        return f"it needs {needs}, which is not installed"
    reason = _fetch(client) if fetch else None
    if reason is None and (_folder(client) / ".complete").is_file():
        sys.path.append(str(_folder(client)))
    return None if importlib.util.find_spec(client) else reason or "it was not fetched"
