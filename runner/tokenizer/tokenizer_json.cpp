#include "runner/tokenizer/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/tokenizer/bpe_tokenizer.h"
#include "runner/tokenizer/json_fields.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;  // of sequences in sequences

// "a b", or ["a", "b"] since tokenizers 0.20.
std::pair<std::string, std::string> read_merge(const Json& merge, std::size_t rank) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  throw DataError("merge " + std::to_string(rank) + " is no pair of tokens");
}

void refuse_text(const Json& model, const char* key) {
  if (!string_or(model, key, "").empty()) {
    throw DataError("model: '" + std::string(key) + "' is not supported");
  }
}

BpeDescription read_model(const Json& model) {
  const std::string type = string_or(model, "type", "BPE");
  if (type != "BPE") {
    throw DataError("tokenizer model '" + type + "' is not supported; known is BPE");
  }
  refuse_text(model, "continuing_subword_prefix");
  refuse_text(model, "end_of_word_suffix");
  const Json* dropout = find_member(model, "dropout");
  if (dropout != nullptr && *dropout != 0) throw DataError("model: 'dropout' is not supported");

  BpeDescription d;
  const Json& vocabulary = required_member(model, "vocab");
  const Json& merges = required_member(model, "merges");
  if (!vocabulary.is_object() || !merges.is_array()) {
    throw DataError("model: 'vocab' is no object or 'merges' no list");
  }
  std::unordered_map<std::int32_t, bool> taken;
  for (const auto& [token, id] : vocabulary.items()) {
    d.vocabulary.emplace_back(token, token_id_of(id, "token " + kvscope::quoted(token)));
    if (!taken.emplace(d.vocabulary.back().second, true).second) {
      throw DataError("token " + kvscope::quoted(token) + " has the id of another");
    }
  }
  d.merges.reserve(merges.size());
  for (const Json& merge : merges) d.merges.push_back(read_merge(merge, d.merges.size()));
  if (find_member(model, "unk_token") != nullptr) d.unknown = required_string(model, "unk_token");
  d.fuse_unknown = bool_or(model, "fuse_unk", false);
  d.byte_fallback = bool_or(model, "byte_fallback", false);
  d.whole_words = bool_or(model, "ignore_merges", false);
  return d;
}

