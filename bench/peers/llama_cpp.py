"""llama.cpp as the other side: built from the source inside a PyPI package, run through its own benchmark programs."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

PACKAGE = "llama-cpp-python==0.3.36"
ARCHIVE = "llama_cpp_python-0.3.36.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-perplexity", "llama-quantize")
STAMP = r"(\d+)\.(\d\d)\.(\d\d\d)\.(\d\d\d)"  # minutes, seconds, milliseconds, microseconds since the start


def seconds_at(match):
    minutes, seconds, milliseconds, microseconds = (int(part) for part in match.groups()[:4])
    return 60 * minutes + seconds + milliseconds / 1e3 + microseconds / 1e6


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def check_output(command):
    """Standard output and error of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr.strip()}\npeers: failed ({done.returncode}): {' '.join(str(word) for word in command)}")
    return done.stdout, done.stderr


class LlamaCpp:
    def __init__(self, folder, threads):
        """`folder`: where everything is kept. KVSCOPE_LLAMA_BUILD names a CMake build folder to use instead of building."""
        self.folder = Path(folder)
        self.threads = str(threads)
        given = os.environ.get("KVSCOPE_LLAMA_BUILD")
        self.build = Path(given) if given else self.folder / "llama-build"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_programs()

    # ---- source, programs, models ----

    def _source(self):
        archive = self.folder / ARCHIVE
        if not archive.exists():
            say(f"downloading the source package {PACKAGE} (77 MB)")
            check_output([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--quiet",
                          "--dest", self.folder, PACKAGE])
        if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
            sys.exit(f"peers: {archive} is not the expected file: delete it and run this again")
        top = self.folder / ARCHIVE.removesuffix(".tar.gz")
        if not top.exists():
            with tarfile.open(archive) as tar:
                tar.extractall(self.folder)
        return top / "vendor" / "llama.cpp"

    def _make_programs(self):
        missing = [name for name in PROGRAMS if not (self.build / "bin" / name).exists()]
        if not missing:
            return
        if not (self.build / "CMakeCache.txt").exists():
            check_output(["cmake", "-S", self._source(), "-B", self.build, "-DCMAKE_BUILD_TYPE=Release",
                          "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_TESTS=OFF",
                          "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF"])
        say(f"building {', '.join(missing)} (minutes)")
        check_output(["cmake", "--build", self.build, "-j", os.cpu_count() or 2, "--target", *missing])

    def program(self, name):
        return self.build / "bin" / name

    def model(self, source, dtype):
        """`source` (a GGUF file) with its weights written as `dtype`."""
        target = self.folder / f"{Path(source).stem}.{dtype}.gguf"
        if not target.exists():
            half = target.with_suffix(".part")
            check_output([self.program("llama-quantize"), "--allow-requantize", source, half, dtype.upper()])
            half.rename(target)
        return target

    # ---- figures: tokens a second ----

    def prefill(self, model, tokens):
        """Its faster one of flash attention on and off; the last token's logits, no sampling."""
        out, _ = check_output([self.program("llama-bench"), "-m", model, "-t", self.threads, "-p", tokens, "-n", 0,
                               "-r", 1, "-fa", "0,1", "-o", "json"])
        return max(run["avg_ts"] for run in json.loads(out))

    def decode(self, model, rows, prompt, steps):
        """Rows that share a prompt; logits of every row, no sampling."""
        context = rows * (prompt + steps)
        out, _ = check_output([self.program("llama-batched-bench"), "-m", model, "-t", self.threads, "-c", context,
                               "-b", 2048, "-ub", 512, "-npp", prompt, "-ntg", steps, "-npl", rows, "-pps",
                               "--output-format", "jsonl"])
        (run,) = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return run["speed_tg"]

    def perplexity(self, model, text, context, windows):
        """(tokens a second, perplexity). From the first forward pass to the estimate, by the log's own clock: the second
        half of each window is scored, and its logits' NLL is in the time. (Its "prompt eval time" counts nothing here.)"""
        _, log = check_output([self.program("llama-perplexity"), "-m", model, "-t", self.threads, "-f", text,
                               "-c", context, "--chunks", windows])
        start = re.search(STAMP + r" I perplexity: calculating", log)
        end = re.search(STAMP + r" I Final estimate: PPL = ([\d.]+)", log)
        if not start or not end:
            sys.exit("peers: llama-perplexity printed no estimate: is the text too short?")
        return windows * context / (seconds_at(end) - seconds_at(start)), float(end.group(5))
