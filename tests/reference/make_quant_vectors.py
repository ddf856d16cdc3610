#!/usr/bin/env python3
"""Blocks of GGUF's quantised types with what the gguf package makes of them.

By hand: pip install gguf, then python3 tests/reference/make_quant_vectors.py
Writes tests/runner/model/quant_vectors/TYPE.bin: two blocks of random bytes (finite scales), then their values as float32.
"""
import pathlib

import gguf
import numpy as np

OUT = pathlib.Path(__file__).parents[1] / "runner/model/quant_vectors"
HALVES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}


def main():
    OUT.mkdir(exist_ok=True)
    random = np.random.default_rng(5)
    for name, halves in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (2, size), dtype=np.uint8)
        for at in halves:
            blocks[:, at:at + 2] = random.uniform(-2, 2, (2, 1)).astype(np.float16).view(np.uint8)
        values = gguf.dequantize(blocks, kind).astype("<f4")
        assert values.size == 2 * elements and np.isfinite(values).all()
        (OUT / f"{name}.bin").write_bytes(blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
