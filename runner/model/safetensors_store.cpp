#include "runner/model/safetensors_store.h"

#include <nlohmann/json.hpp>
#include <set>

#include "runner/base/error.h"
#include "runner/base/sha256.h"
#include "runner/model/dequantize.h"
#include "runner/model/gguf_file.h"
#include "runner/model/mapped_file.h"

namespace kvscope {
namespace {

// The shards' names, from the index's weight_map.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  const auto index = nlohmann::json::parse(text, text + file.bytes().size(), nullptr, false);
  const auto bad = [&](const std::string& what) { return DataError(path.string() + ": " + what); };
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw bad("has no weight_map; it is damaged, fetch it again");
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) throw bad("names no file for tensor " + kvscope::quoted(tensor));
    const auto name = shard.get<std::string>();
    const std::filesystem::path relative(name);
    if (name.empty() || relative.has_parent_path() || relative.filename() != relative ||
        name == "." || name == "..") {
      throw bad("puts a tensor into " + kvscope::quoted(name) +
                ", which is no file of this folder");
    }
    shard_of[tensor] = name;
  }
  return shard_of;
}

}  // namespace

SafetensorsStore::SafetensorsStore(const std::filesystem::path& folder) : folder_(folder) {
  const auto index_path = folder / "model.safetensors.index.json";
  const auto single_path = folder / "model.safetensors";
  if (std::filesystem::exists(single_path)) {
    add(single_path);
    return;
  }
  if (!std::filesystem::exists(index_path)) {
    fail(
        "has neither model.safetensors nor model.safetensors.index.json; checkpoints in other "
        "formats are not read");
  }
  const std::map<std::string, std::string> shard_of = read_index(index_path);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  for (const std::string& shard : shards) add(folder / shard);
  for (const auto& [tensor, shard] : shard_of) {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end()) {
      fail("tensor " + kvscope::quoted(tensor) + " is not in " + kvscope::quoted(shard) +
           ", where the index has it; fetch the folder again");
    }
  }
}

void SafetensorsStore::add(const std::filesystem::path& path) {
  files_.push_back(SafetensorsFile::open(path));
  for (const auto& [name, tensor] : files_.back()->tensors()) {
    if (!tensors_.emplace(name, tensor).second)
      fail("tensor " + kvscope::quoted(name) + " is in two files; fetch the folder again");
  }
}

void SafetensorsStore::fail(const std::string& what) const {
  throw DataError(folder_.string() + ": " + what);
}

std::vector<std::string_view> SafetensorsStore::names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

void SafetensorsStore::require(std::string_view tensor, int n_out, int n_in) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end())
    fail("tensor " + kvscope::quoted(tensor) +
         " is missing; the folder is incomplete, fetch it again");
  const std::vector<std::uint64_t>& shape = found->second.shape;
  const std::vector<std::uint64_t> matrix = {std::uint64_t(n_out), std::uint64_t(n_in)};
  const std::vector<std::uint64_t> vector = {std::uint64_t(n_in)};
  if (shape == matrix || (n_out == 1 && shape == vector)) return;
  const auto text = [](const std::vector<std::uint64_t>& dims) {
    std::string out = "[";
    for (const std::uint64_t n : dims) out += (out == "[" ? "" : ", ") + std::to_string(n);
    return out + "]";
  };
  fail("tensor " + kvscope::quoted(tensor) + " has shape " + text(shape) + ", not " +
       text(n_out == 1 ? vector : matrix) + "; config.json is of another model");
}

void SafetensorsStore::read_rows(std::string_view tensor, int /*n_out*/, int n_in, int first, int n,
                                 float* out) const {
  const SafetensorsTensor& stored = tensors_.find(tensor)->second;
  const auto row_bytes = std::size_t(n_in) * block_format(std::uint32_t(stored.type))->bytes;
  dequantize(stored.type,
             stored.data.subspan(std::size_t(first) * row_bytes, std::size_t(n) * row_bytes),
             {out, std::size_t(n) * std::size_t(n_in)});
}

const std::string& SafetensorsStore::sha256() const {
  std::call_once(hashed_, [this] {
    std::string digests = sha256_file_hex(folder_ / "config.json");
    for (const auto& file : files_) digests += sha256_hex(file->bytes());
    sha256_ = sha256_hex(std::string_view(digests));
  });
  return sha256_;
}

}  // namespace kvscope
