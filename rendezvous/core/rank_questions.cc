#include "rendezvous/core/rank_questions.h"

#include <algorithm>

#include "rendezvous/core/host.h"
#include "rendezvous/core/stack_question.h"

namespace muster::rendezvous {

bool RankQuestions::Want(BootTime now, uint64_t round, int rank, const Host& host) {
  const auto found = asked_.find(rank);
  if (found == asked_.end() && asked_.size() >= kMaxRanksAsked) return false;
  Asked& asked = asked_[rank];
  asked.wanted_at = now;
  const BootTime serves_until = (asked.answer ? asked.answered_at : asked.at + kStackAnswers) + kStacksServe;
  if (asked.number != 0 && asked.round == round && now < serves_until) return false;
  asked = {.round = round,
           .host_id = host.status.host_id(),
           .local_rank = rank - host.part.round.first_rank(),
           .number = ++numbers_,
           .at = now,
           .wanted_at = now};
  return true;
}

void RankQuestions::Learn(BootTime now, const std::string& host_id, const v1::NodeSnapshot& answer) {
  for (auto& [rank, asked] : asked_) {
    if (asked.number != answer.number() || asked.host_id != host_id || asked.answer) continue;
    asked.answer.emplace();  // a worker that is not among them has ended
    asked.answer->set_ended(true);
    asked.answered_at = now;
    for (const v1::RankSnapshot& found : answer.ranks()) {
      if (found.local_rank() == asked.local_rank) asked.answer = found;
    }
  }
}

void RankQuestions::OnTick(BootTime now) {
  for (auto it = asked_.begin(); it != asked_.end();)
    it = now < it->second.wanted_at + kStacksKept ? std::next(it) : asked_.erase(it);
}

const RankQuestions::Asked* RankQuestions::Of(int rank) const {
  const auto found = asked_.find(rank);
  return found == asked_.end() ? nullptr : &found->second;
}

const RankQuestions::Asked* RankQuestions::For(const std::string& host_id, uint64_t round) const {
  const auto found = std::find_if(asked_.begin(), asked_.end(), [&](const auto& entry) {
    return entry.second.host_id == host_id && entry.second.round == round && !entry.second.answer;
  });
  return found == asked_.end() ? nullptr : &found->second;
}

}  // namespace muster::rendezvous
