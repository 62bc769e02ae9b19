#include "cli/options/deepspeed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/platform/discovery/hostfile_view.h"
#include "base/core/status_macros.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "cli/options/deepspeed_env.h"
#include "cli/options/option_readers.h"
#include "cli/options/settings.h"
#include "cli/options/values.h"

namespace muster::cli {
namespace {

using discovery::HostSlots;

constexpr size_t kMaxEnvFileBytes = size_t{1} << 20;
constexpr char kThisMachine[] = "localhost";
constexpr size_t kMaxHostsNamed = 4;  // in a message
constexpr char kNoFolder[] = "None";  // DeepSpeed's default of --enable_each_rank_log
constexpr const char* kWithoutEffect[] = {
    "launcher", "launcher-args", "force-multi", "save-pid",           "no-ssh-check", "no-ssh",
    "ssh-port", "venv-script",   "log-level",   "bind-cores-to-rank", "quiet",        "bind-core-list"};
// DeepSpeed's default of these is empty, so an empty value counts as not given.
constexpr const char* kEmptyMeansUnset[] = {"include", "exclude", "master-addr", "launcher-args"};
// Options of `muster run` of the same name and meaning.
constexpr const char* kSharedWithRun[] = {"hostfile",  "include",     "exclude",
                                          "node-rank", "master-addr", "master-port"};
constexpr const char* kLogLevels[] = {"debug", "info", "warning", "error", "critical"};

// For the help text; the translator reads the values.
ValueReader Accepts(Bounds<int> bounds) { return {{}, {}, FromTo(bounds)}; }

class Translator {
 public:
  Translator(CommandLine given, const DeepspeedMachine& machine) : given_(std::move(given)), machine_(machine) {
    for (const char* name : kEmptyMeansUnset) {
      if (TextOf(name).empty()) given_.given.erase(name);
    }
  }

  absl::StatusOr<DeepspeedLine> Run() {
    CommandLine& line = result_.line;
    line.script = given_.script;
    line.script_arguments = given_.script_arguments;
    line.help = given_.help;
    if (line.help) return std::move(result_);
    RETURN_IF_ERROR(CheckValues());
    for (const char* name : {"module", "no-python"}) {
      if (Find(name) != nullptr) line.given[name] = kSwitchGiven;
    }
    if (Find("no-local-rank") == nullptr) line.given["pass-local-rank"] = "local_rank";
    const std::string* folder = Find("enable-each-rank-log");
    if (folder != nullptr && *folder != kNoFolder) {
      line.given["log-dir"] = *folder;
      line.given["redirects"] = "3";
    }
    RETURN_IF_ERROR(TakeHosts());
    if (line.given.count("nnodes") > 0) RETURN_IF_ERROR(TakeVariables());
    RETURN_IF_ERROR(TakeWorkers());
    NoteWithoutEffect();
    return std::move(result_);
  }

 private:
  const std::string* Find(const char* name) const {
    const auto found = given_.given.find(name);
    return found == given_.given.end() ? nullptr : &found->second;
  }

  std::string TextOf(const char* name) const {
    const std::string* text = Find(name);
    return text == nullptr ? "" : *text;
  }

  // Checks all values first, even those that this job does not use, so that errors name DeepSpeed's options.
  absl::Status CheckValues() const {
    for (const auto& [name, text] : given_.given) {
      if (ToUtf8(text, text.size()) != text) return Wrong(name.c_str(), "expected UTF-8");
    }
    if (Find("autotuning") != nullptr)
      return Wrong("autotuning", "not supported; run the autotuner with DeepSpeed itself");
    for (const char* name : {"num-nodes", "min-elastic-nodes", "max-elastic-nodes"}) {
      RETURN_IF_ERROR(Number(name, kNodeCounts).status());
    }
    for (const char* name : {"num-gpus", "num-accelerators"}) RETURN_IF_ERROR(Number(name, kSlotCounts).status());
    RETURN_IF_ERROR(Number("node-rank", kNodeRanks).status());
    for (const char* name : {"master-port", "ssh-port"}) RETURN_IF_ERROR(Check(name, ParsePort));
    RETURN_IF_ERROR(Check("master-addr", ParsePrimaryHost));
    RETURN_IF_ERROR(Check("log-level", [](std::string_view text) -> absl::StatusOr<bool> {
      if (std::find(std::begin(kLogLevels), std::end(kLogLevels), text) != std::end(kLogLevels)) return true;
      return absl::InvalidArgumentError(absl::StrCat("expected ", absl::StrJoin(kLogLevels, ", ")));
    }));
    for (const char* name : {"launcher", "enable-each-rank-log", "venv-script", "bind-core-list"}) {
      if (Find(name) != nullptr && TextOf(name).empty()) return Wrong(name, "expected a value");
    }
    const std::string* folder = Find("enable-each-rank-log");
    if (folder != nullptr && folder->find_first_of("\r\n") != std::string::npos) {
      return Wrong("enable-each-rank-log", "expected one line");
    }
    if (Find("module") != nullptr && Find("no-python") != nullptr) {
      return absl::InvalidArgumentError("--no-python: cannot be used with --module");
    }
    return absl::OkStatus();
  }

