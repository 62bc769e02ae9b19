// What a coordinator does about a running round that does not go on: it asks all nodes where their workers stand,
// says which rank is most likely the reason, and has the node of that rank end it. So the round fails there, and
// the failure is charged, reported and answered like any other. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/picture/rank_picture.h"
#include "base/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/stall.h"

namespace muster::rendezvous {

struct Job;

// From the question to the last answer. A node that has not answered by then, since it is cut off, is left out.
inline constexpr absl::Duration kPictureAnswers = absl::Seconds(10);
// From the word that a rank must end to its node's report: SIGKILL, the sweep and a beat. After that the whole
// round is stopped, which finds out what cannot be ended.
inline constexpr absl::Duration kHungEnds = absl::Seconds(20);

// The present round's silence, and how far the answer to it has come.
struct Hang {
  explicit Hang(std::optional<absl::Duration> limit) : judge(limit) {}

  void BeginRound();

  StallJudge judge;
  uint64_t questions = 0;  // asked so far; kept
  uint64_t question = 0;   // the open one; 0: none is
  BootTime asked_at = absl::InfinitePast();
  bool is_said = false;  // what the nodes answered
  std::optional<v1::Hang> sentence;
  BootTime sentenced_at = absl::InfinitePast();
};

struct Silence {
  // Of the member that has been quiet for the shortest time. Zero if a member is starting, cut off, or not
  // watched, or if no worker of the round lives any more.
  absl::Duration shortest = absl::ZeroDuration();
  int signs = 0;  // of life: of the member that has seen most of them in this round
};
Silence SilenceOf(const Job& job);

std::string DescribeSilence(const Job& job);

// Whether all members have answered the open question.
bool AllHaveAnswered(const Job& job);

// What they have answered, by rank.
std::vector<RankPicture> PicturesOf(const Job& job);

struct Finding {
  int rank = 0;                    // to end: the first suspect, else the lowest rank
  std::string why;                 // a sentence
  std::vector<std::string> lines;  // for the log
};
Finding FindHung(const Job& job);

}  // namespace muster::rendezvous
