// A real gate and real dialers on loopback; the application is this test.
#include "rendezvous/gate/gate.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/dialer.h"
#include "rendezvous/gate/frame_guard.h"
#include "rendezvous/gate/key.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/gate/tcp.h"
#include "rendezvous/gate/tls.h"

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);  // only a hang reaches it
constexpr int kWaitingBuffer = 16 * 1024;                // receive buffer of a connection that waits
constexpr char kToken[] = "a-token-of-more-than-22-characters";
const std::string kHello = absl::StrCat(AsAbsl(kPreface), std::string("\0\0\4\4\0\0\0\0\0ping", 13));
const std::string kSettingsFrame("\0\0\4\4\0\0\0\0\0pong", 13);

// What callbacks of other threads have passed on.
template <typename T>
class Inbox {
 public:
  void Put(T value) {
    const MutexLock lock(mutex_);
    values_.push_back(std::move(value));
    arrived_.NotifyAll();
  }
  // Nothing within kPatience: nullopt.
  std::optional<T> Take() {
    const MutexLock lock(mutex_);
    const bool any = arrived_.WaitFor(mutex_, absl::ToChronoNanoseconds(kPatience),
                                      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !values_.empty(); });
    if (!any) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  bool empty() {
    const MutexLock lock(mutex_);
    return values_.empty();
  }

 private:
  Mutex mutex_;
  Condition arrived_;
  std::deque<T> values_ ABSL_GUARDED_BY(mutex_);
};

// Until `size` bytes have come, or the end.
std::string ReadFrom(const OwnedFd& fd, size_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    pollfd polled{fd.get(), POLLIN, 0};
    if (poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) != 1)
      return bytes + "(timed out)";
    char buffer[4096];
    const ssize_t got = read(fd.get(), buffer, std::min(sizeof(buffer), size - bytes.size()));
    if (got <= 0) return bytes + "(closed)";
    bytes.append(buffer, static_cast<size_t>(got));
  }
  return bytes;
}

void WriteTo(const OwnedFd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      pollfd polled{fd.get(), POLLOUT, 0};
      ASSERT_EQ(poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))), 1);
      continue;
    }
    ASSERT_GT(sent, 0);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

