// The store's tables and views.
#pragma once

#include <cstdint>
#include <string>

namespace kvscope {

inline constexpr std::int32_t kApplicationId = 0x4B564556;  // "KVEV"
inline constexpr int kSchemaVersion = 5;

// Statements that make an empty file a store; run inside one transaction.
std::string schema_sql();
// Statements that bring a store from version `from` (≥ 1) to this one; likewise.
std::string upgrade_sql(int from);

}  // namespace kvscope
