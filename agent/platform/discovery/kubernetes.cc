#include "agent/platform/discovery/kubernetes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"

namespace muster::discovery {
namespace {

constexpr char kIndex[] = "JOB_COMPLETION_INDEX";
constexpr char kNodes[] = "MUSTER_NNODES";
constexpr char kSubdomain[] = "MUSTER_SUBDOMAIN";
constexpr char kPodsPerJob[] = "MUSTER_PODS_PER_JOB";
constexpr char kJobIndex[] = "MUSTER_JOB_INDEX";
constexpr char kJobSetName[] = "JOBSET_NAME";
constexpr char kHostname[] = "HOSTNAME";
constexpr char kPodName[] = "POD_NAME";
constexpr char kHostsFile[] = "/etc/hosts";
constexpr char kHostnameFile[] = "/etc/hostname";
constexpr size_t kMaxHostnameFileBytes = 4096;

constexpr char kAddCount[] =
    "Kubernetes does not tell it to pods: add {name: MUSTER_NNODES, value: \"N\"} to the container's env, or "
    "--nnodes N to its command, with N as .spec.completions (a StatefulSet's .spec.replicas) says; or "
    "--standalone for a job of this pod alone";
constexpr char kAddSubdomain[] =
    "add {name: MUSTER_SUBDOMAIN, value: SERVICE} to the container's env, with the name of the headless Service "
    "that the pod names as its subdomain";
constexpr char kCorrectPod[] = "give --nnodes, --node-rank and --master-addr if this pod is not one of them";

// Splits "name-12" into "name" and "12"; nullopt: it does not end in a number.
std::optional<std::pair<std::string, std::string>> SplitOrdinal(const std::string& name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string::npos || dash == 0) return std::nullopt;
  const std::string digits = name.substr(dash + 1);
  const bool number = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!number) return std::nullopt;
  return std::pair(name.substr(0, dash), digits);
}

std::string FullHostnameOf(const Evidence& evidence) {
  if (auto name = TextOf(evidence.environment, kHostname)) return *name;
  const absl::StatusOr<std::string> file = evidence.read_file(kHostnameFile, kMaxHostnameFileBytes);
  return file.ok() ? std::string(AsStd(absl::StripAsciiWhitespace(*file))) : std::string();
}

// The domain of "job-2.service.namespace.svc.cluster.local", the host name with setHostnameAsFQDN. Empty for other
// names, whose domain is the machine's.
std::string PodDomainIn(const std::string& hostname) {
  const std::vector<std::string> labels = absl::StrSplit(hostname, '.');
  return labels.size() > 3 && labels[3] == "svc" ? hostname.substr(labels[0].size() + 1) : std::string();
}

// The pod's host name, from a variable that every container has, or from a file.
std::string HostnameOf(const Evidence& evidence) {
  const std::string full = FullHostnameOf(evidence);
  return PodDomainIn(full).empty() ? full : full.substr(0, full.find('.'));
}

