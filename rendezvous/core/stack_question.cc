#include "rendezvous/core/stack_question.h"

#include <utility>

namespace muster::rendezvous {

bool StackQuestion::Want(BootTime now, uint64_t round) {
  wanted_at_ = now;
  const BootTime serves_until = (made_ ? kept_at_ : asked_at_ + kStackAnswers) + kStacksServe;
  if (IsOpen() && round == round_ && now < serves_until) return false;
  number_ = ++asked_;
  round_ = round;
  asked_at_ = now;
  made_.reset();
  answers_.clear();
  return true;
}

void StackQuestion::Keep(BootTime now, v1::Stacks made) {
  made_ = std::move(made);
  kept_at_ = now;
  answers_.clear();
}

void StackQuestion::Learn(const std::string& host_id, const v1::NodeSnapshot& answer) {
  if (IsOpen() && !made_ && answer.number() == number_) answers_.try_emplace(host_id, answer);
}

void StackQuestion::OnTick(BootTime now) {
  if (!IsOpen() || now < wanted_at_ + kStacksKept) return;
  number_ = 0;
  made_.reset();
  answers_.clear();
}

uint64_t StackQuestion::NumberFor(const std::string& host_id) const {
  return made_ || answers_.contains(host_id) ? 0 : number_;
}

const v1::NodeSnapshot* StackQuestion::AnswerOf(const std::string& host_id) const {
  const auto found = answers_.find(host_id);
  return found == answers_.end() ? nullptr : &found->second;
}

}  // namespace muster::rendezvous
