#include "runner/model/architecture.h"

#include <algorithm>
#include <array>

#include "runner/model/architectures/all.h"

namespace kvscope {
namespace {

constexpr std::array kArchitectures = {&kLlama, &kMistral, &kQwen2,   &kQwen3,
                                       &kPhi3,  &kGemma3,  &kGptNeox, &kOpt};

std::string join(std::string list, std::string_view name) {
  return list.empty() ? std::string(name) : list + ", " + std::string(name);
}

}  // namespace

std::span<const Architecture* const> architectures() { return kArchitectures; }

const Architecture* architecture_of_gguf(std::string_view name) {
  for (const Architecture* one : kArchitectures) {
    if (one->in_gguf && one->name == name) return one;
  }
  return nullptr;
}

const Architecture* architecture_of_folder(std::string_view model_type) {
  for (const Architecture* one : kArchitectures) {
    if (std::ranges::find(one->model_types, model_type) != one->model_types.end()) return one;
  }
  return nullptr;
}

std::string known_gguf_architectures() {
  std::string list;
  for (const Architecture* one : kArchitectures) {
    if (one->in_gguf) list = join(list, one->name);
  }
  return list;
}

std::string known_model_types() {
  std::string list;
  for (const Architecture* one : kArchitectures) {
    for (const std::string_view type : one->model_types) list = join(list, type);
  }
  return list;
}

}  // namespace kvscope
