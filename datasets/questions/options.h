// Questions with options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// "A. …\nB. …": options that already begin with their letter are left as they are.
std::string lettered(const std::vector<std::string>& options);

// "A" for 0; throws DataError beyond "Z" or outside the options.
std::string option_letter(std::size_t index, const std::vector<std::string>& options);

// Index of an option by its letter ("B", "B.", "(B) …") or its text. Throws DataError.
std::size_t option_index(std::string_view answer, const std::vector<std::string>& options);

}  // namespace kvscope
