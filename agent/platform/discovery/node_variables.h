// Platforms that start the same command on each node and give it one variable each for rank, number of nodes and
// the primary's address. On RunPod a person starts the command.
//
// Sources: SkyPilot's page on distributed jobs, dstack's on distributed tasks, LeaderWorkerSet 0.6 and later,
// RunPod's reference of Instant Clusters, and public scripts of users of Volcengine's ML platform.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

// nullopt, of each: none of the platform's own variables is set, or the job has one node; other launchers may then
// describe several. Some variables without the others are an error.
Reading ReadSkyPilot(const Evidence& evidence);
Reading ReadDstack(const Evidence& evidence);
Reading ReadLeaderWorkerSet(const Evidence& evidence);
Reading ReadRunPod(const Evidence& evidence);  // recognized by PRIMARY_ADDR; the other names are common ones
Reading ReadVolcengine(const Evidence& evidence);

}  // namespace muster::discovery
