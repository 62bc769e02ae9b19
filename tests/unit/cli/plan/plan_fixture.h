// A simulated machine, and the plan for a command line and an environment on it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/platform/discovery/discover.h"
#include "base/crypto/identity.h"
#include "cli/options/option_table.h"
#include "cli/plan/make_plan.h"
#include "cli/plan/program.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

using Words = std::vector<std::string>;

inline constexpr char kThreeNodes[] =
    R"({"cluster":{"workerpool0":["a-0:2222"],"workerpool1":["b-0:2222","b-1:2222"],"workerpool2":["c-0:2222"]},)"
    R"("environment":"cloud","task":{"type":"workerpool1","index":1}})";
inline constexpr char kReducer[] =
    R"({"cluster":{"workerpool0":["a-0:2222"],"workerpool1":["b-0:2222"],"workerpool2":["c-0:2222"]},)"
    R"("task":{"type":"workerpool2","index":0}})";
inline constexpr char kOneReplica[] = R"({"cluster":{"chief":["a-0:2222"]},"task":{"type":"chief","index":0}})";

inline machine::WorkerCount Workers(int count, const char* reason) {
  machine::WorkerCount workers;
  workers.workers = count;
  workers.reason = reason;
  return workers;
}

inline Machine MachineWith(int gpus) {
  Machine machine;
  machine.hostname = "here";
  machine.boot_id = "boot";
  machine.pid_namespace = "pid:[1]";
  machine.host_secret = std::string(kSecretBytes, 's');
  machine.random_run_id = "random";
  machine.version = "1";
  machine.accelerators = [] { return machine::Accelerators(); };
  machine.count_workers = [gpus](const std::string& wish) -> absl::StatusOr<machine::WorkerCount> {
    if (wish == "gpu" && gpus == 0) return absl::FailedPreconditionError("there is no accelerator here");
    if (wish == "cpu" || (wish == "auto" && gpus == 0)) return Workers(16, "16 CPUs");
    return Workers(std::max(gpus, 1), "counted");
  };
  machine.read_file = [](const std::string&) { return std::nullopt; };
  machine.check_certificates = [](const v1::NodeConfig&) { return absl::OkStatus(); };
  machine.read_secret = [](const std::string&, FileKind, size_t) { return absl::NotFoundError("no such file"); };
  static const discovery::FileReader no_files = [](const std::string& path, size_t) {
    return absl::NotFoundError(path);
  };
  machine.discover = [](const Environment& environment, const discovery::DiscoverOptions& options) {
    return discovery::Discover({environment, no_files}, options);
  };
  machine.sources_here = [](const Environment& environment, const discovery::DiscoverOptions& options) {
    return discovery::SourcesHere({environment, no_files}, options);
  };
  return machine;
}

inline absl::StatusOr<RunPlan> TryPlan(const Words& words, const Environment& environment = {}, int gpus = 0) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words);
  if (!line.ok()) return line.status();
  return Plan(*line, environment, MachineWith(gpus));
}

inline RunPlan Planned(const Words& words, const Environment& environment = {}, int gpus = 0) {
  absl::StatusOr<RunPlan> plan = TryPlan(words, environment, gpus);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : RunPlan();
}

inline machine::FileState Everything(const std::string&) {
  machine::FileState state;
  state.exists = state.readable = state.executable = true;
  return state;
}

// The plan with its program, in a process that inherits this environment.
inline RunPlan WithProgram(RunPlan plan, const Environment& environment = {},
                           const machine::FileProbe& probe = Everything) {
  PlanProgram({.environment = environment, .called_as = "muster", .folder = "/", .now = {}, .probe = probe},
              &plan);
  return plan;
}

inline SettingLine Line(const RunPlan& plan, const std::string& name) {
  for (const SettingLine& line : plan.shown.lines) {
    if (line.name == name) return line;
  }
  ADD_FAILURE() << name << " is not told";
  return {};
}

}  // namespace muster::cli
