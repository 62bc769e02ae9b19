// Identifies a dead host's processes by evidence beyond the marker in their environment.
#include "base/proc/orphans.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

using Mark = SeenProcess::Mark;

constexpr uint64_t kHostStart = 100;
constexpr int64_t kInit = 1, kReaper = 5, kShell = 6, kSelf = 9;

class OrphansTest : public testing::Test {
 protected:
  OrphansTest() {
    Add(kInit, 0, kInit, 1, Mark::kNone);
    Add(kReaper, kInit, kReaper, 10, Mark::kNone);
    Add(kShell, kReaper, kShell, 20, Mark::kNone);
    Add(kSelf, kReaper, kSelf, 200, Mark::kNone);
    evidence_.spared = {kSelf, kInit};
    evidence_.spared_sessions = {kSelf};
  }

  SeenProcess& Add(int64_t pid, int64_t parent, int64_t session, uint64_t start, Mark mark = Mark::kBears) {
    SeenProcess& process = all_[pid];
    process.id = {.pid = pid, .start = start};
    process.parent = parent;
    process.group = process.session = session;
    process.mark = mark;
    process.host_start = mark == Mark::kBears ? kHostStart : 0;
    return process;
  }
  std::set<int64_t> Found() { return FindOrphans(all_, evidence_).pids; }
  std::set<int64_t> Unclear() { return FindOrphans(all_, evidence_).unclear; }

  std::map<int64_t, SeenProcess> all_;
  OrphanEvidence evidence_;
};

TEST_F(OrphansTest, AMarkedOrphanIsFoundWithItsDescendants) {
  Add(50, kInit, 50, 150);
  Add(51, 50, 51, 160, Mark::kNone);  // its environment was cleared
  Add(52, 51, 52, 170);
  EXPECT_EQ(Found(), (std::set<int64_t>{50, 51, 52}));
}

// Like `sbatch --export=ALL` in a worker: the batch shell is a child of a daemon that is younger than this host.
TEST_F(OrphansTest, AnotherJobWithTheSameEnvironmentIsLeftAlone) {
  Add(40, kInit, 40, 150, Mark::kNone);
  Add(50, 40, 50, 160);
  Add(51, 50, 50, 170);
  EXPECT_TRUE(Found().empty());
  evidence_.adopter = kInit;
  EXPECT_TRUE(Found().empty());
}

TEST_F(OrphansTest, OnlyTheAdopterOfTheDeadHostHasItsOrphans) {
  Add(50, kReaper, 50, 150);
  Add(60, kShell, 60, 150);
  evidence_.adopter = kReaper;
  EXPECT_EQ(Found(), std::set<int64_t>{50});
}

TEST_F(OrphansTest, AnUnknownAdopterMustBeOlderThanTheHost) {
  Add(40, kReaper, 40, 150, Mark::kNone);
  Add(50, kReaper, 50, 150);
  Add(60, 40, 60, 160);
  EXPECT_EQ(Found(), std::set<int64_t>{50});
}

TEST_F(OrphansTest, AnAncestorThatIsNoSubreaperAdoptsNothing) {
  Add(50, kReaper, 50, 150);
  Add(60, kShell, 60, 150);
  evidence_.never_adopt = {kShell};
  EXPECT_EQ(Found(), std::set<int64_t>{50});
  EXPECT_TRUE(Unclear().empty());
}

TEST_F(OrphansTest, APossibleOrphanIsUnclear) {
  Add(60, kShell, 60, 150);
  evidence_.may_adopt = {kShell};
  EXPECT_TRUE(Found().empty());
  EXPECT_EQ(Unclear(), std::set<int64_t>{60});
}

TEST_F(OrphansTest, AProcessYoungerThanTheHostIsNoAdopter) {
  Add(40, kReaper, 40, kHostStart + 1, Mark::kNone);
  Add(60, 40, 60, 150);
  evidence_.may_adopt = {40};
  EXPECT_TRUE(Found().empty());
  EXPECT_TRUE(Unclear().empty());
}

TEST_F(OrphansTest, AMarkedProcessOlderThanItsHostIsLeftAlone) {
  Add(50, kInit, 49, kHostStart - 1);  // the leader of its session has ended
  EXPECT_TRUE(Found().empty());
}

