// The store's tables and views.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvscope {

inline constexpr std::int32_t kApplicationId = 0x4B564556;  // "KVEV"
inline constexpr int kSchemaVersion = 1;

// Statements that make an empty file a store; run inside one transaction.
std::string_view schema_sql();

}  // namespace kvscope