std::vector<AddedToken> read_added_tokens(const Json& description, const BpeModel& model) {
  std::vector<AddedToken> tokens;
  const Json* list = find_member(description, "added_tokens");
  if (list == nullptr) return tokens;
  if (!list->is_array()) throw DataError("'added_tokens' is no list");
  for (const Json& entry : *list) {
    AddedToken token = read_added_token(entry, required_id(entry, "id"));
    const auto known = model.id_of(token.text);
    if (known && *known != token.id) {
      throw DataError("added token " + kvscope::quoted(token.text) + " has the id " +
                      std::to_string(token.id) + " and, as a token of the model, " +
                      std::to_string(*known));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Only what a single token becomes: what decoders do to a text's ends, and how they repair invalid
// UTF-8, is left out, so that decoding is the same in pieces.
void read_decoder(const Json& description, int depth, TokenDecoding& how) {
  const std::string type = required_string(description, "type");
  if (type == "Sequence") {
    const Json& parts = required_member(description, "decoders");
    if (!parts.is_array() || depth == kMaxDepth) {
      throw DataError("decoder: a sequence is no list, or too deep");
    }
    for (const Json& part : parts) read_decoder(part, depth + 1, how);
  } else if (type == "ByteLevel") {
    how.byte_symbols = true;
  } else if (type == "ByteFallback") {
    how.byte_tokens = true;
  } else if (type == "Metaspace") {
    how.space = string_or(description, "replacement", "▁");
  } else if (type == "Replace") {
    const Json& pattern = required_member(description, "pattern");
    if (find_member(pattern, "String") == nullptr ||
        required_string(description, "content") != " ") {
      throw DataError("decoder 'Replace' is supported only from a text to a space");
    }
    how.space = required_string(pattern, "String");
  } else if (type != "Fuse" && type != "Strip") {
    throw DataError("decoder '" + type +
                    "' is not supported; known are ByteLevel, ByteFallback, Metaspace, Replace, "
                    "Fuse, Strip, Sequence");
  }
}

std::optional<std::int32_t> special_id(const Json& post, const Json& item) {
  const std::string name = required_string(required_member(item, "SpecialToken"), "id");
  const Json& token = required_member(required_member(post, "special_tokens"), name);
  const Json& ids = required_member(token, "ids");
  if (!ids.is_array() || ids.size() != 1) {
    throw DataError("post-processor: token " + kvscope::quoted(name) + " is not one id");
  }
  return token_id_of(ids[0], "post-processor: token " + kvscope::quoted(name));
}

// The token that is put before a text. What is put behind it is for a text's end, and prompts have
// none.
std::optional<std::int32_t> read_first_token(const Json& description, int depth) {
  const std::string type = required_string(description, "type");
  std::optional<std::int32_t> first;
  if (type == "Sequence") {
    const Json& parts = required_member(description, "processors");
    if (!parts.is_array() || depth == kMaxDepth) {
      throw DataError("post-processor: a sequence is no list, or too deep");
    }
    for (const Json& part : parts) {
      if (const auto id = read_first_token(part, depth + 1)) first = id;
    }
  } else if (type == "TemplateProcessing") {
    const Json& single = required_member(description, "single");
    if (!single.is_array()) throw DataError("post-processor: 'single' is no list");
    for (const Json& item : single) {
      if (find_member(item, "Sequence") != nullptr) return first;
      if (first) throw DataError("post-processor: more than one token before a text");
      first = special_id(description, item);
    }
    throw DataError("post-processor: 'single' has no text");
  } else if (type != "ByteLevel") {
    throw DataError("post-processor '" + type +
                    "' is not supported; known are TemplateProcessing, ByteLevel, Sequence");
  }
  return first;
}

void set_ends(const std::optional<std::int32_t>& first_token, const TokenizerSettings& settings,
              BpeTokenizerParts& parts) {
  const auto id_of = [&](const std::optional<std::string>& text) -> std::optional<std::int32_t> {
    if (!text) return std::nullopt;
    for (const AddedToken& token : parts.added_tokens) {
      if (token.text == *text) return token.id;
    }
    return parts.model.id_of(*text);
  };
  parts.bos = first_token ? first_token : id_of(settings.bos_token);
  parts.adds_bos = settings.adds_bos.value_or(first_token.has_value());
  if (!parts.bos && parts.adds_bos) parts.bos = settings.bos_id;
  parts.eos = id_of(settings.eos_token);
  if (!parts.eos) parts.eos = settings.eos_id;
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(const Json& description,
                                               const TokenizerSettings& settings) {
  const Json none;
  const auto part = [&](const char* key) -> const Json& {  // never copied: it may be deep
    const Json* found = find_member(description, key);
    return found == nullptr ? none : *found;
  };
  BpeTokenizerParts parts{.normalizer = read_normalizer(part("normalizer")),
                          .pretokenizer = read_pretokenizer(part("pre_tokenizer")),
                          .model = BpeModel(read_model(required_member(description, "model"))),
                          .added_tokens = {},
                          .decoding = {},
                          .bos = {},
                          .eos = {},
                          .adds_bos = false,
                          .chat_template = settings.chat_template};
  parts.added_tokens = read_added_tokens(description, parts.model);
  if (const Json* decoder = find_member(description, "decoder")) {
    read_decoder(*decoder, 0, parts.decoding);
  }
  std::optional<std::int32_t> first;
  if (const Json* post = find_member(description, "post_processor")) {
    first = read_first_token(*post, 0);
  }
  set_ends(first, settings, parts);
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text,
                                                const TokenizerSettings& settings) {
  const Json description = Json::parse(text, nullptr, false);
  if (!description.is_object()) throw DataError("is no JSON object");
  return read_tokenizer_json(description, settings);
}

}  // namespace kvscope
