// A coordinator and scripted hosts around it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {

// A cluster of scripted hosts around one coordinator. Streams are numbered as hosts are.
class Cluster {
 public:
  explicit Cluster(CoordinatorOptions options, uint64_t entropy = 42)
      : coordinator_(Tuned(std::move(options)), now_, entropy) {}

  static CoordinatorOptions Tuned(CoordinatorOptions options) {
    options.run_id = "job";
    return options;
  }

  // All on one machine, unless a test says otherwise.
  static v1::Whereabouts Here(const std::string& process) {
    v1::Whereabouts here;
    here.set_machine("machine");
    here.set_container("container");
    here.set_user("user");
    here.set_process(process);
    return here;
  }

  struct Node {
    v1::AgentStatus status;
    StreamId stream = 0;
    std::string lasting;  // of the status, what changes with more than time
    v1::Directive told;   // the newest directive
    BootTime failed_at;
    bool closed = false;
  };

  // A host attaches with a READY status, and sends another one that confirms the answer.
  void Join(const std::string& name, int place = -1, v1::Role role = v1::ROLE_TRAINER,
            const std::string& address = "127.0.0.1") {
    Node& node = nodes_[name];
    v1::AgentStatus& s = node.status;
    s.set_protocol(kProtocol);
    s.set_run_id("job");
    s.set_host_id(name);
    s.set_hostname(name);
    s.mutable_id()->set_agent_number(1);
    s.set_role(role);
    if (place >= 0) s.set_place(place);
    if (!s.has_whereabouts()) *s.mutable_whereabouts() = Here(name);
    if (s.slots() == 0) s.set_slots(2);
    if (name == "a" && place < 0) s.set_at_primary(true);  // place 0 is the primary's anyway
    node.stream = next_stream_++;
    s.set_phase(v1::PHASE_READY);
    if (s.preparing().empty()) {
      s.mutable_offer()->set_host(address);
      s.mutable_offer()->set_port(static_cast<uint32_t>(5000 + node.stream));
    }
    Say(name);
    Apply(name);
  }

  // A new agent of the same host.
  void Attach(const std::string& name) {
    Node& node = nodes_[name];
    node.stream = next_stream_++;
    node.status.mutable_id()->set_agent_number(node.status.id().agent_number() + 1);
    Say(name);
  }

  void Say(const std::string& name) {
    Node& node = nodes_[name];
    node.status.mutable_id()->set_seq(node.status.id().seq() + 1);
    if (node.status.at_primary() && !IsLocal(node.stream)) node.stream |= kLocalStreamBit;
    if (node.status.has_failure()) {
      node.status.mutable_failure()->set_age_ms(absl::ToInt64Milliseconds(now_ - node.failed_at));
    }
    CountNews(&node);
    Do([&](Effects* out) { coordinator_.OnStatus(now_, node.stream, node.status, out); });
  }

  // As an agent does.
  static void CountNews(Node* node) {
    v1::AgentStatus lasting = node->status;
    lasting.clear_id();
    lasting.clear_news();
    lasting.clear_in_job_ms();
    lasting.mutable_applied()->clear_seq();
    lasting.mutable_failure()->clear_age_ms();
    const std::string now = lasting.SerializeAsString();
    if (std::exchange(node->lasting, now) != now) node->status.set_news(node->status.news() + 1);
  }

  // Applies the newest directive and sends the resulting status.
  void Apply(const std::string& name) {
    Node& node = nodes_[name];
    v1::AgentStatus& s = node.status;
    *s.mutable_applied() = node.told.id();
    *s.mutable_epoch() = node.told.id().epoch();
    if (node.told.has_run()) {
      if (!Same(s.last().id(), node.told.run().id())) {
        s.set_phase(v1::PHASE_RUNNING);
        s.set_live_workers(2);
        s.set_outcome(v1::OUTCOME_RAN);
      }
      *s.mutable_last() = node.told.run();
    }
    const v1::Round& greatest = node.told.greatest();
    if (Compare(greatest.id(), s.last().id()) > 0) {
      *s.mutable_last() = greatest;
      s.mutable_last()->clear_primary_ended();
      s.set_outcome(v1::OUTCOME_TOLD);
    }
    if (greatest.has_primary_ended() && Same(s.last().id(), greatest.id())) {
      *s.mutable_last()->mutable_primary_ended() = greatest.primary_ended();
    }
    if (node.told.has_stop()) {
      s.set_phase(v1::PHASE_READY);
      s.set_live_workers(0);
      if (s.outcome() == v1::OUTCOME_RAN) s.set_outcome(v1::OUTCOME_STOPPED);
    }
    if (node.told.has_verdict()) {
      *s.mutable_verdict() = node.told.verdict();
      s.set_live_workers(0);
      s.set_phase(v1::PHASE_READY);
    }
    Say(name);
  }

  void Phase(const std::string& name, v1::Phase phase) {
    v1::AgentStatus& s = nodes_[name].status;
    s.set_phase(phase);
    if (phase == v1::PHASE_SUCCEEDED) {
      s.set_live_workers(0);
      s.set_outcome(v1::OUTCOME_SUCCEEDED);
    }
    Say(name);
  }

