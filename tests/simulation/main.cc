// muster_sim: runs the three cores of a whole cluster through many schedules in virtual time.
//
//   muster_sim --seeds N [--first S] [--time-limit SECONDS]      run seeds S, S+1, ...
//   ... --jobs N                                                 on so many threads
//   ... --new                                                    a tenth as many, from $MUSTER_SIM_FIRST on
//   muster_sim --seed S [--trace]                                replay one
//   ... --mix TEXT                                               only of seeds whose mix of faults is called so
//   ... --until-failed                                           end at the first violation, 1 if there was one
//   ... --hash                                                   prints a hash of all that --trace would print: a
//                                                                commit that only moves code keeps it
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr uint64_t kDeterminismEvery = 50;  // 2 % of the seeds run twice
constexpr size_t kMaxReported = 10;
constexpr int kMaxJobs = 256;
constexpr uint64_t kShareOfNew = 10;  // one new seed for so many of the fixed ones

struct Options {
  uint64_t first = 1;
  uint64_t seeds = 20000;
  bool single = false;
  bool trace = false;
  bool hashes_trace = false;
  bool until_failed = false;
  double time_limit_s = 0;  // 0: none
  int jobs = 1;             // threads; a seed is one thread's
  std::string mix;
};

struct Outcome {
  bool ok = false;
  uint64_t hash = 0;        // of all events: two runs of one seed must agree
  uint64_t trace_hash = 0;  // of all lines of the trace; 0 if not asked for
  uint64_t events = 0;
  Micros virtual_time = 0;
  int verdict_code = -1;
  size_t rounds = 0;
  std::string message;
};

// A CHECK that fails ends the process: the seed in which it did is to be known.
thread_local uint64_t running_seed = 0;

void OnAbort(int) {
  char text[64];
  const int length =
      std::snprintf(text, sizeof text, "\naborted in seed %llu\n", static_cast<unsigned long long>(running_seed));
  if (length > 0 && write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) return;
}

void PrintLine(Micros now, const std::string& category, const std::string& text) {
  std::printf("%11.6f  %-11s %s\n", static_cast<double>(now) / kSecond, category.c_str(), text.c_str());
}

