"""The benchmarks measure what they say: the torch.fft chain is long_conv, wrong results are not timed, records have the common format."""
import json
import sys
from pathlib import Path

import faltung
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench():
    """bench/ as modules; the heap is left as it is, since that would start the test process again."""
    sys.path.insert(0, str(ROOT / "bench"))
    import measure

    measure.warm_heap = lambda: None
    import long_conv_cpu
    import torch_chain

    yield {"measure": measure, "long_conv_cpu": long_conv_cpu, "torch_chain": torch_chain}
    sys.path.remove(str(ROOT / "bench"))


@pytest.mark.parametrize("boundary", ["zero", "circular", "causal", ("zero", "causal"), ("circular", "zero")])
@pytest.mark.parametrize("points, taps", [((5, 8), (9, 15)), ((6, 3), (4, 2)), ((4, 7), (13, 20)), ((9, 9), (1, 3))])
def test_the_chain_is_long_conv(bench, boundary, points, taps):
    x, k = torch.randn(2, 3, *points, dtype=torch.float64), torch.randn(3, *taps, dtype=torch.float64)
    torch.testing.assert_close(bench["torch_chain"].long_conv(x, k, boundary=boundary), faltung.long_conv(x, k, boundary=boundary))


@pytest.mark.parametrize("boundary, points, taps, length", [("zero", 64, 127, 128), ("zero", 32, 7, 36), ("circular", 63, 63, 63), ("causal", 100, 100, 200)])
def test_the_chain_takes_the_smallest_fast_length(bench, boundary, points, taps, length):
    assert bench["torch_chain"].transform_length(boundary, points, taps) == length


def small_shape(bench):
    return bench["long_conv_cpu"].Shape("sweep", 2, 3, (8, 8), (15, 15), threads=1)


def test_records_have_the_common_format(bench, tmp_path):
    records = bench["long_conv_cpu"].measure_shape(small_shape(bench), seconds=0.001)
    assert [record["direction"] for record in records] == ["forward", "forward+backward"]
    path = tmp_path / "long_conv.json"
    bench["measure"].write_records(path, [{"operator": "other"}])
    bench["measure"].write_records(path, records[:1])
    bench["measure"].write_records(path, records)
    written = json.loads(path.read_text())
    assert {"machine", "versions", "commit", "date", "records"} <= written.keys()
    assert [record["operator"] for record in written["records"]] == ["other", "long_conv", "long_conv"]
    for record in written["records"][1:]:
        assert record["shape"] == {"B": 2, "C": 3, "N": [8, 8], "K": [15, 15]}
        assert record["wall_ms"] > 0 and record["peers"]["torch.fft"]["wall_ms"] > 0 and set(record["error"]) == {"y", "dx", "dk"}


def test_wrong_results_are_not_timed(bench, monkeypatch):
    right = faltung.long_conv
    monkeypatch.setattr(faltung, "long_conv", lambda x, k, **options: right(x, k, **options) * (1 + 1e-5))
    with pytest.raises(bench["long_conv_cpu"].NotTimed, match="relative error of y"):
        bench["long_conv_cpu"].measure_shape(small_shape(bench), seconds=0.001)
