#include "agent/platform/discovery/aws_batch.h"

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"

namespace muster::discovery {
namespace {

constexpr char kNodes[] = "AWS_BATCH_JOB_NUM_NODES";
constexpr char kIndex[] = "AWS_BATCH_JOB_NODE_INDEX";
constexpr char kMainIndex[] = "AWS_BATCH_JOB_MAIN_NODE_INDEX";
constexpr char kMainAddress[] = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS";
constexpr char kThisNode[] = "localhost";

absl::StatusOr<int> IndexIn(const Environment& environment, const char* variable, int count) {
  const auto text = TextOf(environment, variable);
  if (!text) return ToStatus({variable, "", std::nullopt, "a node's number, as AWS Batch sets it", ""});
  return RankIn(variable, *text, count, absl::StrCat(kNodes, " ", count));
}

// "j#1" is node 1 of the job j.
std::string RunId(const Environment& environment) {
  const auto id = TextOf(environment, "AWS_BATCH_JOB_ID");
  if (!id) return "batch";
  const std::string job = id->substr(0, id->find('#'));
  const auto attempt = TextOf(environment, "AWS_BATCH_JOB_ATTEMPT");
  return RunNameOf("batch", attempt ? absl::StrCat(job, ".", *attempt) : job);
}

// A name for the main node, for people: AWS Batch gives that node no address of its own.
std::string OwnName(const Environment& environment) {
  const auto name = TextOf(environment, "HOSTNAME");
  if (!name) return kThisNode;
  const absl::StatusOr<std::string> host = HostIn("HOSTNAME", *name);
  return host.ok() ? *host : kThisNode;
}

}  // namespace

Reading ReadBatch(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  if (!TextOf(environment, kNodes) && !TextOf(environment, kIndex)) return std::nullopt;
  ClusterView view;
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, kNodes, 1, kMaxNodes));
  ASSIGN_OR_RETURN(const int index, IndexIn(environment, kIndex, view.nnodes));
  ASSIGN_OR_RETURN(const int main, IndexIn(environment, kMainIndex, view.nnodes));
  view.node_rank = index == main ? 0 : (index < main ? index + 1 : index);
  view.primary_port = kDefaultRendezvousPort;
  view.run_id = RunId(environment);
  view.self = absl::StrCat("node ", index);
  const auto address = TextOf(environment, kMainAddress);
  if (address) {
    ASSIGN_OR_RETURN(view.primary_host, HostIn(kMainAddress, *address));
    RETURN_IF_ERROR(CheckReachable(kMainAddress, view));
  } else if (index == main) {
    view.primary_host = OwnName(environment);
  } else {
    return ToStatus({kMainAddress, "", std::nullopt,
                     "the main node's address, which AWS Batch tells to every other node", ""});
  }
  return view;
}

}  // namespace muster::discovery
