// Reads the files that hold this node's credentials again and again, so that they can be replaced during a job.
//
// It reads them all each time, which costs as little as a look at their times: notifications of the kernel
// (inotify) neither come from network file systems nor follow the links that Kubernetes swaps to update a volume,
// and times can be the same after a change. Each reading has a thread of its own, so a file system that does not
// answer holds up nothing but that.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/note.h"
#include "base/io/event_loop.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/transport/credential_files.h"
#include "rendezvous/transport/credential_news.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kCredentialPoll = absl::Seconds(2);
inline constexpr absl::Duration kReadTime = absl::Milliseconds(100);  // after which a reading is mostly over
inline constexpr absl::Duration kFirstReadLimit = absl::Seconds(1);
inline constexpr absl::Duration kReadPatience = absl::Seconds(30);  // then a line says that no answer comes

// Lives on the loop thread.
class CredentialWatch {
 public:
  // Reads the files at once, for at most kFirstReadLimit, since what the process has begun with may be hours old.
  struct Events {
    std::function<void(const Note& note)> log;
    std::function<void(const FileTexts& texts)> taken = nullptr;  // new credentials are in use; null: nobody asks
  };
  CredentialWatch(EventLoop* loop, FirstCredentials first, Events events);
  ~CredentialWatch();
  CredentialWatch(const CredentialWatch&) = delete;
  CredentialWatch& operator=(const CredentialWatch&) = delete;

  // Null: the job has none.
  const std::shared_ptr<LiveCredentials>& credentials() const { return live_; }

 private:
  using Texts = absl::StatusOr<FilesRead>;

  void Poll();
  void Await(absl::Duration pause, void (CredentialWatch::*then)());
  void Collect();
  void Take(const Texts& texts);

  EventLoop* const loop_;
  const Events events_;
  std::shared_ptr<LiveCredentials> live_;
  std::optional<CredentialNews> news_;  // nullopt: there is nothing to watch
  std::optional<std::future<Texts>> reading_;
  BootTime reading_since_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace muster::rendezvous
