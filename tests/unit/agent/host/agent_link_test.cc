// What both forms of the link between a host and its agents hold, with real processes at the other end.
#include "agent/host/agent_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/host/agent_child.h"
#include "agent/host/agent_door.h"
#include "base/io/unix_socket.h"
#include "base/wire/sidecar.h"
#include "tests/unit/agent/host/host_shell_support.h"

namespace muster::host {
namespace {

constexpr char kHostId[] = "h1";
constexpr char kWords[] = "--nnodes=2";

class AgentLinkTest : public testing::Test {
 protected:
  AgentLinkTest() {
    std::string pattern = "/tmp/muster-test-XXXXXX";  // not TempDir(), which may be too long for a socket
    folder_ = mkdtemp(pattern.data());
  }
  ~AgentLinkTest() override {
    if (link_) link_->Close();
    link_.reset();
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }

  std::string path() const { return folder_ + "/host.sock"; }

  AgentLink::Events Events() {
    return {[this](const v1::HostDirective& directive) { directives_.push_back(directive); },
            [this](uint64_t number) { closed_.insert(number); },
            [](uint64_t, const absl::Status& status) { ADD_FAILURE() << status; }, [this] { came_ = true; }};
  }

  void OpenDoor() {
    AgentSocket socket;
    socket.path = path();
    socket.listener = ListenForAgent(path()).value_or(OwnedFd());
    socket.accepted.set_protocol(kSplitProtocol);
    socket.accepted.add_arguments(kWords);
    socket.accepted.set_sidecar_id("first");
    socket.welcome.set_host_id(kHostId);
    auto door = std::make_unique<AgentDoor>(&hostlet_.loop, std::move(socket), Events());
    door->Open();
    link_ = std::move(door);
  }

  // A sidecar in a process of its own; what it says about its reception is read from said_.
  void CallOf(const std::string& words, const std::string& sidecar = "first") {
    WorkerCommand command{.argv = ActorArgv({"sidecar", path(), words, sidecar}),
                          .environment = CurrentEnvironment()};
    command.stdout_fd = said_.in();
    Spawner::WorkerEvents events;
    events.executing = [] {};
    events.failed = [](int, const std::string& why) { ADD_FAILURE() << why; };
    events.exited = [](const Ending&) {};
    const absl::StatusOr<pid_t> pid = hostlet_.spawner.SpawnWorker(command, std::move(events));
    ASSERT_TRUE(pid.ok());
    sidecars_.push_back(*pid);
  }

  void Send(uint64_t agent, const std::string& words) {
    v1::HostStatus status;
    status.set_agent_number(agent);
    status.set_seq(++seq_);
    status.set_trouble(words);
    link_->Send(status);
  }
  // The newest agent has answered the status that was sent last.
  bool Answered() {
    return hostlet_.RunUntil([this] { return !directives_.empty() && directives_.back().seq() == seq_; });
  }

  std::string folder_;
  LinePipe said_;
  Hostlet hostlet_;
  std::unique_ptr<AgentLink> link_;
  std::vector<pid_t> sidecars_;
  std::vector<v1::HostDirective> directives_;
  std::set<uint64_t> closed_;
  bool came_ = false;
  uint64_t seq_ = 0;
};

enum class Form { kChild, kDoor };

class BothFormsTest : public AgentLinkTest, public testing::WithParamInterface<Form> {
 protected:
  BothFormsTest() {
    if (GetParam() == Form::kDoor) {
      OpenDoor();
    } else {
      link_ = std::make_unique<AgentChild>(&hostlet_.loop, &hostlet_.spawner, std::vector<std::string>(),
                                           CurrentEnvironment(), Events());
    }
  }

