// An agent whose host is dead and which cannot end, or not even see, the host's leftovers.
#include "agent/process/host_ender.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace muster::agent {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);  // a test that hangs fails

TEST(HostEnder, AnUnkillableHostIsNotTakenForEnded) {
  EventLoop loop;
  bool swept = false;
  std::string left;
  HostEnder ender(
      &loop, -1, {.ids = {"test-" + std::to_string(getpid())}}, [] { return 0; },
      {.on_swept =
           [&] {
             swept = true;
             loop.Stop();
           },
       .on_not_swept =
           [&](const std::string& what) {
             left = what;
             loop.Stop();
           },
       .on_host_lives = [] {},
       .on_remark = [](const std::string&) {}},
      absl::Milliseconds(50));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);  // /proc cannot be read, so no process is visible
  ender.Begin(false);
  loop.After(kPatience, [&] { loop.Stop(); });
  loop.Run();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(swept);
  EXPECT_NE(left, "");
}

}  // namespace
}  // namespace muster::agent
