// The door of a node: a local socket at which processes of the same user, and root, ask for the state of the job.
// The coordinator answers; where that is in another process, the agent asks it, once for all who wait. No
// visitor is waited for: one that does not speak or read in time is dropped, and so is each new one while too many
// are here. Only one that waits for the end of this node may stay for longer. Lives on the loop thread.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/time.h"
#include "base/io/event_loop.h"
#include "base/io/frame_exchange.h"
#include "base/io/owned_fd.h"
#include "muster/v1/control.pb.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/transport/kept_answers.h"

namespace muster::rendezvous {

inline constexpr char kDoorPrefix[] =
    "muster/door/";  // followed by the id of the host, or a name of the coordinator
inline constexpr size_t kMaxVisitors = 128;
inline constexpr size_t kMaxWaiting = 64;           // of these for the end
inline constexpr size_t kMaxAskedBytes = 8 * 1024;  // of a question
inline constexpr absl::Duration kVisitLimit = absl::Seconds(10);
// An answer of the coordinator serves whoever asks within this time.
inline constexpr absl::Duration kViewKept = absl::Milliseconds(500);
inline constexpr absl::Duration kAskLimit = absl::Seconds(5);  // for the coordinator's answer

class Door {
 public:
  using Done = std::function<void(const absl::StatusOr<v1::JobView>& view)>;
  struct Ways {
    // What a coordinator in this process answers; nullopt: it is elsewhere.
    std::function<std::optional<v1::JobView>(const v1::Question& question)> look;
    // Asks a coordinator elsewhere, and calls `done` once, later, before kVisitLimit has passed. Called for one
    // question of each kind at a time.
    std::function<void(const v1::Question& question, Done done)> ask;
    std::function<v1::Events()> last_events = {};  // what is known here of the job's events
  };
  // named: what the door says of its job beside the view.
  Door(EventLoop* loop, const std::string& host_id, v1::Answer named, Ways ways);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // To be called now and then: opens the door as soon as the agent before this one has left its name.
  void OnTick();
  // This node ends in this way: visitors that wait for its end are told at once.
  void OnEnd(const v1::Exit& exit);

 private:
  struct Visitor;

  void Close();  // OnTick() opens it again
  void Accept();
  void OnEvents(Visitor* visitor, uint32_t events);
  void Hear(Visitor* visitor);
  void AwaitEnd(Visitor* visitor);
  void Pass(Visitor* visitor);
  void OnAnswer(const v1::Question& question, const absl::StatusOr<v1::JobView>& view);
  void ReplyToAll(const v1::Answer& answer, v1::Question::Kind kind);
  void Reply(Visitor* visitor, const v1::Answer& answer);
  void Write(Visitor* visitor);
  void Remove(Visitor* visitor);

  EventLoop* const loop_;
  const std::string name_;
  const v1::Answer named_;
  const Ways ways_;
  OwnedFd listener_;
  std::list<std::unique_ptr<Visitor>> visitors_;
  KeptAnswers<v1::JobView> kept_{kViewKept};
  std::map<v1::Question::Kind, v1::Question>
      open_;                       // what the coordinator elsewhere is being asked, one of each kind
  std::optional<v1::Answer> end_;  // once this node ends
};

}  // namespace muster::rendezvous
