// Answers of a coordinator that serve whoever asks the same within a time. The newest of each kind. Pure.
#pragma once

#include <map>
#include <utility>

#include "absl/time/time.h"
#include "base/core/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

template <typename Answer>
class KeptAnswers {
 public:
  explicit KeptAnswers(absl::Duration serve) : serve_(serve) {}

  // nullptr: none is kept, or it is too old.
  const Answer* Find(BootTime now, const v1::Question& question) const {
    const auto found = kept_.find(question.kind());
    if (found == kept_.end() || found->second.rank != question.rank() || now >= found->second.at + serve_)
      return nullptr;
    return &found->second.answer;
  }
  // An order is answered each time by what has become of it, and after it no earlier answer is true.
  void Keep(BootTime now, const v1::Question& question, const Answer& answer) {
    if (question.kind() == v1::Question::KIND_ORDER) return kept_.clear();
    kept_.insert_or_assign(question.kind(), Kept{answer, question.rank(), now});
  }

 private:
  struct Kept {
    Answer answer;
    int rank;  // of KIND_RANK
    BootTime at;
  };
  const absl::Duration serve_;
  std::map<v1::Question::Kind, Kept> kept_;
};

}  // namespace muster::rendezvous
