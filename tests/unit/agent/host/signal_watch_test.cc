// Signals that arrive as calls on the loop.
#include "agent/host/signal_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace muster::host {
namespace {

class SignalWatchTest : public ::testing::Test {
 protected:
  SignalWatchTest() {
    sigemptyset(&ignored_);
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH}) sigaddset(&blocked, signal);
    sigprocmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalWatchTest() override {
    for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH}) {  // what is still pending must not end this process
      ::signal(signal, SIG_IGN);
      ::signal(signal, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  // Sends these signals to this process and returns those that the watch reports.
  std::vector<int> Report(const std::set<int>& also, const std::vector<int>& sent) {
    std::vector<int> reported;
    EXPECT_TRUE(watch_.Start(ignored_, also, [&](int signal) { reported.push_back(signal); }).ok());
    for (const int signal : sent) kill(getpid(), signal);
    loop_.After(absl::Milliseconds(1), [this] { loop_.Stop(); });
    loop_.Run();
    return reported;
  }

  sigset_t ignored_;
  sigset_t before_;
  EventLoop loop_;
  SignalWatch watch_{&loop_};
};

TEST_F(SignalWatchTest, ReportsEachHandledSignal) {
  EXPECT_EQ(Report({}, {SIGUSR1, SIGUSR2}), std::vector<int>({SIGUSR1, SIGUSR2}));
}

TEST_F(SignalWatchTest, ASignalIgnoredFromTheStartIsLeftAlone) {
  sigaddset(&ignored_, SIGUSR1);
  EXPECT_EQ(Report({}, {SIGUSR1, SIGUSR2}), std::vector<int>({SIGUSR2}));
}

TEST_F(SignalWatchTest, AnIgnoredSignalIsHandledIfItIsNamed) {
  sigaddset(&ignored_, SIGUSR1);
  EXPECT_EQ(Report({SIGUSR1, SIGWINCH}, {SIGUSR1, SIGWINCH}), std::vector<int>({SIGUSR1, SIGWINCH}));
}

TEST_F(SignalWatchTest, OtherSignalsAreNotReported) {
  EXPECT_EQ(Report({}, {SIGWINCH, SIGUSR2}), std::vector<int>({SIGUSR2}));
}

}  // namespace
}  // namespace muster::host