// The domain after the host name in the kubelet's line "10.1.2.3 job-2.svc.ns.svc.cluster.local job-2".
std::optional<std::string> DomainInHostsFile(const Evidence& evidence, const std::string& hostname) {
  const absl::StatusOr<std::string> file = evidence.read_file(kHostsFile, kMaxHostsFileBytes);
  if (!file.ok() || hostname.empty()) return std::nullopt;
  const std::string start = hostname + ".";
  for (const absl::string_view line : absl::StrSplit(*file, '\n')) {
    const absl::string_view content = line.substr(0, line.find('#'));
    for (absl::string_view word : absl::StrSplit(content, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
      if (absl::ConsumePrefix(&word, start) && !word.empty()) return std::string(AsStd(word));
    }
  }
  return std::nullopt;
}

// Whether the kubelet gave the pod this domain, "service.namespace.svc.cluster.local", for a headless Service.
bool IsOfAService(const std::optional<std::string>& domain) {
  const std::vector<std::string> labels = absl::StrSplit(domain.value_or(""), '.');
  return labels.size() > 3 && labels[2] == "svc";
}

struct Domain {
  std::string name;
  std::string source;
};

absl::StatusOr<Domain> DomainOf(const Evidence& evidence) {
  for (const char* variable : {kSubdomain, kJobSetName}) {
    const auto text = TextOf(evidence.environment, variable);
    if (!text) continue;
    ASSIGN_OR_RETURN(std::string name, HostIn(variable, *text));
    return Domain{std::move(name), variable};
  }
  auto found = DomainInHostsFile(evidence, HostnameOf(evidence));
  if (const std::string own = PodDomainIn(FullHostnameOf(evidence)); !found && !own.empty()) found = own;
  if (found) {
    ASSIGN_OR_RETURN(std::string name, HostIn(kHostsFile, *found, kAddSubdomain));
    return Domain{std::move(name), kHostsFile};
  }
  return ToStatus({kSubdomain, "", std::nullopt, "the headless Service by which pods have names", kAddSubdomain});
}

struct Count {
  int nodes = 0;
  std::string source;
};

absl::StatusOr<Count> CountOf(const Evidence& evidence, const KubernetesOptions& options) {
  if (options.nnodes.has_value()) return Count{*options.nnodes, options.nnodes_source};
  const auto text = TextOf(evidence.environment, kNodes);
  if (!text) {
    return ToStatus({kNodes, "", std::nullopt, "the number of pods that train together", kAddCount});
  }
  ASSIGN_OR_RETURN(const int nodes, MaxNodesIn(kNodes, *text));
  return Count{nodes, absl::StrCat(kNodes, " ", *text)};
}

bool IsOnlyPod(const Evidence& evidence, const KubernetesOptions& options) {
  const absl::StatusOr<Count> count = CountOf(evidence, options);
  return count.ok() && count->nodes == 1;
}

// The name of the job, which its pods' host names share before "-INDEX". A pod's own name has a random suffix
// after that. With the node's network, HOSTNAME is the node's.
absl::StatusOr<std::string> JobNameOf(const Evidence& evidence, const std::string& index) {
  const std::string hostname = HostnameOf(evidence);
  const std::string tail = absl::StrCat("-", index);
  const auto split = SplitOrdinal(hostname);
  if (split && split->second == index) return split->first;
  const std::string pod = TextOf(evidence.environment, kPodName).value_or("");
  const std::string without_random = pod.substr(0, pod.rfind('-'));
  if (absl::EndsWith(without_random, tail) && without_random.size() > tail.size()) {
    return without_random.substr(0, without_random.size() - tail.size());
  }
  return ToStatus({kHostname, "", hostname.empty() ? std::nullopt : std::optional(hostname),
                   absl::StrCat("the pod's host name, which ends in ", Shown(tail), " as ", kIndex, " says"),
                   kCorrectPod});
}

// first: the primary's host name without the domain.
absl::Status TakePrimary(const std::string& first, const std::string& domain, ClusterView* view) {
  ASSIGN_OR_RETURN(view->primary_host,
                   HostIn("the primary's name", absl::StrCat(first, ".", domain), kCorrectPod));
  view->primary_port = kDefaultRendezvousPort;
  view->run_id = RunNameOf("k8s", view->primary_host);
  return absl::OkStatus();
}

void NameNodes(const std::string& job, const std::string& domain, ClusterView* view) {
  if (view->nnodes > kMaxNamedNodes) return;
  for (int i = 0; i < view->nnodes; ++i) {
    view->nodes.push_back(ToString(absl::StrCat(job, "-", i, ".", domain), view->primary_port));
  }
}

// An option names the primary, perhaps differently on each pod, so the run's name cannot be derived from it.
ClusterView WithPrimaryGiven(ClusterView view) {
  view.primary_port = kDefaultRendezvousPort;
  view.run_id = kNoRunName;
  return view;
}

// No other node has to find the only pod, so it needs neither a name nor a Service.
ClusterView OnlyPod(const Evidence& evidence) {
  ClusterView view;
  view.node_rank = 0;
  view.self = HostnameOf(evidence);
  view.primary_host = "localhost";
  view.primary_port = kDefaultRendezvousPort;
  view.loopback_only = true;
  view.run_id = RunNameOf("k8s", view.self);
  return view;
}

absl::StatusOr<std::string> IndexOf(const Evidence& evidence) {
  const auto index = TextOf(evidence.environment, kIndex);
  if (index) return *index;
  return ToStatus(
      {kIndex, "", "", "the pod's completion index",
       "it comes from the annotation batch.kubernetes.io/job-completion-index, which pods of a Job with "
       "completionMode: Indexed have; give --node-rank elsewhere"});
}

// A warning if the host name looks like one of a JobSet with several jobs, while only the index within one job is
// known; else empty.
std::string JobSetWarning(const std::string& job, const std::string& domain) {
  const auto split = SplitOrdinal(job);
  const std::string service = domain.substr(0, domain.find('.'));
  if (!split || split->second == "0" || !absl::StartsWith(split->first, service + "-")) return "";
  return absl::StrCat("the host name looks like that of job ", Shown(split->second), " of the JobSet ",
                      Shown(service), ": if it has several jobs, set ", kPodsPerJob, " to the pods of each");
}

struct JobPlace {
  std::string base;  // "JOBSET-NAME": jobs are base-0, base-1, ...
  int job = 0;
  int pods = 0;
  bool by_global_index = false;
  bool is_first_group = true;  // whether job 0 is base-0
};

absl::StatusOr<JobPlace> JobPlaceOf(const Evidence& evidence, const std::string& job) {
  JobPlace place;
  const auto split = SplitOrdinal(job);
  if (!split) {
    return ToStatus(
        {kHostname, "", HostnameOf(evidence), "a JobSet's host name, JOBSET-NAME-JOB-POD", kCorrectPod});
  }
  place.base = split->first;
  const auto given = TextOf(evidence.environment, kJobIndex);
  ASSIGN_OR_RETURN(place.job,
                   NumberIn(given ? kJobIndex : kHostname, given.value_or(split->second), 0, kMaxNodes));
  // The global index counts across the groups of jobs (.spec.replicatedJobs); the other groups' names are not
  // known.
  place.by_global_index = given.has_value();
  place.is_first_group = absl::StrCat(place.job) == split->second;
  const auto pods = TextOf(evidence.environment, kPodsPerJob);
  if (pods) {
    ASSIGN_OR_RETURN(place.pods, NumberIn(kPodsPerJob, *pods, 1, kMaxNodes));
  } else if (place.job > 0) {
    return ToStatus({kPodsPerJob, "", std::nullopt,
                     absl::StrCat("the pods of each job, as this is job ", place.job, " of several"),
                     "add {name: MUSTER_PODS_PER_JOB, value: \"N\"} to the container's env, with N as the job's "
                     ".spec.completions says"});
  }
  return place;
}

}  // namespace

