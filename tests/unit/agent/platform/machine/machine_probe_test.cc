// The real probe, against this machine's shell and /proc.
#include "agent/platform/machine/machine_probe.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::machine {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SystemProbe, ListsAndReads) {
  const MachineProbe probe = SystemProbe();
  EXPECT_THAT(probe.list("/proc/self"), Contains("status"));
  EXPECT_THAT(probe.list("/nowhere"), IsEmpty());
  EXPECT_THAT(probe.read("/proc/self/status").value_or(""), HasSubstr("Name:"));
  EXPECT_EQ(probe.read("/nowhere"), std::nullopt);
  EXPECT_EQ(probe.read("/dev/zero").value_or("").size(), kMaxProbeFileBytes);
}

TEST(ReadRegularFile, GivesTheWholeOfIt) {
  const std::string path = ::testing::TempDir() + "regular";
  std::ofstream(path, std::ios::binary) << std::string(100000, 'a') << '\0';
  EXPECT_EQ(ReadRegularFile(path, 100001).value(), std::string(100000, 'a') + '\0');
  EXPECT_TRUE(absl::IsResourceExhausted(ReadRegularFile(path, 100000).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(ReadRegularFile(path, 10).status()));
}

TEST(ReadRegularFile, DistinguishesAbsentFromUnreadable) {
  EXPECT_TRUE(absl::IsNotFound(ReadRegularFile("/nowhere/at/all", 1).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadRegularFile("/proc/version/below", 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadRegularFile("/proc", 1).status()));
}

TEST(ReadRegularFile, WaitsForNoFifo) {
  const std::string path = ::testing::TempDir() + "fifo" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadRegularFile(path, 1).status()));
  unlink(path.c_str());
}

TEST(SystemProbe, CountsTheCpusThatThisProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(SystemProbe().usable_cpus(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(SystemProbe().usable_cpus(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(SystemProbe, CountingOnThisMachineEndsInAnAnswer) {
  const Accelerators found = CountAccelerators({}, SystemProbe());
  EXPECT_GE(found.count, 0);
  EXPECT_FALSE(found.reason.empty());
}

}  // namespace
}  // namespace muster::machine
