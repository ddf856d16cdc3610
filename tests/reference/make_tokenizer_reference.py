#!/usr/bin/env python3
"""Writes tests/runner/tokenizer/data: small tokenizers of every supported kind, texts, and the ids that the libraries
of their kinds give for them. Run by hand; the tests read what it wrote.

    python3 -m venv env && env/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 gguf==0.19.0 protobuf
    env/bin/python tests/reference/make_tokenizer_reference.py

Everything is trained on this project's own documents and on words made up from a seed. Ids of tokenizer.json come from
`tokenizers`, ids of tokenizer.model and of GGUF's "llama" form from `sentencepiece`, piece by piece between special
tokens. For each text: ids with special tokens parsed and, behind -1, with them as text; the file keeps the first 24 bits
of the SHA-256 of both as little-endian int32.
"""
import hashlib
import json
import pathlib
import random
import struct
import tempfile
import unicodedata

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as sp_model
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/runner/tokenizer/data"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
SPACE = "\u2581"
N_VOCAB = 900

# First and last code point of stretches that texts are made of.
RANGES = [(0x21, 0x7E), (0xA1, 0xFF), (0x100, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A),
          (0x660, 0x669), (0x905, 0x939), (0x93E, 0x94D), (0x966, 0x96F), (0xE01, 0xE30), (0xE40, 0xE4E), (0x10A0, 0x10FF),
          (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x2010, 0x2027), (0x2030, 0x205E), (0x2070, 0x209C), (0x20A0, 0x20BF),
          (0x2150, 0x218B), (0x2190, 0x21FF), (0x2460, 0x24FF), (0x2581, 0x259F), (0x2600, 0x26FF), (0x3041, 0x3096),
          (0x30A1, 0x30FA), (0x3400, 0x3480), (0x4E00, 0x4F80), (0xAC00, 0xAE00), (0xF900, 0xFA20), (0xFB00, 0xFB06),
          (0xFF01, 0xFF5E), (0x10400, 0x1044F), (0x1D400, 0x1D4FF), (0x1F130, 0x1F18A), (0x1F300, 0x1F3FF),
          (0x1F600, 0x1F64F), (0x20000, 0x20080), (0x300, 0x345), (0x600, 0x605), (0x1680, 0x1680), (0x180E, 0x180E)]
