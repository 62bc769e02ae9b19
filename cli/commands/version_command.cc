// `muster version [--json]` and `muster --version`.
#include <ares_version.h>
#include <event2/event-config.h>
#include <fmt/core.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/version_info.h>
#include <openssl/opensslv.h>
#include <spdlog/version.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "base/text/problem.h"
#include "base/wire/ids.h"
#include "cli/commands/commands.h"
#include "cli/plan/version.h"

namespace muster::cli {
namespace {

// A number in which each part of a version has so many decimal digits: 3021012 is 3.21.12.
std::string Parts(int number, int part) {
  return absl::StrCat(number / part / part, ".", number / part % part, ".", number % part);
}

std::string Dotted(int major, int minor, int patch) { return absl::StrCat(major, ".", minor, ".", patch); }

#ifdef __clang__
constexpr char kCompiler[] = __VERSION__;
#else
constexpr char kCompiler[] = "GCC " __VERSION__;
#endif

nlohmann::ordered_json Libraries() {
  return {{"abseil", absl::StrCat(ABSL_LTS_RELEASE_VERSION, ".", ABSL_LTS_RELEASE_PATCH_LEVEL)},
          {"c-ares", ARES_VERSION_STR},
          {"fmt", Parts(FMT_VERSION, 100)},
          {"grpc", GRPC_CPP_VERSION_STRING},
          {"libevent", EVENT__VERSION},
          {"nlohmann_json",
           Dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"openssl", OPENSSL_VERSION_STR},
          {"protobuf", Parts(GOOGLE_PROTOBUF_VERSION, 1000)},
          {"spdlog", Dotted(SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
          {"zlib", ZLIB_VERSION}};
}

std::string VersionAsJson() {
  const nlohmann::ordered_json version = {{"version", ReleaseVersion()},
                                          {"commit", Commit()},
                                          {"protocol", kProtocol},
                                          {"compiler", kCompiler},
                                          {"libraries", Libraries()}};
  return absl::StrCat(version.dump(2), "\n");
}

}  // namespace

int VersionCommand(const Invocation& invocation) {
  if (invocation.arguments.empty()) return Print(absl::StrCat("muster ", Version(), "\n"));
  const std::string& word = invocation.arguments[0];
  if (word == "--help" || word == "-h") return Print(MainHelp());
  if (word == "--json" && invocation.arguments.size() == 1) return Print(VersionAsJson());
  const std::string& wrong = word == "--json" ? invocation.arguments[1] : word;
  return Complain(
      absl::InvalidArgumentError(absl::StrCat(Shown(wrong), ": muster version takes no argument but --json")));
}

}  // namespace muster::cli
