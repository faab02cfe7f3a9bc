#!/usr/bin/env python3
"""Everything that needs a GPU, in one script: tools/gpu_check.py [--library FOLDER] [--output FOLDER] STEP...

  build     configures and builds libfaltung_cuda under build/gpu (without it a carried build is used: --library)
  verify    every case of tools/gpu_cases.py and of tests/cases/causal_conv1d.json against cpu.reference in double, with the spec's bounds; poisoned outputs
  promises  bitwise repetition, batch invariance, NaN containment, capture in a CUDA graph, empty batches
  sanitize  compute-sanitizer (memcheck, racecheck, initcheck, synccheck) over a small grid
  sweep     grids of 96 to 1024 points an axis beside the torch.fft chain: prints those that are less than 1.3 times as fast
  bench     device time in CUDA graphs over rotating buffers, the torch.fft chain in the same run; JSON records

--operators chooses among long_conv and causal_conv1d. Exit code 1 when anything failed."""
import argparse
import collections
import concurrent.futures
import importlib
import multiprocessing
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def build():
    folder = os.path.join(ROOT, "build", "gpu")
    for command in (["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DFALTUNG_CUDA=ON", "-DFALTUNG_TESTS=OFF"],
                    ["cmake", "--build", folder]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def sanitize(arguments):
    """The verify step over every `sanitize_every`-th case under each tool, all tools at once."""
    command = [sys.executable, os.path.abspath(__file__), "--library", arguments.library, "--operators", *arguments.operators,
               "--every", str(arguments.sanitize_every), "--small", "verify"]
    runs = {tool: subprocess.Popen(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *command], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True) for tool in TOOLS}
    failures = 0
    for tool, run in runs.items():
        output = run.communicate()[0]
        print(f"sanitize {tool}: {'ok' if run.returncode == 0 else 'FAILED'}", flush=True)
        if run.returncode:
            print("\n".join([line for line in output.splitlines() if line.startswith(("=========", "FAILED"))][:60]))
            failures += 1
    return failures


def run_share(module, function, arguments, share, shares):
    """One share of a step, in a process of its own when there are several."""
    import torch
    from gpu_library import Library
    if shares > 1:
        torch.set_num_threads(max(1, os.cpu_count() // shares))
    return getattr(importlib.import_module(module), function)(Library(arguments.library), arguments, share, shares)


def in_shares(module, function, arguments):
    """The results of all shares of a step, --jobs at a time."""
    if arguments.jobs == 1:
        return [run_share(module, function, arguments, 0, 1)]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(run_share, module, function, arguments, share, arguments.jobs) for share in range(arguments.jobs)]
        return [share.result() for share in shares]


def verify(operator, module, arguments):
    failures, count, worst = 0, 0, collections.defaultdict(float)
    for share_failures, share_count, share_worst in in_shares(module, "verify", arguments):
        failures, count = failures + share_failures, count + share_count
        for key, value in share_worst.items():
            worst[key] = max(worst[key], value)
    for key, value in sorted(worst.items()):
        print(f"  {' '.join(key):45s} worst error / bound {value:.3f}")
    print(f"verify {operator}: {count} cases, {failures} failures", flush=True)
    return failures, count


def promises(arguments):
    failures = sum(in_shares("gpu_verify", "promises", arguments))
    print(f"promises: {failures} failures", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="+", choices=("build", "verify", "promises", "sanitize", "sweep", "bench"))
    parser.add_argument("--operators", nargs="+", choices=("long_conv", "causal_conv1d"), default=["long_conv", "causal_conv1d"])
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "gpu"), help="folder of libfaltung.so and libfaltung_cuda.so")
    parser.add_argument("--output", default=os.path.join(ROOT, "bench", "results", "h200"), help="folder of the JSON records")
    parser.add_argument("--every", type=int, default=1, help="verify every n-th case only")
    parser.add_argument("--jobs", type=int, default=1, help="processes among which verify and promises share their cases")
    parser.add_argument("--small", action="store_true", help="verify small cases only")
    parser.add_argument("--sanitize-every", type=int, default=7)
    parser.add_argument("--sweep-json", help="file of all figures of the sweep")
    parser.add_argument("--seconds", type=float, default=600, help="after which the sweep begins no further shape")
    parser.add_argument("--commit", default="", help="for the records, where the machine has no git checkout")
    parser.add_argument("--cuda-sources", default="", help="likewise: the output of tools/cuda_sources_hash.py")
    parser.add_argument("--only", default="", help="verify cases, bench shapes: those whose name contains one of these, by commas")
    parser.add_argument("--no-peers", action="store_true", help="bench without the torch.fft chain")
    arguments = parser.parse_args()
    failures = 0
    if "build" in arguments.steps:
        arguments.library = build()
    long_conv, causal_conv1d = (name in arguments.operators for name in ("long_conv", "causal_conv1d"))
    if "verify" in arguments.steps:
        modules = {"long_conv": "gpu_verify", "causal_conv1d": "gpu_causal_verify"}
        results = [verify(operator, modules[operator], arguments) for operator in arguments.operators]
        failures += sum(failed for failed, _ in results)
        if not any(count for _, count in results):
            sys.exit(f"verify: no case has '{arguments.only}' in its name: nothing was checked")
    if "promises" in arguments.steps and long_conv:
        failures += promises(arguments)
    if "sanitize" in arguments.steps:
        failures += sanitize(arguments)
    if "sweep" in arguments.steps and long_conv:
        from gpu_library import Library
        from gpu_sweep import sweep
        failures += sweep(Library(arguments.library), arguments)
    if "bench" in arguments.steps:
        if failures:
            print("bench: not run, since the checks before it failed")
        else:
            from gpu_library import Library
            library = Library(arguments.library)
            if long_conv:
                from gpu_bench import bench
                bench(library, arguments)
            if causal_conv1d:
                from gpu_causal_bench import bench
                bench(library, arguments)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
