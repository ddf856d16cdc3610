"""Our side: the program's own benchmarks, one figure a call."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Kvscope:
    def __init__(self, threads, model):
        """KVSCOPE names another program than the one that scripts/build makes."""
        self.program = Path(os.environ.get("KVSCOPE", ROOT / "build/release/kvscope"))
        self.options = ["--threads", threads, "--model", model]
        if not self.program.exists():
            sys.exit(f"peers: {self.program} is not there: run scripts/build, or name the program in KVSCOPE")

    def run(self, *words, dtype="f32"):
        command = [self.program, *words, "--dtype", dtype, *self.options, "--json"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode == 64:
            raise NotImplementedError(done.stderr.strip())
        if done.returncode != 0:
            sys.exit(f"peers: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def has(self, dtype):
        try:
            self.run("bench", "load", "--repetitions", 1, dtype=dtype)
        except NotImplementedError:
            return False
        return True

    # ---- figures: tokens a second ----

    def prefill(self, dtype, tokens):
        out = self.run("bench", "engine", "--prefill", tokens, "--rows", 0, "--repetitions", 1, dtype=dtype)
        return out["prefill"][0]["tokens_per_second"]["median"]

    def decode(self, dtype, rows, prompt, steps):
        out = self.run("bench", "engine", "--prefill", 0, "--rows", rows, "--prompt", prompt, "--steps", steps,
                       "--repetitions", 1, dtype=dtype)
        return out["decode"][0]["tokens_per_second"]["median"]

    def perplexity_speed(self, dtype, text, context, windows):
        """The whole scoring of a window, logits and NLL of its second half included."""
        out = self.run("bench", "score", "--policy", "full", "--text", text, "--tokens", context,
                       "--first-scored", context // 2 + 1, "--repetitions", windows, dtype=dtype)
        return out["full_tokens_per_second"]["median"]

    def perplexity(self, dtype, text, context, windows):
        """Over the second half of each window, as llama-perplexity counts: its predictions start after token context/2."""
        out = self.run("score", "--policy", "full", "--text", text, "--context", context, "--limit", windows,
                       dtype=dtype)
        nll = out["nll_nats"]
        scored = [x for w in range(windows) for x in nll[w * context + context // 2 + 1:(w + 1) * context]]
        return math.exp(sum(scored) / len(scored))