Reading ReadIndexedJob(const Evidence& evidence, const KubernetesOptions& options) {
  if (!IsSet(evidence.environment, kIndex)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string index, IndexOf(evidence));
  ASSIGN_OR_RETURN(const Count count, CountOf(evidence, options));
  ClusterView view;
  view.nnodes = count.nodes;
  ASSIGN_OR_RETURN(view.node_rank, RankIn(kIndex, index, count.nodes, count.source));
  if (count.nodes == 1) return OnlyPod(evidence);
  view.self = HostnameOf(evidence);
  const absl::StatusOr<std::string> job_name = JobNameOf(evidence, index);
  const absl::StatusOr<Domain> found = DomainOf(evidence);
  if (options.primary_given && !(job_name.ok() && found.ok())) return WithPrimaryGiven(std::move(view));
  ASSIGN_OR_RETURN(const std::string job, job_name);
  ASSIGN_OR_RETURN(const Domain domain, found);
  RETURN_IF_ERROR(TakePrimary(absl::StrCat(job, "-0"), domain.name, &view));
  NameNodes(job, domain.name, &view);
  if (std::string warning = JobSetWarning(job, domain.name); !warning.empty()) view.warnings.push_back(warning);
  return view;
}

Reading ReadJobSet(const Evidence& evidence, const KubernetesOptions& options) {
  const Environment& environment = evidence.environment;
  const bool named = TextOf(environment, kJobSetName) || TextOf(environment, kPodsPerJob);
  if (!named || !IsSet(environment, kIndex)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string index, IndexOf(evidence));
  ASSIGN_OR_RETURN(const Count count, CountOf(evidence, options));
  ASSIGN_OR_RETURN(const std::string job, JobNameOf(evidence, index));
  ASSIGN_OR_RETURN(const JobPlace place, JobPlaceOf(evidence, job));
  const bool several = place.pods > 0;
  ASSIGN_OR_RETURN(const int pod, RankIn(kIndex, index, several ? place.pods : count.nodes,
                                         several ? absl::StrCat(kPodsPerJob, " ", place.pods) : count.source));
  ClusterView view;
  view.nnodes = count.nodes;
  const int64_t rank = int64_t{place.job} * place.pods + pod;
  ASSIGN_OR_RETURN(view.node_rank, RankIn(absl::StrCat(kJobIndex, " * ", kPodsPerJob, " + ", kIndex),
                                          absl::StrCat(rank), count.nodes, count.source));
  view.self = HostnameOf(evidence);
  ASSIGN_OR_RETURN(const Domain domain, DomainOf(evidence));
  RETURN_IF_ERROR(TakePrimary(absl::StrCat(place.base, "-0-0"), domain.name, &view));
  if (place.by_global_index) view.run_id = RunNameOf("k8s", domain.name);  // equal in all groups
  if (!place.is_first_group) view.primary_host.clear();
  if (!several) NameNodes(absl::StrCat(place.base, "-0"), domain.name, &view);
  return view;
}

