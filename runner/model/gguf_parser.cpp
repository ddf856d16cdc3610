// Format: "GGUF", u32 version, u64 tensor count, u64 key count; keys (string, u32 type, value);
// tensor descriptions (string, u32 number of dimensions, u64 each, u32 type, u64 offset); padding;
// data. A string is a u64 length and its bytes, an array a u32 element type, a u64 count and its
// elements. Offsets count from the data, which starts at a multiple of general.alignment.
#include "runner/model/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "runner/base/error.h"

namespace kvscope {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as little endian");

constexpr int kMaxArrayDepth = 4;  // no writer nests arrays at all
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;
constexpr std::uint32_t kMaxDims = 4;

class Parser {
 public:
  Parser(const std::string& name, std::span<const std::byte> bytes) : name_(name), bytes_(bytes) {}

  GgufIndex parse() {
    read_magic();
    read_version();
    const std::uint64_t n_tensors = read_count("tensors", kMinTensorBytes);
    const std::uint64_t n_keys = read_count("keys", kMinKeyBytes);
    for (std::uint64_t i = 0; i < n_keys; ++i) read_key();
    const std::uint64_t alignment = find_alignment();
    std::vector<Description> descriptions;
    for (std::uint64_t i = 0; i < n_tensors; ++i) descriptions.push_back(read_description());
    place_tensors(descriptions, alignment);
    return std::move(index_);
  }

 private:
  struct Description {
    std::string_view name;
    BlockFormat format;
    std::array<std::uint64_t, 4> dims;
    std::uint64_t offset;
    std::uint64_t size;
  };

  [[noreturn]] void fail(const std::string& what) const { throw DataError(name_ + ": " + what); }
  [[noreturn]] void fail_truncated(const std::string& where) const {
    fail("ends at byte " + std::to_string(bytes_.size()) + " inside " + where +
         "; the file is truncated or damaged, fetch it again");
  }

