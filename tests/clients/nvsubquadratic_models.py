"""Networks of nvsubquadratic 0.2.0 in sizes of choice, for the tests beside this file and for bench/client_networks.py."""

import torch
from nvsubquadratic.lazy_config import LazyConfig
from nvsubquadratic.modules import ckconv_nd, hyena_nd, kernels_nd, mlp, rms_norm, sequence_mixer, vit5_hyena_adapter, vit5_residual_block
from nvsubquadratic.networks import vit5_classification


def filters(axes, channels, points):
    """Filters that a network of coordinates makes."""
    return LazyConfig(kernels_nd.SIRENKernelND)(
        out_dim=channels, data_dim=axes, mlp_hidden_dim=16, num_layers=2, embedding_dim=16, omega_0=10.0, L_cache=points, use_bias=True
    )


def ckconv(axes, channels, grid_type="double", fft_padding="zero", mask=None, points=12, **options):
    return LazyConfig(ckconv_nd.CKConvND)(
        data_dim=axes, hidden_dim=channels, kernel_cfg=filters(axes, channels, points), mask_cfg=mask or LazyConfig(torch.nn.Identity)(),
        grid_type=grid_type, fft_padding=fft_padding, **options,
    )  # fmt: skip


def hyena(axes, channels, **options):
    convolution = {1: torch.nn.Conv1d, 2: torch.nn.Conv2d, 3: torch.nn.Conv3d}[axes]
    return LazyConfig(hyena_nd.Hyena)(
        global_conv_cfg=ckconv(axes, channels, **options),
        short_conv_cfg=LazyConfig(convolution)(in_channels=3 * channels, out_channels=3 * channels, kernel_size=3, padding=1, groups=3 * channels),
        gate_nonlinear_cfg=LazyConfig(torch.nn.SiLU)(),
        pixelhyena_norm_cfg=LazyConfig(torch.nn.Identity)(),
        qk_norm_cfg=None,
    )


def classifier(fft_backend="torch_fft", width=16, patches=12, blocks=2):
    """A ViT-5 of Hyena blocks over patches x patches patches; class token, registers and padding make one row more."""
    norm = LazyConfig(rms_norm.RMSNorm)(dim=width, use_quack=False)
    convolution = hyena(2, width, points=patches + 1, fft_backend=fft_backend)
    mixer = LazyConfig(sequence_mixer.QKVSequenceMixer)(hidden_dim=width, mixer_cfg=convolution)
    block = LazyConfig(vit5_residual_block.ViT5ResidualBlock)(
        sequence_mixer_cfg=LazyConfig(vit5_hyena_adapter.ViT5HyenaAdapter)(inner_mixer_cfg=mixer, grid_w=patches),
        sequence_mixer_norm_cfg=norm,
        mlp_cfg=LazyConfig(mlp.MLP)(dim=width, activation="gelu", dropout_cfg=LazyConfig(torch.nn.Identity)()),
        mlp_norm_cfg=norm,
        hidden_dim=width,
        layer_scale_init=0.5,
    )
    network = vit5_classification.ViT5ClassificationNet(
        in_channels=3, num_classes=10, hidden_dim=width, num_blocks=blocks, patch_size=2, image_size=2 * patches, num_registers=4,
        norm_cfg=norm, readout="cls", layer_pattern="H" * blocks, layer_types={"H": block},
    )  # fmt: skip
    return Positional(network)


class Positional(torch.nn.Module):
    """A network with one tensor in and out."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network({"input": x, "condition": None})["logits"]


class Query(torch.nn.Module):
    """Hyena on three projections of its input."""

    def __init__(self, network, channels):
        super().__init__()
        self.network, self.project = network, torch.nn.Linear(channels, 3 * channels)

    def forward(self, x):
        return self.network(*self.project(x).chunk(3, -1))
