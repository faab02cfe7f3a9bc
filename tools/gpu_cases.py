"""The grid of long_conv problems that tools/gpu_check.py compares with the double reference."""
import itertools
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Case:
    batch: int
    channels: int
    extents: tuple
    filters: tuple
    dtype: torch.dtype
    filter_dtype: torch.dtype = None
    boundary: object = "zero"
    centre: tuple = None
    per_sample: bool = False
    shortcut: bool = False
    channels_last: bool = False
    mean: float = 0.0
    spread: bool = False         # images of very different magnitude
    filter_shape: str = "white"  # or decaying, smooth
    view: str = "contiguous"     # or sliced, offset, expanded (dy of stride 0)

    def __str__(self):
        name = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
        size = "x".join(map(str, self.extents)) + " k " + "x".join(map(str, self.filters))
        flags = [f"k {name[self.filter_dtype]}"] if self.filter_dtype else []
        flags += [str(self.boundary)] if self.boundary != "zero" else []
        flags += [f"centre {self.centre}"] if self.centre else []
        flags += [flag for flag in ("per_sample", "shortcut", "channels_last", "spread") if getattr(self, flag)]
        flags += [f"mean {self.mean:g}"] if self.mean else []
        flags += [self.filter_shape] if self.filter_shape != "white" else []
        flags += [self.view] if self.view != "contiguous" else []
        return f"{name[self.dtype]} B{self.batch} C{self.channels} {size} {' '.join(flags)}".strip()


BF16, FP16, FP32, FP64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
ALL = (BF16, FP16, FP32, FP64)


def full(*extents):
    return tuple(2 * n - 1 for n in extents)


def line_cases():
    """One axis in 16 bits: cuda.line."""
    for dtype in (BF16, FP16):
        for n in (66, 127, 128, 129, 1000, 1024, 2048):
            yield Case(8, 2, (n,), (n,), dtype, boundary="causal", shortcut=n % 2 == 0)
            yield Case(3, 2, (n,), (2 * n - 1,), dtype, shortcut=n % 2 == 1)
        for b in (1, 2, 3, 4, 5, 9, 17):
            yield Case(b, 3, (700,), (700,), dtype, boundary="causal", spread=True)
        for n, k in ((1030, 1), (1030, 7), (1030, 256), (2000, 257), (9000, 31), (30000, 65), (300, 5000)):
            yield Case(2, 2, (n,), (k,), dtype, boundary="causal")
            yield Case(5, 1, (n,), (k,), dtype)
        for centre in (-400, -3, 5, 600, 1500):
            yield Case(2, 2, (520,), (777,), dtype, centre=(centre,))
        for n, k in ((520, 520), (520, 100), (777, 776)):
            yield Case(3, 2, (n,), (k,), dtype, boundary="circular", shortcut=True)
            yield Case(3, 2, (n,), (k,), dtype, per_sample=True)
        for view in ("sliced", "offset", "expanded"):
            yield Case(3, 2, (640,), (640,), dtype, boundary="causal", view=view)
        yield Case(9, 2, (640,), (640,), dtype, boundary="causal", channels_last=True, shortcut=True)
        yield Case(4, 2, (4096,), (4096,), dtype, boundary="causal", mean=8.0)
        yield Case(2, 2, (8000,), (8000,), dtype, boundary="causal", filter_shape="decaying")
        yield Case(2, 1400, (200,), (200,), dtype, boundary="causal")
    # Long causal axes, above 8,192 points by segments of cuda.transformed.
    for n, shape in itertools.product((2048, 4096), ("white", "decaying", "smooth")):
        for mean in (0.0, 8.0, 100.0):
            yield Case(8, 2, (n,), (n,), BF16, boundary="causal", mean=mean, filter_shape=shape)
    for b, n, k in ((8, 1537, 1537), (3, 1537, 2000), (1, 2500, 1600), (9, 3001, 3001), (2, 4000, 9000), (5, 6001, 6001), (4, 8192, 8192)):
        yield Case(b, 2, (n,), (k,), BF16, boundary="causal", shortcut=n % 2 == 0, spread=b > 4)
        yield Case(b, 2, (n,), (k,), BF16, boundary="causal", per_sample=True, channels_last=n % 2 == 1)
    for view in ("sliced", "offset", "expanded"):
        yield Case(3, 2, (2048,), (2048,), BF16, boundary="causal", view=view)
    for dtype, n in itertools.product((BF16, FP16), (17000, 32768)):
        yield Case(2, 2, (n,), (n,), dtype, boundary="causal", shortcut=True)
        yield Case(2, 2, (n,), (9000,), dtype, boundary="causal", per_sample=True)
    yield Case(2, 3, (20000,), (20000,), BF16, filter_dtype=FP32, boundary="causal")
    for n, k, boundary in ((300, 300, "causal"), (1024, 2047, "zero"), (515, 500, "circular"), (2000, 33, "zero")):
        yield Case(3, 2, (n,), (k,), BF16, filter_dtype=FP32, boundary=boundary, shortcut=True)
        yield Case(2, 2, (n,), (k,), BF16, filter_dtype=FP32, boundary=boundary, per_sample=True, mean=8.0)


