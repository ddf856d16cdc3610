#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <iterator>
#include <limits>

#include "runner/base/error.h"
#include "runner/base/splitmix.h"
#include "runner/model/folder_model.h"
#include "runner/model/safetensors_store.h"
#include "tests/runner/model/safetensors_writer.h"

namespace kvscope {
namespace {

using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::write_text;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const DataError& error) {
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
    return error.what();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

std::string file_error(const std::string& bytes) {
  const std::vector<std::byte> copy(
      reinterpret_cast<const std::byte*>(bytes.data()),
      reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  return error_of([&] { SafetensorsFile("m.safetensors", copy, nullptr); });
}

SafetensorsWriter two_tensors() {
  SafetensorsWriter w;
  w.tensor("a", {2, 3}, {1, 2, 3, 4, 5, 6}).tensor("b", {2}, {7, 8});
  return w;
}

class Folder {
 public:
  Folder() : path(std::filesystem::temp_directory_path() / name()) {
    std::filesystem::create_directories(path);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  const std::filesystem::path path;

 private:
  static std::string name() {
    static int n = 0;
    return "kvscope_folder_" + std::to_string(::getpid()) + "_" + std::to_string(n++);
  }
};

TEST(Safetensors, ReadsTensorsAtAnyAddress) {
  SafetensorsWriter w = two_tensors();
  for (const char* padding : {"", " ", "  ", "   "}) {
    const std::string bytes = w.with_header(w.header.dump() + padding);
    const Folder folder;
    write_text(folder.path / "model.safetensors", bytes);
    const SafetensorsStore store(folder.path);
    EXPECT_THAT(store.names(), ::testing::ElementsAre("a", "b"));
    store.require("a", 2, 3);
    store.require("b", 1, 2);
    std::vector<float> row(3);
    store.read_rows("a", 2, 3, 1, 1, row.data());
    EXPECT_EQ(row, (std::vector<float>{4, 5, 6}));
    EXPECT_THAT(error_of([&] { store.require("a", 3, 2); }),
                HasSubstr("tensor 'a' has shape [2, 3], not [3, 2]"));
    EXPECT_THAT(error_of([&] { store.require("c", 1, 2); }), HasSubstr("'c' is missing"));
  }
}

TEST(Safetensors, RefusesHostileHeaders) {
  EXPECT_EQ(file_error(two_tensors().bytes()), "no error");
  EXPECT_THAT(file_error(""), HasSubstr("shorter than its first number"));
  std::string longer = two_tensors().bytes();
  longer[6] = '\x7f';
  EXPECT_THAT(file_error(longer), HasSubstr("more than there are"));
  EXPECT_THAT(file_error(two_tensors().with_header("[1]")), HasSubstr("not a JSON object"));
  EXPECT_THAT(file_error(two_tensors().with_header("{")), HasSubstr("not a JSON object"));
  const auto changed = [](const std::function<void(nlohmann::json&)>& change) {
    SafetensorsWriter w = two_tensors();
    change(w.header);
    return file_error(w.bytes());
  };
  EXPECT_THAT(changed([](auto& h) { h["b"] = 3; }), HasSubstr("not described by"));
  EXPECT_THAT(changed([](auto& h) { h["b"]["dtype"] = "F64"; }), HasSubstr("has type 'F64'"));
  EXPECT_THAT(changed([](auto& h) { h["b"]["shape"] = {-2}; }), HasSubstr("whole numbers"));
  EXPECT_THAT(changed([](auto& h) { h["b"]["shape"] = {3}; }), HasSubstr("its shape and type"));
  EXPECT_THAT(changed([](auto& h) {
                h["b"]["shape"] = {1ULL << 62, 1ULL << 62};
              }),
              HasSubstr("its shape and type"));
  EXPECT_THAT(changed([](auto& h) {
                h["b"]["data_offsets"] = {24, 40};
              }),
              HasSubstr("outside the file"));
  EXPECT_THAT(changed([](auto& h) {
                h["b"]["data_offsets"] = {32, 24};
              }),
              HasSubstr("outside the file"));
  EXPECT_THAT(changed([](auto& h) { h["b"]["data_offsets"] = {16, 24}; }), HasSubstr("overlap"));
  EXPECT_THAT(changed([](auto& h) { h.erase("b"); }), HasSubstr("belong to none"));
}

TEST(Safetensors, DamagedBytesNeverDoWorseThanADataError) {
  const std::string good = two_tensors().bytes();
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (std::uint64_t i = 0; i <= round % 3; ++i) {
      const std::uint64_t random = smix(round * 4 + i);
      bytes[random % bytes.size()] = static_cast<char>(random >> 32);
    }
    if (round % 5 == 0) bytes.resize(smix(round) % bytes.size());
    file_error(bytes);
  }
}

TEST(Safetensors, RefusesIndexesThatLeaveTheFolderOrLie) {
  const auto error_with = [](const nlohmann::json& map) {
    const Folder folder;
    write_text(folder.path / "one.safetensors", two_tensors().bytes());
    write_text(folder.path / "model.safetensors.index.json",
               nlohmann::json{{"weight_map", map}}.dump());
    return error_of([&] { SafetensorsStore{folder.path}; });
  };
  EXPECT_EQ(error_with({{"a", "one.safetensors"}, {"b", "one.safetensors"}}), "no error");
  for (const char* name : {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", ""})
    EXPECT_THAT(error_with({{"a", name}}), HasSubstr("no file of this folder")) << name;
  EXPECT_THAT(error_with({{"c", "one.safetensors"}}), HasSubstr("tensor 'c' is not in"));
  EXPECT_THAT(error_with({{"a", "two.safetensors"}}), HasSubstr("two.safetensors"));
  EXPECT_THAT(error_with({{"a", 3}}), HasSubstr("names no file"));
  EXPECT_THAT(error_with("x"), HasSubstr("weight_map"));
  const Folder folder;
  EXPECT_THAT(error_of([&] { SafetensorsStore{folder.path}; }), HasSubstr("has neither"));
}

// A folder that was made for the references, with something changed in its config.json.
std::string model_error(const std::string& name,
                        const std::function<void(nlohmann::json&)>& change) {
  const std::filesystem::path from =
      std::filesystem::path(KVSCOPE_SOURCE_DIR) / "tests/reference/models" / name;
  const Folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(from))
    std::filesystem::copy(entry.path(), folder.path / entry.path().filename());
  std::ifstream in(from / "config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  change(config);
  write_text(folder.path / "config.json", config.dump());
  return error_of([&] { open_folder_model(folder.path); });
}

TEST(FolderModel, RefusesWhatTheForwardPassDoesNotHave) {
  using J = nlohmann::json;
  EXPECT_EQ(model_error("llama-gqa", [](J&) {}), "no error");
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["model_type"] = "mamba"; }),
              HasSubstr("models of type 'mamba' are not supported"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c.erase("model_type"); }),
              HasSubstr("'model_type' is missing"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["hidden_act"] = "gelu"; }),
              HasSubstr("hidden_act 'gelu' is not supported"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["attention_bias"] = true; }),
              HasSubstr("attention_bias is not supported"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["rope_parameters"]["rope_type"] = "dynamic"; }),
              HasSubstr("RoPE scaling 'dynamic' is not supported"));
  EXPECT_THAT(model_error("phi3", [](J& c) { c["rope_parameters"]["rope_type"] = "longrope"; }),
              HasSubstr("'longrope' of Phi-3 is not supported"));
  EXPECT_THAT(model_error("opt", [](J& c) { c["do_layer_norm_before"] = false; }),
              HasSubstr("norms after the sub-layers"));
  EXPECT_THAT(model_error("opt", [](J& c) { c["word_embed_proj_dim"] = 12; }),
              HasSubstr("projected embedding"));
  EXPECT_THAT(model_error("gemma3", [](J& c) { c["final_logit_softcapping"] = 30.0; }),
              HasSubstr("final_logit_softcapping is not supported"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["quantization_config"] = J::object(); }),
              HasSubstr("quantised checkpoints"));
  EXPECT_THAT(model_error("qwen2", [](J& c) { c["model_type"] = "llama"; }),
              HasSubstr("is not part of a model of architecture 'llama'"));
}

