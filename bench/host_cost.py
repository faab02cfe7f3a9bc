#!/usr/bin/env python3
"""What a call from torch costs on the host, on tensors of one element: microseconds of processor time, the least of several repeats, so
that a busy machine does little harm. Each line is one way to the operator; torch's own multiply stands beside them.

Usage: host_cost.py [--json FILE]
"""
import argparse
import json
import time

import faltung
import torch
from faltung._long_conv_gradients import LongConv

detached = torch.ops.faltung.long_conv_detached.default
detached_backward = torch.ops.faltung.long_conv_backward_detached.default
registered = torch.ops.faltung.long_conv.default


def microseconds(call, calls=2000, repeats=7):
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, time.process_time() - start)
    return best / calls * 1e6


def measure():
    x, k, dy = torch.randn(1, 1, 1), torch.randn(1, 1), torch.randn(1, 1, 1)
    xg, kg = x.clone().requires_grad_(), k.clone().requires_grad_()

    def both(call):
        return lambda: torch.autograd.grad(call(xg, kg), (xg, kg), dy)

    return {
        "operator, forward": microseconds(lambda: detached(x, k)),
        "operator, backward": microseconds(lambda: detached_backward(dy, x, k)),
        "operator with an autograd kernel, nothing requires a gradient": microseconds(lambda: registered(x, k)),
        "faltung.long_conv, nothing requires a gradient": microseconds(lambda: faltung.long_conv(x, k)),
        "faltung.long_conv, recorded": microseconds(lambda: faltung.long_conv(xg, kg)),
        "faltung.long_conv, forward and backward": microseconds(both(faltung.long_conv)),
        "the same by Function.apply": microseconds(both(lambda x, k: LongConv.apply(x, k, None, 0, False, None))),
        "the same by the operator with an autograd kernel": microseconds(both(registered)),
        "torch multiply, nothing requires a gradient": microseconds(lambda: x * k),
        "torch multiply, forward and backward": microseconds(both(lambda x, k: x * k)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures = measure()
    for name, value in figures.items():
        print(f"{value:7.1f} us  {name}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "faltung": faltung.__version__, "microseconds": figures}, file, indent=1)


if __name__ == "__main__":
    main()
