#include "harness/store/store.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/store/database.h"
#include "harness/store/metric_info.h"
#include "harness/store/schema.h"
#include "harness/store/statement.h"
#include "harness/store/transaction.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

double now_unix() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::uint32_t big_endian_32(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

enum class FileState { kNew, kOurs };

// Looks at the file's own header before SQLite touches it: opening another program's database could
// already change it (a write-ahead log that gets folded in).
FileState inspect_file(const fs::path& file) {
  std::error_code failed;
  const auto status = fs::status(file, failed);
  if (!fs::exists(status)) return FileState::kNew;
  if (fs::is_directory(status)) throw IoError("database " + file.string() + ": is a folder");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError("database " + file.string() + ": cannot be read");
  unsigned char header[100] = {};
  in.read(reinterpret_cast<char*>(header), sizeof header);
  if (in.gcount() == 0) return FileState::kNew;
  static constexpr char kMagic[] = "SQLite format 3";  // with its zero byte
  if (in.gcount() < 100 || std::memcmp(header, kMagic, sizeof kMagic) != 0) {
    throw DataError(
        "database " + file.string() +
        ": is no SQLite database, or is damaged; it was left as it is: name another file by --db");
  }
  if (big_endian_32(header + 68) != static_cast<std::uint32_t>(kApplicationId)) {
    throw IoError("database " + file.string() +
                  ": belongs to another program; it was left as it is: name another file by --db");
  }
  const std::uint32_t version = big_endian_32(header + 60);
  if (version < 1 || version > kSchemaVersion) {
    throw IoError("database " + file.string() + ": has schema version " + std::to_string(version) +
                  ", this kvscope knows " + std::to_string(kSchemaVersion) +
                  "; it was left as it is: use the kvscope that made it, or another file by --db");
  }
  return FileState::kOurs;
}

void create_schema(Database& database) {
  Transaction transaction(database);
  // Another process may have been quicker while this one waited for the lock.
  if (database.pragma("application_id") == kApplicationId) return;
  database.execute(schema_sql());
  database.execute("PRAGMA application_id=" + std::to_string(kApplicationId) +
                   "; PRAGMA user_version=" + std::to_string(kSchemaVersion));
  transaction.commit();
}

// Files of older programs get what they lack; nothing that is there changes.
void upgrade_schema(Database& database) {
  if (database.pragma("user_version") >= kSchemaVersion) return;
  Transaction transaction(database);
  const auto version = static_cast<int>(database.pragma("user_version"));
  if (version >= kSchemaVersion) return;  // another process was quicker
  database.execute(upgrade_sql(version));
  database.execute("PRAGMA user_version=" + std::to_string(kSchemaVersion));
  transaction.commit();
}

void put_metrics(Database& database) {
  Transaction transaction(database);
  Statement insert(database,
                   "INSERT INTO metric(name,unit,kind,better,help) VALUES(?,?,?,?,?) "
                   "ON CONFLICT(name) DO NOTHING");
  for (const MetricInfo& m : metric_infos()) {
    insert.bind(m.name, m.unit, m.kind, m.better, m.help).run();
  }
  transaction.commit();
}

[[noreturn]] void refuse_second_value(const fs::path& file, const std::string& what) {
  throw DataError("database " + file.string() + ": holds another value for " + what +
                  " under the same key; results of different programs or inputs must not mix: use "
                  "another file by --db");
}

std::string to_json(const std::map<std::string, std::string>& values) {
  return nlohmann::json(values).dump();
}

}  // namespace

