#include "cli/commands/launcher_line.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/platform/machine/accelerators.h"
#include "agent/platform/machine/machine_probe.h"
#include "base/core/status_macros.h"
#include "cli/commands/commands.h"
#include "cli/launchers/python_launcher.h"
#include "cli/options/read_settings.h"
#include "cli/plan/machine.h"
#include "rendezvous/transport/address.h"

namespace muster::cli {
namespace {

constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";
constexpr char kPythonOption[] = "python";

std::vector<std::string> DeepspeedEnvFiles(const Environment& environment) {
  const auto named = environment.find("DS_ENV_FILE"), home = environment.find("HOME");
  const std::string name = named == environment.end() || named->second.empty() ? ".deepspeed_env" : named->second;
  if (name.front() == '/' || home == environment.end()) return {name};
  return {absl::StrCat(home->second, "/", name), name};
}

int CountDevices(const Environment& environment) {
  return machine::CountAccelerators(environment, machine::SystemProbe()).count;
}

DeepspeedMachine ThisMachine(const Environment& environment, const std::string& hostname) {
  return {.read_file = machine::ReadRegularFile,
          .hostname = hostname,
          .is_here =
              [hostname](const std::string& host) {
                // A pod's name in DNS appears only after its start, and its host name has no domain.
                const bool is_named = host == hostname || host.starts_with(hostname + ".");
                return is_named || rendezvous::IsLocalAddress(host).value_or(false);
              },
          .count_devices = [&environment] { return CountDevices(environment); },
          .count_all_devices =
              [&environment] {
                Environment all = environment;
                all.erase(kVisibleDevices);
                return CountDevices(all);
              },
          .env_files = DeepspeedEnvFiles(environment)};
}

}  // namespace

bool IsFileHere(const std::string& script) {
  std::error_code ignored;
  return script.find('/') == std::string::npos && std::filesystem::is_regular_file(script, ignored);
}

absl::StatusOr<std::optional<InnerLauncher>> LauncherIn(const CommandLine& line) {
  // Every start comes by here, so no other script is opened.
  if (!HasNameOfALauncher(line.script)) return FindLauncher(line, false);
  const bool is_path = line.script.find('/') != std::string::npos || !line.given.contains("no-python");
  return FindLauncher(line, is_path && IsNoLauncher(BeginningOf(line.script)));
}

absl::Status CheckNoLauncherIn(const CommandLine& line) {
  ASSIGN_OR_RETURN(const std::optional<InnerLauncher> launcher, LauncherIn(line));
  if (!launcher) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      NameOf(*launcher), ": only muster run can do its work; give the command of one worker instead"));
}

absl::StatusOr<JoinedLine> TakeDeepspeedLine(const std::vector<std::string>& words, Environment* environment,
                                             const std::map<std::string, std::string>& in_front) {
  const std::string hostname = ReadMachine(*environment).hostname;
  ASSIGN_OR_RETURN(DeepspeedLine read, ReadDeepspeedLine(words, ThisMachine(*environment, hostname), in_front));
  for (const auto& [name, value] : read.variables) (*environment)[name] = value;
  if (!read.visible_devices.empty()) (*environment)[kVisibleDevices] = read.visible_devices;
  return JoinedLine{std::move(read.line), std::move(read.notes)};
}

absl::StatusOr<JoinedLine> TakeOver(const InnerLauncher& launcher, const CommandLine& line,
                                    Environment* environment) {
  std::map<std::string, std::string> in_front = OptionsInFrontOf(line);
  JoinedLine own;
  if (launcher.kind == LauncherKind::kPython) {
    return absl::InvalidArgumentError(absl::StrCat(
        NameOf(launcher), ": only muster run can start it, as its settings are known only once it runs"));
  } else if (launcher.kind == LauncherKind::kDeepspeed) {
    ASSIGN_OR_RETURN(own, TakeDeepspeedLine(launcher.words, environment, in_front));
    for (const char* name : {"hostfile", "include", "exclude"})
      in_front.erase(name);  // own.line follows from them
  } else {
    ASSIGN_OR_RETURN(own.line, ReadTorchLine(launcher));
  }
  const std::string python = PythonOf(launcher, *environment);
  if (!python.empty()) (*environment)[machine::kCallerPython] = python;
  return Join(in_front, std::move(own));
}

int BecomePythonLauncher(const InnerLauncher& launcher, const CommandLine& line, const std::string& called_as) {
  const Environment environment = ReadEnvironment();
  CommandLine in_front;
  in_front.given = OptionsInFrontOf(line);
  if (const auto read = ReadSettings(in_front, environment); !read.ok()) return Complain(read.status());
  const auto python = in_front.given.find(kPythonOption);
  return Complain(BecomeLauncher(launcher, in_front.given, python == in_front.given.end() ? "" : python->second,
                                 called_as, environment));
}

}  // namespace muster::cli
