// Nodes in other hands: they have the token, keys of their own and all the coordinator's words, and say what they
// like. They take no place and start no workers. What they say must change nothing for others but that a round,
// now and then, starts again: no success that is none, no two rounds at once, no job that hangs.
#pragma once

#include <array>
#include <string>

#include "tests/simulation/cluster.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/prng.h"

namespace muster::simulation {

class Liars {
 public:
  Liars(Environment* env, Cluster* cluster, Invariants* invariants);

  void Lie();    // one of them says something to the coordinator that serves now
  void Leave();  // their connections close

 private:
  struct Liar {
    std::string host_id;
    CoordinatorHome* home = nullptr;  // to which it is connected
    rendezvous::StreamId stream = 0;
    uint64_t agent_number = 0;
    uint64_t seq = 0;
  };

  void Connect(CoordinatorHome* home, Liar* liar);
  v1::AgentStatus Draw(const CoordinatorHome& home, const Liar& liar);
  void DrawAsFirst(v1::AgentStatus* status);
  void Distort(const v1::Verdict& known, v1::Verdict* verdict);
  v1::Round DrawRound(const CoordinatorHome& home, const Liar& liar);

  Environment* env_;
  Cluster* cluster_;
  Invariants* invariants_;
  Prng prng_;
  std::array<Liar, 3> liars_;
  uint64_t true_number_ = 0;  // the greatest of a round that a coordinator has made, as far as they know
};

}  // namespace muster::simulation
