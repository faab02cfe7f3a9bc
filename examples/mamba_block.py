#!/usr/bin/env python3
"""A small Mamba-like block that works on a prompt in one go, in chunks, or token by token, with the same result.

    x -> in_proj -> (u, gate);  u -> causal_conv1d + SiLU -> selective scan;  times SiLU(gate) -> out_proj

What the block remembers between calls is the convolution's last W-1 tokens and the scan's state. The convolution's part is equal bit for bit
however the prompt was cut; the rest is torch's, whose matrix products may round differently for different sizes.

Sources: Gu and Dao 2023, "Mamba" (arXiv:2312.00752); the decay is a number per channel and state, the step size depends on the token.
"""
import argparse
from dataclasses import dataclass

import faltung
import torch
from torch import nn
from torch.nn import functional


@dataclass
class Memory:
    """What a block carries from one call to the next."""

    conv: torch.Tensor  # [batch, channels, width - 1], the last inputs of the convolution
    scan: torch.Tensor  # [batch, channels, states]


class MambaBlock(nn.Module):
    def __init__(self, features: int, channels: int, states: int = 16, width: int = 4):
        super().__init__()
        self.channels, self.states, self.width = channels, states, width
        self.in_proj = nn.Linear(features, 2 * channels, bias=False)
        self.conv_weight = nn.Parameter(torch.randn(channels, width) / width**0.5)
        self.conv_bias = nn.Parameter(torch.zeros(channels))
        self.selection = nn.Linear(channels, 1 + 2 * states, bias=False)  # step size, input and output of the state
        self.step_bias = nn.Parameter(torch.full((channels,), -2.0))
        self.log_decay = nn.Parameter(torch.arange(1, states + 1).float().log().repeat(channels, 1))
        self.skip = nn.Parameter(torch.ones(channels))
        self.out_proj = nn.Linear(channels, features, bias=False)

    def memory(self, batch: int) -> Memory:
        """Of a sequence that has not begun."""
        like = self.conv_weight
        return Memory(like.new_zeros(batch, self.channels, self.width - 1), like.new_zeros(batch, self.channels, self.states))

    def forward(self, x: torch.Tensor, memory: Memory | None = None) -> tuple[torch.Tensor, Memory]:
        """x [batch, time, features], any time: the next tokens after those that `memory` has seen."""
        memory = memory or self.memory(x.shape[0])
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u, conv = faltung.causal_conv1d(
            u, self.conv_weight, self.conv_bias, activation="silu", initial_state=memory.conv, return_final_state=True, channels_last=True
        )
        y, scan = self.scan(u, memory.scan)
        return self.out_proj(y * functional.silu(gate)), Memory(conv, scan)

    @torch.no_grad()
    def step(self, x: torch.Tensor, memory: Memory) -> torch.Tensor:
        """x [batch, features], one token; `memory` changes in place."""
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u = faltung.causal_conv1d_update(u, memory.conv, self.conv_weight, self.conv_bias, activation="silu")
        y, memory.scan = self.scan(u[:, None], memory.scan)
        return self.out_proj(y[:, 0] * functional.silu(gate))

    def scan(self, u: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """u [batch, time, channels]; the recurrence as it is written, one token at a time."""
        step, into, out = self.selection(u).split((1, self.states, self.states), dim=-1)
        step = functional.softplus(step + self.step_bias)
        outputs = []
        for t in range(u.shape[1]):
            decay = torch.exp(-step[:, t, :, None] * self.log_decay.exp())
            state = decay * state + (step[:, t] * u[:, t])[..., None] * into[:, t, None]
            outputs.append((state * out[:, t, None]).sum(-1) + self.skip * u[:, t])
        return torch.stack(outputs, 1) if outputs else torch.zeros_like(u), state


def run(block: MambaBlock, x: torch.Tensor, chunks: list[int], decoded: int) -> tuple[torch.Tensor, Memory]:
    """Prefills x[:, :-decoded] in chunks of these lengths, then decodes the rest token by token."""
    memory, parts = block.memory(x.shape[0]), []
    for part in x[:, : x.shape[1] - decoded].split(chunks, dim=1):
        y, memory = block(part, memory)
        parts.append(y)
    for t in range(x.shape[1] - decoded, x.shape[1]):
        parts.append(block.step(x[:, t], memory)[:, None])
    return torch.cat(parts, 1), memory


def decode_in_a_graph(block: MambaBlock, x: torch.Tensor, memory: Memory) -> torch.Tensor:
    """What block.step() gives for the tokens of x [batch, time, features] one after the other, each one the replay of a CUDA graph."""
    token, scan, trial = x[:, 0].clone(), memory.scan.clone(), Memory(memory.conv.clone(), memory.scan.clone())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries set themselves up in a first call, which must not be captured
        block.step(token, trial)
    torch.cuda.current_stream().wait_stream(side)
    graph, kept = torch.cuda.CUDAGraph(), Memory(memory.conv, scan)
    with torch.cuda.graph(graph):
        y = block.step(token, kept)
        scan.copy_(kept.scan)
    outputs = []
    for t in range(x.shape[1]):
        token.copy_(x[:, t])
        graph.replay()
        outputs.append(y.clone())
    memory.scan = scan
    return torch.stack(outputs, 1)


def convolution_alone(block: MambaBlock, x: torch.Tensor, chunks: list[int], decoded: int) -> torch.Tensor:
    """What the convolution gives on x [batch, time, channels], cut in the same way."""
    state, parts = block.memory(x.shape[0]).conv, []
    options = {"activation": "silu"}
    for part in x[:, : x.shape[1] - decoded].split(chunks, dim=1):
        y, state = faltung.causal_conv1d(
            part, block.conv_weight, block.conv_bias, initial_state=state, return_final_state=True, channels_last=True, **options
        )
        parts.append(y)
    for t in range(x.shape[1] - decoded, x.shape[1]):
        parts.append(faltung.causal_conv1d_update(x[:, t], state, block.conv_weight, block.conv_bias, **options)[:, None])
    return torch.cat(parts, 1)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--decoded", type=int, default=16, help="of them one at a time")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    block = MambaBlock(features=32, channels=64).to(arguments.device, getattr(torch, arguments.dtype))
    x = torch.randn(2, arguments.tokens, 32).to(block.conv_weight)
    prompt = arguments.tokens - arguments.decoded
    chunks = [prompt // 3, prompt // 2, prompt - prompt // 3 - prompt // 2]
    whole, _ = block(x)
    pieces, _ = run(block, x, chunks, arguments.decoded)
    u = block.in_proj(x)[..., : block.channels]
    same = torch.equal(convolution_alone(block, u, [arguments.tokens], 0), convolution_alone(block, u, chunks, arguments.decoded))
    difference = float((whole - pieces).float().norm() / whole.float().norm())
    print(f"{prompt} tokens in chunks of {chunks}, then {arguments.decoded} one by one, against all at once:")
    print(f"  the convolution: {'the same bits' if same else 'DIFFERENT BITS'}")
    print(f"  the whole block: relative difference {difference:.1e} (matrix products of other sizes round differently)")
    if arguments.device == "cuda":
        memory = block.memory(x.shape[0])
        y, memory = block(x[:, :prompt], memory)
        graphed = torch.cat([y, decode_in_a_graph(block, x[:, prompt:], memory)], 1)
        difference = float((whole - graphed).float().norm() / whole.float().norm())
        print(f"  decoded in a CUDA graph: relative difference {difference:.1e}")
        same = same and difference < (1e-5 if arguments.dtype == "float32" else 3e-2)
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