  template <typename Parse>
  absl::Status Check(const char* name, const Parse& parse) const {
    const std::string* text = Find(name);
    if (text == nullptr) return absl::OkStatus();
    const auto value = parse(*text);
    return value.ok() ? absl::OkStatus() : Wrong(name, std::string(AsStd(value.status().message())));
  }

  // nullopt: not given, or DeepSpeed's default of -1.
  absl::StatusOr<std::optional<int>> Number(const char* name, Bounds<int> bounds) const {
    const std::string* text = Find(name);
    if (text == nullptr || *text == "-1") return std::optional<int>();
    const auto number = ParseInteger(*text, bounds);
    if (!number.ok()) return Wrong(name, std::string(AsStd(number.status().message())));
    return std::optional<int>(*number);
  }

  absl::Status Wrong(const char* name, const std::string& reason) const {
    return absl::InvalidArgumentError(
        absl::StrCat(ShownWithValue(absl::StrCat("--", name), TextOf(name)), ": ", reason));
  }

  // Takes the hosts of the file, or this machine alone; then applies --include, --exclude and --num_nodes.
  absl::Status TakeHosts() {
    ASSIGN_OR_RETURN(const std::optional<std::vector<HostSlots>> listed, ListedHosts());
    const bool from_file = listed.has_value();
    const bool filtered = Find("include") != nullptr || Find("exclude") != nullptr;
    if (from_file) {
      hosts_ = *listed;
    } else if (filtered) {
      const int devices = machine_.count_all_devices();  // as in DeepSpeed, its numbers are the machine's
      if (devices == 0)
        return Wrong(Find("include") != nullptr ? "include" : "exclude", "there is no accelerator here");
      HostSlots here{kThisMachine, {}};
      for (int i = 0; i < devices; ++i) here.slots.push_back(i);
      hosts_.push_back(std::move(here));
    }
    if (filtered) {
      ASSIGN_OR_RETURN(hosts_, discovery::FilterHosts(hosts_, TextOf("include"), TextOf("exclude")));
    }
    filtered_ = filtered;
    ASSIGN_OR_RETURN(const std::optional<int> nodes, Number("num-nodes", kNodeCounts));
    if (nodes && filtered) return Wrong("num-nodes", "cannot be used with --include or --exclude");
    if (nodes && from_file && static_cast<size_t>(*nodes) > hosts_.size()) {
      return Wrong("num-nodes", absl::StrCat("the hostfile has ", hosts_.size(), " hosts"));
    }
    if (nodes && from_file) hosts_.resize(static_cast<size_t>(*nodes));
    const int count = from_file ? static_cast<int>(hosts_.size()) : nodes.value_or(1);
    return count > 1 ? TakeNodes(count, from_file) : TakeOneNode();
  }

  // nullopt: this machine alone. So it is in DeepSpeed without such a file, too; but where other options speak of
  // several nodes, that would start a job on each.
  absl::StatusOr<std::optional<std::vector<HostSlots>>> ListedHosts() {
    const std::string* const file = Find("hostfile");
    if (file != nullptr && file->empty()) return std::nullopt;
    auto listed = discovery::LoadHostfile(machine_.read_file, TextOf("hostfile"), "--hostfile");
    if (listed.ok()) return listed;
    const bool is_missing =
        file != nullptr && absl::IsNotFound(machine_.read_file(*file, kMaxEnvFileBytes).status());
    const bool has_others = Find("node-rank") != nullptr || Find("master-addr") != nullptr;
    if (!is_missing || has_others) return absl::FailedPreconditionError(listed.status().message());
    result_.line.warnings.push_back(absl::StrCat(ShownWithValue("--hostfile", *file),
                                                 ": there is no such file, so the job is this machine alone"));
    return std::nullopt;
  }

