"""Kernels for CUDA and ROCm, in Triton. Imported on that path alone: Triton is not installed everywhere.

All sizes are fixed or follow from the weights, never from the batch, and nothing is tuned at run time: a sum is always
taken in the same order, so a row has the same bits in any batch.

What changes from step to step is not specialised on, or a kernel would be compiled while turns wait.
"""
