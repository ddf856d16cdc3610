#!/usr/bin/env python3
"""Tiny random models of every architecture with what transformers computes on them.

By hand: pip install torch transformers gguf, then python3 tests/reference/make_reference.py
Writes tests/reference/models/NAME/: config.json, generation_config.json and safetensors as the Hugging Face libraries
name them, model.gguf as llama.cpp's converter lays it out, reference.json (token ids, shapes), logits.f32
[tokens][vocabulary] and kv.f32: keys after RoPE and values of the last layer, [2][KV heads][tokens][head_dim].
Weights are rounded to the stored type before the logits are computed in float32, so both forms hold the same numbers.
"""
import json
import math
import pathlib
import struct

import gguf
import numpy as np
import torch
import transformers

OUT = pathlib.Path(__file__).parent / "models"
VOCAB = 96
TOKENS = 40
BASE = {"vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "max_position_embeddings": 128, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}


def shape(heads, kv_heads, head_dim, **more):
    return {**BASE, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, **more}


def rope(kind, theta=10000.0, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


MODELS = {
    "llama-gqa": ("llama", "F32", 1, shape(6, 2, 8, tie_word_embeddings=True)),
    "llama-mha-shards": ("llama", "BF16", 3, shape(3, 3, 8, tie_word_embeddings=False)),
    "llama-mqa": ("llama", "F16", 1, shape(4, 1, 6, tie_word_embeddings=False)),
    "llama-llama3": ("llama", "F32", 1, shape(4, 2, 16, **rope(
        "llama3", 500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))),
    "llama-linear": ("llama", "BF16", 1, shape(4, 2, 8, **rope("linear", 1000.0, factor=4.0))),
    "llama-yarn": ("llama", "BF16", 1, shape(4, 2, 16, **rope(
        "yarn", 10000.0, factor=4.0, original_max_position_embeddings=32))),
    "mistral": ("mistral", "BF16", 1, shape(4, 2, 8, sliding_window=7)),
    "qwen2": ("qwen2", "BF16", 2, {k: v for k, v in shape(6, 2, 4, tie_word_embeddings=True).items() if k != "head_dim"}),
    "qwen3": ("qwen3", "BF16", 1, shape(4, 2, 10, tie_word_embeddings=True)),
    "phi3": ("phi3", "BF16", 1, {k: v for k, v in shape(4, 2, 6, sliding_window=11).items() if k != "head_dim"}),
    "phi3-partial": ("phi3", "BF16", 1, {**{k: v for k, v in shape(3, 1, 8).items() if k != "head_dim"},
                     "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}}),
    "gemma3": ("gemma3_text", "BF16", 1, shape(
        4, 1, 8, num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=10,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
    "gpt_neox": ("gpt_neox", "F16", 1, {**BASE, "num_attention_heads": 3, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}}),
    "gpt_neox-sequential": ("gpt_neox", "BF16", 1, {**BASE, "num_attention_heads": 2, "use_parallel_residual": False,
                            "hidden_act": "gelu_new", "rope_parameters": {
                                "rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 1.0}}),
    "opt": ("opt", "F16", 1, {**{k: v for k, v in BASE.items() if k != "intermediate_size"}, "ffn_dim": 40,
            "num_attention_heads": 4, "word_embed_proj_dim": 24, "tie_word_embeddings": True}),
}
TORCH = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def make_model(kind, dtype, settings, seed):
    config = transformers.AutoConfig.for_model(kind, **settings)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).eval().float()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1 and "norm" in name and name.endswith("weight"):
                zero_based = kind.startswith("gemma3")
                p.copy_((0.0 if zero_based else 1.0) + 0.2 * torch.randn(p.shape))
            elif p.ndim == 1:
                p.copy_(0.3 * torch.randn(p.shape))
            else:
                gain = 2.0 if any(part in name for part in ("q_proj", "k_proj", "qkv", "query_key_value")) else 1.0
                p.copy_(gain * torch.randn(p.shape) / math.sqrt(p.shape[1]) ** (0 if "embed" in name else 1))
            p.copy_(p.to(TORCH[dtype]).float())
    return model


# ---- safetensors: written here so that data may lie at any address ----

def write_safetensors(path, tensors, dtype):
    header, data = {}, b""
    for name, t in tensors.items():
        raw = (t.to(TORCH[dtype]).view(torch.int16 if dtype != "F32" else torch.int32)).contiguous().numpy().tobytes()
        header[name] = {"dtype": dtype, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (1 - len(text) % 2)  # an odd length: nothing behind it is aligned
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_folder(folder, model, dtype, shards):
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5]}) + "\n")
    tensors = {published_name(model, n): t.detach() for n, t in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
        tensors.pop("embed_out.weight", None)
    names = list(tensors)
    if shards == 1:
        return write_safetensors(folder / "model.safetensors", tensors, dtype)
    weight_map = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = names[i::shards]
        write_safetensors(folder / file, {n: tensors[n] for n in part}, dtype)
        weight_map.update({n: file for n in part})
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")


def published_name(model, name):
    """transformers 5 renamed GPT-NeoX' head, the checkpoints did not."""
    return name.replace("lm_head", "embed_out") if model.config.model_type == "gpt_neox" else name


# ---- GGUF, as llama.cpp's converter lays it out ----

FAMILY = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
          "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
          "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
          "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
          "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.qkv_proj": "attn_qkv",
          "mlp.gate_up_proj": "ffn_up"}
NAMES = {kind: FAMILY for kind in ("llama", "mistral", "qwen2", "qwen3", "phi3")}
NAMES["gemma3_text"] = {**FAMILY, "post_attention_layernorm": "post_attention_norm",
                        "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
NAMES["gpt_neox"] = {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm",
                     "lm_head": "output", "input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv",
                     "attention.dense": "attn_output", "post_attention_layernorm": "ffn_norm",
                     "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "phi3": "phi3",
                 "gemma3_text": "gemma3", "gpt_neox": "gptneox"}


def gguf_name(kind, name):
    stem, suffix = name.rsplit(".", 1)
    parts = stem.split(".layers.")
    if len(parts) == 1:
        return NAMES[kind][stem] + "." + suffix
    number, rest = parts[1].split(".", 1)
    return f"blk.{number}.{NAMES[kind][rest]}.{suffix}"


def adjacent(t, heads):
    """Heads stored as (i, i + d/2) to adjacent pairs."""
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)


def write_gguf(path, kind, model, dtype):
    c = model.config
    w = gguf.GGUFWriter(path, ARCHITECTURES[kind])
    w.add_name(path.parent.name)
    heads = c.num_attention_heads
    kv_heads = getattr(c, "num_key_value_heads", heads)
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // heads
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    sets = c.rope_parameters
    r = sets.get("full_attention", sets)
    w.add_rope_freq_base(r["rope_theta"])
    w.add_rope_dimension_count(int(head_dim * r.get("partial_rotary_factor", 1.0)))
    if kind == "gpt_neox":
        w.add_layer_norm_eps(c.layer_norm_eps)
        w.add_parallel_residual(c.use_parallel_residual)
    else:
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if r["rope_type"] in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(r["rope_type"]))
        w.add_rope_scaling_factor(r["factor"])
    if r["rope_type"] == "yarn":
        w.add_rope_scaling_orig_ctx_len(r["original_max_position_embeddings"])
    if r["rope_type"] == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(r, head_dim))
    if getattr(c, "sliding_window", None):
        w.add_sliding_window(c.sliding_window)
    if kind == "gemma3_text":  # what no usual file says: the published ones follow a pattern and a rule
        w.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
        w.add_attention_scale(c.query_pre_attn_scalar ** -0.5)
    for name, t in model.state_dict().items():
        if c.tie_word_embeddings and name in ("lm_head.weight", "embed_out.weight"):
            continue
        a = t.detach().clone()
        if kind in ("llama", "mistral") and ("q_proj" in name or "k_proj" in name):
            a = adjacent(a, heads if "q_proj" in name else kv_heads)
        if kind == "gpt_neox" and "query_key_value" in name:
            a = a.reshape(heads, 3, head_dim, *a.shape[1:]).swapaxes(0, 1).reshape(a.shape)
        if kind == "gemma3_text" and name.endswith("norm.weight"):
            a = a + 1.0
        add_tensor(w, gguf_name(kind, name), a, dtype if a.ndim > 1 else "F32")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add_tensor(w, name, t, dtype):
    if dtype == "BF16":
        raw = t.to(torch.bfloat16).view(torch.int16).contiguous().numpy()
        w.add_tensor(name, raw.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        w.add_tensor(name, t.to(TORCH[dtype]).contiguous().numpy())


def llama3_factors(r, head_dim):
    frequency = 1.0 / (r["rope_theta"] ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    context = r["original_max_position_embeddings"]
    low, high = context / r["low_freq_factor"], context / r["high_freq_factor"]
    factors = []
    for f in frequency:
        length = 2 * math.pi / f
        smooth = (context / length - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
        factors.append(1 if length < high else r["factor"] if length > low else
                       1 / ((1 - smooth) / r["factor"] + smooth))
    return torch.tensor(factors, dtype=torch.float32).numpy()


# ---- what it computes ----

def magnitude(c):
    r = getattr(c, "rope_parameters", None) or {}
    return 0.1 * math.log(r["factor"]) + 1.0 if r.get("rope_type") == "yarn" else 1.0


def main():
    for seed, (name, (kind, dtype, shards, settings)) in enumerate(MODELS.items()):
        model = make_model(kind, dtype, settings, seed)
        folder = OUT / name
        write_folder(folder, model, dtype, shards)
        if kind != "opt" and getattr(model.config, "hidden_act", "") != "gelu_new":  # GGUF cannot say these
            write_gguf(folder / "model.gguf", kind, model, dtype)
        ids = torch.randint(3, VOCAB, (1, TOKENS), generator=torch.Generator().manual_seed(seed + 100))
        with torch.no_grad():
            out = model(ids, use_cache=False)
            captured = kv_of_last_layer(model, ids)
        logits = out.logits[0].float()
        keys, values = captured
        logits.numpy().astype("<f4").tofile(folder / "logits.f32")
        torch.stack([keys / magnitude(model.config), values]).numpy().astype("<f4").tofile(folder / "kv.f32")
        reference = {"transformers": transformers.__version__, "torch": torch.__version__, "ids": ids[0].tolist(),
                     "vocabulary": VOCAB, "kv_heads": keys.shape[0], "head_dim": keys.shape[2]}
        (folder / "reference.json").write_text(json.dumps(reference) + "\n")
        size = sum(f.stat().st_size for f in folder.iterdir())
        print(f"{name}: {size / 1024:.0f} KiB, logits {logits.min():.2f} … {logits.max():.2f}")


def kv_of_last_layer(model, ids):
    """Keys after RoPE and values that the last layer hands to its attention."""
    seen = {}
    from transformers.integrations import sdpa_attention  # noqa: F401  (registers the interfaces)
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    last = model.config.num_hidden_layers - 1

    def watch(module, query, key, value, *args, **kwargs):
        if module.layer_idx == last:
            seen["key"], seen["value"] = key[0].clone(), value[0].clone()
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, *args, **kwargs)

    ALL_ATTENTION_FUNCTIONS["watch"] = watch
    transformers.AttentionMaskInterface.register("watch", transformers.masking_utils.sdpa_mask)
    model.config._attn_implementation = "watch"
    model(ids, use_cache=False)
    return seen["key"], seen["value"]


if __name__ == "__main__":
    main()