  absl::Status TakeOneNode() {
    own_ = hosts_.empty() ? nullptr : &hosts_.front();
    if (own_ != nullptr && own_->host != kThisMachine && Find("node-rank") == nullptr &&
        !machine_.is_here(own_->host)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the only host left is ", own_->host, ", which is not this machine: start muster there"));
    }
    result_.line.given["standalone"] = kSwitchGiven;
    return absl::OkStatus();
  }

  absl::Status TakeNodes(int count, bool from_file) {
    auto& given = result_.line.given;
    given["nnodes"] = absl::StrCat(count);
    ASSIGN_OR_RETURN(const std::optional<int> least, Number("min-elastic-nodes", kNodeCounts));
    ASSIGN_OR_RETURN(const std::optional<int> most, Number("max-elastic-nodes", kNodeCounts));
    if (Find("elastic-training") != nullptr && (least || most)) {
      if (most && *most < count)
        return Wrong("max-elastic-nodes", absl::StrCat("must be at least ", count, ", the number of nodes"));
      if (least && *least > most.value_or(count))
        return Wrong("min-elastic-nodes", "must be at most the maximum number of nodes");
      given["nnodes"] = absl::StrCat(least.value_or(1), ":", most.value_or(count));
    }
    ASSIGN_OR_RETURN(const std::optional<int> given_rank, Number("node-rank", {0, count - 1}));
    if (!given_rank && !from_file) return Wrong("num-nodes", "needs --hostfile, or --node_rank and --master_addr");
    int rank = given_rank.value_or(0);
    if (!given_rank) {
      ASSIGN_OR_RETURN(rank, OwnRank());
    }
    given["node-rank"] = absl::StrCat(rank);
    if (from_file) own_ = &hosts_[static_cast<size_t>(rank)];
    for (const HostSlots& host : hosts_) result_.line.hosts.push_back(host.host);
    if (Find("master-addr") == nullptr && !from_file) return Wrong("num-nodes", "needs --master_addr");
    given["master-addr"] = Find("master-addr") != nullptr ? TextOf("master-addr") : hosts_.front().host;
    if (Find("master-port") != nullptr) given["master-port"] = TextOf("master-port");
    return absl::OkStatus();
  }

  absl::StatusOr<int> OwnRank() const {
    std::vector<int> found;
    std::vector<std::string> names;
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (!machine_.is_here(hosts_[i].host)) continue;
      found.push_back(static_cast<int>(i));
      names.push_back(hosts_[i].host);
    }
    if (found.size() == 1) return found.front();
    const std::string file = TextOf("hostfile").empty() ? discovery::kDefaultHostfile : TextOf("hostfile");
    if (!found.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": several of its hosts are this machine (",
                                                     JoinAtMost(names, kMaxHostsNamed), "); give --node_rank"));
    }
    for (const HostSlots& host : hosts_) names.push_back(host.host);
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": none of its hosts (", JoinAtMost(names, kMaxHostsNamed), ") is this machine, ",
                     machine_.hostname, "; add it to the file, or give --node_rank"));
  }

  // Reads .deepspeed_env; like DeepSpeed only if there are several hosts.
  absl::Status TakeVariables() {
    for (const std::string& file : machine_.env_files) {
      const absl::StatusOr<std::string> text = machine_.read_file(file, kMaxEnvFileBytes);
      if (!text.ok()) continue;
      ASSIGN_OR_RETURN(Environment variables, ParseDeepspeedEnv(file, *text));
      for (auto& [name, value] : variables) result_.variables[name] = std::move(value);
      result_.notes.push_back("variables for the workers are taken from " + file);
    }
    return absl::OkStatus();
  }

  // --num_gpus, else the slots of this host, else one worker per accelerator.
  absl::Status TakeWorkers() {
    const char* const name = Find("num-accelerators") != nullptr ? "num-accelerators" : "num-gpus";
    ASSIGN_OR_RETURN(const std::optional<int> devices, Number(name, kSlotCounts));
    auto& given = result_.line.given;
    if (devices && filtered_) return Wrong(name, "cannot be used with --include or --exclude");
    if (devices) {
      given["nproc-per-node"] = absl::StrCat(*devices);
    } else if (own_ != nullptr) {
      given["nproc-per-node"] = absl::StrCat(own_->slots.size());
    } else {
      given["nproc-per-node"] = absl::StrCat(std::max(machine_.count_devices(), 1));
    }
    if (filtered_ && own_ != nullptr) result_.visible_devices = absl::StrJoin(own_->slots, ",");
    return absl::OkStatus();
  }

  void NoteWithoutEffect() {
    std::vector<std::string> names;
    for (const char* name : kWithoutEffect) {
      if (Find(name) != nullptr) names.push_back(absl::StrCat("--", name));
    }
    if (!names.empty()) result_.notes.push_back("options without effect: " + absl::StrJoin(names, ", "));
  }

  CommandLine given_;
  const DeepspeedMachine& machine_;
  DeepspeedLine result_;
  std::vector<HostSlots> hosts_;
  const HostSlots* own_ = nullptr;
  bool filtered_ = false;
};

}  // namespace

