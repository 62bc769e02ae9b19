// What a node shows at each new connection, and what it demands of the other end; the shared form of tokens and
// certificates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/io/mutex.h"
#include "rendezvous/gate/codec.h"

namespace muster::rendezvous {

// Never changes. Any thread may make codecs; a codec lives on one.
class Credentials {
 public:
  virtual ~Credentials() = default;
  virtual std::unique_ptr<Codec> Accept() const = 0;
  // Whether a client whose first bytes these are says that it has our key.
  virtual bool IsNamedIn(std::string_view /*hello*/) const { return false; }
  // choice: which of those that this node has, below choices().
  virtual std::unique_ptr<Codec> Connect(size_t choice) const = 0;
  virtual size_t choices() const = 0;  // at least 1
};

// The credentials in use, which a new file may replace: each new connection takes the newest, those that exist
// keep theirs. Thread-safe.
class LiveCredentials {
 public:
  struct Version {
    std::shared_ptr<const Credentials> credentials;
    uint64_t number = 0;
  };

  explicit LiveCredentials(std::shared_ptr<const Credentials> first) : newest_{std::move(first), 1} {}

  Version newest() const {
    const MutexLock lock(mutex_);
    return newest_;
  }
  void Replace(std::shared_ptr<const Credentials> next) {
    const MutexLock lock(mutex_);
    newest_ = {std::move(next), newest_.number + 1};
  }

 private:
  mutable Mutex mutex_;
  Version newest_ ABSL_GUARDED_BY(mutex_);
};

// The tokens of a run: a server accepts each of them, a client shows one. Not empty.
std::shared_ptr<const Credentials> TokenCredentials(const std::vector<std::string>& tokens,
                                                    const std::string& run_id);

// Which of its credentials a node shows at its next attempt, and whether a refusal is final: it is once each of
// them was refused. New ones, and a coordinator that accepts, begin anew. Pure.
class CredentialTurn {
 public:
  // version: that of the credentials that the attempt uses; choices: how many there are.
  size_t Next(uint64_t version, size_t choices);
  // The newest attempt was refused for what it has shown. version: the newest one, which may be newer than the
  // attempt's. True: nothing is left to try.
  bool OnRefused(uint64_t version);
  void OnAccepted() { refused_ = 0; }

 private:
  uint64_t version_ = 0;
  size_t choices_ = 0;
  size_t refused_ = 0;  // in a row, of this version
};

}  // namespace muster::rendezvous
