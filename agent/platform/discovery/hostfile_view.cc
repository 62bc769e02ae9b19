#include "agent/platform/discovery/hostfile_view.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/hostfile.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/text/text.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kRunPrefix[] = "hostfile";  // of run ids
constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";
constexpr char kThisMachine[] = "localhost";
constexpr size_t kMaxHostsInMessage = 4;

bool SameIgnoringCase(const std::string& a, const std::string& b) {
  return absl::AsciiStrToLower(a) == absl::AsciiStrToLower(b);
}

// "node1" and "node1.cluster.local" are the same host; two names with dots are compared completely.
bool SameHostName(const std::string& a, const std::string& b) {
  const size_t dot_a = a.find('.'), dot_b = b.find('.');
  if ((dot_a == std::string::npos) == (dot_b == std::string::npos)) return SameIgnoringCase(a, b);
  return SameIgnoringCase(a.substr(0, dot_a), b.substr(0, dot_b));
}

class Finder {
 public:
  Finder(const std::string& source, const HostfileOptions& options) : source_(source), options_(options) {}

  // The indices of the hosts that are this machine; at least one.
  absl::StatusOr<std::vector<size_t>> Run(const std::vector<HostSlots>& hosts) const {
    std::vector<size_t> own = Those(hosts, [this](const std::string& host) { return IsOwn(host); });
    std::vector<std::string> unresolved;
    if (own.empty() && options_.resolves_to_own) {
      own = Those(hosts, [&](const std::string& host) {
        if (IsLiteral(host)) return false;
        const std::optional<bool> is_own = options_.resolves_to_own(host);
        if (!is_own) unresolved.push_back(host);
        return is_own.value_or(false);
      });
    }
    if (!own.empty()) return own;
    std::string expected = "one of its hosts, but it contains no name or address of this machine";
    if (!unresolved.empty()) {
      absl::StrAppend(&expected, " (", JoinAtMost(unresolved, kMaxHostsInMessage),
                      unresolved.size() == 1 ? " does" : " do", " not resolve here)");
    }
    return ToStatus(
        {source_, "this machine", options_.hostname, expected, "add this machine, or give --node-rank"});
  }

 private:
  template <typename Condition>
  static std::vector<size_t> Those(const std::vector<HostSlots>& hosts, const Condition& condition) {
    std::vector<size_t> found;
    for (size_t i = 0; i < hosts.size(); ++i) {
      if (condition(hosts[i].host)) found.push_back(i);
    }
    return found;
  }

  bool IsOwn(const std::string& host) const {
    if (IsLoopback(host)) return true;
    if (IsLiteral(host)) return options_.is_own_address && options_.is_own_address(host);
    return SameHostName(host, options_.hostname);
  }

  const std::string& source_;
  const HostfileOptions& options_;
};

class Reader {
 public:
  Reader(const Environment& environment, const HostfileOptions& options, std::string source)
      : environment_(environment), options_(options), source_(std::move(source)) {}

  Reading Run(std::vector<HostSlots> all, std::optional<int> node_rank) {
    all_ = std::move(all);
    ASSIGN_OR_RETURN(hosts_, FilterHosts(all_, options_.include, options_.exclude));
    ClusterView view;
    ASSIGN_OR_RETURN(view.node_rank, Place(node_rank));
    view.nnodes = static_cast<int>(hosts_.size());
    view.primary_host = hosts_.front().host;
    view.primary_port = kTorchPort;
    view.loopback_only = true;
    for (const HostSlots& host : hosts_) {
      view.nodes.push_back(ToString(host.host, view.primary_port));
      view.slots.push_back(static_cast<int>(host.slots.size()));
      view.loopback_only = view.loopback_only && IsLoopback(host.host);
    }
    view.run_id = RunNameOf(kRunPrefix, view.primary_host);
    RETURN_IF_ERROR(TakeOwn(hosts_[static_cast<size_t>(view.node_rank)], &view));
    return view;
  }

