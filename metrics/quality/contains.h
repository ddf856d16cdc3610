#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// 1 if a normalised gold occurs in the normalised answer ("best subspan exact match" of Liu et al.
// 2023). An empty gold always does.
double contains_normalized(std::string_view answer, std::span<const std::string> golds);

// RULER's string_match_all (Hsieh et al. 2024) as a share from 0 to 1: how many golds occur in the
// answer, whatever their case. 0 without golds.
double share_contained(std::string_view answer, std::span<const std::string> golds);

// RULER's string_match_part: 1 if any gold occurs.
double any_contained(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