WHITE = [" ", "  ", "   ", "    ", "\t", "\n", "\n\n", "\r\n", "\n \n", " \n", "\u00a0", "\u2003", "\u3000", "\u0085",
         "\u2028", "\u202f", "\u1680", "\u180e", "\u200b", "\u200d", "\ufeff", "\x0b", "\x0c", "\x1c", "        ", "\t\t\t"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<s>", "</s>", "<unk>",
           "<|user|>", "<|end|>", "<|assistant|>", "<start_of_turn>", "<end_of_turn>", "<|im_", "[INST]", "[/INST]",
           "<0x0A>", "<word>", "<Left>", "<right>", "<both>"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧", "🇮🇸", "❤️", "1️⃣", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "🤷🏿‍♀️"]
CONTRACTIONS = ["it's", "IT'S", "we'll", "They'RE", "don't", "I'd", "you've", "I'm", "l'eau", "'s", "'ſ", "x'", "'"]


def made_words(rng, n):
    """Words of syllables in a few alphabets."""
    parts = {"latin": (list("bcdfghklmnprstvwz") + ["th", "ch", "st"], list("aeiou") + ["ea", "ou"]),
             "accented": (list("bcdlmnprst"), list("éèêüöäåøñçãõ")),
             "greek": (list("βγδκλμνπρστ"), list("αεηιουω")),
             "cyrillic": (list("бвгдклмнпрст"), list("аеиоуыя"))}
    words = []
    for _ in range(n):
        first, second = parts[rng.choices(list(parts), [6, 2, 1, 1])[0]]
        word = "".join(rng.choice(first) + rng.choice(second) for _ in range(rng.randint(1, 3))) + rng.choice(["", "n", "s", "r"])
        words.append(rng.choice([word, word, word.capitalize(), word.upper()]))
    return words


def corpus(rng):
    lines = []
    for name in ["README.md", "docs/policies.md", "docs/trace.md", "docs/plugins.md"]:
        lines += (ROOT / name).read_text().splitlines()
    words = made_words(rng, 1500)
    for _ in range(2500):
        line = " ".join(rng.choice(words[: rng.choice([50, 1500])]) for _ in range(rng.randint(3, 14)))
        lines.append(line + rng.choice([".", "!", "?", "", f" {rng.randint(0, 99999)}", " 中文字" + chr(0x4E00 + rng.randint(0, 40))]))
    return lines


def texts(rng):
    """At least 2,000 texts: single characters of every stretch, mixtures, runs, control characters, special tokens."""
    words = made_words(rng, 800)

    def character():
        while True:
            first, last = rng.choice(RANGES)
            code = rng.randint(first, last)
            if unicodedata.category(chr(code)) != "Cn":
                return chr(code)

    def piece():
        kind = rng.randrange(12)
        if kind < 4:
            return rng.choice(words)
        if kind < 6:
            return rng.choice(WHITE)
        if kind == 6:
            return str(rng.choice([rng.randint(0, 9), rng.randint(0, 10**9), rng.random()]))
        if kind == 7:
            return rng.choice(["...", "!?", "({[", "->", "==", "//", "#", "_", "$9", "&&", "…", "«»", "—", "a_b", "`", "^~|"])
        if kind == 8:
            return rng.choice(CONTRACTIONS)
        if kind == 9:
            return "".join(character() for _ in range(rng.randint(1, 4)))
        if kind == 10:
            return rng.choice(EMOJI)
        return " "

    out = ["", " ", "  ", "\n", "a", "Hello world", " Hello  world ", "\u2581", "\u2581\u2581a", "a\u0301", "\u1e9b\u0323", "ﬁ", "İI",
           "ΑΣ", "e\u0301\u0316\u0301", "\u0344", "각", "\u1100\u1161\u11a8", "\x00", "a\x00b", "\ufffd", "\U0010ffff"]
    for first, last in RANGES:
        for code in {first, (first + last) // 2, last}:
            if unicodedata.category(chr(code)) != "Cn":
                out += [chr(code), "x" + chr(code) + " " + chr(code) + "1"]
    for code in range(0x20):
        out.append("a" + chr(code) + "b" + chr(code) * 2)
    for white in WHITE:
        out += [white * n + "x" + white + "7" + white + "!" for n in (1, 3)]
    out += [("a" if i % 2 else " ") * i + "b" for i in range(1, 40)]
    out += [c * 50 for c in ("a", " ", "\n", "=", "9", "é", "中", "😀")]
    for special in SPECIAL:
        out += [special, special * 2, f"a{special}b", f"a {special} b", f"  {special}  x", f"\n{special}\n\nq", f"1{special}1",
                f"{special[:-1]}", f"é{special}é"]
    while len(out) < 2200:
        mixed = [piece() for _ in range(rng.randint(1, 14))]
        if rng.random() < 0.25:
            mixed.insert(rng.randrange(len(mixed) + 1), rng.choice(SPECIAL))
        out.append(rng.choice(["", " "]).join(mixed))
    for text in out:
        text.encode()
    return out


# ---- training ----

def byte_level(lines, pre, normalizer=None, specials=()):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=N_VOCAB, show_progress=False, special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def with_json(tokenizer, change):
    description = json.loads(tokenizer.to_str())
    change(description)
    return Tokenizer.from_str(json.dumps(description))


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def bytes_after(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level_family(lines):
    """name → (tokenizer, GGUF's name of its pre-tokenizer or None, merges are written "a b")."""
    out = {}
    gpt2 = byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False), None, ["<|endoftext|>"])
    out["gpt2"] = gpt2, "gpt-2", True

    opt = Tokenizer.from_str(gpt2.to_str())
    opt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    opt.add_special_tokens([AddedToken("</s>", normalized=True), AddedToken("<unk>", normalized=True)])
    opt.post_processor = processors.TemplateProcessing(single="</s> $A", special_tokens=[("</s>", opt.token_to_id("</s>"))])
    out["opt"] = opt, None, False

    llama3 = byte_level(lines, bytes_after(split(LLAMA3)))
    llama3.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>", "<|endoftext|>"])
    begin = llama3.token_to_id("<|begin_of_text|>")
    llama3.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)])])
    # A third of the merges is taken away, so that words are found whole which no merges lead to.
    def fewer(d):
        d["model"]["ignore_merges"] = True
        d["model"]["merges"] = [m for i, m in enumerate(d["model"]["merges"]) if i % 3 or i < 60]
    out["llama3"] = with_json(llama3, fewer), "llama-bpe", False

    qwen2 = byte_level(lines, bytes_after(split(QWEN2)), normalizers.NFC())
    qwen2.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    qwen2.add_tokens([AddedToken("<word>", normalized=False)])
    out["qwen2"] = qwen2, "qwen2", False

    smollm = byte_level(lines, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                        pre_tokenizers.ByteLevel(add_prefix_space=False)]),
                        None, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    out["smollm"] = smollm, "smollm", False

    neox = byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC(), ["<|endoftext|>"])
    neox.add_tokens([AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)])
    out["neox"] = neox, None, True
    olmo = byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC(), ["<|endoftext|>"])
    olmo.add_tokens([AddedToken("  ", normalized=False), AddedToken("    ", normalized=False)])
    out["olmo"] = olmo, "olmo", False

    tekken = byte_level(lines, bytes_after(split(TEKKEN)))
    tekken.add_special_tokens(["<s>", "</s>", "[INST]", "[/INST]"])
    out["tekken"] = with_json(tekken, lambda d: d["model"].update(ignore_merges=True)), "tekken", False

    default = Tokenizer.from_str(gpt2.to_str())
    default.pre_tokenizer = bytes_after(split(r"[\p{P}$+<=>^~|]+"), split(GPT2), split(r"\p{N}+"), split("[0-9][0-9][0-9]"))
    out["default"] = default, "default", False
    return out


