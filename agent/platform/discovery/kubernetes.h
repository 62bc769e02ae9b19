// Kubernetes' own objects with numbered pods: an Indexed Job, a JobSet of Indexed Jobs, a StatefulSet. A headless
// Service gives the pods names; the first pod is the primary.
//
// Kubernetes does not tell a pod the number of pods (.spec.completions, .spec.replicas) or the Service's name:
//   MUSTER_NNODES        the number of pods; or --nnodes
//   MUSTER_SUBDOMAIN     the Service; else JOBSET_NAME, else the domain that the kubelet wrote into /etc/hosts
//   MUSTER_PODS_PER_JOB  for a JobSet of several jobs: the pods of each job (.spec.completions)
//   MUSTER_JOB_INDEX     the index of this job (annotation jobset.sigs.k8s.io/job-global-index); else from the
//                        pod's host name JOBSET-NAME-JOB-POD. If the two differ, the JobSet has several groups of
//                        jobs, and an option must name its first pod (annotation ...io/coordinator)
#pragma once

#include <optional>

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr size_t kMaxHostsFileBytes = 1 << 20;  // a larger /etc/hosts is not read

struct KubernetesOptions {
  std::optional<int> nnodes;               // MAX of --nnodes; nullopt: read MUSTER_NNODES
  std::string nnodes_source = "--nnodes";  // the origin of nnodes, for messages
  bool primary_given = false;              // an option names the primary, so no Service is needed
  bool alone_by_default = false;           // a StatefulSet's pod that is not told the number of pods is alone
};

// Fits if JOB_COMPLETION_INDEX is set. The job consists of this Indexed Job alone. A single pod needs no Service.
Reading ReadIndexedJob(const Evidence& evidence, const KubernetesOptions& options);

// Fits if JOB_COMPLETION_INDEX and JOBSET_NAME or MUSTER_PODS_PER_JOB are set.
Reading ReadJobSet(const Evidence& evidence, const KubernetesOptions& options);

// Fits without JOB_COMPLETION_INDEX if the Service's name is known and the pod's name ends in an ordinal. A pod of
// a headless Service that is not told the number of pods is refused: else each pod would silently train alone. One
// pod is asked for by --nnodes 1 or --standalone, and is the default of torchrun's command line.
Reading ReadStatefulSet(const Evidence& evidence, const KubernetesOptions& options);

}  // namespace muster::discovery
