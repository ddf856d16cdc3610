#pragma once

#include <string>

namespace kvscope {

std::string new_uuid();  // UUIDv7 (RFC 9562): sorts by time of creation to the millisecond

}  // namespace kvscope
