#include "harness/insight/missed_tokens.h"

#include <algorithm>
#include <functional>

namespace kvscope {

std::string_view name_of(Frame frame) { return frame == Frame::kLocal ? "local" : "paired"; }

std::vector<MissedToken> missed_tokens(Frame frame, const MissedRequest& request,
                                       const MassLog& masses, const MassLog* when) {
  const auto n_rows = double(masses.rows().size());
  std::vector<MissedToken> tokens(request.n_tokens);
  for (std::int32_t p = 0; p < request.n_tokens; ++p) {
    tokens[p].position = p;
    tokens[p].is_evidence = p >= request.evidence_begin && p < request.evidence_end;
  }
  for (int layer = 0; layer < request.n_layers; ++layer) {
    for (int h = 0; h < request.n_kv_heads; ++h) {
      const auto& held = request.residents[std::size_t(layer) * request.n_kv_heads + h];
      const std::span<const double> mass =
          frame == Frame::kLocal ? masses.ghost_mass(layer, h) : masses.cached_mass(layer, h);
      auto next_held = held.begin();
      for (MissedToken& token : tokens) {
        while (next_held != held.end() && *next_held < token.position) ++next_held;
        const bool was_kept = next_held != held.end() && *next_held == token.position;
        const std::optional<int> evicted_at =
            when != nullptr ? when->evicted_at(layer, h, token.position) : std::nullopt;
        if (was_kept && !evicted_at) continue;
        ++token.n_missing;
        const auto at = std::size_t(token.position);
        const double share = at < mass.size() ? mass[at] / n_rows : 0.0;
        token.mass += share;
        if (share <= token.heaviest) continue;
        token.layer = layer;
        token.kv_head = h;
        token.heaviest = share;
        token.evicted_at = evicted_at;
      }
    }
  }
  std::erase_if(tokens, [](const MissedToken& token) { return token.n_missing == 0; });
  std::ranges::stable_sort(tokens, std::greater<>(), &MissedToken::mass);
  return tokens;
}

}  // namespace kvscope
