#pragma once

#include <string_view>

namespace kvscope {

// True if a tenth of the first few hundred characters are Han: words are then not parted by spaces.
bool is_chinese(std::string_view text);

}  // namespace kvscope
