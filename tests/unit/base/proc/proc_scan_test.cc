#include "base/proc/proc_scan.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(ProcHidesProcessesTest, OnlyAnOptionOfProcCounts) {
  EXPECT_FALSE(ProcHidesProcesses("proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses("proc /proc proc rw,hidepid=0 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses("proc /proc proc rw,hidepid=off 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses("proc /jail/proc proc rw,hidepid=2 0 0\nproc /proc proc rw 0 0\n"));
  EXPECT_FALSE(ProcHidesProcesses(""));
  for (const char* value : {"1", "2", "4", "noaccess", "invisible", "ptraceable"}) {
    EXPECT_TRUE(ProcHidesProcesses(std::string("sys /sys sysfs rw 0 0\nproc /proc proc rw,gid=4,hidepid=") +
                                   value + ",nosuid 0 0\n"))
        << value;
  }
}

}  // namespace
}  // namespace muster
