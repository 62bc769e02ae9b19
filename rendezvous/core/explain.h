// What the coordinator tells people: why nodes wait, who is missing, how a node was lost. Sentences only; nothing
// is decided here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/host.h"
#include "rendezvous/core/hosts.h"

namespace muster::rendezvous {

struct Arriving;
struct Job;

// Why nodes wait.
std::string Waiting(const Job& job);     // with the missing nodes; empty when nobody waits
std::string WhyWaiting(const Job& job);  // without them
// limit: how the wait ends, "gives up after 10m (--join-timeout)"; empty: it ends now.
std::string HowManyAreReady(const Job& job, int ready, const std::string& limit = "");
// While recovering, with no round known; wait: for workers of an earlier coordinator, since the start.
std::string WhyNoRoundYet(const Job& job, int ready, const Arriving& arriving, absl::Duration wait);
// While a round is recovered; patience: how long its members may stay away.
std::string WhyRecovering(const Job& job, absl::Duration patience);
std::string WhyPaused(const Job& job);       // the restart delay
std::string WhyNoRoundRuns(const Job& job);  // empty: one does
std::string TooFewNodes(BootTime now, const Job& job, int ready);
// Attached nodes that are not ready, with reasons; empty: none.
std::string WhoIsNotReady(const Job& job);
// Places, and hosts without a place, that are not ready and that WhoIsNotReady leaves out, with the reason where
// it is known. Where no node has a number the remaining ones are only counted.
std::vector<std::string> AbsentPlaces(const Job& job);
// "node 2", "node 2 (10.0.0.3:2222)" where places have addresses; with a detail "node 2 (10.0.0.3:2222;
// detail)".
std::string PlaceName(const Job& job, int place, const std::string& detail = "");
std::string DescribeRivalry(const Job& job, const Hosts::Rivalry& rivalry);
// "node 2 (worker-2)"; the hostname alone if the node has neither rank nor place.
std::string NodeName(const Job& job, const Host& host);
std::string WhyItCannotStart(const Job& job, const v1::AgentStatus& status);

// A round's beginning, and the order for a node that has no part in it.
std::string DescribeStart(const Job& job, const std::string& why);
// beat: between two statuses of an agent.
std::string WhyPlaceIsTaken(BootTime now, absl::Duration beat, const Job& job, const Host& host,
                            const Host& holder);
std::string WhyExcluded(const Job& job);
std::string WhyHeldBack(BootTime now, const Job& job, const Host& host);

// How nodes of a round were lost.
std::string HowLost(const Host& host);  // a member that is attached but cannot continue
std::string WhyLeaseEnded(const Host& host);
std::string HowEnded(const Host& host);  // a loss that the host's agent has reported
// A loss that nobody reported, by the host's silence, its last status, and whether it was started again.
std::string HowVanished(BootTime now, const Job& job, const Host& host, const StartedLast& started);
// The predecessor's node; empty: there was no farewell, or that node's rank is accounted for.
std::string HowPrimaryEnded(const Job& job);
std::string WhoDidNotReturn(const Job& job);
std::string MissingNames(const Job& job);  // members of the greatest round: "node 0, node 3"

}  // namespace muster::rendezvous
