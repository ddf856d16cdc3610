#include "runner/model/gguf_file.h"

#include <cstring>
#include <limits>
#include <utility>

#include "runner/base/error.h"
#include "runner/model/gguf_parser.h"
#include "runner/model/mapped_file.h"

namespace kvscope {
namespace {

const char* type_name(GgufType type) {
  constexpr std::array<const char*, 13> kNames = {"an unsigned 8-bit integer",
                                                  "an 8-bit integer",
                                                  "an unsigned 16-bit integer",
                                                  "a 16-bit integer",
                                                  "an unsigned 32-bit integer",
                                                  "a 32-bit integer",
                                                  "a 32-bit real",
                                                  "a boolean",
                                                  "a string",
                                                  "an array",
                                                  "an unsigned 64-bit integer",
                                                  "a 64-bit integer",
                                                  "a 64-bit real"};
  return kNames[static_cast<std::size_t>(type)];
}

template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

bool is_integer(GgufType type) {
  return type != GgufType::kF32 && type != GgufType::kF64 && type != GgufType::kBool &&
         type != GgufType::kString && type != GgufType::kArray;
}

// None if an unsigned 64-bit value does not fit.
std::optional<std::int64_t> load_integer(GgufType type, const std::byte* p) {
  switch (type) {
    case GgufType::kU8:
      return load<std::uint8_t>(p);
    case GgufType::kI8:
      return load<std::int8_t>(p);
    case GgufType::kU16:
      return load<std::uint16_t>(p);
    case GgufType::kI16:
      return load<std::int16_t>(p);
    case GgufType::kU32:
      return load<std::uint32_t>(p);
    case GgufType::kI32:
      return load<std::int32_t>(p);
    case GgufType::kI64:
      return load<std::int64_t>(p);
    default: {
      const auto value = load<std::uint64_t>(p);
      if (value > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
  }
}

}  // namespace

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const auto bytes = file->bytes();
  return std::make_shared<const GgufFile>(path.string(), bytes, std::move(file));
}

GgufFile::GgufFile(std::string name, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> owner)
    : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {
  GgufIndex index = parse_gguf(name_, bytes_);
  values_ = std::move(index.values);
  tensors_ = std::move(index.tensors);
}

void GgufFile::fail(const std::string& what) const { throw DataError(name_ + ": " + what); }

void GgufFile::fail_type(std::string_view key, const GgufValue& value,
                         std::string_view wanted) const {
  std::string held = type_name(value.type);
  if (value.type == GgufType::kArray)
    held += " of elements of type " + std::string(type_name(value.element));
  fail("key " + quoted(key) + " holds " + held + ", not " + std::string(wanted) +
       "; convert the model again");
}

const GgufValue* GgufFile::scalar(std::string_view key, std::string_view wanted) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  if (found->second.type == GgufType::kArray) fail_type(key, found->second, wanted);
  return &found->second;
}

const GgufValue* GgufFile::array(std::string_view key, std::string_view wanted) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  if (found->second.type != GgufType::kArray) fail_type(key, found->second, wanted);
  return &found->second;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = scalar(key, "an integer");
  if (value == nullptr) return std::nullopt;
  if (!is_integer(value->type)) fail_type(key, *value, "an integer");
  const auto number = load_integer(value->type, value->values.data());
  if (!number) fail("key " + quoted(key) + " is out of range; convert the model again");
  return number;
}

std::optional<double> GgufFile::real(std::string_view key) const {
  const GgufValue* value = scalar(key, "a real");
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufType::kF32) return load<float>(value->values.data());
  if (value->type == GgufType::kF64) return load<double>(value->values.data());
  fail_type(key, *value, "a real");
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = scalar(key, "a boolean");
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kBool) fail_type(key, *value, "a boolean");
  return value->values[0] != std::byte{0};
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* value = scalar(key, "a string");
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kString) fail_type(key, *value, "a string");
  const auto text = value->values.subspan(8);
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

std::optional<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = array(key, "an array of strings");
  if (value == nullptr) return std::nullopt;
  if (value->element != GgufType::kString) fail_type(key, *value, "an array of strings");
  std::vector<std::string_view> result;
  result.reserve(value->count);
  const std::byte* p = value->values.data();
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto length = load<std::uint64_t>(p);
    result.emplace_back(reinterpret_cast<const char*>(p + 8), length);
    p += 8 + length;
  }
  return result;
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = array(key, "an array of integers");
  if (value == nullptr) return std::nullopt;
  if (!is_integer(value->element)) fail_type(key, *value, "an array of integers");
  std::vector<std::int64_t> result;
  result.reserve(value->count);
  const std::size_t step = scalar_bytes(value->element);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number = load_integer(value->element, value->values.data() + i * step);
    if (!number) fail("key " + quoted(key) + " is out of range; convert the model again");
    result.push_back(*number);
  }
  return result;
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xF]};
    }
  }
  return result + (text.size() > kLongest ? "…'" : "'");
}

}  // namespace kvscope
