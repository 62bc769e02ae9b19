// What a platform says about this node's place in a job. One reading for every platform: each file of this folder
// is a pure function from an environment (and a reader of files) to a ClusterView or one precise error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/environment.h"

namespace muster::discovery {

// The bytes of a file. NotFound: there is none; ResourceExhausted: it has more than max_bytes; others: it cannot
// be read, with the reason.
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& path, size_t max_bytes)>;

// All that a reading may look at.
struct Evidence {
  const Environment& environment;
  const FileReader& read_file;
};

inline constexpr uint16_t kDefaultRendezvousPort = 29400;  // torchrun's; where a source names no port

enum class NodeRole {
  kTrainer,
  kAux
};  // aux: a replica that does not train; it watches and ends with the verdict

// The run's, as torchrun has it, where nothing that is the same on all nodes names it.
inline constexpr char kNoRunName[] = "none";

struct ClusterView {
  std::string source;        // "vertex", "flags", "single", ...
  std::string evidence;      // by what it was known to be here; empty: as the table of sources says
  std::string primary_host;  // no brackets; empty: the source names none, and an option has to
  uint16_t primary_port = 0;
  std::string primary_evidence;  // the option or variable by which a person said so; empty: as all else
  std::string primary_address;   // its IP address, where the source says it beside the name: names may come late
  NodeRole role = NodeRole::kTrainer;
  int node_rank = -1;              // the place; -1: none is known (and for aux)
  int nnodes = 1;                  // trainers
  bool may_have_aux = false;       // others may watch: even a single trainer has to listen
  std::vector<std::string> nodes;  // "host:port" of each trainer, by place; empty where they have no names
  std::vector<int> slots;          // of each place, where the source says; else empty
  std::string self;                // this node's own name in the source, "workerpool1-0"
  std::string run_id;              // job, trial, attempt; empty: the source names none
  std::string nproc;               // processes of each node as the source says, "8", "auto"; empty: it does not
  std::string nproc_source;        // the variable that says so; empty: the source itself
  Environment for_workers;         // what workers get where it is not set: NCCL_SOCKET_IFNAME, SM_*
  std::vector<std::string> hyperparameters;  // as a script's arguments, for those who want them so
  bool loopback_only = false;                // every address of the source is loopback
  std::vector<std::string> warnings;         // one line each
};

// A place where the job's environment variables say nothing is std::nullopt; a reading that is wrong is an error
// of one line that names source, field, value, what was expected and what to do (exit 65): InvalidArgument, or
// Unavailable where a file is not written yet, so that asking again may help.
using Reading = absl::StatusOr<std::optional<ClusterView>>;

}  // namespace muster::discovery
