// PG-19 (Rae et al. 2020): books, for inspection.
#pragma once

#include "datasets/questions/format.h"

namespace kvscope {

extern const FolderFormatInfo kPg19Folder;

}  // namespace kvscope
