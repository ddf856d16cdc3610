"""One sweep as kvpress does it: arm after arm, each with its own prefill. Runs inside the environment of kvpress_sweep and
prints {"sweep": {"arms": […], "total_seconds": …}}."""

import argparse
import json
import time
from pathlib import Path

import torch
from kvpress import RandomPress, SnapKVPress, StreamingLLMPress, TOVAPress
from transformers import AutoModelForCausalLM, DynamicCache

PRESSES = {"snapkv": SnapKVPress, "streaming_llm": StreamingLLMPress, "tova": TOVAPress, "random": RandomPress}


def run_arm(model, ids, answer, press):
    """(seconds of the prefill, seconds of all): the steps of kvpress' own pipeline without its text handling. The prompt's
    last token is fed after the selection, as a question of one token; nothing stops early."""
    cache = DynamicCache()
    start = time.perf_counter()
    if press is None:
        model.model(input_ids=ids[:, :-1], past_key_values=cache)
    else:
        with press(model):
            model.model(input_ids=ids[:, :-1], past_key_values=cache)
    prefill = time.perf_counter() - start
    token = ids[:, -1:]
    for step in range(answer):
        position = torch.tensor([[ids.shape[1] - 1 + step]])
        logits = model(input_ids=token, past_key_values=cache, position_ids=position, logits_to_keep=1).logits
        token = logits[:, -1].argmax(-1, keepdim=True)
    return prefill, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prompt", type=int, required=True)
    parser.add_argument("--answer", type=int, required=True)
    parser.add_argument("--policies", required=True)
    parser.add_argument("--budgets", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = AutoModelForCausalLM.from_pretrained(
        arguments.model.parent, gguf_file=arguments.model.name, dtype=torch.float32, attn_implementation="sdpa").eval()
    ids = torch.randint(100, model.config.vocab_size, (1, arguments.prompt), generator=torch.Generator().manual_seed(1))

    plan = [("full", 0.0, None)]
    for budget in map(float, arguments.budgets.split(",")):
        for policy in arguments.policies.split(","):
            ratio = round(1 - budget, 3)
            plan.append((policy, ratio, PRESSES[policy](compression_ratio=ratio)))
    arms = []
    with torch.inference_mode():
        run_arm(model, ids[:, :256], 2, None)  # first use of memory and kernels
        start = time.perf_counter()
        for policy, ratio, press in plan:
            prefill, total = run_arm(model, ids, arguments.answer, press)
            arms.append({"policy": policy, "ratio": ratio, "prefill_seconds": prefill, "total_seconds": total})
    print(json.dumps({"sweep": {"arms": arms, "total_seconds": time.perf_counter() - start}}))


if __name__ == "__main__":
    main()
