// The socket of a host that waits for a sidecar: who may have it, and whom the host takes.
#include "agent/host/agent_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/crypto/sidecar_proof.h"
#include "base/io/unix_socket.h"
#include "base/wire/sidecar.h"

namespace muster::host {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

v1::AgentHello Hello(const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& variables = {}) {
  v1::AgentHello hello;
  hello.set_protocol(kSplitProtocol);
  hello.mutable_arguments()->Add(arguments.begin(), arguments.end());
  hello.mutable_variables()->insert(variables.begin(), variables.end());
  return hello;
}

class AgentSocketTest : public testing::Test {
 protected:
  AgentSocketTest() {
    std::string pattern = "/tmp/muster-test-XXXXXX";  // not TempDir(), which may be too long for a socket
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/host.sock";
  }
  ~AgentSocketTest() override {
    unlink(path_.c_str());
    unlink(ResultPath(path_).c_str());
    rmdir(folder_.c_str());
  }

  std::string Problem() { return std::string(ListenForAgent(path_).status().message()); }
  OwnedFd Call(const v1::AgentHello& hello) {
    OwnedFd connection = ConnectToUnixSocket(path_).value_or(OwnedFd());
    EXPECT_TRUE(SendFrame(connection.get(), hello).ok());
    return connection;
  }
  static v1::HostHello Answer(const OwnedFd& connection) {
    IncomingFrame frame;
    v1::HostHello answer;
    EXPECT_TRUE(AwaitFrame(connection.get(), kPatience, &frame).ok());
    EXPECT_TRUE(answer.ParseFromString(std::string(frame.payload())));
    return answer;
  }

  std::string folder_, path_;
};

TEST_F(AgentSocketTest, WhatAnEarlierHostLeftIsRemoved) {
  { ASSERT_TRUE(ListenForAgent(path_).ok()); }
  std::ofstream(ResultPath(path_)) << R"({"exit_code": 3})";
  EXPECT_TRUE(ListenForAgent(path_).ok());
  EXPECT_NE(access(ResultPath(path_).c_str(), F_OK), 0) << "of another start";
}

TEST_F(AgentSocketTest, ASocketOfALivingHostStays) {
  const absl::StatusOr<OwnedFd> first = ListenForAgent(path_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Problem(), "--socket " + path_ + ": another muster host listens there; give each its own socket");
  EXPECT_TRUE(ConnectToUnixSocket(path_).ok());
}

TEST_F(AgentSocketTest, OfTwoHostsThatStartAtOnceOneGetsTheSocket) {
  for (int i = 0; i < 300; ++i) {
    std::array<absl::StatusOr<OwnedFd>, 2> listeners;
    std::vector<std::thread> hosts;
    for (auto& listener : listeners) hosts.emplace_back([this, &listener] { listener = ListenForAgent(path_); });
    for (std::thread& host : hosts) host.join();
    ASSERT_NE(listeners[0].ok(), listeners[1].ok()) << listeners[0].status() << "; " << listeners[1].status();
    EXPECT_TRUE(ConnectToUnixSocket(path_).ok());
  }
}

TEST_F(AgentSocketTest, AFileThatIsNoSocketStays) {
  std::ofstream(path_) << "a checkpoint";
  EXPECT_EQ(Problem(), "--socket " + path_ + ": there is a file that is no socket");
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
}

TEST_F(AgentSocketTest, AMissingFolderIsNamed) {
  path_ = folder_ + "/missing/host.sock";
  EXPECT_EQ(Problem(), "--socket " + path_ + ": making " + path_ + ": No such file or directory");
}

TEST_F(AgentSocketTest, TheFirstGoodVisitorIsTakenAndOthersAreRefused) {
  const absl::StatusOr<OwnedFd> listener = ListenForAgent(path_);
  ASSERT_TRUE(listener.ok());
  v1::AgentHello other = Hello({});
  other.set_protocol(kSplitProtocol + 1);
  const OwnedFd newer = Call(other);
  const OwnedFd good = Call(Hello({"--nnodes", "2"}));
  const absl::StatusOr<Visitor> taken = AwaitFirstAgent(listener->get(), -1, "", kPatience);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(DifferenceOf(taken->hello, Hello({"--nnodes", "2"})), "");
  EXPECT_EQ(Answer(newer).refused(),
            "it speaks protocol 3, this host protocol 2; use one version of muster in both containers");
}

TEST_F(AgentSocketTest, WithoutAVisitorTheWaitEnds) {
  const absl::StatusOr<OwnedFd> listener = ListenForAgent(path_);
  const absl::StatusOr<Visitor> nobody = AwaitFirstAgent(listener->get(), -1, "", absl::Milliseconds(5));
  EXPECT_EQ(nobody.status().message(), "no sidecar came within 5ms");
}

TEST_F(AgentSocketTest, ProcessOneIsPassedOn) {
  const absl::StatusOr<OwnedFd> listener = ListenForAgent(path_);
  const OwnedFd sidecar = Call(Hello({}));
  const absl::StatusOr<Visitor> taken = AwaitFirstAgent(listener->get(), -1, "", kPatience);
  ASSERT_TRUE(Welcome(taken->connection.get(), v1::HostHello()).ok());
  IncomingFrame frame;
  ASSERT_TRUE(AwaitFrame(sidecar.get(), kPatience, &frame).ok());
  const OwnedFd first = frame.TakeDescriptor();
  ASSERT_TRUE(first.valid());
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(first.get()));
  const std::string text(std::istreambuf_iterator<char>(info), {});
  EXPECT_NE(text.find("\nPid:\t1\n"), std::string::npos) << text;
}