const std::vector<OptionSpec>& DeepspeedOptions() {
  using enum Group;
  static const auto* const table = new std::vector<OptionSpec>{
      {"hostfile", "FILE", kMembership, kPet,
       "File that lists the hosts: lines of HOST slots=N. Default: /job/hostfile if it exists.", ValueReader(),
       'H'},
      {"include", "HOST[:SLOTS][@...]", kMembership, kPet, "Hosts or slots to use. Default: all.", ValueReader(),
       'i'},
      {"exclude", "HOST[:SLOTS][@...]", kMembership, kPet, "Hosts or slots to leave out. Default: none.",
       ValueReader(), 'e'},
      {"num-nodes", "N", kMembership, kPet, "Number of hosts to use, from the first. Default: all.",
       Accepts(kNodeCounts)},
      {"node-rank", "RANK", kMembership, kPet,
       "Rank of this node. Default: the position of this host in the hostfile.", Accepts(kNodeRanks)},
      {"master-addr", "HOST", kMembership, kPet, "Address of the primary. Default: the first host."},
      {"master-port", "PORT", kMembership, kPet, "Port of the primary. Default: 29500.", Accepts(kPorts)},
      {"elastic-training", "", kMembership, kPet, "Allow a range of nodes, set by the next two options."},
      {"min-elastic-nodes", "N", kMembership, kPet, "Minimum number of nodes. Default: 1.", Accepts(kNodeCounts)},
      {"max-elastic-nodes", "N", kMembership, kPet, "Maximum number of nodes. Default: the number of hosts.",
       Accepts(kNodeCounts)},
      {"num-gpus", "N", kWorkers, kPet,
       "Number of workers on this node. Default: its slots, else its accelerators.", Accepts(kSlotCounts)},
      {"num-accelerators", "N", kWorkers, kPet, "Same as --num_gpus; takes precedence.", Accepts(kSlotCounts)},
      {"module", "", kProgram, kPet, "Run SCRIPT as a Python module."},
      {"no-python", "", kProgram, kPet, "Run SCRIPT as a program of its own, without Python."},
      {"no-local-rank", "", kProgram, kPet, "Do not pass --local_rank=N to the script."},
      {"enable-each-rank-log", "DIR", kOutput, kPet,
       "Directory for files with each worker's output, instead of the console."},
      {"autotuning", "tune|run", kProgram, kPet, "Refused; run the autotuner with DeepSpeed itself."},
      {"launcher", "NAME", kTorchrun, kPet, ""},
      {"launcher-args", "TEXT", kTorchrun, kPet, ""},
      {"force-multi", "", kTorchrun, kPet, ""},
      {"save-pid", "", kTorchrun, kPet, ""},
      {"no-ssh", "", kTorchrun, kPet, ""},
      {"no-ssh-check", "", kTorchrun, kPet, ""},
      {"ssh-port", "PORT", kTorchrun, kPet, "", Accepts(kPorts)},
      {"venv-script", "FILE", kTorchrun, kPet, ""},
      {"bind-cores-to-rank", "", kTorchrun, kPet, ""},
      {"bind-core-list", "LIST", kTorchrun, kPet, ""},
      {"log-level", "NAME", kTorchrun, kPet, "For muster's own log level set MUSTER_LOG_LEVEL."},
      {"quiet", "", kTorchrun, kPet, "", ValueReader(), 'q'},
  };
  return *table;
}

absl::StatusOr<DeepspeedLine> ReadDeepspeedLine(const std::vector<std::string>& args,
                                                const DeepspeedMachine& machine,
                                                const std::map<std::string, std::string>& in_front) {
  ASSIGN_OR_RETURN(CommandLine given, ParseCommandLine(DeepspeedOptions(), args, "deepspeed"));
  for (const char* name : kSharedWithRun) {
    if (const auto front = in_front.find(name); front != in_front.end()) given.given[name] = front->second;
  }
  return Translator(std::move(given), machine).Run();
}

}  // namespace muster::cli