  void Fail(const std::string& name, int code) {
    v1::AgentStatus& s = nodes_[name].status;
    nodes_[name].failed_at = now_;
    s.set_outcome(v1::OUTCOME_FAILED);
    *s.mutable_failure()->mutable_round() = s.last().id();
    s.mutable_failure()->set_exit_code(code);
    s.mutable_failure()->set_host(name);
    s.mutable_failure()->set_rank(s.last().first_rank());
    Phase(name, v1::PHASE_FAILED);
  }

  void Close(const std::string& name) {
    Do([&](Effects* out) { coordinator_.OnClosed(now_, nodes_[name].stream, out); });
  }

  void AskToEnd() {
    Do([&](Effects* out) { coordinator_.OnAskedToEnd(now_, out); });
  }
  void WantStacks() {
    Do([&](Effects* out) { coordinator_.OnStacksWanted(now_, out); });
  }
  void WantRank(int rank) {
    Do([&](Effects* out) { coordinator_.OnRankWanted(now_, rank, out); });
  }
  void Order(const v1::Order& order) {
    Do([&](Effects* out) { coordinator_.OnOrder(now_, order, out); });
  }
  bool MayEnd() const { return coordinator_.MayEnd(now_); }

  void TurnAway(const std::string& address, const std::string& why) {
    Do([&](Effects* out) { coordinator_.OnTurnedAway(now_, address, why, out); });
  }

  // Lets time pass; the named hosts go on sending heartbeats.
  void Pass(absl::Duration duration, const std::vector<std::string>& beating) {
    const BootTime until = now_ + duration;
    int tick = 0;
    while (now_ < until) {
      now_ += kTick;
      Do([&](Effects* out) { coordinator_.OnTick(now_, out); });
      if (++tick % 5 != 0) continue;
      for (const std::string& name : beating) Apply(name);
    }
  }

  // Lets time pass at once, as if the coordinator's process had been stopped.
  void Jump(absl::Duration duration) {
    now_ += duration;
    Do([&](Effects* out) { coordinator_.OnTick(now_, out); });
  }

  // Lets time pass without any event, so that the next one finds the coordinator late.
  void Sleep(absl::Duration duration) { now_ += duration; }

  const v1::Directive& Told(const std::string& name) { return nodes_[name].told; }
  const std::vector<StreamId>& Admitted() const { return admitted_; }
  Node& At(const std::string& name) { return nodes_[name]; }
  State state() const { return coordinator_.state(); }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Number of log lines that contain this text; debug lines do not count.
  int Said(const std::string& text) const {
    return static_cast<int>(std::count_if(said_.begin(), said_.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    }));
  }
  // The log lines with this event, in order.
  std::vector<Note> Events(const std::string& event) const {
    std::vector<Note> found;
    std::copy_if(notes_.begin(), notes_.end(), std::back_inserter(found),
                 [&](const Note& note) { return note.subject.event == event; });
    return found;
  }
  const Coordinator& core() const { return coordinator_; }
  BootTime now() const { return now_; }

 private:
  template <typename Event>
  void Do(Event event) {
    Effects effects;
    event(&effects);
    for (const Effect& effect : effects) {
      if (const auto* send = std::get_if<SendDirective>(&effect)) {
        EXPECT_EQ(OutOfRange(send->directive), "") << "agents ignore it";
        for (auto& [name, node] : nodes_) {
          if (node.stream == send->stream) node.told = send->directive;
        }
      } else if (const auto* close = std::get_if<CloseStream>(&effect)) {
        for (auto& [name, node] : nodes_) node.closed |= node.stream == close->stream;
      } else if (const auto* admit = std::get_if<AdmitStream>(&effect)) {
        admitted_.push_back(admit->stream);
      } else if (const auto* note = std::get_if<Note>(&effect)) {
        notes_.push_back(*note);
        if (note->severity != Severity::kDebug) said_.push_back(note->text);
        if (note->severity == Severity::kWarning) warnings_.push_back(note->text);
      }
    }
  }

  BootTime now_ = FromBootNanos(1'000'000'000);
  Coordinator coordinator_;
  StreamId next_stream_ = 1;
  std::map<std::string, Node> nodes_;
  std::vector<StreamId> admitted_;
  std::vector<std::string> warnings_;
  std::vector<std::string> said_;
  std::vector<Note> notes_;
};

inline CoordinatorOptions Fixed(int nodes, int max_restarts = 3) {
  CoordinatorOptions options;
  options.min_nodes = options.max_nodes = nodes;
  options.max_restarts = max_restarts;
  return options;
}

inline CoordinatorOptions Elastic(int min_nodes, int max_nodes) {
  CoordinatorOptions options = Fixed(max_nodes);
  options.min_nodes = min_nodes;
  options.last_call = absl::Seconds(5);
  return options;
}

// A coordinator inside the agent of node "a", for nodes without places.
inline CoordinatorOptions InAgent(CoordinatorOptions options) {
  options.in_agent = true;
  return options;
}

// Round 1 of a and b in a job of 2 to 8 nodes.
inline void StartTwo(Cluster* c) {
  c->Join("a");
  c->Join("b");
  c->Pass(absl::Seconds(20), {"a", "b"});  // a coordinator without memory waits for lease, margin and last call
  ASSERT_EQ(c->Told("a").run().node_count(), 2);
  c->Apply("a");
  c->Apply("b");
}

}  // namespace muster::rendezvous
