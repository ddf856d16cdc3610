#include "runner/policies/policy.h"

namespace kvscope {

std::string_view name_of(PositionMode mode) {
  switch (mode) {
    case PositionMode::kAbsolute:
      return "absolute";
    case PositionMode::kCacheRelative:
      return "cache_relative";
    case PositionMode::kRerotate:
      return "rerotate";
  }
  return "";
}

std::string_view name_of(PrefillMode mode) {
  switch (mode) {
    case PrefillMode::kInStream:
      return "in_stream";
    case PrefillMode::kMonolithic:
      return "monolithic";
    case PrefillMode::kStreaming:
      return "streaming";
    case PrefillMode::kTwoPass:
      return "two_pass";
  }
  return "";
}

std::string_view name_of(DecodeMode mode) {
  switch (mode) {
    case DecodeMode::kSelf:
      return "self";
    case DecodeMode::kGrow:
      return "grow";
    case DecodeMode::kWindow:
      return "window";
    case DecodeMode::kTova:
      return "tova";
    case DecodeMode::kH2o:
      return "h2o";
  }
  return "";
}

}  // namespace kvscope
