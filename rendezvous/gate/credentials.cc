#include "rendezvous/gate/credentials.h"

#include <algorithm>

#include "base/core/check.h"
#include "rendezvous/gate/key.h"
#include "rendezvous/gate/tls.h"

namespace muster::rendezvous {
namespace {

class OfTokens : public Credentials {
 public:
  explicit OfTokens(const std::vector<GateKey>& keys) : server_(keys) {
    for (const GateKey& key : keys) {
      clients_.emplace_back(key, /*shows_next=*/&key != &keys.back());
      identities_.push_back(key.identity);
    }
  }

  std::unique_ptr<Codec> Accept() const override { return server_.Accept(); }
  bool IsNamedIn(std::string_view hello) const override {
    return std::any_of(identities_.begin(), identities_.end(), [&](const std::string& identity) {
      return hello.find(identity) != std::string_view::npos;
    });
  }
  std::unique_ptr<Codec> Connect(size_t choice) const override { return clients_.at(choice).Connect(); }
  size_t choices() const override { return clients_.size(); }

 private:
  const TlsServer server_;
  std::vector<TlsClient> clients_;
  std::vector<std::string> identities_;
};

}  // namespace

std::shared_ptr<const Credentials> TokenCredentials(const std::vector<std::string>& tokens,
                                                    const std::string& run_id) {
  MUSTER_CHECK(!tokens.empty(), "there is a token");
  std::vector<GateKey> keys;
  for (const std::string& token : tokens) keys.push_back(DeriveKey(token, run_id));
  return std::make_shared<OfTokens>(keys);
}

size_t CredentialTurn::Next(uint64_t version, size_t choices) {
  if (version != version_) refused_ = 0;
  version_ = version;
  choices_ = choices;
  return refused_;
}

bool CredentialTurn::OnRefused(uint64_t version) {
  if (version != version_) return false;
  const bool last = ++refused_ >= choices_;
  if (last) refused_ = 0;
  return last;
}

}  // namespace muster::rendezvous