def mixed_family(lines):
    """The parts that no family above has."""
    out = {}
    trainer = lambda: trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=["<unk>"], limit_alphabet=200)

    lower = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    lower.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(),
                                             normalizers.Replace(Regex(r"\s{2,}"), " "), normalizers.Replace("’", "'")])
    lower.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False),
                                                   pre_tokenizers.Punctuation()])
    lower.train_from_iterator(lines, trainer())
    lower.add_special_tokens([AddedToken("<s>", normalized=True)])
    lower.add_tokens([AddedToken("<word>", single_word=True), AddedToken("<Left>", lstrip=True), AddedToken("<right>", rstrip=True),
                      AddedToken("<both>", lstrip=True, rstrip=True, normalized=False)])
    out["mixed_words"] = lower

    meta = Tokenizer(models.BPE(unk_token="<unk>"))
    meta.normalizer = normalizers.NFKD()
    meta.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split("x", "merged_with_previous"),
                                                  pre_tokenizers.Metaspace(prepend_scheme="always"),
                                                  pre_tokenizers.Split(Regex(r"[\p{Lu}]"), "merged_with_next"),
                                                  pre_tokenizers.Split(Regex(r"\d+"), "contiguous", invert=True),
                                                  pre_tokenizers.Punctuation("removed")])
    meta.train_from_iterator(lines, trainer())
    meta.decoder = decoders.Metaspace()
    out["mixed_metaspace"] = meta

    first = Tokenizer(models.BPE(unk_token="<unk>"))
    first.normalizer = normalizers.Sequence([normalizers.Strip(right=False), normalizers.NFD()])
    first.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.WhitespaceSplit(),
                                                   pre_tokenizers.CharDelimiterSplit("="), pre_tokenizers.Split(Regex(r"\w+|\W"), "isolated")])
    first.train_from_iterator(lines, trainer())
    first.add_tokens([AddedToken("<Left>", lstrip=True, normalized=False), AddedToken("<right>", normalized=True)])
    out["mixed_first"] = first
    return out


def sentencepiece_model(lines, prefix, user_defined):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "text"
        path.write_text("\n".join(line for line in lines if line.strip()))
        sentencepiece.SentencePieceTrainer.train(
            input=str(path), model_prefix=folder + "/m", model_type="bpe", vocab_size=N_VOCAB, byte_fallback=True,
            split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True, add_dummy_prefix=prefix, character_coverage=0.995, num_threads=1,
            user_defined_symbols=user_defined, minloglevel=2)
        return (pathlib.Path(folder) / "m.model").read_bytes()


def convert(model, normalizer, pre, added, decoder):
    """SentencePiece's vocabulary as tokenizer.json: a merge for each way to put a piece together, the best piece first."""
    proto = sp_model.ModelProto.FromString(model)
    vocabulary = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    merges = []
    for piece in sorted((p for p in proto.pieces if p.type == 1), key=lambda p: -p.score):
        text = piece.piece
        ways = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in vocabulary and text[i:] in vocabulary]
        merges += sorted(ways, key=lambda way: (vocabulary[way[0]], vocabulary[way[1]]))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens([AddedToken(p.piece, normalized=False) for p in proto.pieces if p.type == 4])
    tokenizer.add_special_tokens(added)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])])
    return tokenizer


