#include <charconv>

#include "harness/export/live_metrics.h"
#include "runner/base/error.h"

namespace kvscope {

std::string parse_listen_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string host(colon == std::string_view::npos ? "" : text.substr(0, colon));
  const std::string_view port_text =
      colon == std::string_view::npos ? text : text.substr(colon + 1);
  int port = -1;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size() || port < 0 ||
      port > 65535) {
    throw UsageError("--metrics-listen " + std::string(text) +
                     ": write HOST:PORT or PORT, like 127.0.0.1:9400");
  }
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  return host + ":" + std::to_string(port);
}

}  // namespace kvscope