 private:
  absl::StatusOr<int> Place(std::optional<int> node_rank) const {
    const int count = static_cast<int>(hosts_.size());
    if (node_rank && *node_rank < count) return *node_rank;
    if (node_rank) {
      return ToStatus({"--node-rank", "", absl::StrCat(*node_rank),
                       absl::StrCat("less than ", count, ", the hosts that ", source_, " leaves"),
                       "count them from 0"});
    }
    ASSIGN_OR_RETURN(const std::vector<size_t> own, Finder(source_, options_).Run(all_));
    std::set<std::string_view> own_names;
    for (const size_t index : own) own_names.insert(all_[index].host);
    std::vector<int> left;
    std::vector<std::string> names;
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (own_names.count(hosts_[i].host) == 0) continue;
      left.push_back(static_cast<int>(i));
      if (names.size() < kMaxHostsInMessage) names.push_back(hosts_[i].host);
    }
    if (left.size() == 1) return left.front();
    if (left.empty()) return LeftOut(all_[own.front()].host);
    return ToStatus({source_, "this machine", absl::StrJoin(names, ", "),
                     "one host that is this machine, not several", "give --node-rank"});
  }

  absl::Status LeftOut(const std::string& host) const {
    const bool included = !options_.include.empty();
    return ToStatus({included ? "--include" : "--exclude", "", included ? options_.include : options_.exclude,
                     absl::StrCat("this machine, ", host, ", among those that are left"),
                     "start muster on the others alone"});
  }

  absl::Status TakeOwn(const HostSlots& own, ClusterView* view) const {
    view->self = own.host;
    view->nproc = absl::StrCat(own.slots.size());
    const auto whole =
        std::find_if(all_.begin(), all_.end(), [&](const HostSlots& host) { return host.host == own.host; });
    if (whole->slots.size() == own.slots.size()) return absl::OkStatus();
    const auto visible = environment_.find(kVisibleDevices);
    if (visible != environment_.end()) {
      return ToStatus({kVisibleDevices, "", visible->second,
                       absl::StrCat("it to be unset, as --include or --exclude chooses the devices of ", own.host),
                       "unset it, or leave the slots out of the option"});
    }
    view->for_workers[kVisibleDevices] = absl::StrJoin(own.slots, ",");
    return absl::OkStatus();
  }

  const Environment& environment_;
  const HostfileOptions& options_;
  const std::string source_;
  std::vector<HostSlots> all_;    // hosts of the file
  std::vector<HostSlots> hosts_;  // hosts after --include or --exclude
};

}  // namespace

absl::StatusOr<std::optional<std::vector<HostSlots>>> LoadHostfile(const FileReader& read_file,
                                                                   const std::string& path,
                                                                   const std::string& path_source,
                                                                   std::vector<std::string>* warnings) {
  const bool by_default = path.empty();
  const std::string file = by_default ? kDefaultHostfile : path;
  const absl::StatusOr<std::string> text = read_file(file, kMaxHostfileBytes);
  if (absl::IsNotFound(text.status()) && by_default) return std::nullopt;
  if (!text.ok()) {
    return UnreadableFile(
        by_default ? "the default hostfile" : path_source, file, text.status(),
        by_default ? "make it readable, or remove it" : "give another file, or leave the option out");
  }
  ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, ParseHostfile(file, *text, warnings));
  return std::optional(std::move(hosts));
}

Reading ReadHostfile(const Evidence& evidence, const HostfileOptions& options, std::optional<int> node_rank) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(std::optional<std::vector<HostSlots>> hosts,
                   LoadHostfile(evidence.read_file, options.path, options.path_source, &warnings));
  if (!hosts) return std::nullopt;
  const std::string path = options.path.empty() ? kDefaultHostfile : options.path;
  ASSIGN_OR_RETURN(std::optional<ClusterView> view,
                   Reader(evidence.environment, options, path).Run(*std::move(hosts), node_rank));
  if (view) view->evidence = Shown(path);
  if (view) view->warnings = std::move(warnings);
  return view;
}

absl::StatusOr<std::string> WriteHostfile(const ClusterView& view, int slots) {
  const auto line = [](const std::string& host, int count) { return absl::StrCat(host, " slots=", count, "\n"); };
  if (view.nodes.empty() && view.nnodes == 1) return line(kThisMachine, slots);
  if (view.nodes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write a hostfile: the source of this job (",
                                                   view.source, ") does not name its ", view.nnodes, " nodes"));
  }
  std::string text;
  std::set<std::string> seen;
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    const std::string host = view.nodes[i].substr(0, view.nodes[i].rfind(':'));
    if (host.find(':') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(view.source, ": ", Shown(host), " is an IPv6 address, which a hostfile cannot contain"));
    }
    if (!seen.insert(HostKey(host)).second) {
      return ToStatus({view.source, absl::StrCat("nodes[", i, "]"), view.nodes[i],
                       "another host for each node, as a hostfile has no ports", "write the hostfile by hand"});
    }
    text += line(host, i < view.slots.size() ? view.slots[i] : slots);
  }
  return text;
}

}  // namespace muster::discovery
