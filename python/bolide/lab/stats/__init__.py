"""Statistics of a race: plain functions of numbers, without I/O and without a clock.

Medians with bootstrap intervals over rounds (`interval.py`), ratios of interleaved rounds
(`ratio.py`), merged histograms, because percentiles cannot be merged (`histogram.py`), and marks
for noisy figures (`noise.py`).
"""