class SentencePieceIds:
    """SentencePiece on what lies between special tokens, as a tokenizer."""

    def __init__(self, model):
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        proto = sp_model.ModelProto.FromString(model)
        self.special = {p.piece: i for i, p in enumerate(proto.pieces) if p.type in (2, 3)}
        self.user = {p.piece: i for i, p in enumerate(proto.pieces) if p.type == 4}
        self.user_cuts = False

    def ids(self, text, parse):
        found = dict(self.special) if parse else {}
        if self.user_cuts:
            found.update(self.user)
        out, run, at = [], "", 0
        def flush():
            if run:
                out.extend(self.processor.encode(run))
        while at < len(text):
            token = max((t for t in found if text.startswith(t, at)), key=len, default=None)
            if token is None:
                run, at = run + text[at], at + 1
                continue
            flush()
            run = ""
            out.append(found[token])
            at += len(token)
        flush()
        return out


class LibraryIds:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def ids(self, text, parse):
        self.tokenizer.encode_special_tokens = not parse
        return self.tokenizer.encode(text, add_special_tokens=False).ids


# ---- writing ----

def write_json(name, tokenizer, old_merges):
    description = json.loads(tokenizer.to_str())
    if old_merges:
        description["model"]["merges"] = [" ".join(m) for m in description["model"]["merges"]]
    (OUT / f"{name}.tokenizer.json").write_text(json.dumps(description, ensure_ascii=False, separators=(",", ":")))


def write_gguf(name, model, tokens, types, **keys):
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for key, value in keys.items():
        getattr(writer, "add_" + key)(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_byte_level_gguf(name, tokenizer, pre):
    description = json.loads(tokenizer.to_str())
    tokens = {i: t for t, i in tokenizer.get_vocab().items()}
    types = {t["id"]: 3 if t["special"] else 4 for t in description["added_tokens"]}
    bos = tokenizer.token_to_id("<|begin_of_text|>") or tokenizer.token_to_id("<s>") or 0
    write_gguf(name, "gpt2", [tokens[i] for i in range(len(tokens))], [types.get(i, 1) for i in range(len(tokens))],
               tokenizer_pre=pre, token_merges=[" ".join(m) for m in description["model"]["merges"]], bos_token_id=bos)


def write_scored_gguf(name, model, prefix):
    pieces = sp_model.ModelProto.FromString(model).pieces
    write_gguf(name, "llama", [p.piece for p in pieces], [p.type for p in pieces], token_scores=[p.score for p in pieces],
               bos_token_id=1, eos_token_id=2, add_space_prefix=prefix)


def hashes(source, strings):
    out = ""
    for text in strings:
        ids = source.ids(text, True) + [-1] + source.ids(text, False)
        out += hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()[:6]
    return out


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = random.Random(20240607)
    lines = corpus(rng)
    strings = texts(random.Random(11))
    sources = {}
    for name, (tokenizer, pre, old_merges) in byte_level_family(lines).items():
        write_json(name, tokenizer, old_merges)
        if pre:
            write_byte_level_gguf(name, tokenizer, pre)
        sources[name] = LibraryIds(tokenizer)
    for name, tokenizer in mixed_family(lines).items():
        write_json(name, tokenizer, False)
        sources[name] = LibraryIds(tokenizer)

    llama2 = sentencepiece_model(lines, True, [])
    gemma = sentencepiece_model(lines, False, ["\n\n", "\n\n\n", "<start_of_turn>", "<end_of_turn>"])
    back = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    back_stripped = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    marks = normalizers.Replace(" ", SPACE)
    turns = [AddedToken(t, rstrip=True, normalized=False) for t in ("<|user|>", "<|assistant|>", "<|end|>")]
    for name, tokenizer in {
        "llama2": convert(llama2, normalizers.Sequence([normalizers.Prepend(SPACE), marks]), None, [], back_stripped),
        "mistral": convert(llama2, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), ["[INST]", "[/INST]"], back_stripped),
        "phi3": convert(llama2, normalizers.Sequence([normalizers.Prepend(SPACE), marks]), None, turns, back_stripped),
        "gemma": convert(gemma, marks, pre_tokenizers.Split(" ", "merged_with_previous"), [], back),
    }.items():
        write_json(name, tokenizer, name == "llama2")
        sources[name] = LibraryIds(tokenizer)
    for name, model, prefix in [("llama2", llama2, True), ("gemma", gemma, False)]:
        (OUT / f"{name}.tokenizer.model").write_bytes(model)
        write_scored_gguf(name, model, prefix)
        sources[name + "_sentencepiece"] = SentencePieceIds(model)

    (OUT / "texts.json").write_text(json.dumps(strings, ensure_ascii=True, indent=0))
    (OUT / "ids.json").write_text(json.dumps({name: hashes(source, strings) for name, source in sources.items()}, indent=0))
    print(len(strings), "texts;", sum(f.stat().st_size for f in OUT.iterdir()), "bytes")


if __name__ == "__main__":
    main()
