#include "harness/report/identity_notes.h"

#include <map>
#include <optional>

#include "harness/report/table.h"
#include "harness/store/kept_sets.h"
#include "runner/base/error.h"
#include "runner/policies/parts.h"
#include "runner/policies/spec.h"

namespace kvscope {
namespace {

// One arm's rows on one data set, in order of sample.
struct ArmSets {
  const ArmRow* arm = nullptr;
  std::vector<KeptSetsRow> rows;
};

// Everything that decides which tokens of a prompt stay. Arms with one text are made to keep the
// same.
std::string selection_text(const ArmRow& arm, const std::string& mode_run) {
  std::string text = arm.budget + " " + (mode_run == "streaming" ? mode_run : "");
  try {
    const PolicySpec spec = parse_policy(arm.policy);
    text += ' ' + spec.score;
    for (const auto& [name, value] : spec.params) {
      const bool later = name == "decode" || name == "every" || name == "positions";
      const bool prefill = name == "prefill" || (name == "chunk" && mode_run != "streaming");
      if (!later && !prefill) text += ':' + name + '=' + value;
    }
    for (const PartSpec& part : spec.parts) {
      if (find_part(part.name)->kind == PartInfo::Kind::kStorage) continue;
      text += '+' + part.name;
      for (const auto& [name, value] : part.params) text += ':' + name + '=' + value;
    }
  } catch (const UsageError&) {  // a policy of a newer program or of a plugin that is not here
    text += ' ' + arm.policy;
  }
  return text;
}

IdentityNote note_about(const ArmSets& sets, const std::string& finding) {
  const KeptSetsRow& first = sets.rows.front();
  IdentityNote note;
  note.arm_id = sets.arm->arm_id;
  note.arm = sets.arm->label;
  note.task = first.task;
  note.dataset = first.dataset;
  note.dataset_key = first.dataset_key;
  note.finding = finding;
  return note;
}

void add_findings(const ArmSets& sets, std::vector<IdentityNote>& notes) {
  std::map<std::string, IdentityNote> by_finding;
  for (const KeptSetsRow& row : sets.rows) {
    if (row.finding.empty()) continue;
    const auto [it, fresh] = by_finding.try_emplace(row.finding, note_about(sets, row.finding));
    IdentityNote& note = it->second;
    note.kept_tokens += row.finding == "other_ratio_later" ? row.final_tokens : row.kept_tokens;
    note.budget_tokens += row.budget_tokens;
    ++note.n;
  }
  for (auto& [finding, note] : by_finding) {
    note.n_samples = static_cast<int>(sets.rows.size());
    note.kept_tokens /= note.n;
    note.budget_tokens /= note.n;
    notes.push_back(std::move(note));
  }
}

// The note that `b` kept the same as `a`, if it did.
std::optional<IdentityNote> same_sets(const ArmSets& a, const ArmSets& b) {
  IdentityNote note = note_about(b, "same_sets_as");
  note.other_arm_id = a.arm->arm_id;
  note.other = a.arm->label;
  bool evicted = false;
  std::size_t i = 0;
  for (const KeptSetsRow& row : b.rows) {
    while (i < a.rows.size() && a.rows[i].sample_id < row.sample_id) ++i;
    if (i == a.rows.size()) break;
    if (a.rows[i].sample_id != row.sample_id) continue;
    ++note.n_samples;
    if (a.rows[i].kept_sets_hash != row.kept_sets_hash) return std::nullopt;
    evicted |= row.kept_tokens < row.offered_tokens;
    note.kept_tokens += row.kept_tokens;
    note.budget_tokens += row.budget_tokens;
  }
  if (!evicted) return std::nullopt;
  note.n = note.n_samples;
  note.kept_tokens /= note.n;
  note.budget_tokens /= note.n;
  if (selection_text(*a.arm, a.rows.front().mode_run) ==
      selection_text(*b.arm, b.rows.front().mode_run)) {
    return std::nullopt;
  }
  return note;
}

}  // namespace

std::vector<IdentityNote> identity_notes(Store& store, std::span<const ArmRow> arms) {
  std::vector<std::string> datasets;                    // in order of appearance
  std::map<std::string, std::vector<ArmSets>> by_data;  // dataset key → arms in order
  for (const ArmRow& arm : arms) {
    for (KeptSetsRow& row : kept_sets(store, arm.arm_id)) {
      auto [it, fresh] = by_data.try_emplace(row.dataset_key);
      if (fresh) datasets.push_back(row.dataset_key);
      if (it->second.empty() || it->second.back().arm != &arm) it->second.push_back({&arm, {}});
      it->second.back().rows.push_back(std::move(row));
    }
  }
  std::vector<IdentityNote> notes;
  for (const std::string& key : datasets) {
    const std::vector<ArmSets>& sets = by_data.at(key);
    for (std::size_t b = 0; b < sets.size(); ++b) {
      add_findings(sets[b], notes);
      for (std::size_t a = 0; a < b; ++a) {
        if (sets[a].arm->question_visibility != sets[b].arm->question_visibility) continue;
        if (auto note = same_sets(sets[a], sets[b])) {
          notes.push_back(std::move(*note));
          break;
        }
      }
    }
  }
  return notes;
}

std::string notes_text(std::span<const IdentityNote> notes) {
  std::string text;
  for (const IdentityNote& note : notes) {
    const std::string samples = " in " + std::to_string(note.n) + " of " +
                                std::to_string(note.n_samples) + " samples of " + note.task;
    const std::string tokens = format_fixed(note.kept_tokens, 1) +
                               " tokens per layer and KV head instead of " +
                               format_fixed(note.budget_tokens, 1);
    text += "! " + note.arm;
    if (note.finding == "held_everything") {
      text += " evicted nothing, because its budget held all tokens," + samples;
    } else if (note.finding == "evicted_nothing") {
      text += " evicted nothing, although its budget is below the prompt," + samples;
    } else if (note.finding == "other_ratio") {
      text += " kept " + tokens + samples;
    } else if (note.finding == "other_ratio_later") {
      text += " held " + tokens + " at the end" + samples;
    } else {
      text += " kept the same tokens as " + note.other + samples;
    }
    text += '\n';
  }
  return text;
}

Json notes_json(std::span<const IdentityNote> notes) {
  Json out = Json::array();
  for (const IdentityNote& note : notes) {
    Json row = {{"arm_id", note.arm_id},
                {"arm", note.arm},
                {"task", note.task},
                {"dataset", note.dataset},
                {"finding", note.finding}};
    if (!note.other.empty()) {
      row["other_arm_id"] = note.other_arm_id;
      row["other_arm"] = note.other;
    }
    row["n"] = note.n;
    row["samples"] = note.n_samples;
    row["kept_tokens"] = json_number(note.kept_tokens);
    row["budget_tokens"] = json_number(note.budget_tokens);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace kvscope
