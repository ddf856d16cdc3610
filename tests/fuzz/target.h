// One input of a fuzz target; the name is libFuzzer's, so that a build with
// clang++ -fsanitize=fuzzer,address links a target without mutate_main.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
