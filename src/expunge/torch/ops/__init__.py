"""The gated layer's ops: each as a plain PyTorch reference and as fused Triton kernels of the same function.

They import PyTorch, Triton (the fused ones only) and `expunge.errors`, and none of the layers above. Start at
`expunge.torch.differentiable_ops`, which chooses between the two; the reference of the readout stands there.
"""
