"""rearrange: time to the front, or back."""


def rearrange(x, bhl_to_lbh):
    """x ``[B, H, L]`` as ``[L, B, H]``, contiguous; without `bhl_to_lbh` the other way round."""
    return (x.permute(2, 0, 1) if bhl_to_lbh else x.permute(1, 2, 0)).contiguous()
