// Kubernetes' own ways to number pods: an Indexed Job, a JobSet made of such, a StatefulSet. The pods have names
// by a headless Service; the first one's is the primary.
//
// Kubernetes tells a pod neither how many there are (.spec.completions, .spec.replicas) nor, in a variable, the
// Service's name:
//   MUSTER_NNODES        or --nnodes: how many
//   MUSTER_SUBDOMAIN     the Service; else JOBSET_NAME, else what the kubelet wrote into /etc/hosts
//   MUSTER_PODS_PER_JOB  a JobSet of several jobs: pods of each (.spec.completions)
//   MUSTER_JOB_INDEX     and which job this is (annotation jobset.sigs.k8s.io/job-global-index); else as the pod's
//                        host name JOBSET-NAME-JOB-POD says. Where they differ, the JobSet has several groups of
//                        jobs, and an option has to say where its first pod is (annotation ...io/coordinator)
#pragma once

#include <optional>

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr size_t kMaxHostsFileBytes = 1 << 20;  // of /etc/hosts; more are not read

struct KubernetesOptions {
  std::optional<int> nnodes;               // --nnodes, its greatest; else MUSTER_NNODES
  std::string nnodes_source = "--nnodes";  // who says so, for messages
  bool primary_given = false;              // by an option: no Service is needed
};

// JOB_COMPLETION_INDEX, in a job of which it is all. The only pod of one needs no Service.
Reading ReadIndexedJob(const Evidence& evidence, const KubernetesOptions& options);

// JOBSET_NAME or MUSTER_PODS_PER_JOB beside JOB_COMPLETION_INDEX.
Reading ReadJobSet(const Evidence& evidence, const KubernetesOptions& options);

// No JOB_COMPLETION_INDEX, but the Service's name, and a pod whose name ends in its ordinal. Where
// MUSTER_SUBDOMAIN does not say so, it takes a number of nodes above one: pods of a StatefulSet run notebooks,
// too.
Reading ReadStatefulSet(const Evidence& evidence, const KubernetesOptions& options);

}  // namespace muster::discovery