Store::Store(std::unique_ptr<Database> database, fs::path file)
    : database_(std::move(database)), file_(std::move(file)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

void Store::check(const fs::path& file) {
  const FileState state = inspect_file(file);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  // The write-ahead log lies beside the file, so the folder must be writable too.
  if (::access(folder.c_str(), W_OK | X_OK) != 0 ||
      (state == FileState::kOurs && ::access(file.c_str(), W_OK) != 0)) {
    throw IoError(
        "database " + file.string() +
        ": the file and its folder must be there and writable; name another file by --db");
  }
}

Store Store::open(const fs::path& file, StoreAccess access) {
  const FileState state = inspect_file(file);
  if (access == StoreAccess::kReadOnly) {
    if (state == FileState::kNew) {
      throw IoError("database " + file.string() +
                    ": does not exist or is empty; `kvscope sweep` makes one");
    }
    return Store(std::make_unique<Database>(file, Database::Mode::kReadOnly), file);
  }
  auto database = std::make_unique<Database>(file, Database::Mode::kCreate);
  if (state == FileState::kNew) create_schema(*database);
  database->execute("PRAGMA journal_mode=WAL");
  upgrade_schema(*database);
  put_metrics(*database);
  return Store(std::move(database), file);
}

const fs::path& Store::path() const { return file_; }
Database& Store::database() { return *database_; }

std::int64_t Store::put_model(const ModelRecord& m) {
  Transaction transaction(*database_);
  Statement(*database_,
            "INSERT INTO model(model_key,name,weights_sha256,dtype,kv_dtype,n_layers,n_heads,"
            "n_kv_heads,head_dim,context_length,backend) VALUES(?,?,?,?,?,?,?,?,?,?,?) "
            "ON CONFLICT(model_key) DO NOTHING")
      .bind(m.key, m.name, m.weights_sha256, m.dtype, m.kv_dtype, m.n_layers, m.n_heads,
            m.n_kv_heads, m.head_dim, m.context_length, m.backend)
      .run();
  Statement find(*database_, "SELECT model_id,weights_sha256 FROM model WHERE model_key=?");
  find.bind(m.key).step();
  if (find.text(1) != m.weights_sha256) refuse_second_value(file_, "model " + m.name);
  const std::int64_t id = find.int64(0);
  transaction.commit();
  return id;
}

std::int64_t Store::put_dataset(const DatasetRecord& d, std::span<const SampleRecord> samples) {
  Transaction transaction(*database_);
  Statement(*database_,
            "INSERT INTO dataset(dataset_key,task,name,version,n_samples) VALUES(?,?,?,?,?) "
            "ON CONFLICT(dataset_key) DO NOTHING")
      .bind(d.key, d.task, d.name, d.version, d.n_samples)
      .run();
  Statement find(*database_, "SELECT dataset_id FROM dataset WHERE dataset_key=?");
  find.bind(d.key).step();
  const std::int64_t id = find.int64(0);
  Statement insert(*database_,
                   "INSERT INTO sample(dataset_id,sample_key,input_sha256,cluster_key,"
                   "n_prompt_tokens,tags) VALUES(?,?,?,?,?,?) "
                   "ON CONFLICT(dataset_id,sample_key) DO NOTHING");
  Statement check(
      *database_,
      "SELECT input_sha256,cluster_key FROM sample WHERE dataset_id=? AND sample_key=?");
  for (const SampleRecord& s : samples) {
    insert.bind(id, s.sample_key, s.input_sha256, s.cluster_key, s.n_prompt_tokens, to_json(s.tags))
        .run();
    check.bind(id, s.sample_key).step();
    if (check.text(0) != s.input_sha256 || check.text(1) != s.cluster_key) {
      refuse_second_value(file_, "sample " + s.sample_key + " of " + d.name);
    }
    check.reset();
  }
  transaction.commit();
  return id;
}

std::int64_t Store::put_arm(const std::string& sweep_uuid, const ArmRecord& a) {
  Transaction transaction(*database_);
  Statement(*database_,
            "INSERT INTO policy(policy_key,canonical,name,params) VALUES(?,?,?,?) "
            "ON CONFLICT DO NOTHING")
      .bind(a.policy.key(), a.policy.canonical, a.policy.name, to_json(a.policy.params))
      .run();
  Statement(*database_,
            "INSERT INTO arm(arm_key,sweep_uuid,model_id,policy_id,budget_permille,budget_tokens,"
            "prefill_mode,position_mode,question_visibility,dtype,kv_dtype,is_reference) "
            "VALUES(?,?,(SELECT model_id FROM model WHERE model_key=?),"
            "(SELECT policy_id FROM policy WHERE policy_key=?),?,?,?,?,?,?,?,?) "
            "ON CONFLICT(sweep_uuid,arm_key) DO NOTHING")
      .bind(a.key, sweep_uuid, a.model_key, a.policy.key(), a.budget_permille, a.budget_tokens,
            a.prefill_mode, a.position_mode, a.question_visibility, a.dtype, a.kv_dtype,
            a.is_reference)
      .run();
  Statement find(*database_, "SELECT arm_id FROM arm WHERE sweep_uuid=? AND arm_key=?");
  find.bind(sweep_uuid, a.key).step();
  const std::int64_t id = find.int64(0);
  transaction.commit();
  return id;
}

std::optional<Store::SweepState> Store::find_sweep(std::string_view plan_hash,
                                                   std::string_view program_version) {
  Statement find(*database_,
                 "SELECT sweep_uuid,status FROM sweep WHERE plan_hash=? AND program_version=? "
                 "ORDER BY status='finished', created_unix DESC, sweep_uuid DESC LIMIT 1");
  if (!find.bind(plan_hash, program_version).step()) return std::nullopt;
  return SweepState{find.text(0), find.text(1) == "finished"};
}

void Store::begin_sweep(const SweepRecord& sweep) {
  Statement(*database_,
            "INSERT INTO sweep(sweep_uuid,plan_hash,program_version,status,created_unix,options) "
            "VALUES(?,?,?,'running',?,?)")
      .bind(sweep.uuid, sweep.plan_hash, sweep.program_version, now_unix(), sweep.options_json)
      .run();
}

void Store::add_sweep_dataset(const std::string& sweep_uuid, std::int64_t dataset_id) {
  Statement(*database_,
            "INSERT INTO sweep_dataset(sweep_uuid,dataset_id) VALUES(?,?) ON CONFLICT DO NOTHING")
      .bind(sweep_uuid, dataset_id)
      .run();
}

std::int64_t Store::begin_run(const RunRecord& r) {
  Transaction transaction(*database_);
  Statement(*database_,
            "UPDATE run SET status='interrupted' WHERE sweep_uuid=? AND status='running'")
      .bind(r.sweep_uuid)
      .run();
  const double now = now_unix();
  Statement(*database_,
            "INSERT INTO run(run_uuid,sweep_uuid,status,started_unix,heartbeat_unix,"
            "program_version,git_sha,git_dirty,host,backend,argv) "
            "VALUES(?,?,'running',?,?,?,?,?,?,?,?)")
      .bind(r.uuid, r.sweep_uuid, now, now, r.program_version, r.git_sha, r.git_dirty, r.host,
            r.backend, r.argv_json)
      .run();
  const std::int64_t id = database_->last_insert_id();
  Statement(*database_, "UPDATE arm SET status='running' WHERE sweep_uuid=? AND status='pending'")
      .bind(r.sweep_uuid)
      .run();
  transaction.commit();
  return id;
}

void Store::put_device_memory(std::int64_t run_id, const DeviceMemory& memory) {
  Statement(*database_,
            "UPDATE run SET device_allocated_bytes=?, device_peak_bytes=?, "
            "device_driver_delta_bytes=? WHERE run_id=?")
      .bind(memory.allocated_bytes, memory.peak_bytes, memory.driver_delta_bytes, run_id)
      .run();
}

void Store::heartbeat(std::int64_t run_id) {
  Statement(*database_, "UPDATE run SET heartbeat_unix=? WHERE run_id=?")
      .bind(now_unix(), run_id)
      .run();
}

void Store::end_run(std::int64_t run_id, RunStatus status) {
  Transaction transaction(*database_);
  const double now = now_unix();
  const bool ended = status == RunStatus::kFinished || status == RunStatus::kFailed;
  Statement(*database_, "UPDATE run SET status=?, heartbeat_unix=?, finished_unix=? WHERE run_id=?")
      .bind(name_of(status), now, ended ? std::optional(now) : std::nullopt, run_id)
      .run();
  Statement(*database_,
            "UPDATE arm SET status='finished' WHERE sweep_uuid=(SELECT sweep_uuid FROM run WHERE "
            "run_id=?) AND status<>'finished' AND NOT EXISTS ("
            "SELECT 1 FROM sweep_dataset sd JOIN sample s ON s.dataset_id=sd.dataset_id "
            "WHERE sd.sweep_uuid=arm.sweep_uuid AND NOT EXISTS ("
            "SELECT 1 FROM sample_result r WHERE r.arm_id=arm.arm_id AND r.sample_id=s.sample_id))")
      .bind(run_id)
      .run();
  Statement(*database_,
            "UPDATE sweep SET status='finished' WHERE sweep_uuid=(SELECT sweep_uuid FROM run WHERE "
            "run_id=?) AND NOT EXISTS (SELECT 1 FROM arm WHERE arm.sweep_uuid=sweep.sweep_uuid AND "
            "arm.status<>'finished')")
      .bind(run_id)
      .run();
  transaction.commit();
}

std::int64_t Store::sample_id(std::int64_t dataset_id, std::string_view sample_key) {
  Statement find(*database_, "SELECT sample_id FROM sample WHERE dataset_id=? AND sample_key=?");
  if (!find.bind(dataset_id, sample_key).step()) {
    throw std::logic_error("sample " + std::string(sample_key) + " was never put into the store");
  }
  return find.int64(0);
}

std::set<std::int64_t> Store::finished_samples(std::int64_t arm_id) {
  Statement find(*database_, "SELECT sample_id FROM sample_result WHERE arm_id=?");
  find.bind(arm_id);
  std::set<std::int64_t> ids;
  while (find.step()) ids.insert(find.int64(0));
  return ids;
}

bool Store::finished(std::int64_t arm_id, std::int64_t sample_id) {
  Statement find(*database_, "SELECT 1 FROM sample_result WHERE arm_id=? AND sample_id=?");
  return find.bind(arm_id, sample_id).step();
}

// Best effort: a reader may hold the log, and everything is durable without it.
void Store::checkpoint() { database_->execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA optimize"); }

}  // namespace kvscope
