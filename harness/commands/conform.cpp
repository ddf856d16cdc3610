#include "harness/commands/conform.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "harness/report/json.h"
#include "harness/report/table.h"
#include "runner/base/error.h"
#include "runner/conform/mutants.h"
#include "runner/policies/catalog.h"

namespace kvscope {
namespace {

using conform::Conformance;
using conform::MutantResult;

struct ConformOptions {
  std::vector<std::string> policies;
  int cases = 100;
  bool json = false;
  bool list_mutants = false;
  std::vector<std::string> plugins;
};

// One policy, and the defects that were planted in it.
struct Checked {
  Conformance conformance;
  std::vector<MutantResult> mutants;
};

template <class Result>
std::size_t passed(const std::vector<Result>& results) {
  return static_cast<std::size_t>(std::count_if(
      results.begin(), results.end(), [](const Result& result) { return result.failure.empty(); }));
}

std::size_t caught(const std::vector<MutantResult>& results) {
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(),
                    [](const MutantResult& result) { return !result.caught_by.empty(); }));
}

bool is_sound(const Checked& checked) {
  return checked.conformance.conforms() && caught(checked.mutants) == checked.mutants.size();
}

Checked check_one(const PolicySpec& spec, const ConformOptions& options) {
  Checked checked{conform::check(spec, {options.cases}), {}};
  // Defects are planted in a policy, not in one choice of its parameters.
  if (spec.canonical != spec.score || find_policy(spec.score) == nullptr) return checked;
  for (const conform::Mutant& mutant : conform::mutants(spec.score))
    checked.mutants.push_back(conform::run_mutant(mutant));
  return checked;
}

std::string share(std::size_t some, std::size_t all) {
  return all == 0 ? "-" : std::to_string(some) + "/" + std::to_string(all);
}

int cases_of(const Conformance& result) {
  int cases = 0;
  for (const auto& property : result.properties) cases += property.cases;
  return cases;
}

void print_failures(const std::vector<Checked>& all) {
  for (const auto& [result, mutants] : all) {
    for (const auto& vector : result.vectors) {
      if (!vector.failure.empty())
        std::cout << result.policy << ": vector " << vector.id << ": " << vector.failure << '\n';
    }
    for (const auto& property : result.properties) {
      if (property.failure.empty()) continue;
      std::cout << result.policy << ": property " << property.name << " (" << property.says
                << "): " << property.text << ", " << conform::name_of(property.shape) << " seed "
                << property.seed << (property.in_stream ? " in stream" : "") << ": "
                << property.failure << '\n';
    }
    for (const auto& result_of : mutants) {
      if (result_of.caught_by.empty())
        std::cout << result.policy << ": nothing caught: " << result_of.mutant.name << '\n';
    }
  }
}

void print_text(const std::vector<Checked>& all, bool list_mutants) {
  Table table({"policy", "vectors", "properties", "cases", "defects caught"});
  for (const auto& [result, mutants] : all) {
    table.add_row({result.policy, share(passed(result.vectors), result.vectors.size()),
                   share(passed(result.properties), result.properties.size()),
                   std::to_string(cases_of(result)), share(caught(mutants), mutants.size())});
  }
  std::cout << table.text();
  if (list_mutants) {
    Table list({"planted in", "defect", "seen in", "caught by"});
    for (const std::size_t column : {1, 2, 3}) list.align(column, Table::Align::kLeft);
    for (const auto& [result, mutants] : all) {
      for (const auto& [mutant, by] : mutants) {
        list.add_row({std::string(mutant.policy), std::string(mutant.name),
                      std::string(mutant.source), by.empty() ? "nothing" : by});
      }
    }
    std::cout << '\n' << list.text();
  }
  print_failures(all);
}

Json to_json(const Checked& checked) {
  const Conformance& result = checked.conformance;
  Json vectors = Json::array();
  for (const auto& vector : result.vectors)
    vectors.push_back(
        {{"id", vector.id}, {"passed", vector.failure.empty()}, {"failure", vector.failure}});
  Json properties = Json::array();
  for (const auto& property : result.properties) {
    Json entry = {{"name", property.name},
                  {"says", property.says},
                  {"cases", property.cases},
                  {"passed", property.failure.empty()},
                  {"failure", property.failure}};
    if (!property.failure.empty()) {
      entry["policy"] = property.text;
      entry["shape"] = conform::name_of(property.shape);
      entry["seed"] = property.seed;
      entry["in_stream"] = property.in_stream;
    }
    properties.push_back(std::move(entry));
  }
  Json mutants = Json::array();
  for (const auto& [mutant, by] : checked.mutants)
    mutants.push_back({{"defect", mutant.name},
                       {"source", mutant.source},
                       {"caught", !by.empty()},
                       {"caught_by", by}});
  return {{"policy", result.policy},
          {"conforms", is_sound(checked)},
          {"vectors", vectors},
          {"properties", properties},
          {"mutants", mutants}};
}

ExitCode run_conform(const ConformOptions& options) {
  std::vector<PolicySpec> specs;
  const PolicyCatalog catalog = catalog_with_plugins(options.plugins);
  for (const std::string& text : options.policies) specs.push_back(parse_policy(text, catalog));
  if (specs.empty() && !options.plugins.empty()) {  // what was brought along
    for (const auto& info : catalog.all()) {
      if (find_policy(info->name) == nullptr) specs.push_back(parse_policy(info->name, catalog));
    }
  }
  if (specs.empty()) {
    for (const PolicyInfo& info : policies()) specs.push_back(parse_policy(info.name));
  }
  std::vector<Checked> all;
  for (const PolicySpec& spec : specs) all.push_back(check_one(spec, options));
  const bool sound = std::all_of(all.begin(), all.end(), is_sound);
  if (options.json) {
    Json checked = Json::array();
    for (const Checked& one : all) checked.push_back(to_json(one));
    print_json_line(std::cout, {{"conforms", sound}, {"policies", checked}});
  } else {
    print_text(all, options.list_mutants);
  }
  return sound ? ExitCode::kOk : ExitCode::kGateFailed;
}

}  // namespace

void add_conform_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ConformOptions>();
  CLI::App* command = app.add_subcommand(
      "conform", "Check policies against vectors, properties and planted defects");
  command->add_option("policies", options->policies, "Policies; without one, all")
      ->type_name("POLICY");
  command
      ->add_option("--plugin,--policy-plugin", options->plugins,
                   "Shared library with a policy of your own; without POLICY it alone is checked")
      ->type_name("FILE.so")
      ->expected(1)
      ->take_all();
  command->add_option("--cases", options->cases, "Random requests of each property and shape")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--list-mutants", options->list_mutants,
                    "Also print each planted defect and what caught it");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  kvscope conform\n"
      "  kvscope conform h2o snapkv+adakv --cases 1000\n"
      "  kvscope conform --plugin libmyrule.so\n"
      "Exit status 1: a policy does not conform, or a planted defect was not caught.");
  set_action(*command, context, [options] { return run_conform(*options); });
}

}  // namespace kvscope
