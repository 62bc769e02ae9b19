// What a job's report (--report) says of it once it has ended. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::cli {

struct Story {
  std::string text;   // lines for people
  int exit_code = 0;  // the job's
};

// reports: the content of a report, or of a file to which several jobs have appended theirs, a line each: the last
// report counts. InvalidArgument: the text contains no report.
absl::StatusOr<Story> StoryOf(std::string_view reports);

}  // namespace muster::cli