  void StartAgent(uint64_t number) {
    if (GetParam() == Form::kDoor) {
      came_ = false;
      CallOf(kWords);
      ASSERT_TRUE(hostlet_.RunUntil([this] { return came_; }));
    }
    link_->Start(number);
  }
};

TEST_P(BothFormsTest, StatusesAndDirectivesPass) {
  StartAgent(1);
  Send(1, "one");
  ASSERT_TRUE(Answered());
  Send(1, "two");
  ASSERT_TRUE(Answered());
  EXPECT_EQ(directives_.size(), 2u);
  EXPECT_EQ(directives_.back().agent_number(), 1u);
  EXPECT_TRUE(closed_.empty());
}

TEST_P(BothFormsTest, WithoutAnAgentAStatusIsDropped) {
  Send(1, "to nobody");
  StartAgent(1);
  Send(1, "to somebody");
  ASSERT_TRUE(Answered());
  EXPECT_EQ(directives_.size(), 1u);
}

TEST_P(BothFormsTest, AnAgentThatEndsIsReported) {
  StartAgent(1);
  Send(1, "exit");
  EXPECT_TRUE(hostlet_.RunUntil([this] { return closed_.contains(1); }));
}

TEST_P(BothFormsTest, WhatIsNoMessageClosesTheLink) {
  StartAgent(1);
  Send(1, "garbage");
  EXPECT_TRUE(hostlet_.RunUntil([this] { return closed_.contains(1); }));
  EXPECT_TRUE(directives_.empty());
}

TEST_P(BothFormsTest, AnAgentIsReplacedByTheNext) {
  StartAgent(1);
  Send(1, "one");
  ASSERT_TRUE(Answered());
  Send(1, "perhaps too late to be heard");
  StartAgent(2);
  directives_.clear();
  Send(2, "two");
  ASSERT_TRUE(Answered());
  EXPECT_EQ(directives_.size(), 1u) << "nothing of the first agent";
  EXPECT_FALSE(closed_.contains(2));
}

TEST_P(BothFormsTest, AClosedLinkIsSilent) {
  StartAgent(1);
  Send(1, "never answered");
  link_->Close();
  Send(1, "to nobody");
  StartAgent(2);
  Send(2, "two");
  ASSERT_TRUE(Answered());
  EXPECT_EQ(directives_.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Forms, BothFormsTest, testing::Values(Form::kChild, Form::kDoor),
                         [](const auto& form) { return form.param == Form::kChild ? "Child" : "Door"; });

class AgentDoorTest : public AgentLinkTest {
 protected:
  AgentDoorTest() { OpenDoor(); }
};

TEST_F(AgentDoorTest, ASidecarLearnsWhoseItIs) {
  CallOf(kWords);
  ASSERT_TRUE(hostlet_.RunUntil([this] { return came_; }));
  link_->Start(1);
  EXPECT_EQ(said_.Line(), kHostId);
}

TEST_F(AgentDoorTest, AnotherConfigurationIsRefusedAndDisturbsNobody) {
  CallOf(kWords);
  ASSERT_TRUE(hostlet_.RunUntil([this] { return came_; }));
  link_->Start(1);
  EXPECT_EQ(said_.Line(), kHostId);
  came_ = false;
  CallOf("--nnodes=3");
  Send(1, "one");
  ASSERT_TRUE(Answered());
  ASSERT_TRUE(hostlet_.RunUntil([this] {
    pollfd ready{said_.out(), POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }));
  EXPECT_EQ(said_.Line(),
            "its configuration is not that with which this host began: the command line had --nnodes=2 and has "
            "--nnodes=3; restart the training container, too");
  EXPECT_FALSE(came_);
  Send(1, "two");
  EXPECT_TRUE(Answered());
}

TEST_F(AgentDoorTest, TheNewestSidecarIsTakenAndTheOneBeforeItMayNotReturn) {
  for (const std::string sidecar : {"first", "second"}) {
    came_ = false;
    CallOf(kWords, sidecar);
    ASSERT_TRUE(hostlet_.RunUntil([this] { return came_; }));
    link_->Start(sidecar == "first" ? 1 : 2);
    EXPECT_EQ(said_.Line(), kHostId);
  }
  came_ = false;
  CallOf(kWords, "first");
  ASSERT_TRUE(hostlet_.RunUntil([this] {
    pollfd ready{said_.out(), POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }));
  EXPECT_EQ(said_.Line(), "another sidecar has come to this host since; give each host a sidecar of its own");
  EXPECT_FALSE(came_);
  Send(2, "two");
  EXPECT_TRUE(Answered());
}

TEST_F(AgentDoorTest, ASidecarThatHasLeftIsReported) {
  CallOf(kWords);
  ASSERT_TRUE(hostlet_.RunUntil([this] { return came_; }));
  hostlet_.spawner.Kill(sidecars_.back(), SIGKILL);
  ASSERT_TRUE(hostlet_.RunUntil([this] { return hostlet_.spawner.LiveWorkers().empty(); }));
  link_->Start(1);
  EXPECT_TRUE(closed_.empty()) << "not from inside a call";
  EXPECT_TRUE(hostlet_.RunUntil([this] { return closed_.contains(1); }));
}

TEST_F(AgentDoorTest, SilentVisitorsAreSentAwayOnceThereAreTooMany) {
  std::vector<OwnedFd> silent;
  for (size_t i = 0; i < kMaxVisitors; ++i) silent.push_back(ConnectToUnixSocket(path()).value_or(OwnedFd()));
  const OwnedFd last = ConnectToUnixSocket(path()).value_or(OwnedFd());
  EXPECT_TRUE(hostlet_.RunUntil([&] {
    IncomingFrame frame;
    return absl::IsUnavailable(frame.Read(last.get()).status());
  }));
  silent.clear();
  CallOf(kWords);
  EXPECT_TRUE(hostlet_.RunUntil([this] { return came_; }));
}

TEST_F(AgentDoorTest, TheSocketIsRemovedAtTheEnd) {
  link_.reset();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace muster::host