// FNV-1a of 64 bits.
constexpr uint64_t kHashBegins = 0xCBF29CE484222325u;
void Mix(const std::string& text, uint64_t* hash) {
  for (const char byte : text) *hash = (*hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
}

Outcome RunSeed(const Options& options, uint64_t seed) {
  running_seed = seed;
  Outcome outcome;
  TakeLine take;
  if (options.trace) take = PrintLine;
  if (options.hashes_trace) {
    outcome.trace_hash = kHashBegins;
    take = [&outcome](Micros now, const std::string& category, const std::string& text) {
      Mix(std::to_string(now) + category + text + "\n", &outcome.trace_hash);
    };
  }
  World world(DrawScenario(seed), std::move(take));
  outcome.ok = world.Run();
  outcome.hash = world.hash();
  outcome.events = world.events();
  outcome.virtual_time = world.now();
  outcome.verdict_code = world.invariants().verdict_code();
  outcome.rounds = world.invariants().rounds();
  outcome.message = world.invariants().message();
  return outcome;
}

void Report(uint64_t seed, const std::string& message) {
  std::printf("seed %llu: %s\n  %s\n  replay: muster_sim --seed %llu --trace\n",
              static_cast<unsigned long long>(seed), message.c_str(), Describe(DrawScenario(seed)).c_str(),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
}

// Results of all seeds. Guarded by its mutex: several threads take seeds, each with its own worlds.
struct Tally {
  std::mutex mutex;
  uint64_t next = 0;  // the next seed
  uint64_t ran = 0;
  uint64_t rounds = 0;
  uint64_t events = 0;
  uint64_t trace_hash = 0;  // the sum over all seeds, in whatever order they ran
  double virtual_s = 0;
  std::map<int, int> verdicts;
  std::map<uint64_t, std::string> failed;  // by seed
  bool enough = false;
};

// The violation of this seed; empty if there is none.
std::string Judge(const Options& options, uint64_t seed, const Outcome& outcome) {
  if (outcome.ok && seed % kDeterminismEvery == 0 && RunSeed(options, seed).hash != outcome.hash) {
    return "two runs of this seed differ";
  }
  return outcome.message;
}

void TakeSeeds(const Options& options, const std::function<double()>& elapsed, Tally* tally) {
  std::unique_lock lock(tally->mutex);
  while (!tally->enough && tally->next < options.first + options.seeds) {
    if (options.time_limit_s > 0 && elapsed() > options.time_limit_s) return;
    const uint64_t seed = tally->next++;
    if (!options.mix.empty() && DrawScenario(seed).mix.find(options.mix) == std::string::npos) continue;
    lock.unlock();
    const Outcome outcome = RunSeed(options, seed);
    const std::string message = Judge(options, seed, outcome);
    lock.lock();
    ++tally->ran;
    tally->rounds += outcome.rounds;
    tally->events += outcome.events;
    tally->trace_hash += outcome.trace_hash;
    tally->virtual_s += static_cast<double>(outcome.virtual_time) / kSecond;
    ++tally->verdicts[outcome.verdict_code];
    if (message.empty()) continue;
    tally->failed[seed] = message;
    if (tally->failed.size() <= kMaxReported) Report(seed, message);
    tally->enough |= options.until_failed;
  }
}

int RunMany(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  Tally tally;
  tally.next = options.first;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.jobs; ++i) threads.emplace_back([&] { TakeSeeds(options, elapsed, &tally); });
  for (std::thread& thread : threads) thread.join();
  std::printf(
      "%llu seeds (first %llu), %zu failed; %.0f seeds/s, %llu events, %llu rounds, %.0f times real time;"
      " verdicts:",
      static_cast<unsigned long long>(tally.ran), static_cast<unsigned long long>(options.first),
      tally.failed.size(), static_cast<double>(tally.ran) / elapsed(),
      static_cast<unsigned long long>(tally.events), static_cast<unsigned long long>(tally.rounds),
      tally.virtual_s / elapsed());
  for (const auto& [code, count] : tally.verdicts) std::printf(" %d:%d", code, count);
  if (options.hashes_trace) std::printf("; hash %016llx", static_cast<unsigned long long>(tally.trace_hash));
  std::printf("\n");
  return tally.failed.empty() ? 0 : 1;
}

int RunOne(const Options& options) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(options.first),
              Describe(DrawScenario(options.first)).c_str());
  const Outcome outcome = RunSeed(options, options.first);
  std::printf("%s: %llu events, %zu rounds, %.3f virtual seconds, verdict %d, hash %016llx%s%s\n",
              outcome.ok ? "held" : "FAILED", static_cast<unsigned long long>(outcome.events), outcome.rounds,
              static_cast<double>(outcome.virtual_time) / kSecond, outcome.verdict_code,
              static_cast<unsigned long long>(outcome.hash), outcome.ok ? "" : "\n", outcome.message.c_str());
  return outcome.ok ? 0 : 1;
}

bool TakeValue(const std::string& flag, const char* value, Options* options) {
  if (flag == "--seeds") {
    options->seeds = std::strtoull(value, nullptr, 10);
  } else if (flag == "--first" || flag == "--seed") {
    options->first = std::strtoull(value, nullptr, 10);
    options->single = flag == "--seed";
  } else if (flag == "--mix") {
    options->mix = value;
  } else if (flag == "--jobs") {
    options->jobs = std::clamp(std::atoi(value), 1, kMaxJobs);
  } else if (flag == "--time-limit") {
    options->time_limit_s = std::strtod(value, nullptr);
  } else {
    return false;
  }
  return true;
}

bool Parse(int argc, char** argv, Options* options) {
  if (const char* seeds = std::getenv("MUSTER_SIM_SEEDS")) options->seeds = std::strtoull(seeds, nullptr, 10);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--trace") {
      options->trace = true;
    } else if (flag == "--new") {
      options->seeds = std::max<uint64_t>(1, options->seeds / kShareOfNew);
      if (const char* first = std::getenv("MUSTER_SIM_FIRST")) options->first = std::strtoull(first, nullptr, 10);
    } else if (flag == "--hash") {
      options->hashes_trace = true;
    } else if (flag == "--until-failed") {
      options->until_failed = true;
    } else if (i + 1 == argc || !TakeValue(flag, argv[++i], options)) {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  muster::simulation::Options options;
  if (!muster::simulation::Parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: muster_sim [--seeds N] [--first S] [--new] [--seed S] [--trace] [--mix TEXT] "
                 "[--jobs N] [--hash] [--until-failed] [--time-limit SECONDS]\n");
    return 64;
  }
  std::signal(SIGABRT, muster::simulation::OnAbort);
  return options.single ? RunOne(options) : RunMany(options);
}
