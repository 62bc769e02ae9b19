// The web server of a coordinator, with real visitors.
#include "rendezvous/web/web_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/io/loop_thread.h"
#include "base/io/owned_fd.h"

namespace muster::rendezvous {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

OwnedFd Unconnected() { return OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool ConnectTo(int port, const OwnedFd& fd) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
}

OwnedFd Connect(int port) {
  OwnedFd fd = Unconnected();
  if (!ConnectTo(port, fd)) fd.Reset();
  return fd;
}

// What comes until the server closes the connection.
std::string AllOf(const OwnedFd& fd) {
  std::string answer;
  char bytes[4096];
  for (ssize_t count = 0; (count = recv(fd.get(), bytes, sizeof(bytes), 0)) > 0;)
    answer.append(bytes, static_cast<size_t>(count));
  return answer;
}

std::string Get(int port, const std::string& path) {
  const OwnedFd fd = Connect(port);
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0 ? "" : AllOf(fd);
}

class WebServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loop = LoopThread::Start();
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    Start("127.0.0.1:0");
    loop_->Call([this] { server_->OnTick(EventLoop::Now()); });
    loop_->Call([this] { port_ = server_->port(); });
    ASSERT_NE(port_, 0) << (notes_.empty() ? "" : notes_.back().text);
  }
  void TearDown() override {
    if (loop_ != nullptr) loop_->Call([this] { server_.reset(); });
  }

  void Start(const std::string& address) {
    loop_->Call([&] {
      server_ = std::make_unique<WebServer>(
          loop_->loop(), WebServer::Plan{address, {}},
          [this]() -> std::optional<v1::JobView> {
            ++looks_;
            v1::JobView view;
            view.set_run_id("job1");
            return view;
          },
          [this](const Note& note) { notes_.push_back(note); });
    });
  }

  std::unique_ptr<LoopThread> loop_;
  std::unique_ptr<WebServer> server_;
  int port_ = 0;
  int looks_ = 0;            // on the loop
  std::vector<Note> notes_;  // on the loop
};

TEST_F(WebServerTest, AnswersAndClosesTheConnection) {
  EXPECT_THAT(Get(port_, "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get(port_, "/status.json?x=1"), HasSubstr("\"run_id\": \"job1\""));
  EXPECT_THAT(Get(port_, "/"), HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(Get(port_, "/nothing"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(WebServerTest, OneLookServesAllWhoAskAtTheSameTime) {
  const BootTime began = EventLoop::Now();
  int asked = 0;
  for (; EventLoop::Now() < began + kLookKept / 2 && asked < 20; ++asked) Get(port_, "/metrics");
  loop_->Call([&] { EXPECT_LE(looks_, 1 + (EventLoop::Now() - began) / kLookKept) << asked; });
}

// A request of one that waits outside is not answered until others have left.
TEST_F(WebServerTest, TooManyVisitorsWaitOutside) {
  std::vector<OwnedFd> silent;
  for (int i = 0; i < kMaxWebVisitors; ++i) silent.push_back(Connect(port_));
  const OwnedFd outside = Connect(port_);
  const std::string request = "GET /healthz HTTP/1.1\r\n\r\n";
  ASSERT_EQ(send(outside.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  pollfd polled = {outside.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 300), 0);
  silent.clear();
  EXPECT_EQ(poll(&polled, 1, 60'000), 1);
}

TEST_F(WebServerTest, AHeadHasNoBody) {
  const OwnedFd fd = Connect(port_);
  const std::string request = "HEAD /healthz HTTP/1.1\r\n\r\n";
  send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  const std::string answer = AllOf(fd);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

// A stranger can bring that about where the limit is low.
TEST_F(WebServerTest, WithoutADescriptorVisitorsWait) {
  std::vector<OwnedFd> visitors;
  for (int i = 0; i < 8; ++i) visitors.push_back(Unconnected());
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none = {static_cast<rlim_t>(visitors.back().get()), limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string request = "GET /healthz HTTP/1.1\r\n\r\n";
  for (const OwnedFd& visitor : visitors) {
    ASSERT_TRUE(ConnectTo(port_, visitor));
    send(visitor.get(), request.data(), request.size(), MSG_NOSIGNAL);
  }
  pollfd polled = {visitors.back().get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 300), 0);
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_THAT(AllOf(visitors.back()), StartsWith("HTTP/1.1 200 "));
}

// What a visitor sends that never reads its answers is bounded.
TEST_F(WebServerTest, OneThatOnlySendsIsNotReadForEver) {
  const OwnedFd visitor = Connect(port_);
  const std::string request = absl::StrCat("GET / HTTP/1.1\r\n\r\n", std::string(100'000, 'x'));
  ASSERT_GT(send(visitor.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
  size_t sent = 0;
  pollfd polled = {visitor.get(), POLLOUT, 0};
  while (poll(&polled, 1, 300) == 1 && (polled.revents & (POLLERR | POLLHUP)) == 0) {
    const ssize_t more = send(visitor.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more <= 0) break;
    sent += static_cast<size_t>(more);
    ASSERT_LT(sent, size_t{64} << 20);
  }
}

TEST_F(WebServerTest, TheStartOfTheCoordinatorIsTheSameInEachScrape) {
  const auto start = [this] {
    const std::string text = Get(port_, "/metrics");
    const size_t at = text.find("\nmuster_coordinator_start_time_seconds ");
    return text.substr(at, text.find('\n', at + 1) - at);
  };
  const std::string first = start();
  EXPECT_THAT(first, HasSubstr("seconds 1"));
  int looks = 0;
  while (looks < 3) {
    EXPECT_EQ(start(), first);
    loop_->Call([&] { looks = looks_; });
  }
}

TEST_F(WebServerTest, NonsenseIsRefused) {
  for (const std::string& nonsense : {std::string("\x16\x03\x01\x02"), std::string("POST / HTTP/1.1\r\n\r\n"),
                                      absl::StrCat("GET /", std::string(2 * kMaxWebRequestBytes, 'x'))}) {
    const OwnedFd fd = Connect(port_);
    send(fd.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
    shutdown(fd.get(), SHUT_WR);
    const std::string answer = AllOf(fd);
    EXPECT_EQ(answer.find("HTTP/1.1 2"), std::string::npos) << answer;
  }
  EXPECT_THAT(Get(port_, "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServerTest, AnAddressThatIsTakenIsTriedAgain) {
  const std::string address = absl::StrCat("127.0.0.1:", port_);
  std::unique_ptr<WebServer> first;
  loop_->Call([&] { first = std::move(server_); });
  Start(address);
  loop_->Call([&] {
    const BootTime now = EventLoop::Now();
    server_->OnTick(now);
    EXPECT_EQ(server_->port(), 0);
    server_->OnTick(now + kListenAgain);
    EXPECT_THAT(notes_.back().text, HasSubstr("trying again each second"));
    EXPECT_EQ(notes_.size(), 2u) << "one that it listens, one that it does not";
    first.reset();
    server_->OnTick(now + 2 * kListenAgain);
    EXPECT_EQ(server_->port(), port_);
  });
  EXPECT_THAT(Get(port_, "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServerTest, ItEndsWhileAVisitorWaitsForTheLoop) {
  const OwnedFd fd = Connect(port_);
  loop_->Call([&] {
    const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
    send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    pollfd polled = {fd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 300), 0) << "it is answered by this thread";
    server_.reset();
  });
}

}  // namespace
}  // namespace muster::rendezvous