def cases():
    # The benched sizes, in every dtype.
    for dtype, n in itertools.product(ALL, (16, 32)):
        yield Case(8, 3, (n, n), full(n, n), dtype)
    for dtype in ALL:
        yield Case(3, 2, (64, 64), full(64, 64), dtype)
    # Any H and W, odd and even, and any filter: same, longer than 2N, one tap.
    for (h, w), dtype in itertools.product(((1, 1), (1, 7), (2, 3), (5, 7), (14, 14), (15, 14), (16, 17), (9, 31), (32, 24), (33, 16),
                                            (64, 16), (40, 33), (48, 48), (63, 61)), (BF16, FP16, FP32)):
        yield Case(2, 2, (h, w), full(h, w), dtype)
    for dtype, k in itertools.product((BF16, FP16, FP32), ((1, 1), (3, 4), (4, 3), (7, 7), (13, 12), (31, 31), (32, 32), (70, 69))):
        yield Case(2, 3, (32, 32), k, dtype)
        yield Case(2, 3, (16, 16), k, dtype)
    for k in ((7, 7), (13, 13), (31, 31)):
        yield Case(2, 2, (48, 64), k, BF16)
    # Batches around the tile of eight images.
    for b, n in itertools.product((1, 2, 7, 8, 9, 17, 32), (14, 32)):
        yield Case(b, 3, (n, n), full(n, n), BF16)
    for b in (1, 3, 9):
        yield Case(b, 2, (64, 64), full(64, 64), BF16)
        yield Case(b, 2, (40, 64), full(40, 64), FP16)
    for dtype, n in itertools.product((BF16, FP16), (32, 64)):
        yield Case(27, 2, (n, n), full(n, n), dtype, spread=True)
        yield Case(5, 2, (n, n), full(n, n), dtype, per_sample=True, spread=True, shortcut=True)
    yield Case(3, 70000 // 50, (4, 4), (7, 7), BF16)
    yield Case(7000, 2, (4, 4), (7, 7), FP16)
    # Boundaries and centres.
    for dtype, boundary in itertools.product((BF16, FP16, FP32, FP64), ("circular", "causal", ("circular", "causal"), ("zero", "circular"))):
        for extents, filters in (((14, 14), (14, 14)), ((16, 12), (5, 6)), ((9, 10), (25, 27)), ((32, 32), (32, 31)), ((40, 40), (40, 39))):
            yield Case(3, 2, extents, filters, dtype, boundary=boundary)
    for centre in ((0, 0), (5, -3), (30, 30), (40, 2), (-17, 0)):
        yield Case(2, 2, (16, 16), (31, 31), BF16, centre=centre)
        yield Case(2, 2, (20, 24), (9, 10), FP32, centre=centre)
        yield Case(2, 2, (40, 40), (79, 79), BF16, centre=centre)
    # Layouts, views, filters per sample, shortcuts, mixed dtypes.
    for dtype, n in itertools.product((BF16, FP16, FP32), (14, 16, 32, 40, 64)):
        if dtype == FP16 and n < 32:
            continue
        filters = full(n, n)
        small = 1 if n == 64 else 3
        yield Case(small, 2, (n, n), filters, dtype, channels_last=True, shortcut=True)
        yield Case(small, 2, (n, n), filters, dtype, per_sample=True)
        yield Case(small, 2, (n, n), filters, dtype, shortcut=True)
        for name in ("sliced", "offset", "expanded"):
            yield Case(small, 2, (n, n), filters, dtype, view=name)
    for dtype, filter_dtype in ((BF16, FP32), (FP16, FP32), (FP32, BF16), (FP32, FP64), (BF16, FP16)):
        yield Case(2, 2, (16, 16), (31, 31), dtype, filter_dtype=filter_dtype)
    for dtype, extents in itertools.product((BF16, FP16), ((14, 15), (32, 32), (40, 16))):
        yield Case(9, 2, extents, full(*extents), dtype, filter_dtype=FP32, shortcut=True)
        yield Case(3, 2, extents, (7, 8), dtype, filter_dtype=FP32, boundary="circular", channels_last=True)
        yield Case(2, 2, extents, extents, dtype, filter_dtype=FP32, boundary="causal", per_sample=True, mean=8.0)
    for extents, per_sample in itertools.product(((32, 30), (64, 64), (40, 48)), (False, True)):
        yield Case(3, 2, extents, full(*extents), BF16, filter_dtype=FP32, per_sample=per_sample, mean=8.0)
    yield Case(19, 2, (32, 32), full(32, 32), BF16, filter_dtype=FP32, spread=True)
    # Channels last with channels enough to go through planes.
    for dtype, (channels, extents, filters) in itertools.product(ALL, ((16, (16, 16), (31, 31)), (40, (9, 31), (5, 61)), (33, (32, 32), (63, 62)), (70, (65,), (129,)),
                                                                       (35, (66, 70), (131, 139)), (17, (5, 6, 7), (5, 3, 13)))):
        yield Case(2, channels, extents, filters, dtype, channels_last=True, shortcut=channels % 2 == 0, per_sample=channels == 33)
    yield Case(2, 48, (16, 16), (31, 31), BF16, filter_dtype=FP32, channels_last=True, boundary="circular")
    # Means and filters.
    for dtype, mean, shape, n in itertools.product((BF16, FP16, FP32), (0.0, 8.0, 100.0), ("white", "decaying", "smooth"), (16, 32)):
        yield Case(4, 2, (n, n), full(n, n), dtype, mean=mean, filter_shape=shape)
    for dtype, mean in itertools.product((BF16, FP16), (8.0, 100.0)):
        yield Case(2, 2, (64, 64), full(64, 64), dtype, mean=mean)
    # One and three axes.
    for dtype in ALL:
        yield Case(2, 3, (31,), (61,), dtype)
        yield Case(2, 2, (1000,), (1000,), dtype, boundary="causal")
        yield Case(2, 2, (1021,), (77,), dtype)
        yield Case(1, 2, (6, 7, 9), (11, 13, 17), dtype)
        yield Case(2, 2, (5, 8, 8), (3, 3, 4), dtype, boundary=("causal", "zero", "circular"))
    yield Case(1, 2, (5999,), (33,), BF16)
    yield Case(2, 2, (20, 20, 10), (3, 3, 3), FP16)
    # Grids above 64 points, and fp32 and fp64 of any size: cuda.transformed, some in 16 bits cuda.spectral_passes.
    for dtype, extents in itertools.product(ALL, ((96, 96), (65, 130), (128, 128), (17, 300), (200, 33))):
        yield Case(2, 2, extents, full(*extents), dtype)
    for dtype in (BF16, FP32, FP64):
        yield Case(2, 2, (100, 128), (100, 128), dtype, boundary="circular", shortcut=True)
        yield Case(2, 2, (128, 96), (301, 40), dtype, boundary="circular")
        yield Case(3, 2, (90, 110), (31, 20), dtype, channels_last=True, per_sample=True, shortcut=True)
        yield Case(2, 2, (72, 80), (9, 160), dtype, centre=(-20, 100), view="sliced")
        yield Case(2, 2, (80, 72), (80, 72), dtype, boundary=("zero", "causal"))
        yield Case(2, 2, (80, 72), (80, 72), dtype, boundary=("causal", "circular"))
        yield Case(2, 2, (70, 72), (70, 72), dtype, boundary="causal")
        yield Case(35, 1, (66, 67), (131, 133), dtype, view="expanded")
        for length, filters in ((100, 199), (2048, 4095), (4097, 4097), (10000, 777), (65536, 65536), (100003, 200005)):
            yield Case(2, 2, (length,), (filters,), dtype, shortcut=length < 5000)
            yield Case(2, 1, (length,), (min(length, filters),), dtype, boundary="circular", per_sample=True)
            yield Case(2, 2, (length,), (min(length, filters),), dtype, boundary="causal", shortcut=True)
        yield Case(2, 1, (12, 70, 20), (23, 70, 39), dtype, boundary=("zero", "circular", "zero"), shortcut=True)
        yield Case(1, 2, (33, 20, 66), (65, 39, 131), dtype)
        yield Case(1, 2, (33, 16, 34), (33, 16, 67), dtype, boundary=("circular", "causal", "zero"), channels_last=True)
        yield Case(1, 1, (500, 700), (999, 1399), dtype)
    yield Case(1, 1, (1000000,), (1000000,), FP32)
    # Circular rows of exactly a length that is transformed.
    for dtype in ALL:
        for extents, filters, boundary in (((20, 32), (5, 40), "circular"), ((96, 160), (96, 160), "circular"), ((33, 64), (33, 64), ("causal", "circular")),
                                           ((70, 128), (70, 128), ("zero", "circular")), ((10, 12, 32), (19, 12, 32), ("zero", "circular", "circular")),
                                           ((9, 20, 32), (9, 20, 17), ("causal", "causal", "circular")), ((256, 640), (3, 600), "circular")):
            yield Case(2, 2, extents, filters, dtype, boundary=boundary, shortcut=extents[0] == 96, per_sample=extents[0] == 70)
    yield Case(2, 2, (64, 128), (64, 128), FP32, boundary="circular", filter_shape="smooth", mean=8.0)
    # Small filters over tiles.
    for dtype in ALL:
        for extents, filters, boundary in (((40, 70), (7, 7), "zero"), ((50, 165), (13, 12), "zero"), ((33, 130), (20, 20), "circular"), ((70, 90), (5, 9), "causal"),
                                           ((5, 70, 40), (3, 5, 7), "zero"), ((9, 18, 133), (7, 7, 7), ("circular", "zero", "causal"))):
            yield Case(3, 2, extents, filters, dtype, boundary=boundary, shortcut=extents[1] == 70)
        yield Case(2, 18, (70, 66), (3, 32), dtype, boundary=("circular", "zero"), per_sample=True, channels_last=True)
        yield Case(2, 2, (66, 80), (31, 12), dtype, centre=(40, -3), view="sliced")
    yield Case(2, 2, (70, 70), (7, 7), BF16, filter_dtype=FP32)
    # Two causal axes in tiles, and long causal axes in blocks.
    for dtype in ALL:
        for extents, filters in (((33, 20), (33, 20)), ((20, 97), (20, 97)), ((64, 64), (64, 64)), ((97, 131), (97, 131)), ((130, 257), (40, 300)), ((100, 130), (7, 5))):
            yield Case(3, 2, extents, filters, dtype, boundary="causal", shortcut=extents[0] == 97)
        yield Case(2, 18, (70, 40), (70, 40), dtype, boundary="causal", channels_last=True, per_sample=True)
        for extents, filters, boundary in (((9, 20, 17), (9, 20, 17), ("causal", "causal", "zero")), ((20, 9, 37), (20, 13, 37), ("causal", "circular", "causal")),
                                           ((8, 21, 70), (15, 21, 10), ("zero", "causal", "causal")), ((40, 50, 24), (40, 50, 24), ("causal", "causal", "zero")),
                                           ((9, 20, 17), (9, 20, 17), "causal"), ((33, 21, 18), (33, 21, 10), "causal")):
            yield Case(2, 2, extents, filters, dtype, boundary=boundary, shortcut=extents[0] == 20)
        yield Case(2, 2, (140, 24), (140, 24), dtype, boundary=("causal", "zero"))
        yield Case(1, 1, (24, 600), (20, 600), dtype, boundary=("circular", "causal"))
        yield Case(1, 1, (12, 1100), (12, 1500), dtype, boundary=("zero", "causal"))
        yield Case(1, 2, (10, 12, 150), (19, 12, 150), dtype, boundary=("zero", "circular", "causal"))
    # 16 bits on 49 to 128 points an axis: cuda.spectral_passes.
    for dtype in (BF16, FP16):
        for extents in ((65, 128), (128, 65), (66, 67), (49, 100), (127, 128), (100, 96)):
            yield Case(3, 2, extents, full(*extents), dtype)
        for batch in (1, 8, 9, 17):
            yield Case(batch, 3, (128, 128), full(128, 128), dtype)
        for filters in ((7, 7), (31, 31), (1, 1), (128, 127), (300, 20), (256, 256)):
            yield Case(2, 2, (128, 128), filters, dtype, shortcut=True)
        for boundary in ("circular", ("zero", "circular"), ("circular", "zero")):
            yield Case(3, 2, (100, 128), (100, 128), dtype, boundary=boundary)
            yield Case(2, 2, (128, 72), (99, 31), dtype, boundary=boundary, per_sample=True)
        for centre in ((0, 0), (65, -5), (-20, 70), (150, 3)):
            yield Case(1, 1, (66, 72), (131, 143), dtype, centre=centre)
        for view in ("sliced", "offset", "expanded"):
            yield Case(2, 2, (128, 120), (255, 239), dtype, view=view, shortcut=True)
        yield Case(3, 5, (128, 128), (255, 255), dtype, channels_last=True, shortcut=True)
        yield Case(11, 2, (96, 128), (191, 255), dtype, per_sample=True, shortcut=True, spread=True)
        yield Case(27, 2, (128, 128), (255, 255), dtype, spread=True)
        for mean, shape in ((8.0, "white"), (100.0, "white"), (0.0, "smooth"), (0.0, "decaying"), (100.0, "smooth"), (100.0, "decaying")):
            yield Case(2, 2, (128, 128), full(128, 128), dtype, mean=mean, filter_shape=shape)
    for extents, boundary in (((128, 128), "zero"), ((100, 104), "circular")):
        yield Case(9, 2, extents, extents, BF16, filter_dtype=FP32, boundary=boundary, mean=8.0)
    # Lengths of three and five times powers of two.
    for dtype in (BF16, FP32):
        yield Case(2, 2, (75, 150), (149, 100), dtype, shortcut=True)
        yield Case(18, 2, (136, 40), (271, 79), dtype)
        yield Case(2, 2, (96, 80), (96, 80), dtype, boundary="circular", per_sample=True)
        yield Case(1, 2, (20, 18, 70), (39, 35, 139), dtype)
        yield Case(1, 2, (70, 20, 18), (70, 35, 35), dtype, boundary=("causal", "zero", "zero"))
        for length in (66, 150, 190, 1500, 2600, 3000):
            yield Case(2, 300, (length,), (2 * length - 1,), dtype)
    for n, shape in itertools.product((33, 48, 64), ("smooth", "decaying")):
        yield Case(2, 2, (n, n), full(n, n), FP32, filter_shape=shape)
        yield Case(2, 2, (n * 10,), (n * 20 - 1,), FP32, filter_shape=shape, mean=8.0)
    yield Case(2, 2, (50,), (99,), FP32, filter_shape="smooth", mean=100.0)
    yield from line_cases()
    yield from onchip_cases()


def onchip_cases():
    """fp32 grids of 9 to 64 points."""
    for mean, shape in itertools.product((0.0, 8.0, 100.0), ("white", "decaying", "smooth")):
        yield Case(4, 2, (64, 64), full(64, 64), FP32, mean=mean, filter_shape=shape)
    for extents, batch in itertools.product(((64, 37), (32, 19), (16, 11)), (1, 7, 16, 17, 35)):
        yield Case(batch, 3, extents, full(*extents), FP32, shortcut=batch == 17)
    for extents, filters, boundary in (((64, 48), (64, 48), "circular"), ((33, 64), (130, 201), "circular"), ((64, 50), (7, 50), ("zero", "circular")),
                                       ((40, 64), (150, 200), "zero"), ((64, 64), (7, 31), "zero"), ((48, 40), (48, 40), ("causal", "zero")),
                                       ((16, 13), (37, 50), "circular"), ((12, 16), (40, 70), "zero"), ((10, 16), (10, 3), ("causal", "circular")), ((32, 23), (50, 61), "circular"),
                                       ((25, 32), (25, 90), ("circular", "zero"))):
        yield Case(3, 2, extents, filters, FP32, boundary=boundary)
        yield Case(3, 2, extents, filters, FP32, boundary=boundary, per_sample=True, shortcut=True, channels_last=True)
    for extents, centre in itertools.product(((64, 40), (20, 32), (16, 10)), ((0, 0), (90, -3), (-17, 40))):
        yield Case(2, 2, extents, (79, 79), FP32, centre=centre)
    for n, filter_dtype in itertools.product((16, 32, 64), (BF16, FP64)):
        yield Case(2, 2, (n, n), full(n, n), FP32, filter_dtype=filter_dtype)
    for n in (16, 32, 64):
        yield Case(27, 2, (n, n), full(n, n), FP32, spread=True)
