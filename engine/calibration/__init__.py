"""Measuring the engine that runs: single probes, the quick costs of a start, and a whole calibration with its fit."""
