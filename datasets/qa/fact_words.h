// What the generated facts are about. Every list has each entry once.
#pragma once

#include <span>
#include <string_view>

namespace kvscope {

std::span<const std::string_view> person_names();
std::span<const std::string_view> city_names();
std::span<const std::string_view> job_names();  // all take "a"
std::span<const std::string_view> pet_names();  // all take "a"
// Short sentences without people, places, jobs or animals.
std::span<const std::string_view> filler_sentences();

}  // namespace kvscope
