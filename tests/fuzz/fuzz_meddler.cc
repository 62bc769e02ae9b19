// Somebody between a node and its coordinator, who changes, repeats and removes what they send each other, with
// tokens and with certificates. What one end reads is what the other one has written, up to where it was changed,
// and whoever has another token or another authority's certificate gets nowhere.
//
// The first byte chooses the credentials; then three bytes for each change: direction and kind, where, with what.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/check.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/frame_guard.h"
#include "rendezvous/gate/guarded.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/own_certificates.h"

namespace muster::rendezvous {
namespace {

constexpr int kMostTurns = 64;  // a handshake has four
constexpr size_t kOffsetStep = 8;

// Who meets whom.
struct Parties {
  std::shared_ptr<const Credentials> client, server;
  bool belong_together = false;
};

const std::vector<Parties>& AllParties() {
  static const auto* const all = [] {
    const auto token = TokenCredentials({"a-token-of-more-than-22-characters"}, "run");
    const auto other_token = TokenCredentials({"another-token-of-more-than-22-characters"}, "run");
    const MadeCertificate authority = MakeAuthority();
    const auto certificates = OwnCertificates(authority), colleague = OwnCertificates(authority);
    const auto foreign = OwnCertificates(MakeAuthority());
    return new std::vector<Parties>{{token, token, true},         {certificates, colleague, true},
                                    {other_token, token, false},  {foreign, certificates, false},
                                    {token, certificates, false}, {certificates, token, false}};
  }();
  return *all;
}

struct Change {
  enum Kind { kFlip, kInsert, kRemove, kRepeat, kKinds } kind = kFlip;
  size_t at = 0;  // offset in all that is sent in that direction
  char with = 0;
};

// What travels in one direction.
class Wire {
 public:
  explicit Wire(std::vector<Change> changes) : changes_(std::move(changes)) {
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  }

  std::string Carry(const std::string& sent) {
    std::string arrives = sent;
    // From the end, so that earlier offsets stay right.
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      if (change->at < carried_ || change->at >= carried_ + sent.size()) continue;
      Apply(*change, change->at - carried_, &arrives);
      changed_ = true;
    }
    carried_ += sent.size();
    return arrives;
  }

  bool changed() const { return changed_; }

 private:
  static void Apply(const Change& change, size_t at, std::string* bytes) {
    switch (change.kind) {
      case Change::kFlip:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (change.with | 1));
        break;
      case Change::kInsert:
        bytes->insert(at, 1, change.with);
        break;
      case Change::kRemove:
        bytes->erase(at, 1);
        break;
      default:
        bytes->insert(at, bytes->substr(at, static_cast<uint8_t>(change.with) + 1u));
        break;
    }
  }

  std::vector<Change> changes_;
  size_t carried_ = 0;
  bool changed_ = false;
};

// One end: a codec, what its application writes once it may, and what it has read.
struct End {
  std::unique_ptr<Codec> codec;
  std::string to_write;
  std::string written = {};
  std::string read = {};
  std::string out = {};
  absl::Status status = {};

  void Write() {
    if (!status.ok() || !codec->ready() || to_write.empty()) return;
    written = std::exchange(to_write, "");
    status = codec->ToPeer(written, &out);
  }
  void Receive(const std::string& bytes) {
    if (status.ok() && !bytes.empty()) status = codec->FromPeer(absl::UnixEpoch(), bytes, &read, &out);
  }
};

void CheckRead(const End& reader, const End& writer) {
  MUSTER_CHECK(reader.read == writer.written.substr(0, reader.read.size()),
               "what one end reads the other one has written");
}

void Meet(const Parties& parties, const std::array<std::vector<Change>, 2>& changes) {
  VisitorBytes shared([](uint64_t) { MUSTER_CHECK(false, "nobody else is here"); });
  End client{.codec = std::make_unique<Guarded>(parties.client->Connect(0)),
             .to_write = std::string(kPreface) + std::string("\0\0\0\4\0\0\0\0\0", 9)};
  End server{.codec = std::make_unique<Guarded>(parties.server->Accept(), &shared, 1),
             .to_write = std::string("\0\0\0\4\0\0\0\0\0", 9)};
  Wire to_client(changes[0]), to_server(changes[1]);
  const absl::Status started = client.codec->Start(&client.out);
  MUSTER_CHECK(started.ok(), "a codec can start");
  for (int turn = 0; turn < kMostTurns && !(client.out.empty() && server.out.empty()); ++turn) {
    client.Write();
    server.Receive(to_server.Carry(std::exchange(client.out, "")));
    server.Write();
    client.Receive(to_client.Carry(std::exchange(server.out, "")));
    client.Write();
  }
  CheckRead(client, server);
  CheckRead(server, client);
  if (!parties.belong_together) {
    MUSTER_CHECK(client.read.empty() && server.read.empty(), "strangers read nothing of each other");
    MUSTER_CHECK(!server.codec->ready(), "a server lets no stranger in");
  } else if (!to_client.changed() && !to_server.changed()) {
    MUSTER_CHECK(server.read == client.written && client.read == server.written && !server.read.empty(),
                 "without a change all arrives");
  }
}

}  // namespace
}  // namespace muster::rendezvous

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using muster::rendezvous::AllParties;
  using muster::rendezvous::Change;
  muster::fuzz::Bytes input(data, size);
  const auto& parties = AllParties()[input.Byte() % AllParties().size()];
  std::array<std::vector<Change>, 2> changes;  // to the client, to the server
  while (!input.empty()) {
    const uint8_t what = input.Byte(), where = input.Byte();
    changes[what % 2].push_back({.kind = static_cast<Change::Kind>((what >> 1) % Change::kKinds),
                                 .at = where * muster::rendezvous::kOffsetStep + (what >> 3) % 8,
                                 .with = static_cast<char>(input.Byte())});
  }
  Meet(parties, changes);
  return 0;
}
