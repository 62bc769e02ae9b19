#include "agent/host/launch_plan.h"

namespace muster::host {

bool GetsStdin(const StdinRule& rule, int rank, int slots, bool keyboard) {
  switch (rule.kind) {
    case StdinRule::kDefault:
      return slots == 1 || keyboard;
    case StdinRule::kAll:
      return true;
    case StdinRule::kNone:
      return false;
    case StdinRule::kRank:
      return rank == rule.rank;
  }
  return false;
}

}  // namespace muster::host
