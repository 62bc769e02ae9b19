// What a job's report (--report), or the file of its events (--events), says of it once it has ended. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::cli {

struct Story {
  std::string text;   // lines for people
  int exit_code = 0;  // the job's
};

// file: the content of a report or of a file of events, or of one to which several jobs have appended theirs, a
// line each: the last one counts, or with a run_id the last one of that. InvalidArgument: the text contains
// neither.
absl::StatusOr<Story> StoryOf(std::string_view file, std::string_view run_id = "");

}  // namespace muster::cli
