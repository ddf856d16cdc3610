// Writes safetensors files for tests, also wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::testing {

class SafetensorsWriter {
 public:
  nlohmann::json header = nlohmann::json::object();
  std::string data;

  SafetensorsWriter& tensor(const std::string& name, const std::vector<std::uint64_t>& shape,
                            const std::vector<float>& values) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
    return *this;
  }
  std::string bytes() const { return with_header(header.dump()); }
  std::string with_header(const std::string& text) const {
    const std::uint64_t length = text.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    return out + text + data;
  }
};

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace kvscope::testing