Reading ReadStatefulSet(const Evidence& evidence, const KubernetesOptions& options) {
  const Environment& environment = evidence.environment;
  if (IsSet(environment, kIndex)) return std::nullopt;
  const std::string hostname = HostnameOf(evidence);
  const std::string pod = TextOf(environment, kPodName).value_or(hostname);
  const auto split = SplitOrdinal(pod);
  const bool asked_for = TextOf(environment, kSubdomain).has_value();
  const bool alone = options.nnodes ? *options.nnodes == 1 : options.primary_given || options.alone_by_default;
  const std::optional<std::string> in_hosts =
      split && !alone ? DomainInHostsFile(evidence, hostname) : std::nullopt;
  const bool fits = in_hosts && (options.nnodes || IsOfAService(in_hosts));
  if (!asked_for && !fits) return std::nullopt;
  if (!split && IsOnlyPod(evidence, options)) return std::nullopt;  // the only pod needs no number
  if (!split) {
    return ToStatus({TextOf(environment, kPodName) ? kPodName : kHostname, "",
                     pod.empty() ? std::nullopt : std::optional(pod),
                     "a StatefulSet's pod name, which ends in -ORDINAL, or JOB_COMPLETION_INDEX of an Indexed Job",
                     kCorrectPod});
  }
  ASSIGN_OR_RETURN(const Count count, CountOf(evidence, options));
  ClusterView view;
  view.nnodes = count.nodes;
  ASSIGN_OR_RETURN(view.node_rank,
                   RankIn(absl::StrCat("the ordinal of ", Shown(pod)), split->second, count.nodes, count.source));
  view.self = pod;
  const absl::StatusOr<Domain> found = DomainOf(evidence);
  if (options.primary_given && !found.ok()) return WithPrimaryGiven(std::move(view));
  ASSIGN_OR_RETURN(const Domain domain, found);
  view.evidence = domain.source;
  RETURN_IF_ERROR(TakePrimary(absl::StrCat(split->first, "-0"), domain.name, &view));
  NameNodes(split->first, domain.name, &view);
  return view;
}

}  // namespace muster::discovery
