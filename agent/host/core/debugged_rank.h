// --debug: the worker that starts under a debugger. Data and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

struct DebuggedRank {
  int rank = 0;  // global
  // debugpy's, on 127.0.0.1 of the worker's node; nullopt: pdb on the terminal.
  std::optional<uint16_t> port = {};
  std::string option;                  // "--debug 3:5678", for messages
  std::string hostname;                // of this node
  bool keyboard_is_elsewhere = false;  // `muster local` has looked for it; its nodes cannot see it
};

// Local rank of that worker; nullopt: this node does not run it in this round.
std::optional<int> LocalRankOf(const DebuggedRank& debugged, const v1::Round& round, int slots);

// A worker of this node that must not start, because the debugger could not.
struct Undebuggable {
  int local_rank = 0;
  std::string why;  // one line
};

// keyboard: this node has a terminal. no_port: why the port cannot be had, a clause; empty: it can. If the job has
// no such rank, it is the node's first worker.
std::optional<Undebuggable> FindUndebuggable(const DebuggedRank& debugged, const v1::Round& round, int slots,
                                             bool keyboard, const std::string& no_port);

// The log line at the start of a round: where to attach, and what the other workers do.
std::string DescribeDebugger(const DebuggedRank& debugged, const v1::Round& round, int slots);

}  // namespace muster::host
