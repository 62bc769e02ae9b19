// Where the workers' output goes, as the command line said it. Values only; agent/host carries it out.
//
// Facts about torchrun's flags and its layout of files: torch.distributed.run and torch.distributed.elastic of
// torch 2.13.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::host {

// As torchrun numbers them: 1 is standard output, 2 standard error.
enum class Streams : unsigned char { kNone = 0, kOut = 1, kErr = 2, kBoth = 3 };

inline bool Has(Streams set, Streams one) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0;
}

struct OutputPlan {
  // --log-dir: <log_dir>/<run_id>_<random>/attempt_<restart count>/<local
  // rank>/{stdout.log,stderr.log,error.json}. Empty: a folder of the temporary ones where files are needed.
  // "/dev/null": no files at all, error files included.
  std::string log_dir;
  std::string run_id;
  // By local rank; as many as there are slots, or empty: none.
  std::vector<Streams> redirects;  // -r: to a file and not to the console
  std::vector<Streams> tees;       // -t: to a file, and line by line with a prefix to the console
  std::vector<bool> shown;         // --local-ranks-filter: what of a rank reaches the console; empty: all
  // --duplicate-stdout-filters, --duplicate-stderr-filters: tee'd lines that contain one of these are copied,
  // with their prefix, to one filtered_stdout.log, filtered_stderr.log for all ranks that are shown.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  // Before each line: ${role_name} ${local_rank} ${rank} ${node_rank} ${hostname}.
  std::string prefix_template = "[${role_name}${local_rank}]:";
  bool prefix_all = false;  // of all that reaches the console without files (`muster local`): through a pipe
  Streams redraws_pass = Streams::kNone;  // whose reader passes redrawn lines to a terminal (`muster local`)
  int64_t max_file_bytes = 0;             // --log-max-size, of each file; 0: no limit

  bool writes_files() const { return !redirects.empty() || !tees.empty(); }
};

enum class Sink {
  kInherit,    // our own descriptor
  kNull,       // /dev/null
  kPipe,       // a pipe, shown with a prefix
  kFile,       // a file
  kShownFile,  // a file that is followed and shown with a prefix
};

// Where one worker's standard output (Streams::kOut) or error (kErr) goes. files: they can be had. Without them
// all that is not filtered out goes to the console, as torchrun has it with /dev/null for a log folder.
Sink SinkOf(const OutputPlan& plan, int local_rank, Streams stream, bool files);

// The file behind a stream, standard output (1) or error (2).
struct StreamFile {
  int fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;

  friend bool operator==(const StreamFile&, const StreamFile&) = default;
};

// What tells of the job's end.
struct ReportPlan {
  bool told_elsewhere = false;  // on the streams: all nodes share them (muster local), and the primary tells it
  // The files that our streams lead to by way of `muster local`. Those of our own descriptors are looked up when
  // they are needed.
  std::vector<StreamFile> outer_streams = {};
  std::string stream_mark = {};  // before a report that goes to a stream, for who shows that stream
  std::string report_file;       // --report: JSON; $node_rank and $hostname are replaced; empty: none
  std::string error_file;        // our own TORCHELASTIC_ERROR_FILE: the root cause in torch's shape; empty: none
  std::string failure_file;      // SageMaker's; whoever writes it first is heard; empty: none
  std::string termination_log;   // /dev/termination-log where it is writable; empty: none
};

}  // namespace muster::host