TEST(DifferenceOfTest, NamesWhatDiffers) {
  EXPECT_EQ(DifferenceOf(Hello({"--nnodes", "2"}), Hello({"--nnodes", "3"})),
            "the command line had --nnodes 2 and has --nnodes 3");
  EXPECT_EQ(DifferenceOf(Hello({}), Hello({"--lease", "5s"})), "the command line had nothing and has --lease 5s");
  EXPECT_EQ(DifferenceOf(Hello({}, {{"MUSTER_LEASE", "5s"}}), Hello({}, {{"MUSTER_LEASE", "9s"}})),
            "the variable MUSTER_LEASE was 5s and is 9s");
  EXPECT_EQ(DifferenceOf(Hello({}, {{"A", ""}}), Hello({})), "the variable A was  and is not set");
  EXPECT_EQ(DifferenceOf(Hello({}), Hello({}, {{"A", "1"}})), "the variable A was not set and is 1");
  EXPECT_EQ(DifferenceOf(Hello({"a"}, {{"A", "1"}}), Hello({"a"}, {{"A", "1"}})), "");
}

TEST(DifferenceOfTest, ShowsNoSecret) {
  EXPECT_EQ(DifferenceOf(Hello({}, {{"MUSTER_API_KEY", "abc"}}), Hello({}, {{"MUSTER_API_KEY", "xyz"}})),
            "the variable MUSTER_API_KEY was ******** and is ********");
}

// A sidecar's call of a host that demands a token.
class Caller {
 public:
  Caller(OwnedFd connection, const v1::AgentHello& hello) : connection_(std::move(connection)), hello_(hello) {
    EXPECT_TRUE(*hello_.Write(connection_.get()));
  }
  v1::HostHello Hear() {
    IncomingFrame frame;
    v1::HostHello answer;
    EXPECT_TRUE(AwaitFrame(connection_.get(), kPatience, &frame).ok());
    EXPECT_TRUE(answer.ParseFromString(std::string(frame.payload())));
    return answer;
  }
  void Prove(const v1::HostChallenge& challenge, const std::string& token) {
    v1::SidecarProof answer;
    answer.set_proof(ProofOfSidecar(token, hello_.payload(), challenge.nonce()));
    EXPECT_TRUE(SendFrame(connection_.get(), answer).ok());
  }
  std::string ExpectedOfHost(const v1::HostChallenge& challenge, const std::string& token) {
    return ProofOfHost(token, hello_.payload(), challenge.nonce());
  }

 private:
  const OwnedFd connection_;
  OutgoingFrame hello_;
};

TEST_F(AgentSocketTest, AHostWithATokenServesOnlyWhoHasIt) {
  const absl::StatusOr<OwnedFd> listener = ListenForAgent(path_);
  ASSERT_TRUE(listener.ok());
  std::thread sidecars([this] {
    for (const char* token : {"secreT", "secret-and-more", "", "older"}) {
      Caller caller(*ConnectToUnixSocket(path_), Hello({}));
      const v1::HostChallenge challenge = caller.Hear().challenge();
      ASSERT_EQ(challenge.proofs_size(), 2) << "the host has two tokens, and shows both first";
      EXPECT_EQ(challenge.proofs(0), caller.ExpectedOfHost(challenge, "secret"));
      EXPECT_EQ(challenge.proofs(1), caller.ExpectedOfHost(challenge, "older"));
      caller.Prove(challenge, token);
      if (std::string(token) == "older") return;
      EXPECT_EQ(caller.Hear().refused(),
                "it does not have the token of this host; give both containers the same --token-file");
    }
  });
  const absl::StatusOr<Visitor> taken = AwaitFirstAgent(listener->get(), -1, "secret\nolder", kPatience);
  sidecars.join();
  EXPECT_TRUE(taken.ok()) << taken.status();
}

TEST_F(AgentSocketTest, TheHostsOwnProofIsNoAnswer) {
  const std::string hello = "hello";
  const TokenProof proof(hello, "secret");
  v1::SidecarProof echo;
  echo.set_proof(proof.Challenge().challenge().proofs(0));
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const OwnedFd ours(ends[0]), theirs(ends[1]);
  const auto answered = [&](const v1::SidecarProof& answer) {
    IncomingFrame frame;
    EXPECT_TRUE(SendFrame(theirs.get(), answer).ok() && AwaitFrame(ours.get(), kPatience, &frame).ok());
    return proof.IsAnsweredBy(frame);
  };
  EXPECT_FALSE(answered(echo));
  EXPECT_FALSE(answered(v1::SidecarProof()));
  echo.set_proof(ProofOfSidecar("secret", hello, proof.Challenge().challenge().nonce()));
  EXPECT_TRUE(answered(echo));
}

TEST(DifferenceOfTest, NamesTheOptionAndNotTheWholeLine) {
  const auto of = [](const std::vector<std::string>& before, const std::vector<std::string>& after) {
    v1::AgentHello first, now;
    for (const std::string& word : before) first.add_arguments(word);
    for (const std::string& word : after) now.add_arguments(word);
    return DifferenceOf(first, now);
  };
  EXPECT_EQ(of({"--nnodes", "2", "--max-restarts", "3", "--lease", "5s"},
               {"--nnodes", "2", "--max-restarts", "9", "--lease", "5s"}),
            "the command line had --max-restarts 3 and has --max-restarts 9");
  EXPECT_EQ(of({"--nnodes", "2"}, {"--nnodes", "2", "--lease", "5s"}),
            "the command line had nothing and has --lease 5s");
  EXPECT_EQ(of({"--nnodes=2", "-t", "3"}, {"-t", "3"}), "the command line had --nnodes=2 and has nothing");
  EXPECT_EQ(of({"--preflight", "curl http://u:pass@h"}, {"--preflight", "true"}),
            "the command line had --preflight curl http://********@h and has --preflight true");
}

}  // namespace
}  // namespace muster::host
