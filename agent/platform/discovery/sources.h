// The table of sources: platforms, and other forms in which a node finds its place. To add a source, add a row and
// a file with its reading. What differs between platforms beyond the reading is a trait of the row: code outside
// this folder reads traits and compares no names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "agent/platform/discovery/cluster_view.h"
#include "agent/platform/discovery/hostfile_view.h"
#include "agent/platform/discovery/sagemaker.h"
#include "agent/platform/discovery/vertex.h"

namespace muster::discovery {

struct DiscoverOptions {
  VertexOptions vertex;
  SageMakerOptions sagemaker;
  HostfileOptions hostfile;
  std::string source;                      // --source: read only this one; empty: read all
  std::optional<int> nnodes;               // --nnodes (its MAX), for sources that do not know the number of nodes
  std::string nnodes_source = "--nnodes";  // the origin of nnodes, for messages
  bool primary_given = false;              // an option names the primary, and takes precedence
  // Under the name torchrun: only sources that count there are read, and without a number of nodes it is one.
  bool as_torchrun = false;
  std::optional<int> node_rank;  // --node-rank, for sources that do not know this node's rank
};

// Exit code after which the platform runs a job again.
struct RetryCode {
  int code = 0;              // 0: none
  bool only_in_pod = false;  // elsewhere users set the variables by which the source is recognized
};

// Where the platform tells when it ends the job.
struct DeadlineSource {
  const char* variable = nullptr;      // seconds since 1970; nullptr: it does not tell
  const char* job_variable = nullptr;  // set in every job, also by versions that do not set `variable`
  const char* command = nullptr;       // shell text that yields the deadline there
};

// How the platform starts every training container, and what it expects of it.
struct ContainerConventions {
  std::string (*mark)(const Environment&);  // path of a file that exists only in these containers
  const char* word;                         // appended to the command line, as in `docker run IMAGE train`
  const char* program_variable;             // names the script if `word` is all that is given
  const char* code_folder;                  // folder of that script if its path is relative; ends in a slash
  const char* gpus_variable;                // in which scripts expect the number of GPUs
  const char* failure_variable;             // holds another path for the failure file
  const char* failure_file;                 // file for the reason of a failure, shown in the platform's console
};

struct Traits {
  const char* label = "";  // short name for people, the origin of defaults

  // Defaults, if neither an option nor a variable of muster sets the value.
  absl::Duration termination_grace = {};  // time from the stop signal to SIGKILL, less a reserve; zero: not known
  absl::Duration join_timeout = {};       // zero: that of a machine without a platform
  RetryCode retry = {};
  bool replaces_no_node = false;  // waiting for a lost node helps only if a network cut ends, so less is waited
  // The platform starts no process of a run again, so one that starts after the end belongs to the next launch:
  // two commands of one script have the same run id.
  bool starts_no_node_again = false;
  bool stderr_means_error = false;  // the platform shows every line of standard error as an error

  // Kubernetes.
  bool is_pod = false;
  const char* pod_variable = nullptr;  // set in its pods, while other variables may be a user's
  bool is_numbered_pod = false;        // the pod's number is the rank, also if options name the primary
  bool known_by_host_name = false;     // other machines may have such host names, too

  // Options and variables.
  bool is_host_list = false;         // a person's file: in any image, with filters, the primary is a suggestion
  bool may_be_batch_script = false;  // its error means that the job has more nodes than the one of its script
  bool sets_torchrun_variables = false;  // its PET_ variables are no options of the user
  // Counts under the name torchrun, too, which itself reads no platform: there a job of this node alone would be
  // one of several that write the same checkpoint.
  bool counts_for_torchrun = false;
  std::vector<std::string_view> variables = {};      // shown by muster env; "AIP_*": all that begin with AIP_
  std::vector<std::string_view> job_variables = {};  // those that workers of another job must not see
  void (*take_variables)(const Environment&, ClusterView*) = nullptr;  // for workers, if options set the place
  DeadlineSource deadline = {};
  const ContainerConventions* container = nullptr;  // nullptr: none
};

// A row of the table.
struct Source {
  const char* name;      // as --source names it
  const char* evidence;  // the variable or file by which it is recognized
  // Leaves ClusterView::source empty, unless it read what another row describes.
  Reading (*reading)(const Evidence&, const DiscoverOptions&);
  const char* shown_as;  // for people: "Slurm, on one node"
  // Sources that are not read if this one fits: they contain less of the same information, or their variables
  // have another meaning there. Each stands below this row.
  std::vector<std::string_view> implies = {};
  bool yields_to_all = false;  // implied by every source above it
  Traits traits = {};

  // The reading, with the name of its source.
  Reading Read(const Evidence& evidence, const DiscoverOptions& options) const;
};

const std::vector<Source>& Sources();             // in the order in which they are read
const Source* FindSource(std::string_view name);  // nullptr: no such source
const Traits& TraitsOf(std::string_view name);    // no source, such as kFromOptions: those of no platform

// The names that --source accepts: "vertex, sagemaker, ...".
std::string SourceNames();

// The distinct labels of the sources that fit, in the order of the table.
std::vector<std::string> LabelsOf(const std::function<bool(const Traits&)>& fits);

// Whether this process runs in a pod; `platform`: the name of the machine's source, or empty.
bool InPod(std::string_view platform, const Environment& environment);

// Whether a variable is one of any platform, or of a platform's job.
bool IsPlatformVariable(std::string_view variable);
bool IsJobVariable(std::string_view variable);

}  // namespace muster::discovery
