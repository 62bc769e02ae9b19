// Where the workers' output goes, as requested on the command line. Data and pure functions; agent/host/output
// carries it out.
//
// Source for torchrun's flags and file layout: torch.distributed.run and torch.distributed.elastic of torch 2.13.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/host/core/report.h"

namespace muster::host {

// The values are torchrun's: 1 is standard output, 2 standard error, 3 both.
enum class Streams : unsigned char { kNone = 0, kOut = 1, kErr = 2, kBoth = 3 };

inline bool Has(Streams set, Streams one) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0;
}

inline Streams StreamsOf(bool out, bool err) {
  return static_cast<Streams>((out ? static_cast<unsigned>(Streams::kOut) : 0) |
                              (err ? static_cast<unsigned>(Streams::kErr) : 0));
}

// As log_dir: no folders, no files, error files included.
inline constexpr std::string_view kNoFiles = "/dev/null";

struct OutputPlan {
  // --log-dir. The folders are <log_dir>/<folder_name>_<random>/attempt_<restart count>/<local rank>, the files in
  // them stdout.log, stderr.log and error.json. Empty: the folder for temporary files, if files are needed.
  std::string log_dir;
  std::string folder_name;  // the run's name, of several nodes with that of the node
  // By local rank, one for each slot; or empty: none.
  std::vector<Streams> redirects;  // -r: to a file and not to the console
  std::vector<Streams> tees;       // -t: to a file, and line by line with a prefix to the console
  std::vector<bool> shown;         // --local-ranks-filter: whether a rank is shown on the console; empty: all are
  // --duplicate-stdout-filters, --duplicate-stderr-filters: tee'd lines that contain one of these texts are
  // copied, with their prefix, to filtered_stdout.log or filtered_stderr.log, one file for all shown ranks.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  // Put before each line. Fields: ${role_name} ${local_rank} ${rank} ${node_rank} ${hostname}.
  std::string prefix_template = "[${role_name}${local_rank}]:";
  bool prefix_all = false;  // `muster local`: prefix all console output, through a pipe if there are no files
  Streams piped = Streams::kNone;  // streams that pass through muster as they are: their end is kept for reports
  bool merged = false;  // both lead to one file: where both are piped, one pipe keeps the order of what is written
  Streams grouped = Streams::kNone;       // what several ranks write there at once is shown once
  Streams redraws_pass = Streams::kNone;  // `muster local`: streams whose reader shows redraws on a terminal
  int64_t max_file_bytes = 0;             // --log-max-size, for each file; 0: no limit

  bool writes_files() const { return !redirects.empty() || !tees.empty(); }
};

enum class Sink {
  kInherit,    // the host's own descriptor
  kNull,       // /dev/null
  kPipe,       // a pipe, shown with a prefix
  kFile,       // a file
  kShownFile,  // a file that is followed and shown with a prefix
};

// Where one worker's standard output (Streams::kOut) or error (kErr) goes. files: whether files are available.
// Without files all output that is not filtered out goes to the console, as in torchrun with --log-dir /dev/null.
Sink SinkOf(const OutputPlan& plan, int local_rank, Streams stream, bool files);

// Whether the lines of a stream that goes to the console through muster get the prefix.
bool HasPrefix(const OutputPlan& plan, int local_rank, Streams stream);

// How many of the node's workers have lines on the console behind a prefix.
int RanksWithPrefix(const OutputPlan& plan, int slots, Streams stream);

// Whether standard output and error of a worker share one pipe. out, err: their sinks.
bool IsMerged(const OutputPlan& plan, int local_rank, Sink out, Sink err);

// The file behind a stream, standard output (1) or error (2).
struct StreamFile {
  int fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;

  friend bool operator==(const StreamFile&, const StreamFile&) = default;
};

// Which reports to write at the job's end.
struct ReportPlan {
  ReportOn report_on = ReportOn::kConcerned;
  // Write no report to the streams: all nodes share them (`muster local`), and the primary writes it.
  bool told_elsewhere = false;
  // Files that the streams lead to through `muster local`. The files behind the process's own descriptors are
  // looked up when needed.
  std::vector<StreamFile> outer_streams = {};
  std::string stream_mark = {};  // put before a report that goes to a stream, for the reader of that stream
  std::string report_file = {};  // --report: JSON; $node_rank and $hostname are expanded; empty: none
  std::string result_file =
      {};  // for the sidecar of the host with this id (base/wire/sidecar.h); empty: there is none
  std::string host_id = {};
  std::string pod = {};         // PodHere(), for the same
  std::string error_file = {};  // muster's own TORCHELASTIC_ERROR_FILE: root cause in torch's format; empty: none
  std::string failure_file = {};     // SageMaker's failure file; the first writer wins; empty: none
  std::string termination_log = {};  // /dev/termination-log if it is writable; empty: none
};

}  // namespace muster::host
