// What `muster env --check` finds.
#pragma once

#include <string>

namespace muster::cli {

struct Finding {
  enum class Kind {
    kGood,
    kNote,        // noteworthy, but usual
    kWrong,       // a problem
    kUnreachable  // a problem that keeps this node out of the job
  };
  Kind kind = Kind::kGood;
  std::string name;    // "primary's name", "/dev/shm"
  std::string text;    // one sentence
  std::string advice;  // what to do; empty if nothing
};

}  // namespace muster::cli
