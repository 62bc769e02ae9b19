// What all parts of a simulated cluster share: the scenario, virtual time, random numbers, the trace, and whether
// the faults have ended.
#pragma once

#include <string>

#include "tests/simulation/prng.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

namespace muster::simulation {

class Environment {
 public:
  explicit Environment(const Scenario& scenario, TakeLine trace = {});  // trace: gets each event, if given

  const Scenario& scenario() const { return scenario_; }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  Micros now() const { return scheduler_.now(); }
  Prng& prng() { return prng_; }
  Prng& hardships() { return hardships_; }

  bool healed() const { return healed_; }
  void Heal() { healed_ = true; }

  // A line of the trace.
  void Note(const char* category, const std::string& text);
  bool traces() const { return trace_.on(); }  // somebody reads the lines
  // When anything but a worker's own failure happened to the cluster, the last time; -1: never.
  Micros disturbed_at() const { return disturbed_at_; }

 private:
  const Scenario scenario_;
  Scheduler scheduler_;
  Prng prng_;
  Prng hardships_;  // a stream of its own for what hardships.cc draws
  Trace trace_;
  bool healed_ = false;
  Micros disturbed_at_ = -1;
};

}  // namespace muster::simulation
