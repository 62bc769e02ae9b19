// The result of reading a platform's environment: this node's place in the job. Each file of this folder provides
// a pure function from an environment (and a reader of files) to a ClusterView or one precise error.
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

// Reads a file. NotFound: no such file; ResourceExhausted: more than max_bytes; other errors: it cannot be read,
// with the reason.
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& path, size_t max_bytes)>;

// Everything that a reading may use.
struct Evidence {
  const Environment& environment;
  const FileReader& read_file;
};

inline constexpr uint16_t kDefaultRendezvousPort = 29400;  // torchrun's default, if a source names no port

enum class NodeRole { kTrainer, kAux };  // aux: a replica that does not train; it waits and ends with the verdict

// The run's name, as in torchrun, if no source gives one that is the same on all nodes.
inline constexpr char kNoRunName[] = "none";

// Names in ClusterView::source. Other names stand in the table of sources alone.
inline constexpr char kVertex[] = "vertex";      // which `muster local` imitates
inline constexpr char kHostfile[] = "hostfile";  // which --hostfile chooses
inline constexpr char kFromOptions[] = "flags";  // no source: the membership comes from options
inline constexpr char kSingleNode[] = "single";  // no source fits

struct ClusterView {
  std::string source;        // a name of the table of sources, which sets it, or one of those above
  std::string evidence;      // what the source was recognized by; empty: as in the table of sources
  std::string primary_host;  // no brackets; empty: the source names none, and an option must
  uint16_t primary_port = 0;
  std::string primary_evidence;  // the option or variable with which the user named it; empty: the platform did
  std::string primary_address;   // its IP address, if the source has it: its name may resolve only later
  NodeRole role = NodeRole::kTrainer;
  int node_rank = -1;              // the place; -1: not known, or aux
  int nnodes = 1;                  // trainers
  bool may_have_aux = false;       // there may be aux replicas, so even a single trainer must listen
  std::vector<std::string> nodes;  // "host:port" of each trainer, by place; empty if they have no names
  std::vector<int> slots;          // by place, if the source has them; else empty
  std::string self;                // this node's own name in the source, "workerpool1-0"
  std::string run_id;              // job, trial, attempt; empty: the source has none
  std::string nproc;               // processes per node from the source, "8" or "auto"; empty: it has none
  std::string nproc_source;        // the variable of nproc; empty: the source itself
  Environment for_workers;         // variables for workers if not set already: NCCL_SOCKET_IFNAME, SM_*
  std::vector<std::string> hyperparameters;  // as arguments for the script, for --hyperparameters-as-args
  bool loopback_only = false;                // every address of the source is loopback
  std::vector<std::string> warnings;         // one line each
};

// nullopt: this is not the source's platform. An error (exit 65) is one line with source, field, value, what was
// expected and what to do: InvalidArgument, or Unavailable if a file is not written yet and a retry may help.
using Reading = absl::StatusOr<std::optional<ClusterView>>;

}  // namespace muster::discovery
