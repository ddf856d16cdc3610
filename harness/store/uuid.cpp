#include "harness/store/uuid.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <random>

namespace kvscope {

std::string new_uuid() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::array<std::uint8_t, 16> bytes{};
  for (int i = 0; i < 6; ++i) bytes[i] = static_cast<std::uint8_t>(milliseconds >> (40 - 8 * i));
  std::random_device random;
  for (int i = 6; i < 16; ++i) bytes[i] = static_cast<std::uint8_t>(random());
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0fU) | 0x70U);  // version 7
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3fU) | 0x80U);  // variant of the RFC
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
    text.push_back(kHex[bytes[i] >> 4]);
    text.push_back(kHex[bytes[i] & 0x0fU]);
  }
  return text;
}

}  // namespace kvscope
