// SHA-256 as lower-case hex (OpenSSL). Everything in the store is keyed by content.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kvscope {

std::string sha256_hex(std::string_view bytes);
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_file_hex(const std::filesystem::path& file);  // throws IoError

}  // namespace kvscope