TEST(FolderModel, RefusesSettingsThatContradictTheTensors) {
  using J = nlohmann::json;
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["hidden_size"] = 32; }),
              HasSubstr("has shape"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["num_hidden_layers"] = 3; }),
              HasSubstr("is missing"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["num_hidden_layers"] = 1; }),
              HasSubstr("is not part of"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["tie_word_embeddings"] = false; }),
              HasSubstr("'lm_head.weight' is missing"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["num_key_value_heads"] = 4; }),
              HasSubstr("cannot share"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["head_dim"] = 7; }), HasSubstr("must be even"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["vocab_size"] = -1; }),
              HasSubstr("not a positive size"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["vocab_size"] = "many"; }),
              HasSubstr("not a whole number"));
  EXPECT_THAT(model_error("llama-gqa", [](J& c) { c["rms_norm_eps"] = 0; }),
              HasSubstr("not a positive number"));
  EXPECT_THAT(model_error("gemma3", [](J& c) { c["layer_types"] = {"full_attention"}; }),
              HasSubstr("1 entries for 3 layers"));
}

TEST(FolderModel, ReadsWhereAnswersEnd) {
  const ModelConfig config = read_folder_config(std::filesystem::path(KVSCOPE_SOURCE_DIR) /
                                                "tests/reference/models/mistral");
  EXPECT_EQ(config.stop_tokens, (std::vector<std::int32_t>{2, 5}));
  EXPECT_EQ(config.window, 7);
  EXPECT_EQ(config.name, "mistral");
  EXPECT_FALSE(config.is_plain());
}

TEST(FolderModel, NamesTheTensorWithANonFiniteWeight) {
  const std::filesystem::path from =
      std::filesystem::path(KVSCOPE_SOURCE_DIR) / "tests/reference/models/llama-gqa";
  const Folder folder;
  std::filesystem::copy(from / "config.json", folder.path / "config.json");
  std::ifstream in(from / "model.safetensors", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof bad, &bad, sizeof bad);
  write_text(folder.path / "model.safetensors", bytes);
  const auto model = open_folder_model(folder.path);
  EXPECT_THAT(error_of([&] { model->read("output_norm.weight", 1, 24); }),
              HasSubstr("tensor 'model.norm.weight' holds a non-finite value at element 23"));
}

}  // namespace
}  // namespace kvscope