// The name of the socket at the other end, as gRPC shows it.
std::string PeerNameOf(const OwnedFd& fd) {
  sockaddr_un address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getpeername(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return absl::StrCat("unix-abstract:",
                      absl::string_view(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1));
}

// Debian builds Abseil without ThreadSanitizer, which then takes the counts of a shared status for a race.
absl::Status Copied(const absl::Status& status) { return {status.code(), status.message()}; }

class GateTest : public ::testing::Test {
 protected:
  static std::shared_ptr<LiveCredentials> WithTokens(const std::vector<std::string>& tokens) {
    return std::make_shared<LiveCredentials>(TokenCredentials(tokens, "run"));
  }
  void Open(const std::shared_ptr<LiveCredentials>& credentials) {
    std::vector<OwnedFd> listeners;
    listeners.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const std::optional<SocketAddress> any_port = ParseSocketAddress("127.0.0.1", 0);
    ASSERT_EQ(bind(listeners[0].get(), any_port->get(), any_port->size), 0);
    const GateOptions options{.credentials = credentials, .dead_after = absl::Seconds(20)};
    Gate::Events events;
    events.on_connection = [this](OwnedFd fd) { connections_.Put(std::move(fd)); };
    events.on_refused = [this](const std::string& source, const std::string& why) {
      refused_.Put(absl::StrCat(source, ": ", why));
    };
    events.log = [](const Note&) {};
    absl::StatusOr<std::unique_ptr<Gate>> gate = Gate::Open(std::move(listeners), options, events);
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
  }

  // What a dialer reports.
  struct Dialled {
    Inbox<OwnedFd> connected;
    Inbox<absl::Status> ended;
    std::unique_ptr<Dialer> dialer;
  };
  std::unique_ptr<Dialled> Dial(std::function<std::unique_ptr<Codec>()> codec,
                                const std::vector<std::string>& addresses = {"127.0.0.1"}) {
    auto dialled = std::make_unique<Dialled>();
    DialTarget target;
    target.resolve = [addresses](const std::atomic<bool>&) { return addresses; };
    target.is_own = [own = own_address_](const std::string& ip) { return ip == own; };
    target.port = static_cast<uint16_t>(gate_->port());
    target.make_codec = std::move(codec);
    target.address_limit = address_limit_;
    target.dead_after = absl::Seconds(20);
    auto dialer = Dialer::Start(
        target,
        {.on_connected = [&in = *dialled](OwnedFd fd, const DialledAs&) { in.connected.Put(std::move(fd)); },
         .on_ended = [&in = *dialled](const absl::Status& why) { in.ended.Put(Copied(why)); }});
    EXPECT_TRUE(dialer.ok());
    dialled->dialer = *std::move(dialer);
    return dialled;
  }
  static std::function<std::unique_ptr<Codec>()> With(const std::string& token) {
    return [client = TlsClient(DeriveKey(token, "run"))] { return client.Connect(); };
  }
  // A dialer's connection that the gate has let in, and which has carried kHello.
  struct Joined {
    std::unique_ptr<Dialled> client;
    OwnedFd ours, theirs;
  };
  // The gate lets a connection without a token in when it has spoken, one with a token before that.
  Joined Join(std::function<std::unique_ptr<Codec>()> codec,
              const std::vector<std::string>& addresses = {"127.0.0.1"}) {
    Joined joined{.client = Dial(std::move(codec), addresses), .ours = {}, .theirs = {}};
    joined.ours = joined.client->connected.Take().value_or(OwnedFd());
    EXPECT_TRUE(joined.ours.valid());
    WriteTo(joined.ours, kHello);
    joined.theirs = connections_.Take().value_or(OwnedFd());
    EXPECT_TRUE(joined.theirs.valid());
    EXPECT_EQ(ReadFrom(joined.theirs, kHello.size()), kHello);
    return joined;
  }
  // A connection that the gate has not let in.
  OwnedFd Connect(const std::unique_ptr<Dialled>& client) {
    OwnedFd ours = client->connected.Take().value_or(OwnedFd());
    EXPECT_TRUE(ours.valid());
    return ours;
  }
  static void Answer(const Joined& joined) {
    WriteTo(joined.theirs, kSettingsFrame);
    EXPECT_EQ(ReadFrom(joined.ours, kSettingsFrame.size()), kSettingsFrame);
  }

  // Opens a gate with a token and room for one guest from each address, and lets one guest in from ours.
  Joined OpenAndFill() {
    rlimit usual{};
    getrlimit(RLIMIT_NOFILE, &usual);
    const rlimit few = {.rlim_cur = 24, .rlim_max = usual.rlim_max};  // see LimitsFor
    setrlimit(RLIMIT_NOFILE, &few);
    Open(WithTokens({kToken}));
    setrlimit(RLIMIT_NOFILE, &usual);
    return Join(With(kToken));
  }
  struct RawClient {
    OwnedFd fd;
    SocketAddress name;
  };
  RawClient ConnectRaw(std::string_view first) {
    RawClient client{.fd = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .name = {}};
    const auto gate = ParseSocketAddress("127.0.0.1", static_cast<uint16_t>(gate_->port()));
    EXPECT_EQ(connect(client.fd.get(), gate->get(), gate->size), 0);
    client.name.size = sizeof(client.name.storage);
    getsockname(client.fd.get(), client.name.get(), &client.name.size);
    WriteTo(client.fd, first);
    return client;
  }
  // The gate's end of a connection; -1: it has none (any more).
  static int GatesEnd(const RawClient& client) {
    for (int fd = 0; fd < 1'024; ++fd) {
      SocketAddress peer;
      peer.size = sizeof(peer.storage);
      if (getpeername(fd, peer.get(), &peer.size) == 0 && peer.storage.ss_family == AF_INET &&
          PortOf(peer) == PortOf(client.name))
        return fd;
    }
    return -1;
  }
  static int Option(int fd, int option) {
    int value = -1;
    socklen_t size = sizeof(value);
    getsockopt(fd, SOL_SOCKET, option, &value, &size);
    return value;
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + kPatience;
    while (!condition() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    return condition();
  }

  absl::Duration address_limit_ = kPatience;
  std::string own_address_;  // of this machine, as dialers are told; empty: none
  Inbox<OwnedFd> connections_;
  Inbox<std::string> refused_;
  std::unique_ptr<Gate> gate_;
};

TEST_F(GateTest, BytesPassInBothDirectionsWithAToken) {
  Open(WithTokens({kToken}));
  const Joined joined = Join(With(kToken));
  Answer(joined);
  EXPECT_EQ(gate_->FindPeer(PeerNameOf(joined.theirs)).ip, "127.0.0.1");
}

TEST_F(GateTest, BytesPassInBothDirectionsWithoutAToken) {
  Open(nullptr);
  Answer(Join(&PlainClient));
}

TEST_F(GateTest, LargeAmountsPassWhole) {
  Open(WithTokens({kToken}));
  const Joined joined = Join(With(kToken));
  Answer(joined);
  const std::string much(8 * kMaxRelayed, 'x');
  std::thread writer([&] { WriteTo(joined.theirs, much); });
  EXPECT_EQ(ReadFrom(joined.ours, much.size()), much);
  writer.join();
}

TEST_F(GateTest, AnotherTokenIsRefusedAndTold) {
  Open(WithTokens({kToken}));
  const auto client = Dial(With("another-token-of-22-characters"));
  EXPECT_TRUE(absl::IsUnauthenticated(client->ended.Take().value_or(absl::OkStatus())));
  EXPECT_EQ(refused_.Take(), "127.0.0.1: it has another token, or belongs to another run");
  EXPECT_TRUE(connections_.empty()) << "the application never hears of it";
}

TEST_F(GateTest, ANodeThatComesBackWithItsOtherTokenIsLetIn) {
  Open(WithTokens({kToken}));
  const auto node = TokenCredentials({"another-token-of-22-characters", kToken}, "run");
  const auto with_new = Dial([node] { return node->Connect(0); });
  EXPECT_TRUE(absl::IsUnauthenticated(with_new->ended.Take().value_or(absl::OkStatus())));
  Answer(Join([node] { return node->Connect(1); }));
  EXPECT_EQ(refused_.Take(),
            "127.0.0.1: its first token is not this job's, and it says that it shows its second one next");
}

TEST_F(GateTest, WithoutATokenAClientHearsThatOneIsNeeded) {
  Open(WithTokens({kToken}));
  const auto client = Dial(&PlainClient);
  const OwnedFd ours = Connect(client);
  WriteTo(ours, kHello);
  const absl::Status why = client->ended.Take().value_or(absl::OkStatus());
  EXPECT_TRUE(absl::IsUnauthenticated(why)) << why;
  EXPECT_EQ(refused_.Take(), "127.0.0.1: it has no token");
  EXPECT_EQ(ReadFrom(ours, 1), "(closed)");
}

TEST_F(GateTest, TheEndOfEitherSideReachesTheOther) {
  Open(WithTokens({kToken}));
  for (const bool at_server : {true, false}) {
    Joined joined = Join(With(kToken));
    Answer(joined);
    (at_server ? joined.theirs : joined.ours).Reset();
    EXPECT_EQ(ReadFrom(at_server ? joined.ours : joined.theirs, 1), "(closed)");
  }
}

TEST_F(GateTest, WhatWasWrittenBeforeTheEndStillArrives) {
  Open(WithTokens({kToken}));
  Joined joined = Join(With(kToken));
  Answer(joined);
  WriteTo(joined.theirs, "the last words");
  joined.theirs.Reset();
  gate_->StopAccepting();
  gate_->Drain(kPatience);
  EXPECT_EQ(ReadFrom(joined.ours, 14), "the last words");
  EXPECT_EQ(ReadFrom(joined.ours, 1), "(closed)");
}

TEST_F(GateTest, TooManyCancellationsEndTheConnectionAndAreTold) {
  Open(nullptr);
  const auto client = Dial(&PlainClient);
  const OwnedFd ours = Connect(client);
  WriteTo(ours, kPreface);
  const std::string reset("\0\0\4\3\0\0\0\0\1\0\0\0\0", 13);
  for (int i = 0; i <= kMaxStreamResets; ++i) WriteTo(ours, reset);
  EXPECT_EQ(refused_.Take(), absl::StrCat("127.0.0.1: it sent more than ", kMaxStreamResets, " cancellations"));
  EXPECT_EQ(ReadFrom(ours, 1), "(closed)");
}

TEST_F(GateTest, AnAddressThatDoesNotAnswerIsFollowedByTheNext) {
  Open(WithTokens({kToken}));
  const auto client = Dial(With(kToken), {"127.0.0.2", "127.0.0.1"});  // nobody listens at the first
  EXPECT_TRUE(client->connected.Take());
}

TEST_F(GateTest, ADialerTellsWhetherItsOwnPortIsFree) {
  Open(WithTokens({kToken}));
  const std::string used = "127.0.0.1", silent = "127.0.0.2";
  const struct {
    std::string own;
    std::vector<std::string> addresses;
    OwnPort expected;
  } cases[] = {{"", {silent}, OwnPort::kNone},
               {silent, {silent}, OwnPort::kFree},
               {silent, {silent, used}, OwnPort::kFree},
               {used, {used}, OwnPort::kUsed},
               {used, {silent, used}, OwnPort::kUsed}};
  for (const auto& one : cases) {
    own_address_ = one.own;
    const auto client = Dial(With("another-token-of-22-characters"), one.addresses);
    EXPECT_TRUE(client->ended.Take());
    EXPECT_EQ(client->dialer->own_port(), one.expected) << one.own << " of " << one.addresses.size();
  }
}

TEST_F(GateTest, WithoutATokenTooTheNextAddressIsTried) {
  Open(nullptr);
  for (int i = 0; i < 10; ++i) Join(&PlainClient, {"127.0.0.2", "127.0.0.1"});
}

// The token alone does not change that: an agent must have been admitted.
TEST_F(GateTest, NobodySendsMuchBeforeItIsAdmitted) {
  const std::string frame = std::string("\0\x40\0\0\0\0\0\0\1", 9) + std::string(0x4000, 'x');
  constexpr size_t kFrames = kMaxVisitorBytes / 0x4000 + 1;
  for (const bool with_token : {false, true}) {
    Open(with_token ? WithTokens({kToken}) : nullptr);
    for (const bool admitted : {false, true}) {
      const Joined joined = with_token ? Join(With(kToken)) : Join(&PlainClient);
      if (admitted) gate_->SetAdmitted(gate_->FindPeer(PeerNameOf(joined.theirs)).id, true);
      std::thread reader(
          [&] { EXPECT_EQ(ReadFrom(joined.theirs, kFrames * frame.size()).ends_with("(closed)"), !admitted); });
      for (size_t i = 0; i < kFrames; ++i) WriteTo(joined.ours, frame);
      reader.join();
      if (admitted) continue;
      EXPECT_EQ(refused_.Take(),
                absl::StrCat("127.0.0.1: it sent more than ", kMaxVisitorBytes, " bytes before it was admitted"));
    }
    EXPECT_TRUE(refused_.empty());
  }
}

// Later the guest would lose its place to one that has waited for 3 s, and an older silent one would be closed
// first.
TEST_F(GateTest, AConnectionThatIsClosedWhileItWaitsIsDroppedAtOnce) {
  const Joined guest = OpenAndFill();
  for (const std::string_view first : {"", "\x16"}) {
    const RawClient older = ConnectRaw("");
    RawClient client = ConnectRaw(first);
    EXPECT_TRUE(Eventually([&] { return GatesEnd(client) >= 0; }));
    client.fd.Reset();
    EXPECT_TRUE(Eventually([&] { return GatesEnd(client) < 0; }));
    EXPECT_GE(GatesEnd(older), 0);
  }
  Answer(guest);
  EXPECT_TRUE(refused_.empty());
}

// Those beside it came before it and after it.
TEST_F(GateTest, WhoseHelloNamesTheJobsKeyIsLetInFirst) {
  Joined guest = OpenAndFill();
  std::string hello;
  ASSERT_TRUE(TlsClient(DeriveKey(kToken, "run")).Connect()->Start(&hello).ok());
  const RawClient before = ConnectRaw("\x16"), agent = ConnectRaw(hello), after = ConnectRaw("\x16");
  const auto waits = [](const RawClient& client) { return Option(GatesEnd(client), SO_RCVBUF) == kWaitingBuffer; };
  EXPECT_TRUE(Eventually([&] { return waits(before) && waits(agent) && waits(after); }));
  RawClient last = ConnectRaw("");
  EXPECT_TRUE(Eventually([&] { return GatesEnd(last) >= 0; }));
  last.fd.Reset();
  EXPECT_TRUE(Eventually([&] { return GatesEnd(last) < 0; })) << "the gate has read all that came before";
  guest.ours.Reset();
  bool is_overtaken = false;
  EXPECT_TRUE(Eventually([&] {
    const bool other_is_in = !waits(before) || !waits(after);
    const bool still_waits = waits(agent);
    is_overtaken |= other_is_in && still_waits;
    return !still_waits;
  }));
  EXPECT_FALSE(is_overtaken);
}

TEST_F(GateTest, AConnectionThatWaitsHoldsLittleOfTheKernelsMemory) {
  const Joined guest = OpenAndFill();
  const RawClient client = ConnectRaw("\x16");
  int fd = -1;
  EXPECT_TRUE(Eventually([&] { return (fd = GatesEnd(client)) >= 0 && Option(fd, SO_RCVBUF) == kWaitingBuffer; }));
  const std::string much(1024 * 1024, 'x');
  ssize_t sent = 0;
  while ((sent = send(client.fd.get(), much.data(), much.size(), MSG_DONTWAIT)) > 0) {
  }
  int queued = 0;
  ASSERT_EQ(ioctl(fd, FIONREAD, &queued), 0);
  EXPECT_LT(queued, 40 * 1024);
}

TEST_F(GateTest, TheReceiveBufferOfWhoIsLetInGrowsAsUsual) {
  Open(nullptr);
  const RawClient client = ConnectRaw(kHello);
  const OwnedFd theirs = connections_.Take().value_or(OwnedFd());
  EXPECT_EQ(ReadFrom(theirs, kHello.size()), kHello);
  const int fd = GatesEnd(client);
  const OwnedFd usual(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(Option(fd, SO_RCVBUF), Option(usual.get(), SO_RCVBUF));
  EXPECT_EQ(Option(fd, SO_BUF_LOCK), 0) << "it has no fixed size";
}

TEST_F(GateTest, AServerThatSaysNothingIsGivenUp) {
  Open(nullptr);
  address_limit_ = absl::Milliseconds(50);
  // Without a token the gate answers to a preface only, and this application sends none.
  const auto client = Dial(&PlainClient);
  EXPECT_EQ(client->ended.Take().value_or(absl::OkStatus()).message(), kSilentPeer);
}

TEST_F(GateTest, ADialerEndsAtOnce) {
  Open(WithTokens({kToken}));
  for (int i = 0; i < 20; ++i) Dial(With(kToken));  // whatever it is doing
}

TEST_F(GateTest, NewConnectionsNeedTheNewestTokensAndOldOnesStay) {
  const std::string next = "the-next-token-of-22-characters";
  const auto live = WithTokens({kToken});
  Open(live);
  const Joined before = Join(With(kToken));
  live->Replace(TokenCredentials({next}, "run"));
  const auto with_old = Dial(With(kToken));
  const std::optional<absl::Status> refused = with_old->ended.Take();
  ASSERT_TRUE(refused);
  EXPECT_TRUE(absl::IsUnauthenticated(*refused)) << *refused;
  const auto with_new = Dial(With(next));
  EXPECT_TRUE(with_new->connected.Take() && connections_.Take());
  Answer(before);
  WriteTo(before.ours, kSettingsFrame);
  EXPECT_EQ(ReadFrom(before.theirs, kSettingsFrame.size()), kSettingsFrame);
}

}  // namespace
}  // namespace muster::rendezvous
