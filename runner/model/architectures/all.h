// The architectures, one file each.
#pragma once

#include "runner/model/architecture.h"

namespace kvscope {

extern const Architecture kLlama;
extern const Architecture kMistral;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kPhi3;
extern const Architecture kGemma3;
extern const Architecture kGptNeox;
extern const Architecture kOpt;

}  // namespace kvscope
