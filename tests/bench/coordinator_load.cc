// Prints the processor time that the coordinator core takes for events that concern many nodes of a large job at
// once. It asserts nothing: tests/unit/rendezvous/core/coordinator_scale_test.cc counts work instead of time.
//
//     coordinator_load [NODES]        default: 10000
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {
namespace {

constexpr int kDefaultNodes = 10'000;
constexpr size_t kTextBytes = 4096;  // for each of a failure's three texts
constexpr absl::Duration kBetweenStatuses = absl::Microseconds(20);

class Load {
 public:
  explicit Load(CoordinatorOptions options) : core_(Named(std::move(options)), now_, 42) {}

  // Every node attaches and is READY; after lease and margin the first round is made, and all of them run it.
  void Start(int nodes) {
    nodes_.resize(static_cast<size_t>(nodes));
    for (size_t i = 0; i < nodes_.size(); ++i) {
      v1::AgentStatus& s = nodes_[i].status;
      s.set_protocol(kProtocol);
      s.set_run_id("job");
      s.set_host_id(absl::StrCat("host-", i));
      s.set_hostname(absl::StrCat("worker-", i));
      s.mutable_id()->set_agent_number(1);
      s.set_phase(v1::PHASE_READY);
      s.set_slots(8);
      s.set_in_job_ms(1);
      s.mutable_offer()->set_host("10.0.0.1");
      s.mutable_offer()->set_port(5000);
      Say(i);
    }
    for (int second = 0; second < 60; ++second) {
      Tick(absl::Seconds(1));
      BeatAll();
    }
  }

  void Say(size_t i) {
    Node& node = nodes_[i];
    node.status.mutable_id()->set_seq(node.status.id().seq() + 1);
    now_ += kBetweenStatuses;
    Effects effects;
    core_.OnStatus(now_, i + 1, node.status, &effects);
    TakeIn(effects);
  }

  // The node applies the last directive.
  void Beat(size_t i) {
    Node& node = nodes_[i];
    v1::AgentStatus& s = node.status;
    *s.mutable_applied() = node.told.id();
    *s.mutable_epoch() = node.told.id().epoch();
    if (node.told.has_run() && !Same(s.last().id(), node.told.run().id())) {
      *s.mutable_last() = node.told.run();
      s.set_phase(v1::PHASE_RUNNING);
      s.set_news(s.news() + 1);
      s.set_outcome(v1::OUTCOME_RAN);
      s.set_live_workers(8);
    }
    if (node.told.has_stop()) {
      s.set_phase(v1::PHASE_READY);
      s.set_news(s.news() + 1);
      s.set_live_workers(0);
    }
    Say(i);
  }

  void BeatAll(size_t first = 0) {
    for (size_t i = first; i < nodes_.size(); ++i) Beat(i);
  }

  void Tick(absl::Duration after = kTick) {
    now_ += after;
    Effects effects;
    core_.OnTick(now_, &effects);
    TakeIn(effects);
  }

  void Gone(size_t i) {
    nodes_[i].status.set_phase(v1::PHASE_HOST_GONE);
    nodes_[i].status.set_live_workers(0);
    Say(i);
  }

  void Fail(size_t i) {
    v1::AgentStatus& s = nodes_[i].status;
    s.set_phase(v1::PHASE_FAILED);
    s.set_live_workers(0);
    s.set_outcome(v1::OUTCOME_FAILED);
    v1::Failure* failure = s.mutable_failure();
    *failure->mutable_round() = s.last().id();
    failure->set_rank(s.last().first_rank());
    failure->set_exit_code(1);
    const std::string text(kTextBytes, 'x');
    failure->set_error_text("connection reset by peer" + text);
    failure->set_callstack(text);
    failure->set_last_output(text);
    Say(i);
  }

  State state() const { return core_.state(); }
  const v1::Directive& Told(size_t i) const { return nodes_[i].told; }

 private:
  struct Node {
    v1::AgentStatus status;
    v1::Directive told;
  };

  static CoordinatorOptions Named(CoordinatorOptions options) {
    options.run_id = "job";
    return options;
  }

  void TakeIn(const Effects& effects) {
    for (const Effect& effect : effects) {
      const auto* const send = std::get_if<SendDirective>(&effect);
      if (send != nullptr && send->stream != 0) nodes_[send->stream - 1].told = send->directive;
    }
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  std::vector<Node> nodes_;
  Coordinator core_;
};

CoordinatorOptions Job(int min_nodes, int max_nodes) {
  CoordinatorOptions options;
  options.min_nodes = min_nodes;
  options.max_nodes = max_nodes;
  options.max_restarts = options.max_node_losses = 100'000;
  options.lease = absl::Seconds(60);
  return options;
}

// Measures this thread's processor time, so that other load does not count.
double ThreadMilliseconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

double Milliseconds(const std::function<void()>& work) {
  const double before = ThreadMilliseconds();
  work();
  return ThreadMilliseconds() - before;
}

void Print(const std::string& what, double ms) { std::printf("%-60s %10.2f ms\n", what.c_str(), ms); }

void LoseHalf(int nodes) {
  Load load(Job(1, nodes));
  load.Start(nodes);
  const size_t half = static_cast<size_t>(nodes) / 2;
  for (int second = 0; second < 60; ++second) {
    load.Tick(absl::Milliseconds(500));
    load.BeatAll(half);
  }
  double worst = 0;  // the tick in which the leases have ended
  for (int tick = 0; tick < 400; ++tick) {
    worst = std::max(worst, Milliseconds([&] { load.Tick(); }));
    if (tick % 10 == 0) load.BeatAll(half);
  }
  Print(absl::StrCat(half, " of ", nodes, " nodes lost at once: the longest tick"), worst);
}

void AskAsSpares(int nodes) {
  Load load(Job(1, 2));
  load.Start(nodes);
  const double all = Milliseconds([&] { load.BeatAll(); });
  Print(absl::StrCat("the beat of one of ", nodes, " nodes, all but 2 of them spares"), all / nodes);
}

void LoseHosts(int nodes) {
  Load load(Job(1, nodes));
  load.Start(nodes);
  const size_t half = static_cast<size_t>(nodes) / 2;
  const double all = Milliseconds([&] {
    for (size_t i = 0; i < half; ++i) load.Gone(i);
    load.Tick();
  });
  Print(absl::StrCat(half, " of ", nodes, " main processes died: all messages of it"), all);
}

void FailAll(int nodes) {
  Load load(Job(1, nodes));
  load.Start(nodes);
  const double told = Milliseconds([&] {
    for (size_t i = 0; i < static_cast<size_t>(nodes); ++i) load.Fail(i);
  });
  Print(absl::StrCat(nodes, " nodes failed: all messages of it"), told);
  const double drained = Milliseconds([&] { load.BeatAll(); });
  Print(absl::StrCat(nodes, " nodes failed: all messages of the drain"), drained);
  Print(absl::StrCat(nodes, " nodes failed: the tick that ends the drain"), Milliseconds([&] { load.Tick(); }));
}

int Main(int argc, char** argv) {
  const int nodes = argc > 1 ? std::atoi(argv[1]) : kDefaultNodes;
  if (nodes < 4) {
    std::fprintf(stderr, "usage: coordinator_load [NODES]: at least 4\n");
    return 64;
  }
  LoseHalf(nodes);
  AskAsSpares(nodes / 2);
  LoseHosts(nodes);
  FailAll(nodes);
  return 0;
}

}  // namespace
}  // namespace muster::rendezvous

int main(int argc, char** argv) { return muster::rendezvous::Main(argc, argv); }
