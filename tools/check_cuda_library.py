#!/usr/bin/env python3
"""Checks a build of libfaltung_cuda without a GPU: it loads, it registers its backend, and it holds code for one architecture of each
file with kernels.

Usage: check_cuda_library.py BUILD_FOLDER [ARCHITECTURE, default 90]
"""
import ctypes
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FATBIN_MAGIC = 0xBA55ED50
ELF_KIND = 2  # of an entry of a fat binary; 1 is PTX


def info(core: ctypes.CDLL) -> str:
    text = ctypes.create_string_buffer(4096)
    status = core.faltung_info(text, ctypes.c_int64(len(text)), None)
    if status != 0:
        sys.exit(f"faltung_info: expected status 0, got {status}")
    return text.value.decode()


def kernel_files() -> list[Path]:
    return list((ROOT / "src").rglob("*.cu"))


def compiled_architectures(library: bytes) -> list[int]:
    """The architecture of each piece of machine code in the fat binaries of a library (cuobjdump is not part of every toolkit)."""
    found = []
    at = library.find(struct.pack("<I", FATBIN_MAGIC))
    while at >= 0:
        _, _, header_size, size = struct.unpack_from("<IHHQ", library, at)
        entry, end = at + header_size, at + header_size + size
        if end > len(library):  # the magic number inside something else
            at = library.find(struct.pack("<I", FATBIN_MAGIC), at + 4)
            continue
        while entry < end:
            kind, _, entry_header, payload = struct.unpack_from("<HHIQ", library, entry)
            (architecture,) = struct.unpack_from("<I", library, entry + 28)
            if kind == ELF_KIND:
                found.append(architecture)
            entry += entry_header + payload
        at = library.find(struct.pack("<I", FATBIN_MAGIC), end)
    return found


def main(folder: Path, architecture: int) -> None:
    core_path, cuda_path = folder / "libfaltung.so", folder / "libfaltung_cuda.so"
    core = ctypes.CDLL(str(core_path), mode=ctypes.RTLD_GLOBAL)
    if "cuda backend: not loaded" not in info(core):
        sys.exit(f"before libfaltung_cuda is loaded: expected 'cuda backend: not loaded', got\n{info(core)}")
    ctypes.CDLL(str(cuda_path), mode=ctypes.RTLD_GLOBAL)
    if "cuda backend: loaded" not in info(core):
        sys.exit(f"after libfaltung_cuda was loaded: expected 'cuda backend: loaded', got\n{info(core)}")
    print("libfaltung_cuda registers its backend when it is loaded")

    files = kernel_files()
    if not files:
        print("src/ holds no CUDA kernels yet")
        return
    pieces = compiled_architectures(cuda_path.read_bytes()).count(architecture)
    if pieces < len(files):
        sys.exit(f"expected code for sm_{architecture} from each of {len(files)} files with kernels, got {pieces} pieces")
    print(f"{pieces} pieces of code for sm_{architecture} from {len(files)} files with kernels")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 90)
