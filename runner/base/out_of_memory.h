// What to say of memory that ran out: of the host, or, by exceptions that derive from
// std::bad_alloc and say more, of a device.
#pragma once

#include <new>
#include <string>
#include <typeinfo>

namespace kvscope {

inline std::string out_of_memory_text(const std::bad_alloc& error) {
  return typeid(error) == typeid(std::bad_alloc) ? "out of memory"
                                                 : std::string("out of memory: ") + error.what();
}

}  // namespace kvscope