  std::uint64_t remaining() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(std::uint64_t size, const std::string& where) {
    if (size > remaining()) fail_truncated(where);
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  template <typename T>
  T take_number(const std::string& where) {
    T value;
    std::memcpy(&value, take(sizeof(T), where).data(), sizeof(T));
    return value;
  }

  std::string_view take_string(const std::string& where) {
    const auto raw = take(take_number<std::uint64_t>(where), where);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  void read_magic() {
    const auto head = bytes_.first(std::min<std::size_t>(bytes_.size(), 4));
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    if (text != "GGUF") {
      fail("not a GGUF file: " + (text.empty() ? "it is empty" : "starts with " + quoted(text)) +
           "; give a model in GGUF format");
    }
    position_ = 4;
  }

  void read_version() {
    const auto version = take_number<std::uint32_t>("the header");
    if (version == 2 || version == 3) return;
    if (version != 0 && (version & 0xFFFFU) == 0) {
      fail("is a big-endian GGUF file; convert it to little endian");
    }
    fail("is GGUF version " + std::to_string(version) +
         "; versions 2 and 3 are read, convert the model again");
  }

  std::uint64_t read_count(const std::string& what, std::uint64_t min_bytes) {
    const auto count = take_number<std::uint64_t>("the header");
    if (count > remaining() / min_bytes) {
      fail("claims " + std::to_string(count) + " " + what + ", more than its " +
           std::to_string(bytes_.size()) + " bytes can hold; it is damaged, fetch it again");
    }
    return count;
  }

  GgufType take_type(const std::string& where) {
    const auto type = take_number<std::uint32_t>(where);
    if (type > static_cast<std::uint32_t>(GgufType::kF64)) {
      fail("unknown value type " + std::to_string(type) + " in " + where +
           "; the file is damaged, fetch it again");
    }
    return static_cast<GgufType>(type);
  }

  void read_key() {
    const std::string_view key = take_string("a key's name");
    const std::string where = "key " + quoted(key);
    GgufValue value{};
    value.type = value.element = take_type(where);
    value.count = 1;
    if (value.type == GgufType::kArray) {
      value.element = take_type(where);
      value.count = take_number<std::uint64_t>(where);
    }
    const std::size_t start = position_;
    skip_values(value.element, value.count, value.type == GgufType::kArray ? 1 : 0, where);
    value.values = bytes_.subspan(start, position_ - start);
    if (!index_.values.emplace(key, value).second) {
      fail(where + " is given twice; the file is damaged, fetch it again");
    }
  }

  void skip_values(GgufType type, std::uint64_t count, int depth, const std::string& where) {
    const std::uint64_t min_bytes = type == GgufType::kString  ? 8
                                    : type == GgufType::kArray ? 12
                                                               : scalar_bytes(type);
    if (count > remaining() / min_bytes) fail_truncated(where);
    if (type == GgufType::kString) {
      for (std::uint64_t i = 0; i < count; ++i) take_string(where);
    } else if (type == GgufType::kArray) {
      if (depth >= kMaxArrayDepth) fail(where + ": arrays nested too deeply; the file is damaged");
      for (std::uint64_t i = 0; i < count; ++i) {
        const GgufType element = take_type(where);
        skip_values(element, take_number<std::uint64_t>(where), depth + 1, where);
      }
    } else {
      take(count * min_bytes, where);  // cannot overflow: count ≤ remaining / min_bytes
    }
  }

  std::uint64_t find_alignment() const {
    const auto found = index_.values.find("general.alignment");
    if (found == index_.values.end()) return kDefaultAlignment;
    const GgufValue& value = found->second;
    std::uint32_t alignment = 0;
    if (value.type == GgufType::kU32) {
      std::memcpy(&alignment, value.values.data(), sizeof alignment);
    }
    if (!std::has_single_bit(alignment)) {
      fail("general.alignment is no power of two; the file is damaged, fetch it again");
    }
    return alignment;
  }

  Description read_description() {
    Description d{};
    d.name = take_string("a tensor's name");
    const std::string where = "tensor " + quoted(d.name);
    const auto n_dims = take_number<std::uint32_t>(where);
    if (n_dims == 0 || n_dims > kMaxDims) {
      fail(where + " has " + std::to_string(n_dims) +
           " dimensions, not 1 to 4; the file is damaged, fetch it again");
    }
    d.dims.fill(1);
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < n_dims; ++i) {
      d.dims[i] = take_number<std::uint64_t>(where);
      if (d.dims[i] == 0 || __builtin_mul_overflow(elements, d.dims[i], &elements)) {
        fail(where + " has an impossible size; the file is damaged, fetch it again");
      }
    }
    const auto type = take_number<std::uint32_t>(where);
    d.offset = take_number<std::uint64_t>(where);
    const auto format = block_format(type);
    if (!format) {
      fail(where + " has type " + tensor_type_name(type) +
           ", which is not supported; use a file of " + supported_tensor_types());
    }
    d.format = *format;
    if (d.dims[0] % format->elements != 0) {
      fail(where + ": rows of " + std::to_string(d.dims[0]) + " are no whole " + format->name +
           " blocks of " + std::to_string(format->elements) + "; the file is damaged");
    }
    if (__builtin_mul_overflow(elements / format->elements, std::uint64_t{format->bytes},
                               &d.size)) {
      fail(where + " has an impossible size; the file is damaged, fetch it again");
    }
    return d;
  }

  void place_tensors(std::vector<Description>& descriptions, std::uint64_t alignment) {
    if (descriptions.empty()) return;
    const std::uint64_t start = position_ + (alignment - position_ % alignment) % alignment;
    if (start > bytes_.size()) fail_truncated("the padding before the tensors");
    const auto data = bytes_.subspan(start);
    std::sort(descriptions.begin(), descriptions.end(),
              [](const Description& a, const Description& b) { return a.offset < b.offset; });
    std::uint64_t end = 0;  // of the tensor before
    for (const Description& d : descriptions) {
      const std::string where = "tensor " + quoted(d.name);
      if (d.offset % alignment != 0) {
        fail(where + " is not aligned to " + std::to_string(alignment) + " bytes; it is damaged");
      }
      if (d.offset > data.size() || d.size > data.size() - d.offset) fail_truncated(where);
      if (d.offset < end) fail(where + " overlaps another tensor; the file is damaged");
      end = d.offset + d.size;
      const GgufTensor tensor{d.format.type, d.dims, data.subspan(d.offset, d.size)};
      if (!index_.tensors.emplace(d.name, tensor).second) {
        fail(where + " is given twice; the file is damaged, fetch it again");
      }
    }
  }

  const std::string& name_;
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  GgufIndex index_;
};

}  // namespace

std::size_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

GgufIndex parse_gguf(const std::string& name, std::span<const std::byte> bytes) {
  return Parser(name, bytes).parse();
}

}  // namespace kvscope
