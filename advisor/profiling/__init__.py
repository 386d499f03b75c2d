"""Live profiling of the local device: needs torch, numpy and the standard library alone.

Copy the folder `advisor/profiling` (inside a folder `advisor`) to a bare GPU node and run
`python -m advisor.profiling --preset quick --output DIRECTORY`. The columns of the result are
documented in docs/profiling.md. torch is imported only when a device is looked for or measured.
"""