TEST_F(OrphansTest, AMarkedProcessInAnOlderSessionIsLeftAlone) {
  Add(50, kInit, kShell, 150);
  EXPECT_TRUE(Found().empty());
}

TEST_F(OrphansTest, AReportedSessionIsFoundWithoutAMarker) {
  evidence_.sessions = {{.pid = 30, .start = 150}};
  Add(31, kInit, 30, 151, Mark::kNone);
  EXPECT_EQ(Found(), std::set<int64_t>{31});
  Add(30, kReaper, 30, 150, Mark::kNone);
  EXPECT_EQ(Found(), (std::set<int64_t>{30, 31}));
}

TEST_F(OrphansTest, AReusedPidIsNoReportedSession) {
  evidence_.sessions = {{.pid = 30, .start = 150}};
  Add(30, kReaper, 30, 300, Mark::kNone);
  Add(31, 30, 30, 310, Mark::kNone);
  EXPECT_TRUE(Found().empty());
}

TEST_F(OrphansTest, AMemberOlderThanTheWorkerIsOfAnotherSession) {
  evidence_.sessions = {{.pid = 30, .start = 150}};
  Add(31, kInit, 30, 149, Mark::kNone);
  EXPECT_TRUE(Found().empty());
}

TEST_F(OrphansTest, ASessionWithoutAStartTimeProvesNothing) {
  evidence_.sessions = {{.pid = 30}};
  Add(31, kInit, 30, 151, Mark::kNone);
  EXPECT_TRUE(Found().empty());
}

TEST_F(OrphansTest, FoundProcessesAreFoundUntilTheyEnd) {
  Add(50, kShell, 50, 150, Mark::kNone);
  evidence_.found = {{.pid = 50, .start = 149}};
  EXPECT_TRUE(Found().empty());
  evidence_.found = {{.pid = 50, .start = 150}};
  EXPECT_EQ(Found(), std::set<int64_t>{50});
}

TEST_F(OrphansTest, AnOrphansSessionIsOursUnlessAStrangerLeadsIt) {
  Add(50, kInit, 49, 150);
  Add(51, kInit, 49, 150, Mark::kNone);
  EXPECT_EQ(Found(), (std::set<int64_t>{50, 51}));
  Add(49, kShell, 49, 140, Mark::kNone);
  EXPECT_EQ(Found(), std::set<int64_t>{50});
}

// An ending process's children are about to be adopted, and its environment is unreadable.
TEST_F(OrphansTest, AChildOfAnEndingProcessIsAdopted) {
  Add(50, kInit, 50, 150, Mark::kNone).exiting = true;
  Add(51, 50, 51, 160);
  EXPECT_EQ(Found(), std::set<int64_t>{51});
  evidence_.adopter = kInit;
  EXPECT_EQ(Found(), std::set<int64_t>{51});
}

TEST_F(OrphansTest, AChildOfAProcessThatJustEndedIsUnclear) {
  Add(51, 50, 51, 160);
  EXPECT_EQ(Unclear(), std::set<int64_t>{51});
  evidence_.adopter = kInit;
  EXPECT_EQ(Unclear(), std::set<int64_t>{51});
}

TEST_F(OrphansTest, AnUnreadableEnvironmentIsUnclearIfOurs) {
  Add(50, kInit, 50, 150, Mark::kUnknown);
  Add(60, kShell, 60, 150, Mark::kUnknown);
  Add(61, kInit, 61, 50, Mark::kUnknown);
  evidence_.adopter = kInit;
  evidence_.host_start = kHostStart;
  EXPECT_EQ(Unclear(), std::set<int64_t>{50});
  EXPECT_TRUE(MayBeTopmost(all_[50], all_, evidence_));
  EXPECT_FALSE(MayBeTopmost(all_[60], all_, evidence_));
  EXPECT_FALSE(MayBeTopmost(all_[61], all_, evidence_));
}

TEST_F(OrphansTest, TheCallerAndItsSessionAreSpared) {
  Add(50, kInit, 50, 150);
  all_[kSelf].parent = 50;
  Add(51, kSelf, kSelf, 210, Mark::kNone);
  EXPECT_EQ(Found(), std::set<int64_t>{50});
}

}  // namespace
}  // namespace muster::host
