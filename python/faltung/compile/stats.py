"""What the lowering did: a count of rewritten chains, and one of declined chains for each reason."""

import collections
import logging

log = logging.getLogger("faltung.compile")
_counts = collections.Counter()

# Every reason for which a chain is declined, and what it means. The first seventeen are those of the lowering of nvSubquadratic.
REASONS = {
    "irfft-args-mismatch": "the inverse transform has another norm than 'backward', an `out`, or other axes than a convolution's",
    "irfft-dynamic-shape": "a transform length or a crop is a symbol, and the recipe is not provable for all its values",
    "no-rfft2-product": "the inverse transform does not see the product of two forward transforms",
    "spectrum-has-other-users": "a spectrum or the product is used outside the chain",
    "no-same-crop": "the result of the inverse transform is not cropped to a block of consecutive points",
    "operand-roles-ambiguous": "neither operand has the extents of the crop, so that none can be the input",
    "rfft-args-mismatch": "a forward transform has another length, norm or axes than the inverse one",
    "missing-shape-metadata": "a node has no example value: its shape and dtype are unknown",
    "not-4d": "the input has other axes than batch, channels and those that are transformed (in 2D: it is not 4-D)",
    "not-the-reference-recipe": "padding and crop make no convolution of zero-padded or circular boundary: taps would wrap around or be cut off",
    "crop-is-not-same-size": "the crop reaches over the end of the inverse transform, so that the result is smaller than the input",
    "channel-or-batch-mismatch": "the filters are not one per channel, shared by the batch or one per sample",
    "unsupported-dtype": "the input is not float32, bfloat16 or float16 (nor float64, outside strict mode)",
    "kernel-dtype-or-device-mismatch": "filters and input are on different devices, or of dtypes that cannot be combined",
    "reduced-precision-disabled": "the input has 16 bits and allow_reduced_precision is False",
    "output-dtype-or-device-mismatch": "the result has another dtype or device than the input",
    "spatial-too-large": "the grid is served by plain sums, which are slower than the chain (strict mode: more than 64 points an axis)",
    "arch-unsupported": "no implementation of this build serves the problem on this device",
    "operand-mutated": "an operand is written to between its transform and the end of the chain",
    "mode-changes": "gradient mode or autocast changes within the chain",
    "output-strides-observed": "the strides of the result are read (as_strided)",
}


class Decline(Exception):
    """Raised by the parts of the matcher: this chain stays as it is."""

    def __init__(self, reason):
        assert reason in REASONS, reason
        super().__init__(reason)
        self.reason = reason


def count_rewritten(chain):
    _counts["rewritten"] += 1
    log.debug("rewritten: %s", chain)


def count_declined(node, reason):
    _counts[f"skipped:{reason}"] += 1
    log.debug("skipped %s: %s", node, reason)


def lowering_stats():
    """{"rewritten": n, "skipped:<reason>": n, ...} since the last reset. REASONS says what each reason means.

    Counts are of compilations: where torch finds compiled code in its cache the pass does not run and nothing is counted.
    """
    return dict(_counts)


def reset_lowering_stats():
    _counts.clear()
