// Questions to NCCL's flight recorders, and what counts as an answer.
#include "agent/host/watch/flight_recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/time/clock.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"
#include "tests/unit/test_folder.h"

namespace muster::host {
namespace {

constexpr absl::Duration kMoment = absl::Milliseconds(2);

class FlightRecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    recorders_.BeginRound(folder_ / "", 3, absl::Seconds(10));
    ASSERT_FALSE(recorders_.Variables().empty());
  }

  // What torch does in a rank with NCCL.
  OwnedFd MakePipe(int rank) const {
    const std::string path =
        recorders_.Variables().at("TORCH_NCCL_DEBUG_INFO_PIPE_FILE") + std::to_string(rank) + ".pipe";
    EXPECT_EQ(mkfifo(path.c_str(), 0666), 0);
    return OwnedFd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  void Write(int rank, const std::string& text) const {
    std::ofstream(recorders_.Variables().at("TORCH_FR_DUMP_TEMP_FILE") + std::to_string(rank)) << text;
  }
  static bool IsAsked(const OwnedFd& pipe) {
    char byte = 0;
    return read(pipe.get(), &byte, 1) == 1;
  }

  RecorderDump Ask(int ranks) const {
    std::vector<RecorderPaths> paths;
    for (int rank = 0; rank < ranks; ++rank) paths.push_back(recorders_.PathsOf(rank));
    return {EventLoop::Now(), paths};
  }
  // Until it is over; between two looks `act` is called.
  template <typename Act>
  static void Await(RecorderDump* dump, Act act) {
    while (!dump->over()) {
      act();
      dump->Poll(EventLoop::Now());
      absl::SleepFor(kMoment);
    }
  }

  TestFolder folder_;
  FlightRecorders recorders_;
};

TEST_F(FlightRecorderTest, ARankWithNcclWritesItsFile) {
  const OwnedFd pipe = MakePipe(1);
  RecorderDump dump = Ask(2);
  Await(&dump, [&] {
    if (IsAsked(pipe)) Write(1, "entries");
  });
  EXPECT_TRUE(dump.Has(1));
  EXPECT_FALSE(dump.Has(0)) << "it has no NCCL";
}

TEST_F(FlightRecorderTest, WithoutNcclNothingIsAwaited) {
  RecorderDump dump = Ask(2);
  const BootTime began = EventLoop::Now();
  Await(&dump, [] {});
  EXPECT_LT(EventLoop::Now() - began, kRecorderLimit);
  EXPECT_FALSE(dump.Has(0));
}

TEST_F(FlightRecorderTest, TheFileOfAnEarlierQuestionIsNoAnswer) {
  const OwnedFd pipe = MakePipe(0);
  Write(0, "of an earlier question");
  RecorderDump dump = Ask(1);
  BootTime now = EventLoop::Now();
  while (!dump.over()) {
    dump.Poll(now += kRecorderPoll);
    absl::SleepFor(kMoment);
  }
  EXPECT_FALSE(dump.Has(0));
}

TEST_F(FlightRecorderTest, EachRoundHasPipesOfItsOwn) {
  const std::string first = recorders_.PathsOf(0).pipe;
  recorders_.BeginRound(folder_ / "", 4, absl::Seconds(10));
  EXPECT_NE(recorders_.PathsOf(0).pipe, first);
  recorders_.BeginRound("", 5, absl::Seconds(10));
  EXPECT_TRUE(recorders_.Variables().empty()) << "there is no folder for the files";
  EXPECT_EQ(recorders_.PathsOf(0).pipe, "");
}

}  // namespace
}  // namespace muster::host
