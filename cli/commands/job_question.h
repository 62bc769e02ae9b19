// What the commands that ask a running job have in common: which job is meant, and how it is reached.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/options/command_line.h"
#include "cli/options/option_spec.h"
#include "cli/status/door_visits.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

// A job is at a door of this machine, or, with --endpoint, at its coordinator's address.
const std::vector<OptionSpec>& JobOptions();
// Reads the words of such a command: its options, which JobOptions() are among, and a job's id instead of
// --rdzv-id.
absl::StatusOr<CommandLine> ParseQuestion(const std::vector<OptionSpec>& options,
                                          const std::vector<std::string>& words, const std::string& command);
std::string ValueIn(const CommandLine& line, const char* option);  // empty: it is not given
std::string IdIn(const CommandLine& line);                         // the id of a job; empty: none is named
bool AsksOverNetwork(const CommandLine& line);

// Without an answer after there was one, or while a job is awaited: an agent or a coordinator may just be
// replaced.
inline constexpr absl::Duration kPatience = absl::Seconds(30);

// Whether asking again may help: neither the command line nor the choice of a job is wrong.
bool MayPass(const absl::Status& why);
// The same while the job is awaited: it may be here soon.
bool MayCome(const absl::Status& why);

// A question to one job.
using Ask = std::function<absl::StatusOr<v1::JobView>(const v1::Question& question)>;

// Asks the job that the options of this line name. Errors say why it cannot be told; AlreadyExists: several jobs
// are here; NotFound: only others than the one that is meant.
absl::StatusOr<v1::JobView> AskJob(const CommandLine& line, const v1::Question& question);

// The same with stacks: asks until they are complete, or for 12 s.
absl::StatusOr<v1::JobView> AskForStacks(const CommandLine& line);

// The same about one worker, a global rank, and its node.
absl::StatusOr<v1::JobView> AskForRank(const CommandLine& line, int rank);

// An order to one job, which is chosen once: whatever else comes to this machine meanwhile.
class OrderToJob {
 public:
  // The job that the options of this line name.
  static absl::StatusOr<OrderToJob> Prepare(const CommandLine& line);

  // Gives it. order: without its id, who gives it, and the coordinator for which it is meant. Asks until it is
  // done, or for 12 s. Errors: it is not known whether it was obeyed.
  absl::StatusOr<v1::Ordered> Give(v1::Order order);
  // After Give: waits for the end of the job. Aborted: another coordinator decides, which does not know the order.
  // Only at a door.
  absl::StatusOr<v1::JobEnd> AwaitEnd();

 private:
  OrderToJob(Ask ask, std::unique_ptr<EndVisit> end) : ask_(std::move(ask)), end_(std::move(end)) {}

  Ask ask_;
  std::unique_ptr<EndVisit> end_;  // nullptr: over the network
  v1::Question question_;          // with the order
};

// Returns when the job has ended. Unavailable: it is not known how. Only at a door.
absl::StatusOr<v1::JobEnd> AwaitEnd(const CommandLine& line);

// Complains; returns kExitCannotTell, or the code of a wrong command line.
int CannotTell(const absl::Status& why);

}  // namespace muster::cli
